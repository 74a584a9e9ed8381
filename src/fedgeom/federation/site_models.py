"""A site's own model file, as it is kept at the site: with the names of its columns, and knowing the site's rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.kinds import Kind, kinds_of
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import TableFacts
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.method import METHODS
from fedgeom.federation.model import Model, from_bytes
from fedgeom.federation.novelty import KnownRows
from fedgeom.federation.site import Site, own_label_type

MOST_ROWS = 5000
"""How many of a site's rows are looked at; of more, so many that lie evenly in the table."""
ENOUGH = 50
"""So many rows kept aside are the measure of what fits, where a model knows densities; with fewer it varies much."""


def own_model_file(site: Site[Any]) -> bytes:
    """Return a site's own model file; nothing where the method leaves none.

    It can say which later rows fit no class (`Model.unknown`): by how well the site's rows fit a model that did not
    learn from them, where the site can tell or has kept enough aside, otherwise by what its labelled rows look like. It
    stays at the site.
    """
    data = site.model_file()
    if not data:
        return b""
    try:
        method, arrays, facts = from_bytes(data)
        model: Model = METHODS.find(method).model_type.from_file(arrays, facts)
        preparation = site.preparation()
        if preparation is None:
            model = model.with_columns(site.data.columns, _kinds(site) if site.data.columns else ())
    except InputError:  # a site of another package may keep what it likes
        return data
    scores = site.known_scores()
    if scores is None:
        scores = _scores_aside(model, site.aside)
    made = describing(model, site.data) if scores is None else model.knowing(KnownRows.scored(scores))
    return made.with_preparation(preparation).with_labels(own_label_type(site)).to_bytes()


def _kinds(site: Site[Any]) -> tuple[Kind, ...]:
    """Return the kinds of a site's columns, over the rows it learnt from and those it kept aside."""
    return kinds_of([TableFacts.of(part) for part in (site.data, site.aside) if len(part)])


def _scores_aside(model: Model, aside: SiteData) -> Floats | None:
    """Return how well labelled rows that were kept aside fit, where the model knows densities and they are enough."""
    rows = aside.take(aside.has_label)
    return model.density_scores(rows.X) if len(rows) >= ENOUGH else None


def describing(model: Model, data: SiteData) -> Model:
    """Return a model that knows what a site's labelled rows look like; as it is where they are too few."""
    labelled = np.flatnonzero(data.has_label)
    chosen = labelled[np.linspace(0, len(labelled) - 1, min(len(labelled), MOST_ROWS)).astype(int)]
    try:
        X = data.take(chosen).X
        return model.knowing(KnownRows.described(X, model.predict(X)))
    except (FedgeomError, ValueError, ArithmeticError):  # the model is worth more than what it could say of others
        return model
