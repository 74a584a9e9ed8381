"""The contract with Flower: every symbol that is replaced is, in the installed Flower, as the table expects it.

When a test of `test_the_installed_flower_is_as_expected` fails after an update of Flower: the row's ``why`` says what
for, its ``otherwise`` what happens until the row is set right.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fedgeom
from fedgeom.engines.flower import patch_table
from fedgeom.engines.flower.patch_table import (
    TABLE,
    Symbol,
    client_class,
    function,
    module,
    number_or_nothing,
    number_under,
    seconds,
)

ROWS = [pytest.param(row, id=f"{row.module}:{row.name}") for row in TABLE]


@pytest.mark.parametrize("row", ROWS)
def test_the_installed_flower_is_as_expected(row: Symbol) -> None:
    flwr = pytest.importorskip("flwr", reason="Flower is not installed")
    fault = row.fault()
    assert not fault, (
        f"{row.module}.{row.name} is not as in Flower {row.since} (this is {flwr.__version__}): {fault}. "
        f"Why it is replaced: {row.why}. Until that is set right: {row.otherwise}."
    )


@pytest.mark.parametrize("row", [row for row in TABLE if row.usual is not None], ids=lambda row: row.name)
def test_flowers_own_values_are_those_that_our_comments_speak_of(row: Symbol) -> None:
    pytest.importorskip("flwr", reason="Flower is not installed")
    value = row.value()
    if isinstance(row.usual, dict):
        value = {key: dict(value)[key] for key in row.usual}
    assert value == row.usual, f"{row.module}.{row.name} is {value!r} by itself, no longer {row.usual!r}"


def test_every_row_stands_in_the_table_once_and_says_why() -> None:
    named = [value for value in vars(patch_table).values() if isinstance(value, Symbol)]
    assert named == list(TABLE)
    assert len({(row.module, row.name) for row in TABLE}) == len(TABLE)
    for row in TABLE:
        assert row.module.startswith(("flwr.", "fastapi."))
        assert row.why
        assert row.otherwise


def test_what_keeps_foreign_code_and_foreign_control_out_is_required() -> None:
    required = {(row.module.rpartition(".")[2], row.name) for row in TABLE if row.required}
    assert required == {
        ("start_client_internal", "_push_messages"),
        ("start_client_internal", "_insert_message"),
        ("run_serverapp", "install_from_fab"),
        ("run_serverapp", "get_project_dir"),
        ("flower_superlink", "uvicorn"),
        ("node_auth", "authenticate_node"),
    }


# --- a table that expected anything would be no contract ---


class Client:
    @classmethod
    def from_server_address(cls, address: str, interceptors: list[Any]) -> None: ...


class OtherClient:
    @classmethod
    def from_server_address(cls, address: str) -> None: ...


def keyword_only(a: int, *, b: int = 1) -> None: ...


@pytest.mark.parametrize(
    ("expected", "value", "piece"),
    [
        (function("a", "b"), keyword_only, ""),
        (function("a", "c", "d"), keyword_only, "no parameter c, d"),
        (function(), time.sleep, ""),
        (function(), 7, "not a function"),
        (function("a"), None, "not a function"),
        (module("time", sleep=function()), time, ""),
        (module("time"), subprocess, "not the module time"),
        (module("time"), ModuleType("time"), "not the module time"),
        (module("time"), None, "not the module time"),
        (module("time", nonsense=function()), time, "nonsense: None is not a function"),
        (module("subprocess", run=function("input", "x")), subprocess, "run: it has no parameter x"),
        (seconds, 30, ""),
        (seconds, 0, "not a whole number"),
        (seconds, "30", "not a whole number"),
        (seconds, True, "not a whole number"),
        (number_under("k"), {"k": 1.5}, ""),
        (number_under("k"), (("j", "x"), ("k", "5000")), ""),
        (number_under("k"), {"j": 1}, "no number 'k'"),
        (number_under("k"), {"k": "soon"}, "no number 'k'"),
        (number_under("k"), None, "no number 'k'"),
        (client_class, Client, ""),
        (client_class, Client(), "not a class"),
        (client_class, dict, "not a function"),
        (client_class, OtherClient, "no parameter interceptors"),
        (number_or_nothing, None, ""),
        (number_or_nothing, 7, ""),
        (number_or_nothing, "7", "neither a whole number"),
        (number_or_nothing, True, "neither a whole number"),
    ],
)
def test_expectations(expected: Any, value: Any, piece: str) -> None:
    fault = expected(value)
    assert piece in fault
    assert bool(fault) == bool(piece)


@pytest.mark.parametrize(
    ("place", "name", "piece"),
    [
        ("flwr_nonsense.module", "x", "flwr_nonsense"),
        ("time", "nonsense", "nonsense"),
        ("time", "sleep.nonsense", "nonsense"),
        ("time", "sleep", ""),
        ("inspect", "Signature.empty", ""),
    ],
)
def test_a_symbol_is_found_by_its_place_or_named_as_missing(place: str, name: str, piece: str) -> None:
    row = Symbol(place, name, function(), "why", "otherwise")
    assert piece in row.fault()
    assert bool(row.fault()) == bool(piece)
    if not piece and "." in name:
        assert row.place() == (inspect.Signature, "empty")


# --- the door ---

SOURCE = Path(fedgeom.__file__).parent
DOOR = SOURCE / "engines" / "flower"


def imports_of(file: Path) -> set[str]:
    """Return all modules that a file imports, also inside functions and for types only, and by importlib."""
    found: set[str] = set()
    for part in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(part, ast.Import):
            found |= {alias.name for alias in part.names}
        elif isinstance(part, ast.ImportFrom) and part.module and not part.level:
            found |= {part.module, *(f"{part.module}.{alias.name}" for alias in part.names)}
        elif isinstance(part, ast.Call) and part.args and isinstance(part.args[0], ast.Constant):
            called = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if called in ("import_module", "__import__", "find_spec"):
                found.add(str(part.args[0].value))
    return found


def is_of(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_imports_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    for text in (
        "import flwr",
        "import flwr.app as a",
        "from flwr import app",
        "def f():\n    from flwr.app import Message",
        "if TYPE_CHECKING:\n    from flwr.app import Message",
        "importlib.import_module('flwr.app')",
        "import_module('flwr')",
    ):
        file.write_text(text)
        assert any(is_of(name, "flwr") for name in imports_of(file)), text
    file.write_text("import flwrs\nfrom . import flwr\nx = 'flwr'")
    assert not any(is_of(name, "flwr") for name in imports_of(file))


def test_nobody_else_imports_flower() -> None:
    files = [file for file in SOURCE.rglob("*.py") if DOOR not in file.parents]
    assert len(files) > 100
    guilty = {str(file.relative_to(SOURCE)) for file in files if any(is_of(n, "flwr") for n in imports_of(file))}
    assert guilty == set()
    assert any(is_of(name, "flwr") for file in DOOR.glob("*.py") for name in imports_of(file))


def test_flowers_room_knows_nothing_of_the_rooms_below_it() -> None:
    below = [
        f"fedgeom.{room}" for room in ("methods", "evaluation", "deploy", "report", "studio", "cli", "testing")
    ]
    guilty = {
        (file.name, name)
        for file in DOOR.glob("*.py")
        for name in imports_of(file)
        if any(is_of(name, room) for room in below)
    }
    assert guilty == set()


def sets_in_modules(file: Path) -> set[str]:
    """Return what a file does to modules that it imports: attributes that it sets, and calls of setattr."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported = set()
    for part in ast.walk(tree):
        if isinstance(part, ast.Import | ast.ImportFrom):
            imported |= {alias.asname or alias.name.split(".")[0] for alias in part.names}
        if (
            isinstance(part, ast.Assign)
            and isinstance(part.value, ast.Call)
            and "import_module" in ast.dump(part.value)
        ):
            imported |= {
                one.id for target in part.targets for one in ast.walk(target) if isinstance(one, ast.Name)
            }
    found = set()
    for part in ast.walk(tree):
        if isinstance(part, ast.Call) and getattr(part.func, "id", "") == "setattr":
            found.add("setattr")
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            base: ast.expr = part.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in imported - {"sys"}:
                found.add(ast.unparse(part))
    return found


def test_setting_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    for text in (
        "import flwr.app\nflwr.app.x = 1",
        "from flwr import app as a\na.x += 1",
        "m = importlib.import_module('flwr')\nm.x, y = 1, 2",
        "setattr(anything, 'x', 1)",
    ):
        file.write_text(text)
        assert sets_in_modules(file), text
    file.write_text("import sys\nsys.argv = []\nasked.x = 1\nself.x = 1")
    assert not sets_in_modules(file)


def test_only_the_patches_set_anything_in_modules() -> None:
    guilty = {str(file.relative_to(SOURCE)) for file in DOOR.parent.rglob("*.py") if sets_in_modules(file)}
    guilty |= {
        str(file.relative_to(SOURCE)) for file in (SOURCE / "deploy").rglob("*.py") if sets_in_modules(file)
    }
    assert guilty == {"engines/flower/patches.py"}
