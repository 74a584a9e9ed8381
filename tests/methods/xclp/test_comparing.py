"""The coordinator's first half: rows laid out by name, and the graph that the twin builds from pooled bits."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import XCLP
from fedgeom.data.sites import SiteData
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import unpack
from fedgeom.geometry.graphs.knn import knn_graph, normalise
from fedgeom.geometry.graphs.lsh import cosine_from_hamming, debias, hamming, hash_bits
from fedgeom.methods.xclp import distances
from fedgeom.methods.xclp.distances import _square, layout, neighbour_graph


def test_rows_lie_below_each_other_in_alphabetical_order() -> None:
    assert layout(("b", "c", "a"), {"a": 2, "b": 3, "c": 1, "d": 9}) == {"a": (0, 2), "b": (2, 5), "c": (5, 6)}


def test_a_triangle_makes_a_symmetric_square() -> None:
    found = _square(np.array([1, 2, 3], np.uint16), 3)
    assert found.tolist() == [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    for wrong in (np.zeros(2, np.uint16), np.zeros(3, np.int64)):
        with pytest.raises(ProtocolError, match="wanted 3 of two bytes"):
            _square(wrong, 3)


@pytest.mark.parametrize("variant", ["ours", "paper", "code"])
@pytest.mark.parametrize("flip", [0.0, 0.1])
@pytest.mark.parametrize("tile", [4, 2048])
def test_the_graph_from_blocks_is_the_graph_of_all_rows(
    variant: str, flip: float, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distances, "_TILE", tile)
    rng = np.random.default_rng(0)
    bits = hash_bits(rng.normal(size=(30, 6)), bytes(32), 256)
    places = {"a": (0, 7), "b": (7, 18), "c": (18, 30)}
    method = XCLP(hash_bits=256, variant=variant, flip_probability=flip)  # type: ignore[arg-type]
    blocks = {}
    for one, other in (("a", "a"), ("b", "a"), ("a", "c"), ("b", "b"), ("b", "c"), ("c", "c")):
        rows, columns = bits[slice(*places[one])], bits[slice(*places[other])]
        blocks[one, other] = hamming(rows, columns, 256).astype(np.uint16)
    H = hamming(bits, bits, 256).astype(float)
    cosine = cosine_from_hamming(debias(H, 256, flip) if flip else H, 256)
    setting = method.setting
    whole = normalise(knn_graph(cosine, setting.k, power=setting.power, self_loops=setting.self_loops))
    found = neighbour_graph(method, blocks, places)
    np.testing.assert_allclose(found.toarray(), whole.toarray(), atol=1e-12)


def drawn(rows: int = 12) -> list[SiteData]:
    rng = np.random.default_rng(3)
    return [
        SiteData(f"s{k}", rng.normal(size=(rows, 5)), np.array(["a", "b", ""] * (rows // 3))) for k in range(5)
    ]


def test_waves_bring_the_same_labels_as_all_pairs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    method = XCLP(hash_bits=64, hidden_projection=False)
    at_once = fedgeom.run(method, drawn())
    monkeypatch.setattr(distances, "WAVE_BYTES", 1)  # one pair at a time for each site
    waves = fedgeom.run(method, drawn())
    assert not waves.lost
    assert max(entry.step for entry in waves.ledger) == max(entry.step for entry in at_once.ledger) + 4 * 3
    for name, local in at_once.local.items():
        assert local["labels"] == waves.local[name]["labels"]
        assert local["confidences"] == waves.local[name]["confidences"]


def test_a_site_that_is_lost_in_a_wave_takes_its_own_pairs_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "WAVE_BYTES", 1)
    begun: dict[str, int] = {}

    def interfere(name: str, request: bytes) -> str | None:
        begun[name] = begun.get(name, 0) + (unpack(request).kind == "xclp.begin")
        return "killed" if name == "s2" and begun[name] == 3 else None

    run = fedgeom.run(XCLP(hash_bits=64), drawn(), interfere=interfere)
    assert set(run.lost) == {"s2"}
    assert all(run.local[name]["labels"] for name in ("s0", "s1", "s3", "s4"))
