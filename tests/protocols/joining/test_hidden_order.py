"""The hidden order of Appendix B: from all the coordinator saw, guessing an owner is no better than chance."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import pytest
from scipy.stats import binomtest, chisquare

from fedgeom.crypto.keys import fingerprint
from fedgeom.federation.messages import decode, unpack
from fedgeom.protocols.join.messages import Letters, PublicKeys, cohort_seed, holder_numbers, seed_contributors
from fedgeom.protocols.join.site import JoinMemory
from fedgeom.protocols.secure_sum.messages import Confirmation, MaskedVector, UnmaskShares
from tests.protocols.summing import Recorder, column_sum, joined, make_sites, record, remembered, start

RUNS = {3: 300, 4: 300}
SIGNIFICANCE = 1e-6
"""Keys are new in each run, so a true law fails once in a million; a leak fails it by far (see the control)."""


@dataclass(frozen=True)
class View:
    """All that the coordinator has of one run, and (for scoring only) the truth."""

    run: bytes
    names: tuple[str, ...]
    seen: tuple[tuple[str, bytes, bytes], ...]
    truth: tuple[str, ...]
    """The sites by block."""
    memories: tuple[JoinMemory, ...]

    def first(self, kind: type) -> dict[str, object]:
        """Return each site's first answer of a kind."""
        found: dict[str, object] = {}
        for name, _, reply in self.seen:
            frame = unpack(reply)
            if frame.kind == kind.kind:
                found.setdefault(name, decode(frame.body, kind))
        return found

    @property
    def keys(self) -> dict[str, PublicKeys]:
        return self.first(PublicKeys)  # type: ignore[return-value]

    def transcript(self) -> bytes:
        return b"".join(request + reply for _, request, reply in self.seen)


@cache
def views(n: int) -> tuple[View, ...]:
    """Run the whole protocol many times and keep what the coordinator saw."""
    data, found = make_sites(n), []
    for _ in range(RUNS[n]):
        sites, recorder = record(data)
        column_sum(sites, modulus=2**61 - 1)
        found.append(
            View(
                sites.run,
                recorder.names,
                tuple(recorder.seen),
                true_order(recorder, sites.run),
                memories(recorder),
            )
        )
    return tuple(found)


def memories(recorder: Recorder) -> tuple[JoinMemory, ...]:
    return tuple(remembered(recorder.engine, name).joining for name in recorder.names)


def true_order(recorder: Recorder, run: bytes) -> tuple[str, ...]:
    engine = recorder.engine
    blocks = {
        name: engine.runners[name].restore(run, engine.memories[name]).joining.block for name in engine.names
    }
    return tuple(sorted(blocks, key=blocks.__getitem__))


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def by(value: Callable[[View, str], object]) -> Callable[[View], list[str]]:
    """Guess that the hidden order is the order of some number or bytes that belong to each site."""
    return lambda view: sorted(view.names, key=lambda name: (value(view, name), name))  # type: ignore[arg-type,return-value]


def by_hash_with(secret: Callable[[View], bytes]) -> Callable[[View], list[str]]:
    """Guess that the sites' secret is something the coordinator knows, and sort as they do."""
    return lambda view: sorted(view.names, key=lambda name: fingerprint(b"order", secret(view), name.encode()))


def first_contributor(view: View) -> str:
    return next(iter(holder_numbers(view.keys, cohort_seed(view.run, view.keys))))


STRATEGIES: dict[str, Callable[[View], list[str]]] = {
    "alphabet": by(lambda view, name: name),
    "ring order": lambda view: list(holder_numbers(view.keys, cohort_seed(view.run, view.keys))),
    "letter keys": by(lambda view, name: view.keys[name].letters),
    "hashed letter keys": by(lambda view, name: sha(view.keys[name].letters)),
    "mask keys": by(lambda view, name: view.keys[name].masks[0]),
    "seals": by(lambda view, name: view.keys[name].seals[0]),
    "signatures of keys": by(lambda view, name: view.keys[name].signature),
    "letters' lengths": by(lambda view, name: sum(map(len, view.first(Letters)[name].letters.values()))),
    "letters' nonces": by(lambda view, name: min(view.first(Letters)[name].letters.values())),
    "letters' last bytes": by(lambda view, name: min(v[::-1] for v in view.first(Letters)[name].letters.values())),
    "bytes sent": by(lambda view, name: sum(len(reply) for who, _, reply in view.seen if who == name)),
    "masked vectors": by(lambda view, name: bytes(view.first(MaskedVector)[name].vector.data)),
    "confirmations": by(lambda view, name: view.first(Confirmation)[name].signature),
    "shares given": by(lambda view, name: view.first(UnmaskShares)[name].self_shares[name]),
    "the run as secret": by_hash_with(lambda view: view.run),
    "the cohort as secret": by_hash_with(lambda view: cohort_seed(view.run, view.keys)),
    "nothing as secret": by_hash_with(lambda view: b""),
    "zeros as secret": by_hash_with(lambda view: bytes(32)),
    "a seed contributor's key as secret": by_hash_with(lambda view: view.keys[first_contributor(view)].letters),
    "a seed contributor's seal as secret": by_hash_with(lambda view: view.keys[first_contributor(view)].seals[0]),
    "a letter as secret": by_hash_with(lambda view: sha(*view.first(Letters)[view.names[0]].letters.values())),
    "all that was said as secret": by_hash_with(lambda view: sha(view.transcript())),
}  # fmt: skip


def hits(n: int, strategy: Callable[[View], list[str]], block: int) -> int:
    return sum(strategy(view)[block] == view.truth[block] for view in views(n))


@pytest.mark.full
@pytest.mark.parametrize("n", sorted(RUNS))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_coordinator_guesses_the_owner_of_a_block_no_better_than_chance(n: int, strategy: str) -> None:
    for block in (0, n - 1):
        right = hits(n, STRATEGIES[strategy], block)
        assert binomtest(right, RUNS[n], 1 / n).pvalue > SIGNIFICANCE, f"{right} of {RUNS[n]} right"


@pytest.mark.parametrize("n", sorted(RUNS))
def test_who_knows_the_secret_guesses_every_owner(n: int) -> None:
    """The control: the scoring above can fail."""
    insider = by_hash_with(lambda view: view.memories[0].secret)
    for block in range(n):
        assert hits(n, insider, block) == RUNS[n]
    assert binomtest(RUNS[n], RUNS[n], 1 / n).pvalue < SIGNIFICANCE


@pytest.mark.parametrize("n", sorted(RUNS))
def test_every_hidden_order_is_equally_likely(n: int) -> None:
    counted = Counter(view.truth for view in views(n))
    orders = list(permutations(views(n)[0].names))
    assert set(counted) <= set(orders)
    assert chisquare([counted[order] for order in orders]).pvalue > SIGNIFICANCE
    for name in views(n)[0].names:
        places = Counter(view.truth.index(name) for view in views(n))
        assert chisquare([places[block] for block in range(n)]).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("n", sorted(RUNS))
def test_all_sites_agree_on_the_order_and_each_has_a_place_of_its_own(n: int) -> None:
    for view in views(n):
        assert sorted(view.truth) == sorted(view.names)
        assert {memory.order for memory in view.memories} == {view.truth}
        assert len({memory.secret for memory in view.memories}) == 1


def test_no_two_runs_have_the_same_secret() -> None:
    secrets = [view.memories[0].secret for n in RUNS for view in views(n)]
    assert len(set(secrets)) == len(secrets)
    assert {len(secret) for secret in secrets} == {32}


@pytest.mark.parametrize("n", sorted(RUNS))
def test_no_secret_ever_passes_through_the_coordinators_hands(n: int) -> None:
    for view in views(n)[:50]:
        everything = view.transcript()
        for memory in view.memories:
            kept = [memory.secret, memory.seed_secret, memory.letter_secret, memory.private]
            for secret in [*kept, *memory.mask_secrets, *memory.self_seeds]:
                assert len(secret) == 32
                assert secret not in everything


@pytest.mark.parametrize("n", sorted(RUNS))
def test_all_letters_and_all_answers_of_a_step_have_the_same_length(n: int) -> None:
    for view in views(n)[:50]:
        letters = [letter for answer in view.first(Letters).values() for letter in answer.letters.values()]
        assert len(letters) == n * (n - 1)
        assert len({len(letter) for letter in letters}) == 1
        for kind in (PublicKeys, Letters, MaskedVector, Confirmation, UnmaskShares):
            sizes = {len(reply) for _, _, reply in view.seen if unpack(reply).kind == kind.kind}
            assert len(sizes) == 1


def test_with_many_sites_the_contributors_letters_differ_only_by_public_neighbourhood() -> None:
    sites, engine = start(make_sites(52))
    cohort = joined(sites).joined
    contributors = set(seed_contributors(list(cohort.numbers())))
    lengths: dict[tuple[bool, bool], set[int]] = {}
    for recipient, mail in cohort.mail.items():
        for sender, letter in mail.items():
            kind = (sender in contributors, sender in cohort.peers[recipient])
            lengths.setdefault(kind, set()).add(len(letter))
        assert contributors - {recipient} <= set(mail)
    assert all(len(sizes) == 1 for sizes in lengths.values())
    assert engine.memories


def test_losing_all_but_the_needed_sites_while_joining_leaves_a_secret() -> None:
    """Whoever is lost between showing keys and writing letters, the rest agree on an order."""
    data = make_sites(6)  # four of six are needed
    for gone in (data[:2], data[2:4], data[4:]):
        lost = {site.name for site in gone}
        sites, engine = start(
            data,
            interfere=lambda n, r, lost=lost: "gone" if n in lost and unpack(r).kind == "join.share" else None,
        )
        (total,) = column_sum(sites, modulus=1009)
        assert len(total.sites) == 4
        assert len({remembered(engine, name).joining.order for name in total.sites}) == 1
