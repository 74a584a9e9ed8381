"""A site's own model file, as it is kept at the site: with the names of its columns, and knowing the site's rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.known import Known
from fedgeom.federation.method import METHODS
from fedgeom.federation.model import Model, from_bytes
from fedgeom.federation.site import Site

MOST_ROWS = 5000
"""How many of a site's rows are looked at; of more, so many that lie evenly in the table."""


def own_model_file(site: Site[Any]) -> bytes:
    """Return a site's own model file; nothing where the method leaves none.

    It can say which later rows fit no class (`Model.unknown`): by how well the site's rows fit a model that did not
    learn from them, where the site can tell, otherwise by what its labelled rows look like. It stays at the site.
    """
    data = site.model_file()
    if not data:
        return b""
    try:
        method, arrays, facts = from_bytes(data)
        model: Model = METHODS.find(method).model_type.from_file(arrays, facts).with_columns(site.data.columns)
    except InputError:  # a site of another package may keep what it likes
        return data
    scores = site.known_scores()
    return (describing(model, site.data) if scores is None else model.knowing(Known.scored(scores))).to_bytes()


def describing(model: Model, data: SiteData) -> Model:
    """Return a model that knows what a site's labelled rows look like; as it is where they are too few."""
    labelled = np.flatnonzero(data.has_label)
    chosen = labelled[np.linspace(0, len(labelled) - 1, min(len(labelled), MOST_ROWS)).astype(int)]
    try:
        return model.knowing(Known.described(data.X[chosen], model.predict(data.X[chosen])))
    except (FedgeomError, ValueError, ArithmeticError):  # the model is worth more than what it could say of others
        return model
