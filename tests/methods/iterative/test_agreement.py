"""The agreement before training: one scale, one set of classes, told once, and what a site refuses of it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg, SiteData
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.messages import Array
from fedgeom.federation.policy import Policy
from fedgeom.federation.results import LEAVES
from fedgeom.methods.iterative import setup
from fedgeom.methods.iterative.setup import (
    BeginTraining,
    CountTrainingRows,
    Ready,
    SumTrainingColumns,
    check_site,
    check_together,
    label_indices,
    within,
)
from fedgeom.protocols.cohort import join
from tests.methods.iterative.asking import asking_of, prepared, refusal
from tests.methods.iterative.making import losing, unlike

SITES = unlike()
CLASSES = ("class 0", "class 1")
SHORT = {"n_rounds": 2, "epochs": 1}
replace = msgspec.structs.replace


def joined(**settings):
    """Sites that joined and added up their columns, but were not told classes and scale; and the honest question."""
    algorithm = FedAvg(classes=CLASSES, **(SHORT | settings))
    asking, engine = asking_of(algorithm, SITES)
    cohort, joint = join(asking, algorithm), algorithm.scale == "joint"
    sums = cohort.sum_checked(SumTrainingColumns(), length=5) if joint else None
    rows = cohort.sum_checked(CountTrainingRows(), length=1) if algorithm.sums_rows else None
    return asking, engine, BeginTraining(classes=CLASSES, columns=sums, rows=rows)


def with_total(begin: BeginTraining, total) -> BeginTraining:
    """Return the question with another sum under the same tag."""
    return replace(begin, columns=replace(begin.columns, total=Array.of(total)))


# What is agreed on.


@pytest.mark.parametrize("scale", ["joint", "site", "none"])
def test_the_agreed_scale(scale):
    talk, _, engine = prepared(FedAvg(scale=scale, **SHORT))
    rows, agreed = np.vstack([site.X for site in SITES]), talk.agreed
    assert (agreed.classes, agreed.columns) == (CLASSES, 2)
    wanted = {"joint": (rows.mean(axis=0), rows.std(axis=0)), "none": (np.zeros(2), np.ones(2))}
    if scale == "site":
        assert agreed.centre is agreed.spread is None
    else:
        assert agreed.centre == pytest.approx(wanted[scale][0], abs=1e-5)
        assert agreed.spread == pytest.approx(wanted[scale][1], abs=1e-5)
    for site in SITES:
        here = engine.runners[site.name].restore(talk.sites.run, engine.memories[site.name]).agreement
        centre, spread = wanted.get(scale, (site.X.mean(axis=0), site.X.std(axis=0)))
        assert here.scaled() == pytest.approx((site.X - centre) / spread, abs=1e-4)
        assert here.label_indices().tolist() == [int(label[-1]) for label in site.y]


def test_the_union_of_the_names_is_agreed_on():
    odd = SiteData("s9", SITES[0].X, np.where(np.arange(len(SITES[0])) % 2, "class 0", "another"))
    assert prepared(FedAvg(**SHORT), [*SITES, odd])[0].agreed.classes == ("another", *CLASSES)
    given = ("class 1", "class 0", "rare")
    assert prepared(FedAvg(classes=given, **SHORT))[0].agreed.classes == given


@pytest.mark.parametrize("kind", [b"train.columns", b"train.begin"])
def test_a_site_lost_on_the_way_is_left_out(kind):
    run = fedgeom.run(FedAvg(**SHORT), SITES, interfere=losing({"s1": {0}}, kind))
    assert run.lost == {"s1": "lost on purpose"}
    assert run.metrics["sites"] == 3
    others = [site for site in SITES if site.name != "s1"]
    scaled = others if kind == b"train.columns" else SITES  # its columns were in the sum already
    assert run.model.centre == pytest.approx(np.vstack([site.X for site in scaled]).mean(axis=0), abs=1e-5)


def test_too_few_are_ready():
    lose = losing({name: {0} for name in ("s1", "s2", "s3")}, b"train.begin")
    with pytest.raises(TooFewSitesError, match="1 sites answered that they are ready to train, 2 are needed"):
        fedgeom.run(FedAvg(**SHORT), SITES, interfere=lose)


# What a site refuses.


def nearly(begin: BeginTraining) -> BeginTraining:
    """Change the sum by its smallest digit."""
    total = begin.columns.total.numpy()
    total[3] += np.uint64(1)
    return with_total(begin, total)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (nearly, "its tag does not fit"),
        (lambda ask: with_total(ask, np.zeros(5, np.uint64)), "its tag does not fit"),
        (lambda ask: with_total(ask, np.zeros(3, np.uint64)), "its tag does not fit"),
        (lambda ask: with_total(ask, np.zeros(5)), "no list of ring elements"),
        (lambda ask: replace(ask, columns=replace(ask.columns, round=0)), "added nothing of that kind"),
        (lambda ask: replace(ask, columns=replace(ask.columns, round=3)), "added nothing of that kind"),
        (lambda ask: replace(ask, columns=replace(ask.columns, sites=("s0", "s1", "s2"))), "its tag does not fit"),
        (lambda ask: replace(ask, columns=None), "a joint scale came where the terms have none, or none"),
        (lambda ask: replace(ask, classes=(*CLASSES, "class 2")), "other classes than the sites agreed on"),
        (lambda ask: replace(ask, classes=("a", "b")), "other classes than the sites agreed on"),
    ],
)
def test_scales_and_classes_that_are_not_the_agreed_ones(lie, reason):
    asking, _, honest = joined()
    assert reason in refusal(asking, lie(honest), Ready)
    assert asking.ask(honest, of=["s0"], expect=Ready).came  # a refusal changes nothing


def test_a_scale_that_would_make_training_overflow(caplog):
    """Whether rows are too far out depends on them: the site leaves. Here its table changed since the sum."""
    asking, engine, honest = joined()
    engine.runners["s0"]._data = lambda: SiteData("s0", SITES[0].X * 1e10, SITES[0].y)
    said = refusal(asking, honest, Ready)
    assert said == LEAVES
    assert "the scale makes rows of this site larger than 1e+06" in caplog.text
    assert "has left this run" in refusal(asking, honest, Ready)


def test_the_scale_is_told_once():
    asking, _, honest = joined()
    for _ in range(2):  # the same again is a coordinator that died
        assert asking.ask(honest, of=["s0"], expect=Ready).came
    assert "another question 'train.begin' was answered" in refusal(asking, nearly(honest), Ready)


@pytest.mark.parametrize("scale", ["site", "none"])
def test_sites_that_scale_by_themselves_are_told_nothing(scale):
    asking, engine, honest = joined(scale=scale)
    assert honest.columns is None
    told = replace(honest, columns=joined()[2].columns)
    assert "a joint scale came where the terms have none" in refusal(asking, told, Ready)
    asking.ask(honest, of=["s0"], expect=Ready)
    here = engine.runners["s0"].restore(asking.run, engine.memories["s0"]).agreement
    assert here.scale[0] == pytest.approx(SITES[0].X.mean(axis=0) if scale == "site" else [0.0, 0.0])


@pytest.mark.parametrize("scale", ["joint", "site", "none"])
def test_all_know_how_many_rows_there_are(scale):
    talk, _, engine = prepared(FedAvg(scale=scale, **SHORT))
    rows = sum(len(site) for site in SITES)
    assert talk.agreed.rows == rows
    for site in SITES:
        here = engine.runners[site.name].restore(talk.sites.run, engine.memories[site.name])
        assert here.memory.agreement.rows == rows


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda rows: None, "a number of rows came where the terms have none, or none"),
        (lambda rows: replace(rows, total=Array.of(rows.total.numpy() + np.uint64(1))), "its tag does not fit"),
        (lambda rows: replace(rows, total=Array.of(rows.total.numpy() * np.uint64(1000))), "its tag does not fit"),
        (lambda rows: replace(rows, total=Array.of(np.zeros(0, np.uint64))), "its tag does not fit"),
    ],
)
def test_a_false_number_of_rows(lie, reason):
    """With a small one shares would be large and sums overflow; with a large one changes would be rounded away."""
    asking, _, honest = joined(scale="none")
    assert reason in refusal(asking, replace(honest, rows=lie(honest.rows)), Ready)
    assert asking.ask(honest, of=["s0"], expect=Ready).came


def test_a_number_of_rows_that_nobody_needs():
    asking, _, honest = joined()
    rows = joined(scale="none")[2].rows
    assert "a number of rows came where the terms have none" in refusal(asking, replace(honest, rows=rows), Ready)


# Checks on tables.


def test_checks_name_the_site():
    with pytest.raises(InputError, match="site 's0': labels outside the agreed classes: class 1"):
        check_site(SITES[0], FedAvg(classes=("class 0", "other")), Policy())
    with pytest.raises(InputError, match="site 's0' has classes with fewer than 100 rows"):
        check_site(SITES[0], FedAvg(min_rows=100), Policy())
    with pytest.raises(InputError, match="lower min_rows_per_class knowingly"):
        check_site(SITES[0], FedAvg(), Policy(min_rows_per_class=100))
    check_site(SITES[0], FedAvg(), Policy())
    one = [SiteData(site.name, site.X, ["x"] * len(site)) for site in SITES]
    with pytest.raises(InputError, match="all sites together have one class, x"):
        check_together(one, None)
    check_together(one, ("x", "y"))


def test_label_indices():
    assert label_indices(np.array(["b", "a", "b", "z"]), ("a", "b")).tolist() == [1, 0, 1, 0]
    assert label_indices(np.array([2, 1]), ("1", "2")).tolist() == [1, 0]


def test_within():
    assert within(np.array([1.0, -2.0]), 2.5)
    assert not within(np.array([1.0, -2.0]), 2.0)
    assert not within(np.array([np.nan]), np.inf)
    assert not within(np.array([1, 2]), 5)


def test_rows_are_scaled_once_a_run_and_not_once_a_round(monkeypatch):
    scaled, calls = setup.scaled, []
    monkeypatch.setattr(setup, "scaled", lambda *given: calls.append(1) or scaled(*given))
    sites = unlike()
    fedgeom.run(fedgeom.FedAvg(n_rounds=4, validation_fraction=0.2), sites, seed=0)
    assert len(calls) == len(sites)
    fedgeom.run(fedgeom.FedAvg(n_rounds=1), sites, seed=0)  # another run knows nothing of the first
    assert len(calls) == 2 * len(sites)
