"""How papers/oneshot deals images and words to sites, and the pages that it writes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from papers.oneshot import alpha, cells, clinical, curves, names, niid
from papers.oneshot.tables import Cells

pytestmark = pytest.mark.full

Y = np.random.default_rng(0).integers(0, 10, 3000)


@pytest.mark.parametrize(("column", "classes"), [("one", 1), ("two", 2), ("three", 3), ("iid", 10)])
def test_sites_have_as_many_classes_as_the_column_says(column: str, classes: int) -> None:
    owner = niid.owners(Y, column, seed=0)
    assert [len(np.unique(Y[owner == site])) for site in range(niid.SITES)] == [classes] * niid.SITES


@pytest.mark.parametrize("alpha", ["0.05", "0.1", "0.5"])
def test_no_site_is_left_without_rows(alpha: str) -> None:
    owner = niid.owners(Y, f"dirichlet-{alpha}", seed=0)
    assert np.bincount(owner, minlength=niid.SITES).min() >= 10
    shares = np.array(
        [np.bincount(owner[label == Y], minlength=niid.SITES).max() / (label == Y).sum() for label in range(10)]
    )
    assert shares.mean() > 0.3  # far from even


def test_the_page_has_what_is_known_and_what_others_published() -> None:
    facts = {"images": 9, "features": 3, "alpha": 1.0, "questions": 4, "MB sent by a site": 1.5, "CPU seconds": 2}
    text = niid.page({"one": {"accuracy": 91.234, **facts}})
    assert "| Ridge, learnt convolutions | **91.23** |" in text
    assert "| FedProx (niid-bench of Flower) | 38.00 |" in text
    assert "Dirichlet 0.5" not in text
    text = niid.page({"dirichlet-0.1": {"accuracy": 77.0, **facts}}, niid.SETS["cifar10"], " --accurate")
    assert "| HyperFed | 38.00 |" in text
    assert "`python papers/oneshot/niid.py --set cifar10 --accurate`" in text


@pytest.mark.parametrize("name", niid.SETS)
def test_accurate_settings_are_settings_of_ridge(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, images = np.random.default_rng(0), niid.SETS[name]
    y = np.arange(400) % 10
    X = rng.integers(0, 50, (400, *images.shape)).astype(np.uint8)
    X[np.arange(400), 2 * y] = 200  # a bright row for each class
    small = dataclasses.replace(images, load=lambda part: (X, y))
    found = niid.column("one", small, 400, 3, accurate=True)
    assert found["features"] == {"cifar10": 138, "fashion-mnist": 145}[name]
    assert found["accuracy"] > 90


TREE = {"a": ("low", "all"), "b": ("low", "all"), "c": ("high",), "d": ("high",)}


def cells_of(words: str = "abcd") -> Cells:
    rng = np.random.default_rng(0)
    sites = [
        fedgeom.SiteData(f"s{at}", rng.normal(size=(40, 2)), np.array(list(words))[np.arange(40) % len(words)])
        for at in range(4)
    ]
    return Cells(sites, sites, TREE)


def test_words_are_dealt_as_deep_as_the_scene_says() -> None:
    fine = names.deal_words(cells_of(), "fine", np.random.default_rng(0))
    assert fine["s0"] == {leaf: leaf for leaf in TREE}
    coarse = names.deal_words(cells_of(), "coarse sites", np.random.default_rng(0))
    deep = [site for site, words in coarse.items() if words["a"] == "all" and words["c"] == "high"]
    assert len(deep) == names.COARSE
    mixed = names.deal_words(cells_of(), "mixed", np.random.default_rng(1))
    assert len({words["a"] for words in mixed.values()}) > 1
    assert all(words["a"] in ("a", "low", "all") and words["c"] in ("c", "high") for words in mixed.values())


def test_the_finest_classes_are_those_that_somebody_tells_apart() -> None:
    words = {"s0": dict.fromkeys("ab", "low") | dict.fromkeys("cd", "high"), "s1": {one: one for one in "abcd"}}
    cells = cells_of()
    train = [names.spelt(site, words[site.name], 2) for site in cells.train[:2]]
    assert names.finest(train, TREE) == ["a", "b", "c", "d"]
    assert names.finest(train[:1], TREE) == ["high", "low"]
    assert names.under("a", "low", TREE)
    assert names.under("low", "all", TREE)
    assert not names.under("low", "a", TREE)
    assert names.level("a", 0, TREE) == "all"
    assert names.level("a", 2, TREE) == "a"


def test_the_pages_have_what_was_computed() -> None:
    text = names.page({"tcells": {"100": {"tcells fine: words in a tree": {"classes placed": 99.5}}}})
    assert "| tcells fine: words in a tree | **99.5** |" in text
    text = cells.page({"paul": {"100": {"Ridge: components": 80.0, "Moments": 90.0}}})
    assert "| Ridge: components | 80.0 |" in text
    assert "| Moments | **90.0** |" in text


def test_rare_classes_are_left_out_of_the_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cells_of("abcdcdcdcdcdcdcdcdcd")  # a and b: two rows at each site, eight in all
    monkeypatch.setattr(cells.tables, "cells", lambda name, seed: made)
    found = cells.prepared(cells.raw("tcells", 0), "tcells", 0)
    assert {str(word) for site in found.train for word in site.classes.tolist()} == {"c", "d"}


@pytest.mark.data("heart_disease_4hospitals.npz", "eicu_demo_186hospitals.npz")
def test_clinical_tables_are_raw() -> None:
    sites, codes = clinical.heart()
    assert len(sites) == 4
    assert any(np.isnan(site.X).any() for site in sites)
    assert set(codes) <= set(sites[0].columns)
    regions, _ = clinical.eicu()
    assert regions[0].categories["unit_type"]


def test_the_page_of_clinical_tables_has_all_models() -> None:
    figures = {model: {"mean": 80.0, "ci95": 1.0, "n": 3, "paper": None} for model in clinical.MODELS}
    row = {"sites": 4, "rows": 920, "columns": 13, "features": 30, "gaps": 14.6}
    text = clinical.page({"heart": row | dict.fromkeys(clinical.METRICS, figures)})
    assert "| heart disease, 4 hospitals | 4 | 920 | 13 → 30 | 14.6 % | AUC (n = 3) | 80.0 ± 1.0 |" in text


def test_the_curves_have_a_column_for_each_size_that_is_there() -> None:
    text = curves.page(
        {"3000": {"Ridge": {"accuracy": 88.1, "CPU seconds": 9, "MB sent by a site": 2}}, "1000": {}}
    )
    assert "| images | 1,000 | 3,000 |" in text
    assert "| Ridge: accuracy | – | 88.1 |" in text


def test_the_picture_has_a_line_for_each_way(tmp_path: Path) -> None:
    curves.picture(
        {"1000": {"Ridge": {"accuracy": 85.0}}, "3000": {"FedAvg": {"accuracy": 80.0}}}, tmp_path / "c.png"
    )
    assert (tmp_path / "c.png").read_bytes()[1:4] == b"PNG"
    assert set(map(int, curves.SIZES)) <= set(curves.EPOCHS)


def test_the_lung_by_types_of_two_donors_and_dealt_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cells_of()
    alone = made.train[0].take(np.isin(made.train[0].y, list("abc")))  # nobody but the others has d
    one = Cells([alone, *(site.take(site.y != "a") for site in made.train[1:])], made.test, TREE)
    monkeypatch.setattr(names, "with_components", lambda name, seed: one)
    shared = names.prepared("lung-shared", 0)
    assert {str(word) for site in shared.train for word in site.classes.tolist()} == {"b", "c", "d"}
    dealt = names.prepared("lung-dealt", 0)
    assert [len(site) for site in dealt.train] == [len(site) for site in one.train]
    rows = [np.sort(np.concatenate([site.X[:, 0] for site in some])) for some in (dealt.train, one.train)]
    assert np.array_equal(*rows)
    assert set(dealt.train[0].classes.tolist()) == set("abcd")
    assert names.prepared("lung", 0) is one


def test_how_lambda_is_chosen_has_both_ways_and_hindsight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpha, "with_components", lambda name, seed: cells_of())
    monkeypatch.setattr(alpha, "FEATURES", {"linear": "linear", "Fourier": "linear"})
    found = alpha.split("tcells", 0)
    assert found["linear"]["accuracy hindsight"] >= 0
    text = alpha.page({"tcells": {"100": found}})
    assert "accuracy gcv | accuracy folds | log-loss gcv | log-loss folds | accuracy hindsight" in text
    chances = np.array([[0.5, 0.5], [0.25, 0.75]])
    classes, wanted = np.array(["a", "b"]), np.array(["a", "b"])
    assert alpha.log_loss(chances, classes, wanted) == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2)
