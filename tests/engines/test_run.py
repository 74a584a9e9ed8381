"""`fedgeom.run`: what it takes, what it keeps, and how a run ends."""

from __future__ import annotations

import json
import stat
from dataclasses import replace

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.engines.run import ENGINES, run
from fedgeom.errors import InputError, ProtocolError, TooFewSitesError
from fedgeom.federation.record import read_folder

METHOD = fedgeom.Moments(space="euclidean")


def tables(n=3, rows=20):
    rng = np.random.default_rng(0)
    found = []
    for at in range(n):
        y = np.repeat(["a", "b"], rows // 2)
        found.append(SiteData(f"s{at}", rng.normal(size=(rows, 2)) + np.where(y == "a", 0, 3)[:, None], y))
    return found


SITES = tables()


# What is given.


@pytest.mark.parametrize(
    ("method", "sites", "message"),
    [
        (
            3,
            SITES,
            r"method=3 given; wanted a method with its settings.* for the default settings its name: ellipses, hulls",
        ),
        ("Momens", SITES, r"there is no method 'Momens'; there are: ellipses, hulls.* Did you mean 'moments'\?"),
        (METHOD, [], "no sites were given; wanted a list of SiteData"),
        (
            METHOD,
            [SITES[0], SITES[1].X],
            r"an ndarray of shape .* was given among the sites; wanted a list of fedgeom\.SiteData",
        ),
        (METHOD, [SITES[0], SITES[0]], "site names must differ; given more than once: s0"),
    ],
)
def test_what_is_no_method_and_what_are_no_sites(method, sites, message):
    with pytest.raises(InputError, match=message):
        run(method, sites)


@pytest.mark.parametrize(
    ("by_name", "method"), [("moments", fedgeom.Moments), ("fedavg", fedgeom.FedAvg), ("hulls", fedgeom.Hulls)]
)
def test_a_name_or_a_class_stands_for_the_default_settings(by_name, method):
    sites = [replace(site, X=site.X / 20) for site in SITES]
    models = [run(one, sites).model.to_bytes() for one in (method(), method, by_name)]
    assert models[0] == models[1] == models[2]


def test_sites_may_come_from_a_generator():
    assert run(METHOD, (site for site in SITES)).sites == SITES


def test_data_are_looked_at_before_anything_is_sent_or_written(tmp_path):
    gap = replace(SITES[1], X=np.full_like(SITES[1].X, np.nan))
    wide = replace(SITES[2], X=np.ones((20, 3)))
    seen = []
    for sites, message in (
        ([SITES[0], gap, SITES[2]], "site 's1': 40 cells .*the first: row 0"),
        ([*SITES[:2], wide], "same columns"),
    ):
        with pytest.raises(InputError, match=message):
            run(METHOD, sites, record=tmp_path / "r", resumable=True, watch=seen.append)
    assert not seen
    assert not (tmp_path / "r").exists()


# What comes of it.


def test_a_seed_decides_the_model_and_keys_are_new_each_time():
    method = fedgeom.FedAvg(n_rounds=2, batch_size=4, epochs=1)
    first, same, other = (run(method, SITES, seed=seed) for seed in (1, 1, 2))
    assert first.model.to_bytes() == same.model.to_bytes() != other.model.to_bytes()
    assert first.model.to_bytes() == method.plain(SITES, seed=1).model.to_bytes()


def test_numbers_and_texts_of_numpy_are_welcome():
    """A seed, a site's name or a policy from NumPy ended in a TypeError about encoding, or lost all sites."""
    sites = [SiteData(np.str_(site.name), site.X, site.y) for site in SITES]
    policy = fedgeom.Policy(min_cohort=np.int64(2), secure_only=np.bool_(True))
    classes = np.unique(np.concatenate([site.y for site in SITES]).astype(str))
    done = run(replace(METHOD, classes=classes), sites, seed=np.int64(3), policy=policy)
    plain = run(replace(METHOD, classes=tuple(classes.tolist())), SITES, seed=3)
    assert done.model.to_bytes() == plain.model.to_bytes()


def test_everything_is_in_the_record(tmp_path):
    found = run(METHOD, SITES, seed=3, record=tmp_path / "r")
    content = read_folder(found.folder)
    assert content["status"]["state"] == "finished"
    assert content["config"] == {
        "format": "fedgeom-run/1",
        "method": "moments",
        "parameters": METHOD.terms(),
        "seed": 3,
        "engine": "embedded",
        "sites": {site.name: {"rows": 20, "columns": 2} for site in SITES},
    }
    assert len(content["ledger"]) == len(found.ledger) > 0
    assert content["metrics"]["sites"] == 3
    assert (found.folder / "model.safetensors").read_bytes() == found.model.to_bytes()
    own = json.loads((found.folder / "sites" / "s1.json").read_text())
    assert own == {"site": "s1", **found.local["s1"]}
    assert own["rows"] == 20
    assert not (found.folder / "resume").exists()
    with pytest.raises(InputError, match="already holds a run"):
        run(METHOD, SITES, record=tmp_path / "r")


def test_without_a_record_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(METHOD, SITES).folder is None
    assert not list(tmp_path.iterdir())


def test_watchers_see_every_question_and_answer():
    seen = []
    found = run(METHOD, SITES, watch=seen.append)
    assert len([event for event in seen if event.state == "answered"]) == len(found.ledger)
    assert {event.site for event in seen} == {"s0", "s1", "s2"}


def test_a_lost_site_is_named_with_the_reason():
    sites = tables(5)
    found = run(METHOD, sites, interfere=lambda name, request: "out of power" if name == "s3" else None)
    assert found.lost == {"s3": "out of power"}
    assert [(warning.site, warning.why) for warning in found.warnings] == [("s3", "out of power")]
    assert set(found.local) == {"s0", "s1", "s2", "s4"}


def test_the_policy_holds_at_every_site(tmp_path):
    with pytest.raises(ProtocolError, match="4"):
        run(METHOD, SITES, policy=fedgeom.Policy(min_cohort=4), record=tmp_path / "r")
    assert read_folder(tmp_path / "r")["status"]["state"] == "failed"
    assert run(METHOD, SITES, policy=fedgeom.Policy(min_cohort=2)).lost == {}


def test_a_run_that_fails_says_why_in_its_record(tmp_path):
    with pytest.raises(TooFewSitesError, match="gone"):
        run(METHOD, SITES, record=tmp_path / "r", interfere=lambda name, request: "gone" if name != "s0" else None)
    status = read_folder(tmp_path / "r")["status"]
    assert status["state"] == "failed"
    assert "gone" in status["detail"]


# Engines.


class Counting(EmbeddedEngine):
    """An engine that counts what it carries."""

    name = "counting"
    carried = 0

    def deliver(self, requests):
        for name, reply in super().deliver(requests):
            Counting.carried += 1
            yield name, reply


def test_an_engine_by_its_class_or_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(ENGINES, "_known", dict(ENGINES._known))
    monkeypatch.setattr(Counting, "carried", 0)
    found = run(METHOD, SITES, engine=Counting, record=tmp_path / "r")
    assert Counting.carried == len(found.ledger)
    assert read_folder(tmp_path / "r")["config"]["engine"] == "counting"
    ENGINES.add("counting", Counting)
    again = run(METHOD, SITES, engine="counting")
    assert Counting.carried == 2 * len(found.ledger)
    assert again.model.to_bytes() == found.model.to_bytes() == run(METHOD, SITES).model.to_bytes()


def test_an_unknown_engine_is_told_which_there_are():
    with pytest.raises(InputError, match="engine='carrier pigeon' is unknown; there are: embedded"):
        run(METHOD, SITES, engine="carrier pigeon")


# Going on.


class Killed(BaseException):
    """Stands for the death of the process: nothing of ours catches it."""


def begin(folder, at=4, **options):
    """Begin a resumable run that dies when the given question has been answered by all."""

    def die(event):
        if event.step == at and event.site == "s2" and event.state == "answered":
            raise Killed

    with pytest.raises(Killed):
        run(METHOD, SITES, record=folder, watch=die, **({"resumable": True} | options))
    return folder


@pytest.mark.parametrize("at", range(1, 7))
def test_a_run_that_died_goes_on_to_the_same_model(at, tmp_path):
    folder = begin(tmp_path / "r", at)
    kept = folder / "resume"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    seen = []
    found = run(METHOD, SITES, record=folder, resume=True, watch=seen.append)
    assert found.model.to_bytes() == run(METHOD, SITES).model.to_bytes()
    assert read_folder(folder)["status"]["state"] == "finished"
    assert len(read_folder(folder)["ledger"]) == len(found.ledger)
    assert not kept.exists()


def test_resuming_where_nothing_is_begins_a_resumable_run(tmp_path):
    begin(tmp_path / "r", resumable=False, resume=True)
    found = run(METHOD, SITES, record=tmp_path / "r", resume=True)
    assert found.model.to_bytes() == run(METHOD, SITES).model.to_bytes()


def test_what_cannot_go_on(tmp_path):
    folder = begin(tmp_path / "r")
    other = [*SITES[:2], replace(SITES[2], X=SITES[2].X + 1)]
    for method, sites, seed, message in [
        (
            fedgeom.Moments(space="euclidean", rule="centroid"),
            SITES,
            0,
            "has rule = 'gaussian'; 'centroid' was given",
        ),
        (METHOD, SITES, 9, "has seed = 0; 9 was given"),
        (METHOD, SITES[:2], 0, "has sites = "),
        (METHOD, other, 0, "began with other rows at s2; give it the same sites"),
    ]:
        with pytest.raises(InputError, match=message):
            run(method, sites, seed, record=folder, resume=True)
    with pytest.raises(InputError, match="has engine = 'embedded'; 'counting' was given"):
        run(METHOD, SITES, record=folder, resume=True, engine=Counting)
    run(METHOD, SITES, record=folder, resume=True)
    with pytest.raises(InputError, match=r"is finished; its model is .*model\.safetensors"):
        run(METHOD, SITES, record=folder, resume=True)


def test_a_run_that_was_not_resumable_stays_so(tmp_path):
    begin(tmp_path / "r", resumable=False)
    with pytest.raises(InputError, match="kept when a run begins with resumable=True"):
        run(METHOD, SITES, record=tmp_path / "r", resume=True)


@pytest.mark.parametrize("option", ["resumable", "resume"])
def test_going_on_needs_a_folder(option):
    with pytest.raises(InputError, match="resumable and resume need record"):
        run(METHOD, SITES, **{option: True})


def test_columns_in_another_order_are_put_right_and_others_are_refused(tmp_path):
    """A frame's names were dropped, so that sites with columns in different orders learnt together."""
    whole = fedgeom.load_set("wine", n_sites=3).train
    order = np.random.default_rng(0).permutation(whole[0].X.shape[1])
    names = tuple(np.array(whole[0].columns)[order].tolist())
    crossed = [whole[0], SiteData("site-2", whole[1].X[:, order], whole[1].y, columns=names), whole[2]]
    method = fedgeom.Moments(space="euclidean")
    wanted, found = fedgeom.run(method, whole), fedgeom.run(method, crossed, record=tmp_path / "run")
    assert found.model.to_bytes() == wanted.model.to_bytes()
    assert found.model.column_names == whole[0].columns
    assert fedgeom.load_model(tmp_path / "run").column_names == whole[0].columns
    own = fedgeom.load_model(tmp_path / "run" / "sites" / "site-2.safetensors")
    assert own.column_names == whole[0].columns
    bare = [SiteData(site.name, site.X, site.y) for site in whole]
    assert b"column_names" not in fedgeom.run(method, bare).model.to_bytes()
    renamed = SiteData("site-2", whole[1].X, whole[1].y, columns=("pH", *whole[1].columns[1:]))
    with pytest.raises(
        InputError,
        match=r"'site-2' has other columns than 'site-1': it lacks 1: 'alcohol', and it has 1 that .* not there: 'pH'",
    ):
        fedgeom.run(method, [whole[0], renamed, whole[2]])
