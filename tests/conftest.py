from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings

import fedgeom
from fedgeom.crypto.masks import NoiseStream
from fedgeom.data.datasets import DataSet, load_set
from fedgeom.data.demo_data import in_own_words
from tests.tiers import data_file, examples

settings.register_profile("tests", examples(100))
settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that need files of data into the second tier, and skip them where these are absent."""
    for item in items:
        for mark in item.iter_markers("data"):
            item.add_marker(pytest.mark.full)
            absent = [name for name in mark.args if data_file(name) is None]
            if absent:
                why = f"no {', '.join(absent)}: put it into a folder and set FEDGEOM_DATA to that"
                item.add_marker(pytest.mark.skip(reason=why))


class Case(NamedTuple):
    run: fedgeom.Run
    data: DataSet
    truth: dict[str, dict[str, str]]


@pytest.fixture
def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of secure sums from keys 0, 1, 2, … in place of secrets: no test of a model is luck."""
    from fedgeom.protocols import noise

    numbers: dict[bytes, int] = {}

    def stream(key: bytes) -> NoiseStream:
        return NoiseStream(numbers.setdefault(key, len(numbers)).to_bytes(32, "big"))

    monkeypatch.setattr(noise, "NoiseStream", stream)


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    """A finished and recorded run over four hospitals with words of their own."""
    data, truth = in_own_words(load_set("breast-cancer"))
    folder = tmp_path_factory.mktemp("report") / "run"
    run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), data.train, seed=0, record=folder)
    return Case(run, data, truth)


@pytest.fixture(scope="session")
def disc_case():
    """A run over points that lie in the disc."""
    data = load_set("synthetic", points=600)
    return Case(fedgeom.run(fedgeom.Hulls(), data.train, seed=0), data, {})
