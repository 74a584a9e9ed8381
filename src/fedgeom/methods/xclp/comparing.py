"""The coordinator's first half: let every two sites compare their rows, and build the graph (lines 5 to 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.errors import ProtocolError
from fedgeom.methods.xclp.core import shared_seed
from fedgeom.methods.xclp.message_sizes import plan_waves
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
    seed = b"" if settings.hidden_projection else shared_seed(cohort.sites.seed)
    hashing = Hashing(bits=settings.bits, flip=float(settings.flip), comparison=settings.hamming, seed=seed)
    talk = _Comparison(settings, cohort, rows, hashing, round)
    for number, wave in enumerate(plan_waves(settings.hamming, settings.bits, rows)):
        talk.hold(number, wave)
    return talk.distances()


class _Comparison:
    """The comparisons of all pairs, wave after wave."""

    def __init__(self, settings: XclpSettings, cohort: Cohort, rows: dict[str, int], hashing: Hashing, round: int):
        self._settings, self._sites, self._rows = settings, cohort.sites, rows
        self._hashing, self._round = hashing, round
        self._alive, self._found = set(rows), Distances()
        self._waiting: dict[tuple[str, str], npt.NDArray[Any]] = {}
        """Shares whose other half has not come yet, by sender and partner."""

    def hold(self, wave: int, partners: Mapping[str, Sequence[str]]) -> None:
        """Let the pairs of a wave compare their rows; in the first, each site's own rows are compared as well."""
        first = self._sites.ask(self._begin(wave, partners), expect=FirstLetters)
        if not wave:
            first.need(self._settings.min_sites, "with first letters")
            for name, answer in first.items():
                self._found[name, name] = _square(answer.own.numpy(), self._rows[name])
        self._alive -= set(first.missing)
        post = deliver({name: answer.letters for name, answer in first.items()}, self._alive)
        number = 1
        while post:
            asked = {
                name: PassOn(
                    hashing=self._hashing, number=number, letters=post[name], wave=wave, round=self._round
                )
                for name in sorted(post)
            }
            replies = self._sites.ask(asked, expect=PairLetters)
            self._alive -= set(replies.missing)
            for name, reply in replies.items():
                for partner, share in reply.shares.items():
                    self._take(name, partner, share.numpy())
            post = deliver({name: reply.letters for name, reply in replies.items()}, self._alive)
            number += 1

    def _begin(self, wave: int, partners: Mapping[str, Sequence[str]]) -> dict[str, Begin]:
        """Return the first question of a wave, to those that have a partner in it; of the first wave, to all."""
        questions = {}
        for name in sorted(self._alive & set(partners)):
            others = {one: count for one, count in self._rows.items() if one != name}
            now = tuple(one for one in partners[name] if one in self._alive)
            if now or not wave:
                some = None if len(now) == len(others) else now
                questions[name] = Begin(
                    hashing=self._hashing, partners=others, now=some, wave=wave, round=self._round
                )
        return questions

    def _take(self, name: str, partner: str, share: npt.NDArray[Any]) -> None:
        """Take a site's share, and open the distances where the partner's is there."""
        other = self._waiting.pop((partner, name), None)
        if other is None:
            self._waiting[name, partner] = share
            return
        (asker, one), (helper, two) = (name, share), (partner, other)
        if not asks_first(name, partner):
            (asker, one), (helper, two) = (helper, two), (asker, one)
        group = variant(self._settings.hamming).group
        self._found[asker, helper] = open_shares(one, two, self._settings.bits, group).astype(np.uint16)

    def distances(self) -> Distances:
        """Return the distances between the sites that are left, by pair, the one who asked first."""
        alive, rows = self._alive, self._rows
        for one_site in sorted(alive):
            for other_site in sorted(alive):
                if one_site != other_site and asks_first(one_site, other_site):
                    block = self._found.get((one_site, other_site))
                    if block is None or block.shape != (rows[one_site], rows[other_site]):
                        raise ProtocolError(f"{one_site!r} and {other_site!r} did not finish their comparison")
        return {pair: H for pair, H in self._found.items() if set(pair) <= alive}


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
