"""The coordinator's first half: let every two sites compare their rows, and build the graph (lines 5 to 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import SEAL_BYTES, fingerprint
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Message, Question
from fedgeom.federation.plan import (
    Ask,
    Plan,
    Shape,
    Steps,
    array_size,
    bytes_size,
    map_header,
    map_size,
    number_size,
    text_size,
)
from fedgeom.federation.site import answers
from fedgeom.memo import memoize
from fedgeom.methods.xclp.core import is_labelled, shared_seed
from fedgeom.methods.xclp.labels import XclpPart
from fedgeom.methods.xclp.messages import (
    BeginComparison,
    CountRows,
    FirstRowMessages,
    Hashing,
    PairLetters,
    RelayRowMessages,
    Rows,
)
from fedgeom.methods.xclp.settings import Comparison, XclpSettings
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.hamming import OpenDistances, PackedBits, Variant, open_shares, plain_distances, variant
from fedgeom.protocols.pairwise import asks_first, deliver, open_from, seal_for
from fedgeom.protocols.secure_sum.rules import drawn_groups, own_group

if TYPE_CHECKING:
    import scipy.sparse as sp


_FRAME = 1024
"""What a letter's seal and a message's frame take, at most."""


WAVE_BYTES = 32 * 2**20
"""As many pairs are compared at once as keep every site's messages below this; a pair that takes more goes alone."""

Turns = dict[tuple[int, bool], int]
"""Bytes by turn, and whether they are written, not read."""
Wave = dict[str, tuple[str, ...]]
"""Who is compared with whom at a time: for each site its partners."""


def _pair_turns(comparison: str, bits: int, me: str, mine: int, partner: str, theirs: int) -> Turns:
    """Return the bytes that a site writes and reads at each turn with one partner.

    At turn 0 a site writes its first letters; at turn n it reads letters and answers each with the next one, or with
    its share.
    """
    first = asks_first(me, partner)
    turns = Turns()
    letters = _letter_sizes(comparison, *((mine, theirs) if first else (theirs, mine)), bits)
    for number, size in enumerate(letters):
        by_me = first == (number % 2 == 0)  # the two of them write in turn
        turns[number if by_me else number + 1, by_me] = size + _FRAME
    at = len(letters), True
    turns[at] = turns.get(at, 0) + 2 * mine * theirs + _FRAME
    return turns


@memoize(1024)  # many sites have as many rows
def _letter_sizes(comparison: str, asker: int, helper: int, bits: int) -> tuple[int, ...]:
    return variant(comparison).sizes(asker, helper, bits)


def largest_message(comparison: str, bits: int, me: str, rows: Mapping[str, int], *, own: bool = True) -> int:
    """Return the bytes of the largest message that a site writes or reads while rows are compared at once, about.

    ``rows`` has the number of rows of every site, ``me`` among them; with ``own``, distances within it are sent, too.
    """
    mine = rows[me]
    total = Turns({(0, True): (mine * (mine - 1) if own else 0) + _FRAME})
    for partner, theirs in rows.items():
        if partner != me:
            for turn, size in _pair_turns(comparison, bits, me, mine, partner, theirs).items():
                total[turn] = total.get(turn, 0) + size
    return max(total.values())


def plan_waves(comparison: str, bits: int, rows: Mapping[str, int]) -> list[Wave]:
    """Divide all pairs of sites into waves, so that no site has messages above `WAVE_BYTES` in one; mostly one will do.

    A pair whose letters alone are larger has a wave in which neither site has another partner.
    """
    waves: list[dict[str, list[str]]] = [{name: [] for name in rows}]
    loads: list[dict[str, Turns]] = [{name: {(0, True): rows[name] ** 2} for name in rows}]
    for one, other in circle_pairs(sorted(rows)):
        pair = (one, other), (other, one)
        turns = {me: _pair_turns(comparison, bits, me, rows[me], you, rows[you]) for me, you in pair}
        number = next((k for k in range(len(waves)) if _fits(waves[k], loads[k], turns)), len(waves))
        if number == len(waves):
            waves.append({})
            loads.append({})
        for me, you in pair:
            waves[number].setdefault(me, []).append(you)
            load = loads[number].setdefault(me, {})
            for turn, size in turns[me].items():
                load[turn] = load.get(turn, 0) + size
    return [{name: tuple(sorted(partners)) for name, partners in wave.items()} for wave in waves]


def circle_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield all pairs as in a tournament, round by round: in each, nobody plays twice."""
    ring = [*names, ""] if len(names) % 2 else list(names)
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        yield from ((a, b) for a, b in zip(ring[:half], reversed(ring[half:]), strict=True) if a and b)
        ring = [ring[0], ring[-1], *ring[1:-1]]


def _fits(wave: Mapping[str, Sequence[str]], load: Mapping[str, Turns], more: Mapping[str, Turns]) -> bool:
    """Say whether another pair can be compared in a wave; one that finds both sites free always can."""
    return all(
        not wave.get(me) or all(load[me].get(turn, 0) + size <= WAVE_BYTES for turn, size in turns.items())
        for me, turns in more.items()
    )


PAIRED = 64
"""Of more sites, where nobody has their tables, waves are reckoned and not dealt out pair by pair."""
PAIR_SECONDS: Mapping[Comparison, float] = {
    "bfv": 2e-8,
    "lattice": 1e-8,
    "ot": 1e-8,
    "paillier": 5e-7,
    "paillier-unpacked": 5e-5,
}
"""Seconds that each of two sites computes for a bit of two rows."""


def smaller_messages(settings: XclpSettings) -> str:
    """Say what makes the messages of a comparison smaller."""
    return (
        f'take graph="anchors", whose messages do not grow with the rows; or fewer hash_bits than '
        f"{settings.hash_bits:,}, or fewer rows, or groups of sites (n_groups)"
    )


class Turn(NamedTuple):
    """What a site reads and writes at one turn with one partner, in bytes; 0 for nothing."""

    read: int
    """The partner's letter."""
    written: int
    """The letter to it."""
    share: int
    """The share of the distances, for the coordinator."""


def turns_of(comparison: str, bits: int, me: str, mine: int, partner: str, theirs: int) -> list[Turn]:
    """Return a site's turns with one partner, to the byte (`_pair_turns` has room for frames)."""
    first = asks_first(me, partner)
    both = (mine, theirs) if first else (theirs, mine)
    letters = [SEAL_BYTES + size for size in _letter_sizes(comparison, *both, bits)]
    last = len(letters) if first else len(letters) - 1
    found = []
    for turn in range(len(letters) + 1):
        here = first == (turn % 2 == 0)  # the two of them write in turn
        read = letters[turn - 1] if here and turn else 0
        written = letters[turn] if here and turn < len(letters) else 0
        found.append(Turn(read, written, array_size("u2", *both) if turn == last else 0))
    return found


@dataclass(frozen=True)
class Comparisons(Steps):
    """The plan of `compare`: letters and shares of every two sites, wave after wave."""

    settings: XclpSettings
    rows: Mapping[str, int]
    """How many rows each of the sites has that are compared; 0: unknown."""
    round: int = 0
    bound: str = ""
    """What decides it, where the sites' tables are not known."""
    drawn: bool = False
    """Whether the sites are drawn later: then nobody knows who begins with whom."""

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield the questions of all waves; where rows are not known, those of one, without letters."""
        if not all(self.rows.values()):
            yield self._begin(shape)
            for number in range(variant(self.settings.hamming).passes):
                yield self._pass_on(shape, number + 1)
        elif self.drawn or (self.bound and len(self.rows) > PAIRED):
            yield from self._reckoned(shape)
        else:
            yield from self._dealt(shape)

    def _dealt(self, shape: Shape) -> Plan:
        """Yield the questions as pairs are dealt to waves."""
        rows = self.rows
        how = self.settings.hamming, self.settings.hash_bits
        for number, wave in enumerate(plan_waves(*how, rows)):
            turns = {
                me: {you: turns_of(*how, me, rows[me], you, rows[you]) for you in partners}
                for me, partners in wave.items()
            }
            pairs = sum(rows[me] * rows[you] for me, partners in wave.items() for you in partners)
            yield replace(
                self._begin(shape, number),
                to=tuple(wave),
                down={me: self._told(me, partners) for me, partners in wave.items()},
                up={me: _entries(turns[me], 0, "written") + self._own(me, number) for me in wave},
                work=self._seconds(pairs / len(wave)),
            )
            for turn in range(1, variant(how[0]).passes + 1):
                to = tuple(me for me in wave if any(one[turn].read for one in turns[me].values()))
                yield replace(
                    self._pass_on(shape, turn, number),
                    to=to,
                    down={me: _entries(turns[me], turn, "read") for me in to},
                    up={
                        me: _entries(turns[me], turn, "written") + _entries(turns[me], turn, "share") for me in to
                    },
                )

    def _reckoned(self, shape: Shape) -> Plan:
        """Yield at most what so many sites exchange: as if each wrote every letter of its comparisons."""
        most = max(self.rows.values())
        others = len(self.rows) - 1
        letters = [
            SEAL_BYTES + size for size in _letter_sizes(self.settings.hamming, most, most, self.settings.hash_bits)
        ]
        name = max(map(text_size, self.rows))
        entries = [name + bytes_size(size) for size in letters]
        share = name + array_size("u2", most, most)
        together = max(1, min(others, WAVE_BYTES // max(*letters, 2 * most**2)))
        waves = -(-others // together)
        partners = others / waves
        header = map_header(others)
        own = array_size("u2", most * (most - 1) // 2) / waves
        yield replace(
            self._begin(shape),
            times=waves,
            down=2 * header + others * (name + number_size(most)) + partners * name,
            up=header + partners * entries[0] + own,
            work=self._seconds(partners * most**2),
        )
        for turn in range(1, len(letters) + 1):
            written = entries[turn] if turn < len(letters) else 0
            shared = share if turn >= len(letters) - 1 else 0
            yield replace(
                self._pass_on(shape, turn),
                times=waves,
                down=header + partners * entries[turn - 1],
                up=2 * header + partners * (written + shared),
            )

    def _begin(self, shape: Shape, wave: int = 0) -> Ask:
        hashing = hashing_of(self.settings, shape.seed)
        question = BeginComparison(hashing=hashing, partners={}, wave=wave, round=self.round)
        return self._asked(question, FirstRowMessages(letters={}, own=Array.of(np.zeros(0, np.uint16))))

    def _pass_on(self, shape: Shape, number: int, wave: int = 0) -> Ask:
        hashing = hashing_of(self.settings, shape.seed)
        question = RelayRowMessages(hashing=hashing, number=number, letters={}, wave=wave, round=self.round)
        return self._asked(question, PairLetters(letters={}, shares={}))

    def _asked(self, question: Question, answer: Message) -> Ask:
        remedy = smaller_messages(self.settings)
        return Ask(question, answer, bound=self.bound, to=tuple(self.rows), remedy=remedy)

    def _seconds(self, pairs: float) -> float:
        """Return how long a site computes to compare so many pairs of rows."""
        return PAIR_SECONDS[self.settings.hamming] * self.settings.hash_bits * pairs

    def _told(self, me: str, partners: Sequence[str]) -> float:
        """Return the bytes of the partners' rows, and of who they are in this wave, where these are not all."""
        others = {one: count for one, count in self.rows.items() if one != me}
        size = sum(text_size(one) + number_size(count) for one, count in others.items())
        some = map_header(len(partners)) + sum(map(text_size, partners)) - 1
        return map_size(len(others), size) + (some if len(partners) < len(others) else 0)

    def _own(self, me: str, wave: int) -> int:
        """Return the bytes of the distances between a site's own rows, which it sends in the first wave."""
        pairs = 0 if wave else self.rows[me] * (self.rows[me] - 1) // 2
        return array_size("u2", pairs) - array_size("u2", 0)


def _entries(turns: Mapping[str, Sequence[Turn]], turn: int, what: Literal["read", "written", "share"]) -> float:
    """Return the bytes that a map of letters or shares by partner has more than an empty one."""
    found = {partner: getattr(one[turn], what) for partner, one in turns.items()}
    sizes = {partner: size if what == "share" else bytes_size(size) for partner, size in found.items() if size}
    return map_size(len(sizes), sum(text_size(partner) + size for partner, size in sizes.items()))


Distances = dict[tuple[str, str], npt.NDArray[np.uint16]]
"""For each pair of sites, the one who asked first, the distances between their rows; two bytes hold L = 65,528."""
Places = dict[str, tuple[int, int]]
"""For each site, where its rows begin and end in the graph."""

_TILE = 2048
"""Cosines take eight bytes where distances take two, so they are made a tile at a time."""


def hashing_of(settings: XclpSettings, seed: int) -> Hashing:
    """Return how rows are hashed in a run with this seed."""
    projection = b"" if settings.hidden_projection else shared_seed(seed)
    return Hashing(
        bits=settings.hash_bits,
        flip=float(settings.flip_probability),
        comparison=settings.hamming,
        seed=projection,
    )


def comparison(name: str, *, masked: bool) -> Variant:
    """Return how rows are compared: as the terms say, in a plain run openly."""
    return variant(name) if masked else OpenDistances()


def compare(settings: XclpSettings, cohort: Cohort, rows: dict[str, int], round: int = 0) -> Distances:
    """Let every two sites compare their rows; return the distances by pair, the one who asked first."""
    talk = _Comparison(settings, cohort, rows, hashing_of(settings, cohort.sites.seed), round)
    for number, wave in enumerate(plan_waves(settings.hamming, settings.hash_bits, rows)):
        talk.conduct(number, wave)
    return talk.distances()


class _Comparison:
    """The comparisons of all pairs, wave after wave."""

    def __init__(self, settings: XclpSettings, cohort: Cohort, rows: dict[str, int], hashing: Hashing, round: int):
        self._settings = settings
        self._sites = cohort.sites
        self._rows = rows
        self._hashing = hashing
        self._round = round
        self._min_sites = cohort.min_sites
        self._alive = set(rows)
        self._found = Distances()
        self._waiting: dict[tuple[str, str], npt.NDArray[Any]] = {}
        """Shares whose other half has not come yet, by sender and partner."""

    def conduct(self, wave: int, partners: Mapping[str, Sequence[str]]) -> None:
        """Let the pairs of a wave compare their rows; in the first, each site's own rows are compared as well."""
        first = self._sites.ask(self._begin(wave, partners), expect=FirstRowMessages)
        if not wave:
            first.need(self._min_sites, "with first letters")
            for name, answer in first.items():
                self._found[name, name] = _square(answer.own.numpy(), self._rows[name])
        self._alive -= set(first.missing)
        post = deliver({name: answer.letters for name, answer in first.items()}, self._alive)
        number = 1
        while post:
            asked = {
                name: RelayRowMessages(
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

    def _begin(self, wave: int, partners: Mapping[str, Sequence[str]]) -> dict[str, BeginComparison]:
        """Return the first question of a wave, to those that have a partner in it; of the first wave, to all."""
        questions = {}
        for name in sorted(self._alive & set(partners)):
            others = {one: count for one, count in self._rows.items() if one != name}
            now = tuple(one for one in partners[name] if one in self._alive)
            if now or not wave:
                some = None if len(now) == len(others) else now
                questions[name] = BeginComparison(
                    hashing=self._hashing, partners=others, now=some, wave=wave, round=self._round
                )
        return questions

    def _take(self, name: str, partner: str, share: npt.NDArray[Any]) -> None:
        """Take a site's share, and open the distances where the partner's is there."""
        other = self._waiting.pop((partner, name), None)
        if other is None:
            self._waiting[name, partner] = share
            return
        asker = name
        one = share
        helper = partner
        two = other
        if not asks_first(name, partner):
            (asker, one), (helper, two) = (helper, two), (asker, one)
        group = comparison(self._settings.hamming, masked=self._sites.masked).group
        self._found[asker, helper] = open_shares(one, two, self._settings.hash_bits, group).astype(np.uint16)

    def distances(self) -> Distances:
        """Return the distances between the sites that are left, by pair, the one who asked first."""
        alive = self._alive
        rows = self._rows
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

    n = max(end for _, end in places.values())
    setting = settings.setting
    found = Neighbours(n, setting.k, self_loops=setting.self_loops)
    for (one, other), H in sorted(distances.items()):
        for i in range(0, H.shape[0], _TILE):
            for j in range(i if one == other else 0, H.shape[1], _TILE):  # a diagonal block counts for both halves
                tile = H[i : i + _TILE, j : j + _TILE]
                true = (
                    debias(tile, settings.hash_bits, settings.flip_probability)
                    if settings.flip_probability
                    else tile
                )
                found.add(places[one][0] + i, places[other][0] + j, cosine_from_hamming(true, settings.hash_bits))
    return normalise(found.graph(power=setting.power))


def layout(names: Sequence[str], rows: dict[str, int]) -> Places:
    """Put the sites' rows one below the other, in alphabetical order of the sites."""
    places = {}
    at = 0
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


PURPOSE = b"hamming"


class CachedReply(msgspec.Struct, frozen=True):
    """What was answered to a partner's letter: asked again, the site says the very same.

    The other partner may have got the first answer, and a second one, made with new randomness, would not fit it.
    """

    heard: bytes
    """A hash of the letter that was answered: a state serves one letter only."""
    letter: bytes | None
    share: Array | None
    """(rows, partner's rows), u2"""


class Pair(msgspec.Struct, frozen=True):
    """How far the comparison with a partner has come."""

    theirs: int
    """How many rows the partner has."""
    state: bytes | None
    """The secret state for the next turn; None when there is none."""
    said: dict[int, CachedReply]
    """What this site said, by the number of the letter it answered; 0 is the beginning."""


class RowComparisonMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the comparisons with its partners."""

    pairs: dict[str, Pair] = {}
    hashing: bytes = b""
    """A hash of how rows are hashed: it is said once."""
    wave: int = -1
    """The wave that was begun last."""


class RowComparison(XclpPart[RowComparisonMemory]):
    """Compares the site's rows with those of every other site."""

    name: ClassVar[str] = "comparing"

    @answers(CountRows)
    def count_rows(self, ask: CountRows) -> Rows:
        """Open the mail and say how many rows there are."""
        self.keep_to(hide_labelled=ask.hide)
        self.check_round(ask.round)
        self.joining.check_many_enough(ask.members)
        self.joining.open_letters(ask.members, ask.letters)
        wanted = np.ones(len(self.site.data), bool) if ask.hide else is_labelled(self.site.table.y)
        return Rows(labelled=Array.of(wanted.astype(np.uint8)))

    def _variant(self, hashing: Hashing) -> Variant:
        return comparison(hashing.comparison, masked=self.site.masked)

    @property
    def _purpose(self) -> bytes:
        """What letters are sealed for: a partner that was told to make other features cannot open them."""
        return PURPOSE + self.features_hash

    def bits(self, hashing: Hashing) -> PackedBits:
        """Hash the rows with the projection that the sites share."""
        from fedgeom.geometry.graphs.lsh import flip_bits, hash_bits  # scipy.sparse: slow to import

        self.keep_to(
            hash_bits=hashing.bits,
            flip_probability=hashing.flip,
            hamming=hashing.comparison,
            hidden_projection=not hashing.seed,  # with a projection of its own a coordinator could look for rows
        )
        seed = hashing.seed or fingerprint(b"projection", self.joining.memory.secret)
        packed = hash_bits(self.rows, seed, hashing.bits)
        if hashing.flip:  # the same flips every time: a second draw would average the noise away
            packed = flip_bits(packed, hashing.flip, _Noise(fingerprint(b"flips", self.joining.memory.private)))
        return PackedBits(packed, hashing.bits)

    @answers(BeginComparison)
    def begin(self, ask: BeginComparison) -> FirstRowMessages:
        """Hash the rows, compare them among themselves, and write the first letters."""
        memory = self.memory
        me = self.site.name
        self.check_round(ask.round)
        if not self.joining.memory.secret:
            raise ProtocolError("the sites have no common secret yet")
        if me in ask.partners or not set(ask.partners) <= set(self.joining.memory.order):
            raise ProtocolError("the announced partners are not other members of the cohort")
        groups = drawn_groups(self.site)
        if groups and not set(ask.partners) <= set(groups[own_group(self.site)]):
            raise ProtocolError("the announced partners are not of the group that this site is drawn into")
        self.joining.check_many_enough({*ask.partners, me})
        self._check_hashing(ask.hashing)
        now = tuple(ask.partners) if ask.now is None else ask.now
        if not set(now) <= set(ask.partners):
            raise ProtocolError("the partners of this wave are not among those that were announced")
        self._check_wave(ask.wave, now)
        how = self._variant(ask.hashing)
        letters = {}
        most = self.site.policy.max_message_bytes
        if self._largest(ask, now) > most:  # how large would tell how many rows there are
            raise ProtocolError(
                f"the answers would be larger than the policy of {me!r} allows, max_message_bytes = "
                f'{most:,}; graph="anchors" or fewer hash_bits make messages smaller'
            )
        mine = self.bits(ask.hashing)
        if not set(now) & set(memory.pairs):
            self.forget()  # the waves before are over
            memory.pairs |= {partner: self._first(partner, ask.partners[partner], mine, how) for partner in now}
        memory.wave = ask.wave
        for partner in now:
            letter = self._recall(partner, 0, b"").letter
            if letter is not None:
                letters[partner] = letter
        return FirstRowMessages(letters=letters, own=Array.of(self._own(mine, ask.wave)))

    def _check_wave(self, wave: int, now: Sequence[str]) -> None:
        """Refuse waves out of their order, and partners whose wave was another."""
        memory = self.memory
        if wave == memory.wave:
            return
        if wave < memory.wave or (
            wave and memory.wave < 0
        ):  # all sites have a first one; not each is in every other
            raise ProtocolError(f"wave {wave} of comparisons was to begin after wave {memory.wave}")
        if wave and (not now or set(now) & set(memory.pairs)):
            raise ProtocolError(f"wave {wave} of comparisons has no partners, or some of an earlier wave")

    def _own(self, mine: PackedBits, wave: int) -> npt.NDArray[np.uint16]:
        """Return the distances between the site's own rows, which are told in the first wave."""
        if wave:
            return np.zeros(0, np.uint16)
        return plain_distances(mine, mine)[np.triu_indices(len(mine), 1)].astype(np.uint16)

    def _largest(self, ask: BeginComparison, now: Sequence[str]) -> int:
        """Return the size of the largest message of this wave's turns, and in the first one of any pair's to come.

        A site that leaves in the middle has cost the others their work.
        """
        how = ask.hashing
        me = self.site.name
        rows = {self.site.name: len(self.site.data), **ask.partners}
        waves = [tuple(now)] if ask.wave else [tuple(now), *((partner,) for partner in ask.partners)]
        known = ({one: rows[one] for one in (me, *some)} for some in waves)
        return max(largest_message(how.comparison, how.bits, me, some, own=not ask.wave) for some in known)

    def _check_hashing(self, hashing: Hashing) -> None:
        """Refuse to hash in another way than the site joined on, or than before: it could disclose more."""
        self.keep_to(
            hash_bits=hashing.bits,
            flip_probability=hashing.flip,
            hamming=hashing.comparison,
            hidden_projection=not hashing.seed,
        )
        if hashing.seed and hashing.seed != shared_seed(self.site.seed):
            raise ProtocolError("the projection does not follow from the run's seed")
        asked = fingerprint(msgspec.msgpack.encode(hashing))
        if self.memory.hashing and self.memory.hashing != asked:
            raise ProtocolError("distances of another kind were asked for before")
        self.memory.hashing = asked

    def _first(self, partner: str, theirs: int, mine: PackedBits, how: Variant) -> Pair:
        """Begin with a partner, or wait for its letter."""
        if not asks_first(self.site.name, partner):
            return Pair(theirs, None, {0: CachedReply(b"", None, None)})
        step = how.begin(mine, theirs)
        letter = seal_for(self.joining, partner, self._purpose, 1, step.letter or b"")
        return Pair(theirs, step.state, {0: CachedReply(b"", letter, None)})

    @answers(RelayRowMessages)
    def pass_on(self, ask: RelayRowMessages) -> PairLetters:
        """Answer the partners' letters; shares of finished pairs go to the coordinator."""
        memory = self.memory
        self.check_round(ask.round)
        if not memory.hashing:
            raise ProtocolError("letters came before the site began")
        if ask.wave != memory.wave:
            raise ProtocolError(f"letters of wave {ask.wave} came in wave {memory.wave}")
        self._check_hashing(ask.hashing)
        self._check_letters(ask)
        mine: PackedBits | None = None
        letters = {}
        shares = {}
        for partner, sealed in ask.letters.items():
            if partner not in memory.pairs:
                raise ProtocolError(f"{partner!r} is not a partner of this site")
            heard = fingerprint(sealed)
            if ask.number not in memory.pairs[partner].said:
                if mine is None:
                    mine = self.bits(ask.hashing)
                self._turn(partner, ask, sealed, mine)
            said = self._recall(partner, ask.number, heard)
            if said.letter is not None:
                letters[partner] = said.letter
            if said.share is not None:
                shares[partner] = said.share
        return PairLetters(letters=letters, shares=shares)

    def _check_letters(self, ask: RelayRowMessages) -> None:
        """Refuse letters whose answers would be larger than the policy allows, before any is computed."""
        how = self._variant(ask.hashing)
        rows = len(self.site.data)
        total = 0
        for partner in ask.letters:
            if partner in self.memory.pairs:
                theirs = self.memory.pairs[partner].theirs
                asker, helper = (rows, theirs) if asks_first(self.site.name, partner) else (theirs, rows)
                written = how.sizes(asker, helper, ask.hashing.bits)
                total += written[ask.number] if ask.number < len(written) else 2 * rows * theirs
        self.site.check_size(total, 1)

    def _recall(self, partner: str, number: int, heard: bytes) -> CachedReply:
        """Return what was said at a turn; another letter at the same turn is refused."""
        said = self.memory.pairs[partner].said.get(number)
        if said is None:
            raise ProtocolError(f"the comparison with {partner!r} is over")
        if said.heard != heard:
            raise ProtocolError(f"another letter from {partner!r} was answered at this turn before")
        return said

    def _turn(self, partner: str, ask: RelayRowMessages, sealed: bytes, mine: PackedBits) -> None:
        """Answer a partner's letter, once."""
        memory = self.memory
        how = self._variant(ask.hashing)
        pair = memory.pairs[partner]
        if not pair.said or ask.number < max(pair.said):
            raise ProtocolError(f"no letter from {partner!r} is expected any more")
        text = open_from(self.joining, partner, self._purpose, ask.number, sealed)
        first = asks_first(self.site.name, partner)
        if first and pair.state is None:
            raise ProtocolError(f"no letter from {partner!r} is expected any more")
        try:
            take = how.step_a if first else how.step_b
            step = take(mine, pair.theirs, pair.state, text)  # type: ignore[arg-type]
        except ProtocolError as error:  # how large a letter must be depends on how many rows there are here
            raise InputError(f"the letter from {partner!r} cannot be used: {error}") from error
        letter = (
            None
            if step.letter is None
            else seal_for(self.joining, partner, self._purpose, ask.number + 1, step.letter)
        )
        said = CachedReply(fingerprint(sealed), letter, None if step.share is None else Array.of(step.share))
        memory.pairs[partner] = Pair(pair.theirs, step.state, {**pair.said, ask.number: said})

    def forget(self) -> None:
        """Forget what was said to partners, which is megabytes, once all comparisons are over."""
        memory = self.memory
        memory.pairs = {name: Pair(pair.theirs, None, {}) for name, pair in memory.pairs.items()}


class _Noise:
    """Random bytes from a key, for flips that must come out the same each time."""

    def __init__(self, key: bytes):
        self._stream = KeyStream(key)

    def bytes(self, length: int, /) -> bytes:
        """Return the next bytes."""
        return self._stream.words(-(-length // 8)).tobytes()[:length]
