"""Studies made on the page."""

from __future__ import annotations

import asyncio
import errno
import stat
import tomllib

import numpy as np
import pytest

from fedgeom.deploy.federation_check import check_federation
from fedgeom.errors import InputError
from fedgeom.extend import Algorithm
from fedgeom.federation.method import METHODS
from fedgeom.methods import SUMMARIES
from fedgeom.methods.catalogue import method_class
from fedgeom.studio.studies import TIMES, keep_file, method_groups, new_map, new_study


async def parts(*pieces):
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        yield piece


def keep(place, name, *pieces):
    return asyncio.run(keep_file(place, name, parts(*pieces)))


def test_a_file_is_kept_whole_and_closed_to_others(place):
    file = keep(place, "a.csv", b"a,b\n", b"1,2\n")
    assert file.read_bytes() == b"a,b\n1,2\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert keep(place, "a.csv", b"a,b\n", b"1,2\n") == file
    mended = keep(place, "a.csv", b"a,b\n1,3\n")
    assert mended.name == "a (2).csv"
    assert file.read_bytes() == b"a,b\n1,2\n"
    assert keep(place, "a.csv", b"a,b\n1,3\n") == mended
    assert sorted(one.name for one in place.files.iterdir()) == ["a (2).csv", "a.csv"]


@pytest.mark.parametrize("broken", [OSError(errno.ENOSPC, "no room"), ConnectionError("gone")])
def test_half_a_file_is_none(place, broken):
    with pytest.raises(OSError):
        keep(place, "a.csv", b"half", broken)
    assert list(place.files.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "said"), [("a.exe", "no table"), ("../a.csv", "wanted a name"), ("e.csv", "is empty")]
)
def test_what_is_no_table_is_refused(place, name, said):
    with pytest.raises(InputError, match=said):
        keep(place, name)


def test_a_form_becomes_a_federation_file(place):
    keep(place, "a b.csv", b"x")
    form = {"label": 'the "class"', "sites_from": "h", "method": "ridge", "prepare": "", "holdout": "0.3"}
    name = new_study(place, ["a b.csv"], form)
    assert name == "a-b"
    assert tomllib.loads(place.study(name).read_text()) == {
        "file": "../files/a b.csv", "sites_from": "h", "label": 'the "class"', "method": "ridge", "holdout": 0.3,
    }  # fmt: skip
    assert new_study(place, ["a b.csv"], form) == "a-b-2"  # another tab's


def test_several_tables_are_as_many_sites(place):
    for name in ("a.csv", "b.csv"):
        keep(place, name, b"x")
    study = tomllib.loads(place.study(new_study(place, ["a.csv", "b.csv"], {"label": "y"})).read_text())
    assert [one["file"] for one in study["sites"]] == ["../files/a.csv", "../files/b.csv"]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({}, "no label"),
        ({"label": "y"}, "to which site"),
        ({"label": "y", "sites_from": "h", "holdout": "x"}, "0.25"),
    ],
)
def test_what_is_missing_is_said(place, form, said):
    keep(place, "a.csv", b"x")
    with pytest.raises(InputError, match=said):
        new_study(place, ["a.csv"], form)
    assert place.study_names() == []


def test_methods_that_can_be_chosen_are_those_there_are():
    groups = method_groups()
    listed = [name for group in groups.values() for name, _ in group]
    assert sorted(listed) == sorted({*METHODS, *TIMES})  # each once
    assert ("fedavg", SUMMARIES["fedavg"].partition(": ")[0]) in groups["Training in rounds"]
    assert "ridge" in dict(groups["One exchange of sums"])
    in_rounds = [method_class(name) for name, _ in groups["Training in rounds"]]
    ours = [one for one in in_rounds if one.__module__.startswith("fedgeom.")]  # other tests define methods
    assert all(issubclass(one, Algorithm) for one in ours)


def test_a_study_s_rows_are_drawn_on_one_map_by_a_study_of_their_own(place, client, patients):
    place.make(place.files)
    (place.files / "patients.csv").write_bytes(patients)
    place.make(place.studies)
    text = 'method = "ridge"\nfile = "../files/patients.csv"\nsites_from = "hospital"\nlabel = "diagnosis"\n'
    text += 'prepare = "table"\nholdout = 0.25\n[parameters]\nalpha = 2.0\n[policy]\nmin_cohort = 3\n'
    (place.studies / "one.toml").write_text(text)
    assert "Draw their map" in client.get("/studies/one").text
    name = new_map(place, "one")
    made = tomllib.loads(place.study(name).read_text())
    assert made["method"] == "poincare-map"
    assert "parameters" not in made
    assert (made["policy"], made["prepare"], made["sites_from"]) == ({"min_cohort": 3}, "table", "hospital")
    assert check_federation(place.study(name)).report.ready
    (place.studies / "one.toml").write_text(text.replace('"ridge"', '"ellipses"\nnames = "own"'))
    assert "Draw their map" not in client.get("/studies/one").text


def test_a_study_of_times_until_an_event_names_their_columns(place, client):
    rng = np.random.default_rng(0)
    lines = ["age,dose,centre,days,died"]
    for at in range(240):
        age = rng.normal(60, 8)
        lines.append(
            f"{age:.1f},{rng.normal():.2f},c{at % 4},{rng.exponential(40000 / age**2) + 1:.0f},{at % 3 % 2}"
        )
    place.make(place.files)
    (place.files / "trial.csv").write_text("\n".join(lines) + "\n")
    form = {"file": "trial.csv", "sites_from": "centre", "method": "cox", "label": "died", "prepare": "table"}
    refused = client.post("/studies", data=form)
    assert refused.status_code == 400
    assert "choose the column of times" in refused.text
    page = client.post("/studies", data=form | {"time": "days", "event": "died"}).headers["location"]
    made = tomllib.loads(place.study(page.rpartition("/")[2]).read_text())
    assert made == {
        "file": "../files/trial.csv", "sites_from": "centre", "time": "days", "event": "died", "method": "cox",
        "prepare": "table",
    }  # fmt: skip
    report = check_federation(place.study("trial")).report
    assert report.ready, report.errors
    assert "ready</span> method cox" in client.get("/studies/trial").text
