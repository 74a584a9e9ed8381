from __future__ import annotations

from typing import NamedTuple

import pytest

import fedgeom
from fedgeom.data.builtin_sets import DataSet
from fedgeom.data.sets import load_set
from fedgeom.data.vocabularies import in_own_words


class Case(NamedTuple):
    run: fedgeom.Run
    data: DataSet
    truth: dict[str, dict[str, str]]


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    """A finished and recorded run over four hospitals with words of their own."""
    data, truth = in_own_words(load_set("breast-cancer"))
    folder = tmp_path_factory.mktemp("report") / "run"
    run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), data.train, seed=0, record=folder)
    return Case(run, data, truth)


@pytest.fixture(scope="session")
def disc_case():
    """A run over points that lie in the disc."""
    data = load_set("synthetic", points=600)
    return Case(fedgeom.run(fedgeom.Hulls(), data.train, seed=0), data, {})
