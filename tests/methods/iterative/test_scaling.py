"""The common scale: the mean and deviation of the pooled columns, from sums."""

from __future__ import annotations

import tracemalloc
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedgeom
from fedgeom import FedAvg, FedRoD, SiteData
from fedgeom.methods.iterative import MLP, setup
from fedgeom.methods.iterative.setup import column_sums, fixed_scale, scale_from, scaled, site_sums
from tests.methods.iterative.making import unlike, whole

tables = st.tuples(st.integers(1, 12), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(-999, 999).map(lambda number: number / 7))
)


def test_sums_by_hand():
    assert column_sums(np.array([[1.0, 2.0], [3.0, -4.0]])).tolist() == [2, 4, -2, 10, 20]


@given(tables, st.integers(1, 11))
def test_sums_add_across_sites_and_give_the_pooled_scale(X, at):
    parts = column_sums(X[:at]) + column_sums(X[at:])
    assert parts == pytest.approx(column_sums(X))
    centre, spread = scale_from(parts)
    assert centre == pytest.approx(X.mean(axis=0), abs=1e-9)
    deviation = X.std(axis=0)
    assert spread == pytest.approx(np.where(deviation < 0.003, 1.0, deviation), abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e4, 1e-6])
def test_a_constant_column_is_divided_by_one(value):
    """Also where the sums were rounded, as secure sums are."""
    X = np.full((7, 1), value)
    sums = column_sums(X)
    for noise in (0.0, 2.0**-20):
        centre, spread = scale_from(sums + noise * np.array([0, 1, 1]))
        assert centre == pytest.approx([value], abs=1e-6)
        assert spread[0] == 1.0


def test_no_rows():
    centre, spread = scale_from(np.zeros(5))
    assert centre.tolist() == [0, 0]
    assert spread.tolist() == [1, 1]


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_a_run_on_images_keeps_no_double_rows(kind):
    """As the sites' own sums of columns, block by block, are those of all rows."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5000, 1, 3, 3)).astype(kind)
    site = SiteData("s", images, np.zeros(5000))
    wanted = column_sums(images.reshape(5000, 9).astype(np.float64))
    assert site_sums(site) == pytest.approx(wanted, rel=1e-12)
    sites = [SiteData(f"site {at}", images[at : at + 20], np.arange(20) % 2) for at in range(3)]
    method = FedAvg(network=MLP(hidden=4), n_rounds=1, steps=1)
    pytest.importorskip("torch")
    fedgeom.run(method, sites, seed=0)
    assert not any("X" in vars(one) for one in (site, *sites))


def test_bytes_are_never_made_double():
    rows, centre, spread = np.full((500, 800), 51, np.uint8), np.zeros(800), np.full(800, 255.0)
    tracemalloc.start()
    found = scaled(rows, centre, spread, np.float32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.dtype == np.float32
    assert found == pytest.approx(0.2, abs=1e-7)
    assert peak < 1.2 * found.nbytes


def test_double_rows_are_scaled_in_double_and_then_rounded():
    rows, centre, spread = np.array([[1e8 + 1.0]]), np.array([1e8]), np.array([2.0])
    assert scaled(rows, centre, spread, np.float64).tolist() == [[0.5]]
    assert scaled(rows, centre, spread, np.float32).tolist() == [
        [0.5]
    ]  # 1e8 + 1 has no single-precision neighbour


def test_pixels_are_brought_to_one():
    assert [part.tolist() for part in fixed_scale("pixels", 2)] == [[0.0, 0.0], [255.0, 255.0]]
    assert [part.tolist() for part in fixed_scale("none", 1)] == [[0.0], [1.0]]
    assert fixed_scale("joint", 1) is None
    sites = unlike()
    pixels = [type(site)(site.name, 255 * site.X, site.y) for site in sites]
    bare, scaled_down = (
        FedAvg(scale="none", n_rounds=2).plain(sites),
        FedAvg(scale="pixels", n_rounds=2).plain(pixels),
    )
    assert whole(scaled_down.model) == pytest.approx(whole(bare.model), abs=1e-9)
    assert scaled_down.model.predict(pixels[0].X).tolist() == bare.model.predict(sites[0].X).tolist()


# --- large tables ---


class OwnRows(FedAvg):
    """Looks at rows itself, as algorithms of others do."""

    name: ClassVar[str] = "own-rows"

    def local(self, task, given, own):
        assert (task.X[:3] @ np.ones(task.X.shape[1])).shape == (3,)
        own["mean"] = float(np.mean(task.X) + (2 * task.X).max() + task.X[0, 0] + task.X.sum(axis=0)[0])
        return super().local(task, given, own)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("rule", [FedAvg, FedRoD, OwnRows])
def test_rows_converted_where_they_are_used_give_the_same_model(kind, rule, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(0)
    sites = [
        fedgeom.SiteData(name, rng.integers(0, 200, (40, 12)).astype(kind), np.tile(["a", "b"], 20))
        for name in ("x", "y", "z")
    ]
    method = rule(network="mlp", n_rounds=2, validation_fraction=0.2, personal="finetuned")
    usual = fedgeom.run(method, sites, seed=0)
    chances = usual.model.for_site(usual.local["x"]).predict_proba(sites[0].table)
    monkeypatch.setattr(setup, "CONVERTED_AT_ONCE", 0)
    found = fedgeom.run(method, sites, seed=0)
    assert found.model.to_bytes() == usual.model.to_bytes()
    own = found.model.for_site(found.local["x"])
    np.testing.assert_array_equal(own.predict_proba(sites[0].table), chances)


def test_rows_of_scaled_rows_are_those_of_the_array():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 255, (50, 4)).astype(np.uint8)
    given = table, np.ones(4), np.full(4, 2.0), np.float32
    whole = scaled(*given)
    lazy = setup.ScaledRows(*given)
    for at in (slice(3, 9), slice(None, None, -2), slice(0), rng.integers(0, 50, 7), [1, 2], rng.random(50) < 0.3):
        assert lazy[at].shape == whole[at].shape
        np.testing.assert_array_equal(lazy[at], whole[at])
        np.testing.assert_array_equal(lazy[at][:2], whole[at][:2])
    np.testing.assert_array_equal(lazy[10:40][np.arange(30) % 3 == 0], whole[10:40][np.arange(30) % 3 == 0])
    np.testing.assert_array_equal(lazy[3], whole[3])
    np.testing.assert_array_equal(lazy @ np.ones(4) + lazy.sum(axis=1), whole @ np.ones(4) + whole.sum(axis=1))
    assert lazy[2, 1] == whole[2, 1]


@pytest.mark.full
def test_no_copy_of_a_large_table_is_made(tmp_path):
    """A site's rows may be a file that is larger than its memory."""
    pytest.importorskip("torch", reason="torch is not installed")
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", np.uint8, (450_000, 40))
    rows[::7] = 3
    rows.flush()
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    sites = [
        fedgeom.SiteData(str(k), mapped[150_000 * k :][:150_000], np.arange(150_000) % 2 == 0) for k in range(3)
    ]
    tracemalloc.start()
    fedgeom.run(FedAvg(network="mlp", n_rounds=1, steps=2, scale="pixels"), sites, seed=0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * mapped.size  # what a copy in single precision would take
