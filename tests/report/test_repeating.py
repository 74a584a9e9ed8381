"""How to repeat a run."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import replace
from html import unescape

import numpy as np

import fedgeom
from fedgeom.methods.ridge.features import Fourier, LinearFeatures
from fedgeom.report.page import changed_settings, federation_toml, repeating
from fedgeom.report.run_folder import read_run
from fedgeom.study import _code
from tests.cli.calling import call
from tests.report.folders import folder_of


def test_the_federation_file_has_what_was_set_and_no_defaults(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    sites = fedgeom.split(X, X[:, 0] > 0, n_sites=3)
    fedgeom.run(
        fedgeom.Ridge(features="linear", alpha=3.0, prepare="table"),
        sites,
        seed=5,
        holdout=0.25,
        record=tmp_path / "run",
    )
    run = read_run(tmp_path / "run")
    assert set(changed_settings(run)) == {"features", "rule", "balanced", "alpha", "prepare", "holdout"}
    file = tomllib.loads(federation_toml(run))
    assert file["method"] == "ridge"
    assert file["seed"] == 5
    assert file["holdout"] == 0.25
    assert file["parameters"]["alpha"] == 3.0
    assert [step["name"] for step in file["parameters"]["prepare"]] == ["one-hot", "impute", "scale"]
    assert len(file["sites"]) == 3
    again = fedgeom.Ridge(**file["parameters"])
    assert again == fedgeom.Ridge(features="linear", alpha=3.0, prepare="table")


def test_settings_that_settle_others_come_back(tmp_path):
    """Features that are given have other rules beside them than those that are not."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    sites = fedgeom.split(X, X[:, 0] > 0, n_sites=3)
    usual = fedgeom.Ridge()
    few = [LinearFeatures(), Fourier(n_components=5)]
    for at, method in enumerate(
        [replace(usual, features=few), replace(usual, balanced=False), fedgeom.Ridge(features=few)]
    ):
        fedgeom.run(method, sites, record=tmp_path / f"run{at}")
        file = tomllib.loads(federation_toml(read_run(tmp_path / f"run{at}")))
        assert fedgeom.Ridge(**file.get("parameters", {})) == method
        assert (
            eval(_code(method), vars(fedgeom) | {"LinearFeatures": LinearFeatures, "Fourier": Fourier}) == method
        )


def test_what_strangers_wrote_stays_a_text(tmp_path):
    run = read_run(folder_of(tmp_path / "run", method="<x>", parameters={"word": 'a"b', "on": True}))
    assert tomllib.loads(federation_toml(run))["parameters"] == {"word": 'a"b', "on": True}
    assert "<x>" not in repeating(run)


def test_commands_work_as_they_are_printed(tmp_path, monkeypatch):
    """They named the folder without its path."""
    folder = folder_of(tmp_path / "my runs" / "heart-1")
    monkeypatch.chdir(tmp_path)
    printed = [line.partition(" #")[0].strip() for line in unescape(repeating(read_run(folder))).splitlines()]
    (line,) = [one for one in printed if one.startswith("fedgeom ledger")]
    assert line == "fedgeom ledger 'my runs/heart-1'"
    assert "site-001" in call(*shlex.split(line)[1:])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert f"fedgeom predict '{folder}' new.csv" in unescape(repeating(read_run(folder)))
