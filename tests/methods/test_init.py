"""The list of methods: known by name at once, loaded when they are used."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import fedgeom
from fedgeom.federation.method import METHODS
from fedgeom.methods import HOMES, SUMMARIES

SLOW = ("scipy", "sklearn", "torch", "pandas", "matplotlib", "flwr", "anndata")

ASK = """
import sys
sys.argv = ["fedgeom", *{arguments}]
from fedgeom.cli import app
try:
    app()
except SystemExit:
    pass
print("loaded:", *sorted(sys.modules))
"""


def loaded_by(*arguments: str) -> tuple[str, list[str]]:
    """Return what a command prints, and the modules that it has loaded in the end."""
    code = ASK.format(arguments=list(arguments))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, _, modules = done.stdout.rpartition("loaded: ")
    return said, modules.split()


def test_the_list_of_methods_loads_none_of_them():
    """Counted in modules, not in seconds: those take the time."""
    said, modules = loaded_by("methods")
    assert all(name in said for name in SUMMARIES)
    assert not set(SLOW) & set(modules)
    assert not [name for name in modules if name.startswith("fedgeom.methods.") and name.count(".") > 2]
    assert len(modules) < 700


def test_one_method_loads_no_other_family():
    said, modules = loaded_by("methods", "moments")
    assert "settings" in said
    assert "fedgeom.methods.moments.method" in modules
    assert not [name for name in modules if name.startswith(("fedgeom.methods.hulls.", "fedgeom.methods.xclp."))]


@pytest.mark.parametrize("cls", HOMES)
def test_the_lists_say_what_the_classes_say(cls):
    module, name = HOMES[cls]
    method = getattr(fedgeom, cls)
    assert (method.__name__, method.name) == (cls, name)
    assert method.__module__ == f"fedgeom.methods.{module}"
    assert METHODS.find(name) is method
    assert (inspect.getdoc(method) or "").partition("\n")[0] == SUMMARIES[name]


def test_nothing_is_missing():
    assert set(SUMMARIES) == {name for _, name in HOMES.values()}
    ours = [name for name in METHODS if METHODS.find(name).__module__.startswith("fedgeom.")]
    assert ours == list(SUMMARIES)  # in this order, whichever was loaded first
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        fedgeom.methods.Nothing  # noqa: B018
    assert "Hulls" in dir(fedgeom.methods)
