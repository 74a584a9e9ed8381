"""docs/training.md and own-algorithm.md show what is there: algorithms, settings, and code that runs."""

from __future__ import annotations

import ast
import dataclasses
import re
import runpy
from pathlib import Path

import pytest

import fedgeom
from fedgeom.federation.method import METHODS
from fedgeom.methods import iterative
from fedgeom.methods.iterative.effort import Augmentation
from fedgeom.methods.iterative.learners import LEARNERS
from fedgeom.methods.iterative.optimizer import Optimizer
from fedgeom.methods.iterative.settings import TrainingRule
from fedgeom.testing import check_method
from tests.methods.iterative.making import ALGORITHMS, algorithm_class, unlike

ROOT = Path(__file__).parents[3]
PAGE = "\n".join(
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("training", "own-algorithm")
)
EXAMPLE = ROOT / "examples" / "own_algorithm.py"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def known_here(monkeypatch):
    """Whatever a test defines is forgotten after it, so that the next may define it again."""
    for registry in (METHODS, LEARNERS, iterative.Loss.registry):
        monkeypatch.setattr(registry, "_known", dict(registry._known))


def lines_of_code(source: str) -> int:
    """Count lines without blank ones, comments and docstrings."""
    spoken = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            spoken |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = enumerate(source.splitlines(), start=1)
    return sum(number not in spoken and bool(line.split("#")[0].strip()) for number, line in lines)


def test_the_example_is_the_one_that_runs():
    example = EXAMPLE.read_text(encoding="utf-8")
    assert example in BLOCKS
    assert lines_of_code(example) <= 25


@pytest.mark.full
def test_the_example_keeps_the_contract():
    algorithm = runpy.run_path(str(EXAMPLE))["LookAhead"](n_rounds=2, epochs=1)
    check_method(algorithm)
    with pytest.raises(fedgeom.InputError, match=r"beta=1\.0 given; wanted a number from 0 to 1 \(excluded\)"):
        type(algorithm)(beta=1.0)


def test_the_code_runs(tmp_path, monkeypatch):
    """All blocks in their order, as a reader would type them, given sites and rows."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    sites = [fedgeom.SiteData(f"site-{at}", site.X, site.y) for at, site in enumerate(unlike(), start=1)]
    space = {"sites": sites, "X": sites[0].X, "__name__": "a reader"}

    def type_in(source):
        exec(compile(source, "the pages", "exec", dont_inherit=True), space)

    for block in BLOCKS:
        if "resume=True" not in block:
            type_in(block)
            continue
        begin, go_on = block.rstrip().rsplit("\n", 1)
        type_in(begin)
        with pytest.raises(fedgeom.InputError, match="is finished"):  # here the process did not die
            type_in(go_on)
    assert space["run"].model.learner == "small-net"


def test_every_algorithm_is_in_the_table_and_in_the_package():
    for name, cls in ALGORITHMS.items():
        assert f"`{cls}`" in PAGE
        assert getattr(fedgeom, cls) is algorithm_class(name)
        assert cls in dir(fedgeom)


def test_every_shared_setting_is_explained():
    for field in dataclasses.fields(TrainingRule):
        assert f"`{field.name}`" in PAGE, field.name


def test_every_choice_is_named():
    tables = (iterative.Aggregation, iterative.Schedule, iterative.Personal, Optimizer, Augmentation)
    for kind in (*tables, iterative.Loss, iterative.Head, iterative.Network):
        for name, cls in kind.registry.items():
            if cls.__module__.startswith("fedgeom."):
                assert f'"{name}"' in PAGE or f"`{cls.__name__}(" in PAGE, name
        assert f"`{kind.registry.group}`" in PAGE


def test_every_part_of_an_algorithm_is_explained():
    section = PAGE.split("## An algorithm of your own")[1]
    for name in ("start", "local", "combine", "personalise", "shared", "whole", "sent_like", "sends", "gives"):
        assert hasattr(TrainingRule, name)
        assert re.search(rf"`{name}\b", section), name
