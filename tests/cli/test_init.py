"""The command line as a whole: version, help, errors."""

from __future__ import annotations

from typer.testing import CliRunner

from fedgeom import __version__
from fedgeom.cli import app
from tests.cli.calling import call


def test_version_and_help():
    assert call("--version").strip() == f"fedgeom {__version__}"
    listed = call("--help")
    for name in (
        "demo",
        "run",
        "compare",
        "sweep",
        "submit",
        "ledger",
        "predict",
        "methods",
        "data",
        "site",
        "coordinator",
    ):
        assert name in listed
        assert "Usage" in call(name, "--help")


def test_errors_are_one_message(tmp_path):
    output = call("run", tmp_path / "none.toml", code=2)
    assert "does not exist" in output
    assert "Traceback" not in output
    result = CliRunner().invoke(app, ["run", str(tmp_path / "none.toml")])
    assert result.stdout == ""
    assert "does not exist" in result.stderr
