"""The coordinator's first half: let every two sites compare their rows, and build the graph (lines 5 to 9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.errors import ProtocolError
from fedgeom.methods.xclp.core import shared_seed
from fedgeom.methods.xclp.messages import Begin, FirstLetters, Hashing, PairLetters, PassOn
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.hamming import open_shares, variant
from fedgeom.protocols.pairs import asks_first, deliver

if TYPE_CHECKING:
    import scipy.sparse as sp

Distances = dict[tuple[str, str], npt.NDArray[np.uint16]]
"""For each pair of sites, the one who asked first, the distances between their rows; two bytes hold L = 65,528."""
Places = dict[str, tuple[int, int]]
"""For each site, where its rows begin and end in the graph."""

_TILE = 2048
"""Cosines take eight bytes where distances take two, so they are made a tile at a time."""


def compare(settings: XclpSettings, cohort: Cohort, rows: dict[str, int], round: int = 0) -> Distances:
    """Let every two sites compare their rows; return the distances by pair, the one who asked first."""
    sites = cohort.sites
    seed = b"" if settings.hidden_projection else shared_seed(sites.seed)
    hashing = Hashing(bits=settings.bits, flip=float(settings.flip), comparison=settings.hamming, seed=seed)
    questions = {
        name: Begin(hashing=hashing, partners={n: k for n, k in rows.items() if n != name}, round=round)
        for name in rows
    }
    first = sites.ask(questions, expect=FirstLetters)
    first.need(settings.min_sites, "with first letters")
    group = variant(settings.hamming).group
    alive, found = set(first), {}
    waiting: dict[tuple[str, str], npt.NDArray[Any]] = {}
    """Shares whose other half has not come yet, by sender and partner."""
    for name, answer in first.items():
        found[name, name] = _square(answer.own.numpy(), rows[name])
    post = deliver({name: answer.letters for name, answer in first.items()}, alive)
    number = 1
    while post:
        asked = {
            name: PassOn(hashing=hashing, number=number, letters=post.get(name, {}), round=round)
            for name in sorted(post)
        }
        replies = sites.ask(asked, expect=PairLetters)
        alive -= set(replies.missing)
        for name, reply in replies.items():
            for partner, share in reply.shares.items():
                other = waiting.pop((partner, name), None)
                if other is None:
                    waiting[name, partner] = share.numpy()
                    continue
                (asker, one), (helper, two) = (name, share.numpy()), (partner, other)
                if not asks_first(name, partner):
                    (asker, one), (helper, two) = (helper, two), (asker, one)
                found[asker, helper] = open_shares(one, two, settings.bits, group).astype(np.uint16)
        post = deliver({name: reply.letters for name, reply in replies.items()}, alive)
        number += 1
    for one_site in sorted(alive):
        for other_site in sorted(alive):
            if one_site != other_site and asks_first(one_site, other_site):
                block = found.get((one_site, other_site))
                if block is None or block.shape != (rows[one_site], rows[other_site]):
                    raise ProtocolError(f"{one_site!r} and {other_site!r} did not finish their comparison")
    return {pair: H for pair, H in found.items() if set(pair) <= alive}


def neighbour_graph(settings: XclpSettings, distances: Distances, places: Places) -> sp.csr_array:
    """Build the normalised graph from the blocks of distances (lines 6 to 9)."""
    from fedgeom.geometry.graphs.knn import Neighbours, normalise  # scipy.sparse: slow to import
    from fedgeom.geometry.graphs.lsh import cosine_from_hamming, debias

    n, setting = max(end for _, end in places.values()), settings.setting
    found = Neighbours(n, setting.k, self_loops=setting.self_loops)
    for (one, other), H in sorted(distances.items()):
        for i in range(0, H.shape[0], _TILE):
            for j in range(i if one == other else 0, H.shape[1], _TILE):  # a diagonal block counts for both halves
                tile = H[i : i + _TILE, j : j + _TILE]
                true = debias(tile, settings.bits, settings.flip) if settings.flip else tile
                found.add(places[one][0] + i, places[other][0] + j, cosine_from_hamming(true, settings.bits))
    return normalise(found.graph(power=setting.power))


def layout(names: Sequence[str], rows: dict[str, int]) -> Places:
    """Put the sites' rows one below the other, in alphabetical order of the sites."""
    places, at = {}, 0
    for name in sorted(names):
        places[name] = (at, at + rows[name])
        at += rows[name]
    return places


def _square(upper: npt.NDArray[Any], n: int) -> npt.NDArray[np.uint16]:
    """Fill a symmetric matrix from its upper triangle."""
    if upper.shape != (n * (n - 1) // 2,) or upper.dtype != np.uint16:
        raise ProtocolError(
            f"{upper.size} distances ({upper.dtype}) within a site of {n} rows came; wanted {n * (n - 1) // 2} of "
            "two bytes"
        )
    full = np.zeros((n, n), np.uint16)
    full[np.triu_indices(n, 1)] = upper
    return full + full.T
