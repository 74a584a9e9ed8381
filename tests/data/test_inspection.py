"""What looks odd in one table: found where it is, and not where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.datasets import load_set
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import TableFacts, inspect_table, kind_of, spelling_findings, unscaled

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.7, size=(40, 200)).astype(float)


def site(X, y=None, columns=()):
    return SiteData("ulm", X, np.arange(len(X)) % 2 if y is None else y, columns=columns)


def kind(X):
    return kind_of(TableFacts.of(site(X)))


def test_raw_counts_and_their_logarithms_are_known_by_their_looks():
    logs = np.log1p(COUNTS / COUNTS.sum(axis=1, keepdims=True) * 1e4)
    assert kind(COUNTS) == "counts"
    assert kind(logs) == "logarithms"
    assert kind(COUNTS[:, :20]) == ""  # a few whole numbers: scores, ages
    assert kind(COUNTS > 0) == ""  # yes and no
    assert kind(np.where(COUNTS > 2, 255.0, 0.0)) == ""  # pixels
    assert kind(RNG.normal(size=(40, 200))) == ""
    assert kind(COUNTS - 1) == ""
    (found,) = inspect_table(site(COUNTS))
    assert found.level == "warning"
    assert found.what.startswith(f"looks like raw counts: whole numbers up to {COUNTS.max():.0f}, ")
    assert 'prepare = "counts"' in found.remedy
    (found,) = inspect_table(site(logs))
    assert found.level == "note"


@pytest.mark.parametrize("name", ["breast-cancer", "wine"])
def test_a_usual_table_is_not_spoken_of(name):
    for one in load_set(name, n_sites=3).train:
        assert inspect_table(one) == []


def test_columns_that_number_the_rows():
    X = RNG.normal(size=(30, 4)).round(2)
    X[:, 0] = 1000 + RNG.permutation(30)
    X[:, 1] = RNG.choice(10**6, 30, replace=False)
    X[:, 2] = RNG.choice(10**6, 30, replace=False)
    (found,) = inspect_table(site(X, columns=("a", "patient_id", "platelets", "b")))
    assert found.topic == "numbering"
    assert found.what.endswith("'a', 'patient_id'")
    assert inspect_table(site(X)) == []  # without names there is nothing to leave out by name
    assert inspect_table(site(X[:10], columns=("a", "patient_id", "platelets", "b"))) == []


def test_one_class_and_spellings():
    (found,) = inspect_table(site(np.ones((3, 1)), ["a", "a", ""]))
    assert (found.level, found.topic) == ("note", "classes")
    (found,) = inspect_table(site(np.ones((4, 1)), ["T cell", "T-cells", "B", "NK"]))
    assert found.what == "these label names look like one class: 'T cell' at ulm, 'T-cells' at ulm"
    assert found.sites == ("ulm",)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ill", "Ill ", True),
        ("CD4 T-Cells", "cd4_T cell", True),
        ("CD4+", "CD4-", False),
        ("CD4+", "CD4", False),
        ("1", "-1", False),
        ("1.0", "10", False),
        ("stage 1-2", "stage 12", False),
        ("no", "yes", False),
    ],
)
def test_spellings(one, other, same):
    assert bool(spelling_findings({"a": [one], "b": [other]})) is same


def test_what_one_site_writes_in_two_ways_is_said_of_that_site_only():
    words = {"a": ["ill", "Ill"], "b": ["ill"]}
    assert spelling_findings(words) == []
    assert len(spelling_findings({"a": words["a"]})) == 1


def test_columns_on_different_scales():
    X = RNG.normal(size=(50, 3)) * [1.0, 5000.0, 2.0]
    (found,) = unscaled([site(X, columns=("age", "dose", "bmi"))])
    assert found.what.startswith("columns are on very different scales: 'dose' varies by ")
    assert "'age' varies by " in found.what
    assert unscaled([site(X * [1, 0.01, 1])]) == []
    assert unscaled([site(X * [1, 0, 1])]) == []  # a constant column has no scale
    assert unscaled([site(X[:0])]) == []


def test_nothing_is_said_of_a_table_without_rows():
    assert inspect_table(site(np.zeros((0, 3)), [])) == []
