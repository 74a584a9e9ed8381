"""The package's front: few names, grouped in its help, each loaded when it is used."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import fedgeom

NAMES = [name for name in dir(fedgeom) if not name.startswith("_")]
GROUPED = re.findall(r"^(\w[\w ]+?) {2,}(.+)$", fedgeom.__doc__, flags=re.MULTILINE)


def test_there_are_few_names_and_the_help_groups_them_all():
    assert len(NAMES) < 72
    grouped = [name for _, line in GROUPED for name in line.split(";")[0].split(", ")]
    assert sorted(grouped) == sorted(NAMES)
    assert len(set(grouped)) == len(grouped)
    assert len(GROUPED) == 10


def test_the_citation_is_of_this_version():
    text = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {fedgeom.__version__}\n" in text


def test_help_fits_on_two_screens():
    text = pydoc.plain(pydoc.render_doc(fedgeom))
    assert len(text.splitlines()) < 120
    assert "Methods          Hulls, Moments, XCLP" in text


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_loaded_and_says_what_it_is(name):
    value = getattr(fedgeom, name)
    first = (inspect.getdoc(value) or "").partition("\n")[0]
    assert first.endswith((".", ":")), first
    assert getattr(fedgeom, name) is value


def test_unknown_names_are_attribute_errors():
    for name in (
        "Hull",
        "hulls",
        "iterative",
        "catalogue",
        "METHODS",
        "_private",
        "__path_hooks__",
    ):
        assert not hasattr(fedgeom, name)
        assert name not in dir(fedgeom)
    with pytest.raises(AttributeError, match=r"module 'fedgeom' has no attribute 'Hull'; see help\(fedgeom\)"):
        fedgeom.Hull  # noqa: B018
    with pytest.raises(ImportError, match="Hull"):
        from fedgeom import Hull  # noqa: F401


def test_the_version_is_that_of_the_package():
    assert re.fullmatch(r"\d+\.\d+\.\d+", fedgeom.__version__)
    assert version("fedgeom") == fedgeom.__version__


def loaded(code):
    """Return which heavy packages a fresh process has loaded after some code."""
    heavy = "{'numpy', 'scipy', 'sklearn', 'pandas', 'anndata', 'matplotlib', 'torch', 'flwr', 'networkx'}"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sorted({heavy} & set(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("code", ["import fedgeom", "import fedgeom.cli", "import fedgeom; fedgeom.InputError"])
def test_the_package_alone_loads_nothing_heavy(code):
    assert loaded(code) == set()


@pytest.mark.parametrize(
    "code",
    [
        "import fedgeom; dir(fedgeom)",
        "import fedgeom; fedgeom.FedAvg(); fedgeom.Hulls()",
        "from fedgeom import run",
    ],
)
def test_what_only_some_need_is_loaded_by_them(code):
    assert not loaded(code) & {"sklearn", "pandas", "anndata", "matplotlib", "torch", "flwr"}


def sections(name):
    """Return what the Parameters section of a public name says of each parameter, a line each."""
    said = inspect.getdoc(getattr(fedgeom, name)) or ""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=^[A-Z]\w+\n-+\n|\Z)", said, flags=re.DOTALL | re.MULTILINE)
    listed = re.findall(r"^\*{0,2}(\w+): (.+)$", found[1], flags=re.MULTILINE) if found else []
    return dict(listed)


NOT_CALLED = {"Ledger", "Method", "Model", "Run", "Site"}
"""What a run makes, and what others extend."""


def called():
    """Return the public names that people call: functions, methods and other settings."""
    errors = [name for name in NAMES if name.endswith("Error")]
    return [name for name in NAMES if callable(getattr(fedgeom, name)) and name not in {*errors, *NOT_CALLED}]


@pytest.mark.parametrize("name", called())
def test_everything_that_is_called_lists_its_parameters_with_type_and_default(name):
    said = sections(name)
    wanted = inspect.signature(getattr(fedgeom, name)).parameters
    assert list(said) == list(wanted)
    for one in wanted.values():
        optional = one.default is not one.empty
        assert said[one.name].endswith(" if not given") == optional, f"{name}: {one.name}: {said[one.name]}"
