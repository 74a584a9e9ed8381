"""The locked versions are those that pyproject.toml asks for, each with hashes of its files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUN = ("bio", "nats", "xclp", "topology", "privacy", "scanpy", "studio")
EXTRAS = {"run": RUN, "test": (*RUN, "docs", "dev")}
"""Extras and dependency groups."""


def locked(name: str) -> dict[str, Requirement]:
    """Return what a lock file pins, by name; every entry must be pinned and have a hash."""
    found = {}
    text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    for entry in text.replace("\\\n", " ").splitlines():
        if not entry or entry.startswith("#"):
            continue
        line, *hashes = entry.split("--hash=")
        assert hashes, f"{line} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes), line
        requirement = Requirement(line.strip())
        assert [one.operator for one in requirement.specifier] == ["=="], line
        found[canonicalize_name(requirement.name)] = requirement
    return found


@pytest.mark.parametrize("name", EXTRAS)
def test_what_pyproject_asks_for_is_locked(name: str) -> None:
    pinned = locked(name)
    extras = PROJECT["project"]["optional-dependencies"] | PROJECT["dependency-groups"]
    asked = [*PROJECT["project"]["dependencies"], *(one for extra in EXTRAS[name] for one in extras[extra])]
    for text in asked:
        wanted = Requirement(text)
        (version,) = pinned[canonicalize_name(wanted.name)].specifier
        assert wanted.specifier.contains(version.version), f"{wanted} is asked for; run make lock"
    assert "torch" not in pinned  # its hash depends on the index: constraints.txt


def test_tests_run_with_what_sites_install() -> None:
    run, test = locked("run"), locked("test")
    assert {name: str(test[name].specifier) for name in run} == {n: str(one.specifier) for n, one in run.items()}


def test_the_tools_of_a_release_are_pinned_and_locked() -> None:
    tools = locked("tools")
    (builder,) = PROJECT["build-system"]["requires"]
    assert str(tools["hatchling"].specifier) == str(Requirement(builder).specifier)
    assert "cyclonedx-bom" in tools


def test_what_the_container_installs_is_locked_and_what_it_copies_is_there() -> None:
    steps = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    installs = [one for step in steps if step.startswith("RUN") for one in step.split("&&") if "pip " in one]
    assert installs
    assert all("--require-hashes" in one or "--no-index" in one for one in installs)
    copied = [
        one for step in steps if step.startswith("COPY ") and "--from" not in step for one in step.split()[1:-1]
    ]
    assert {"locks/run.txt", "locks/tools.txt", "src", "pyproject.toml"} <= set(copied)
    assert [one for one in copied if not (ROOT / one).exists()] == []
    build = PROJECT["project"]
    assert {build["readme"], *build["license-files"]} <= set(copied)
    assert f'ENTRYPOINT ["{next(iter(build["scripts"]))}"]' in steps
