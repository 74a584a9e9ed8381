"""`fedgeom ledger`, `methods` and `data`: commands that only look."""

from __future__ import annotations

import dataclasses
import json

import pytest

from fedgeom.data.datasets import SETS
from fedgeom.federation.method import METHODS
from fedgeom.protocols.plan import leaves
from tests.cli.calling import call
from tests.tiers import tiered


def test_ledger(finished):
    output = call("ledger", finished[0], "--site", "Hospital 2")
    assert "What left Hospital 2" in output
    assert "Hospital 1" not in output
    entries = json.loads(call("ledger", finished[0], "--json"))
    assert {entry["site"] for entry in entries} == {"Hospital 0", "Hospital 1", "Hospital 2"}
    only = json.loads(call("ledger", finished[0], "--json", "--site", "Hospital 1"))
    assert only == [entry for entry in entries if entry["site"] == "Hospital 1"]
    assert "no message of a site 'X'" in call("ledger", finished[0], "--site", "X", code=2)
    assert "is not a run folder" in call("ledger", finished[0].parent, code=2)


def test_methods():
    output = " ".join(call("methods").split())
    for name in ("hulls", "moments", "xclp", "shrunk", "ptopofl", "fedavg", "scaffold", "ditto"):
        assert f"{name} {METHODS[name].__doc__.splitlines()[0]}" in output
    assert "leaves a site: fedgeom methods NAME" in output
    assert len(call("methods").splitlines()) < 3 * len(METHODS)


@pytest.mark.parametrize("name", tiered(METHODS, "hulls", "fedavg"))
def test_one_method(name):
    output, cls = " ".join(call("methods", name).split()), METHODS[name]
    assert f"{name} {cls.__doc__.splitlines()[0]}" in output
    assert f'method = "{name}"; in Python: fedgeom.{cls.__name__}(' in output
    for line in leaves(cls()):
        assert f"- {line}" in output
    for field in dataclasses.fields(cls):
        assert f" {field.name} = " in output


def test_a_method_that_is_not_there_is_refused_with_the_nearest():
    output = " ".join(call("methods", "momens", code=2).split())
    assert "there is no method 'momens'; there are: ellipses, hulls" in output
    assert "Did you mean 'moments'?" in output


@pytest.mark.parametrize("thing", [ImportError("no module named 'gpu'"), AttributeError("no such class"), 3])
def test_a_method_of_another_package_that_cannot_be_loaded_costs_no_other(thing, monkeypatch):
    class Point:
        name, value, dist = "[bold]strange", "elsewhere:Strange", None

        def load(self):
            if isinstance(thing, Exception):
                raise thing
            return thing

    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
    monkeypatch.setattr("fedgeom.registry.entry_points", lambda group: [Point()])
    output = " ".join(call("methods").split())
    assert "[bold]strange" in output
    why = f"cannot be loaded: {thing}" if isinstance(thing, Exception) else "is a int; wanted a subclass"
    assert why in output
    assert "moments For a quick first result" in output


def test_data(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDGEOM_DATA", str(tmp_path))
    output = " ".join(call("data").split())
    for name in SETS:
        assert name in output
    assert "put hipc_tcell_5hospitals.npz" in output
    assert "✓ breast-cancer" in output
    assert "– olsson" in output
