"""Calls of Flower's command line: what it prints is read, and what it refuses is said, in its own words."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fedgeom.engines.flower import calls
from fedgeom.errors import InputError


class Flower:
    """A program named ``flwr`` that prints and ends as it is told, and notes what it was asked."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "flwr").write_text(
            f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\nhere = Path({str(folder)!r})\n"
            "with (here / 'asked').open('a') as file:\n    print(*sys.argv[1:], file=file)\n"
            "print((here / 'says').read_text())\nsys.exit(int((here / 'code').read_text()))\n"
        )
        (folder / "flwr").chmod(0o700)
        self.environment = {"PATH": str(folder)}
        self.says("")

    def says(self, text: str, code: int = 0) -> None:
        (self.folder / "says").write_text(text)
        (self.folder / "code").write_text(str(code))

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def flower(tmp_path: Path) -> Flower:
    return Flower(tmp_path)


def test_a_refusal_is_said(flower: Flower) -> None:
    flower.says("there is no such run", code=1)
    with pytest.raises(InputError, match="Flower refused `flwr stop 7`: there is no such run"):
        calls.call(flower.environment, ["flwr", "stop", "7"])


def test_nodes_get_numbers_unless_flower_knew_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[list[str]] = []
    answers = [
        calls.CallResult(0, 'a remark\n{"success": true, "node-id": 17}'),
        calls.CallResult(1, "the key is ALREADY in use"),
        calls.CallResult(1, "out of order"),
    ]

    def together(environment: calls.Environment, several: list[list[str]]) -> list[calls.CallResult]:
        asked.extend(several)
        return answers

    monkeypatch.setattr(calls, "call_together", together)
    files = {name: tmp_path / f"{name}.pub" for name in ("anna", "bert", "carl")}
    found = calls.register_nodes({}, files)
    assert (found["anna"], found["bert"]) == ("17", "")
    assert isinstance(found["carl"], InputError)
    assert "out of order" in str(found["carl"])
    words = f"flwr supernode register {files['anna']} fedgeom --name anna --format json"
    assert asked[0] == words.split()
    assert calls.register_nodes({}, {}) == {}
    assert len(asked) == 3


def test_flowers_command_line_is_called_several_times_in_one_process() -> None:
    pytest.importorskip("flwr", reason="Flower is not installed")
    nonsense, version = calls.call_together(os.environ, [["flwr", "nonsense"], ["flwr", "--version"]])
    assert nonsense.code != 0
    assert "nonsense" in nonsense.said
    assert version.code == 0
    assert "1.41" in version.said


def test_a_command_line_that_cannot_be_called_is_said() -> None:
    with pytest.raises(InputError, match="could not be called"):
        calls.call_together({**os.environ, "PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere"}, [["flwr", "ls"]])


def test_a_node_is_shut_out(flower: Flower) -> None:
    calls.unregister_node(flower.environment, "17")
    assert flower.asked[-1].startswith("supernode unregister 17 ")


def test_the_states_of_nodes(flower: Flower) -> None:
    flower.says('{"nodes": [{"node-id": 1, "status": "online"}, {"node-id": "2", "status": "offline"}]}')
    assert calls.node_states(flower.environment) == {"1": "online", "2": "offline"}
    flower.says("{}")
    assert calls.node_states(flower.environment) == {}


def test_starting_a_run(flower: Flower, tmp_path: Path) -> None:
    flower.says('building\n{"run-id": 123}')
    assert calls.start_run(flower.environment, tmp_path, "study-1") == "123"
    for text in ("nothing at all", "{}", "{broken"):
        flower.says(text)
        with pytest.raises(InputError, match="cannot be read"):
            calls.start_run(flower.environment, tmp_path, "study-1")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ('{"runs": [{"status": "finished:failed"}]}', "finished:failed"),
        ('{"runs": []}', "unknown"),
        ("{}", "unknown"),
        ("no runs", "unknown"),
    ],
)
def test_how_a_run_stands(flower: Flower, text: str, state: str) -> None:
    flower.says(text)
    assert calls.run_state(flower.environment, "123") == state


def test_a_run_that_flower_has_forgotten_is_unknown(flower: Flower) -> None:
    flower.says("Run ID 123 not found", code=1)
    assert calls.run_state(flower.environment, "123") == calls.UNKNOWN
    flower.says("out of order", code=1)
    with pytest.raises(InputError, match="out of order"):
        calls.run_state(flower.environment, "123")


def test_stopping_what_has_just_ended_is_no_error(flower: Flower) -> None:
    """Between asking how the run stands and stopping it, it may end."""
    flower.says("[code: 18] Run is already finished.", code=1)
    calls.stop_run(flower.environment, "7")
    flower.says("no", code=1)
    with pytest.raises(InputError, match="no"):
        calls.stop_run(flower.environment, "7")
