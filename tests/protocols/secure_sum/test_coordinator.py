"""The secure sum is exact, survives losses down to the threshold, and shows the coordinator nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare, kstest

from fedgeom.crypto import shamir
from fedgeom.crypto.masks import key_at, open_keys, proof_of
from fedgeom.data.sites import SiteData
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import decode, pack, unpack
from fedgeom.federation.policy import Policy
from fedgeom.federation.runner import LEAVES
from fedgeom.protocols.join import site as join_site
from fedgeom.protocols.join.coordinator import Joined
from fedgeom.protocols.join.messages import Hello, PublicKeys, lock_seal
from fedgeom.protocols.secure_sum.coordinator import Total
from fedgeom.protocols.secure_sum.messages import MaskedVector, UnmaskShares
from fedgeom.protocols.site import SecureMemory
from tests.protocols.summing import (
    ColumnSum,
    SumColumn,
    column_sum,
    joined,
    killer,
    make_sites,
    plain_sum,
    record,
    remembered,
    secure_sum,
    start,
)
from tests.tiers import examples

MODULI = [2**10, 1009, 2**32, 2**61 - 1, 2**62 + 2**61 + 3, 2**63 - 25, 2**63, 2**64]
PAIR = Policy(min_cohort=2)
STEPS = [
    ("join.hello", 1),
    ("join.meet", 1),
    ("join.share", 1),
    ("test.column", 1),
    ("sum.confirm", 1),
    ("sum.unmask", 1),
    ("test.column", 2),
    ("sum.confirm", 2),
    ("sum.unmask", 2),
]


@pytest.mark.parametrize("n", range(2, 13))
def test_the_secure_sum_is_the_plain_sum_for_every_number_of_sites(n: int) -> None:
    data = make_sites(n, seed=n)
    modulus = MODULI[n % len(MODULI)]
    sites, _ = start(data, policy=PAIR)
    (total,) = column_sum(sites, modulus=modulus)
    assert total.sites == tuple(site.name for site in data)
    assert (total.vector == plain_sum(data, total.sites, modulus)).all()


@pytest.mark.parametrize("modulus", MODULI)
def test_the_secure_sum_is_the_plain_sum_in_every_ring(modulus: int) -> None:
    data = make_sites(3, bound=min(modulus, 2**53))
    sites, _ = start(data)
    for total in column_sum(sites, modulus=modulus, rounds=2):
        assert (total.vector == plain_sum(data, total.sites, modulus)).all()


@examples(25)
@given(
    n=st.integers(2, 6),
    length=st.integers(0, 9),
    modulus=st.one_of(st.integers(2, 2**63), st.just(2**64)),
    seed=st.integers(0, 2**32),
)
def test_the_secure_sum_is_the_plain_sum(n: int, length: int, modulus: int, seed: int) -> None:
    data = make_sites(n, length=length, bound=min(modulus, 2**53), seed=seed)
    sites, _ = start(data, policy=PAIR)
    (total,) = column_sum(sites, modulus=modulus, length=length)
    assert total.vector.shape == (length,)
    assert total.vector.tolist() == plain_sum(data, total.sites, modulus).tolist()


def test_sixty_sites_on_a_ring_lattice_sum_exactly_though_some_vanish() -> None:
    data = make_sites(60)
    plan = {data[3].name: ("join.share", 1), data[20].name: ("test.column", 1), data[41].name: ("sum.confirm", 1)}
    sites, engine = start(data, interfere=killer(plan))
    (total,) = column_sum(sites, modulus=2**61 - 1)
    assert set(total.sites) == {site.name for site in data} - {data[3].name, data[20].name}
    assert (total.vector == plain_sum(data, total.sites, 2**61 - 1)).all()
    assert len(remembered(engine, data[0].name).joining.peers) == 48


def test_sites_and_coordinator_agree_on_the_neighbours() -> None:
    sites, engine = start(make_sites(60))
    cohort = joined(sites)
    for name in cohort.names:
        assert remembered(engine, name).joining.peers == cohort.joined.peers[name]


@pytest.mark.parametrize(("kind", "time"), STEPS)
@pytest.mark.parametrize("victim", range(5))
def test_each_site_killed_at_each_step_leaves_the_sum_of_the_rest(victim: int, kind: str, time: int) -> None:
    data = make_sites(5)
    name = data[victim].name
    sites, _ = start(data, interfere=killer({name: (kind, time)}))
    totals = column_sum(sites, modulus=2**61 - 1, rounds=2)
    died_at = STEPS.index((kind, time))
    for round, total in enumerate(totals):
        sent = died_at > STEPS.index(("test.column", round + 1))
        assert (name in total.sites) == sent
        assert len(total.sites) == 4 + sent
        assert (total.vector == plain_sum(data, total.sites, 2**61 - 1)).all()
    assert set(sites.lost) == {name}


@pytest.mark.parametrize(("kind", "time"), STEPS)
def test_a_site_that_misses_one_question_and_comes_back_does_no_harm(kind: str, time: int) -> None:
    data = make_sites(5)
    sites, _ = start(data, interfere=killer({data[2].name: (kind, time)}, for_good=False))
    for total in column_sum(sites, modulus=2**64, rounds=2):
        assert len(total.sites) >= 4
        assert (total.vector == plain_sum(data, total.sites, 2**64)).all()


@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("second", [STEPS[1], STEPS[2], STEPS[4], STEPS[5]])
def test_two_of_seven_sites_may_vanish_anywhere(first: tuple[str, int], second: tuple[str, int]) -> None:
    data = make_sites(7)  # five of seven shares are needed
    sites, _ = start(data, interfere=killer({data[1].name: first, data[5].name: second}))
    for total in column_sum(sites, modulus=1009, rounds=2):
        assert len(total.sites) >= 5
        assert (total.vector == plain_sum(data, total.sites, 1009)).all()


def shares_by_secret(answers: list[tuple[str, UnmaskShares]]) -> dict[tuple[str, str], set[str]]:
    """For each kind of secret and its owner: whose shares of it were given away."""
    given = defaultdict(set)
    for holder, answer in answers:
        for kind, shares in (("self", answer.self_shares), ("mask", answer.mask_shares)):
            for owner in shares:
                given[kind, owner].add(holder)
    return given


@pytest.mark.parametrize(("kind", "time"), STEPS[1:5])
def test_below_the_threshold_the_run_aborts_and_no_mask_can_be_removed(kind: str, time: int) -> None:
    data = make_sites(5)  # four of five shares are needed; three sites stay
    lost = {data[0].name, data[3].name}
    sites, recorder = record(data, interfere=killer(dict.fromkeys(lost, (kind, time))))
    with pytest.raises(TooFewSitesError) as caught:
        column_sum(sites, modulus=2**61 - 1)
    assert all(name in str(caught.value) for name in lost)
    assert "Nothing was revealed" in str(caught.value)
    for holders in shares_by_secret(recorder.answers(UnmaskShares)).values():
        assert len(holders) < Policy().holders_needed(5)


def test_below_the_policys_min_cohort_nobody_helps() -> None:
    data = make_sites(5)
    lost = {data[0].name: ("test.column", 1)}
    sites, recorder = record(data, policy=Policy(min_cohort=5), interfere=killer(lost))
    with pytest.raises(TooFewSitesError, match="asks for at least 5"):
        column_sum(sites, modulus=1009)
    assert not recorder.answers(UnmaskShares)


def test_a_cohort_below_the_policy_never_starts() -> None:
    sites, recorder = record(make_sites(2))
    with pytest.raises(TooFewSitesError, match="the policy of 's0000' asks for at least 3"):
        column_sum(sites, modulus=1009)
    assert not recorder.answers(MaskedVector)


def test_fewer_survivors_than_the_method_needs_abort_before_unmasking() -> None:
    data = make_sites(4)
    sites, recorder = record(data, interfere=killer({data[0].name: ("test.column", 1)}))
    cohort = joined(sites, min_sites=4)
    with pytest.raises(TooFewSitesError, match="with their masked vectors, 4 are needed"):
        cohort.sum_elements(SumColumn(), modulus=1009, length=7)
    assert not recorder.answers(UnmaskShares)


@pytest.mark.parametrize(("kind", "time"), STEPS)
def test_nobody_ever_gives_both_kinds_of_shares_of_one_site_in_a_round(kind: str, time: int) -> None:
    data = make_sites(5)
    sites, recorder = record(data, interfere=killer({data[2].name: (kind, time)}))
    column_sum(sites, modulus=2**64, rounds=2)
    for name, answer in recorder.answers(UnmaskShares):
        assert not set(answer.self_shares) & set(answer.mask_shares)
        assert name in answer.self_shares


@pytest.mark.parametrize("n", [5, 60])
def test_a_lost_site_that_left_wrong_keys_is_noticed_and_named(n: int) -> None:
    data = make_sites(n)
    lost = data[2].name
    sites, _ = start(data, interfere=killer({lost: ("test.column", 1)}))
    cohort = joined(sites)
    (locked,) = cohort.joined.locked[lost]
    cohort.joined.locked[lost] = (bytes([locked[0] ^ 1]) + locked[1:],)
    peer = cohort.joined.peers[lost][0]
    with pytest.raises(
        ProtocolError, match=f"'{lost}', which was lost, left another key for its mask with '{peer}'"
    ):
        cohort.sum_elements(SumColumn(), modulus=1009, length=7)


def test_a_site_that_leaves_no_keys_of_all_its_pairs_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    data, locks = make_sites(5), iter([False, False, True, False, False])
    real = join_site.lock
    monkeypatch.setattr(join_site, "lock", lambda keys, secret: real(keys, secret)[: -32 if next(locks) else None])
    sites, _ = start(data)
    (total,) = column_sum(sites, modulus=1009)
    assert data[2].name not in total.sites
    assert "left no locked keys of all its pairs" in sites.lost[data[2].name]


def test_what_opens_a_lost_sites_keys_in_one_sum_opens_them_in_no_other() -> None:
    data = make_sites(5)
    lost = data[2].name
    sites, recorder = record(data, interfere=killer({lost: ("test.column", 1)}))
    cohort = joined(sites, rounds=2)
    cohort.sum_elements(SumColumn(), modulus=1009, length=7)
    numbers, needed = cohort.joined.numbers(), cohort.joined.needed[lost]
    pieces = {numbers[h]: s.mask_shares[lost] for h, s in recorder.answers(UnmaskShares)}
    secret = shamir.recover(pieces, needed)
    first, second = (open_keys(locked, secret, 4) for locked in cohort.joined.locked[lost])
    other = cohort.joined.peers[lost][0]
    proofs = {h: s.proofs[lost] for h, s in recorder.answers(UnmaskShares)}
    assert proof_of(key_at(first, 0)) == proofs[other]
    assert lock_seal(secret) == cohort.joined.keys[lost].masks[0] != cohort.joined.keys[lost].masks[1]
    memory = remembered(recorder.engine, other).joining
    place = memory.peers.index(lost)
    assert key_at(first, 0) == key_at(memory.pair_keys[0], place)
    assert key_at(second, 0) != key_at(memory.pair_keys[1], place)


def test_a_site_lives_as_bytes_between_two_questions() -> None:
    sites, engine = start(make_sites(3))
    built: list[int] = []
    for runner in engine.runners.values():
        make = runner._site
        runner._site = lambda memory, make=make: built.append(1) or make(memory)  # type: ignore[method-assign]
    column_sum(sites, modulus=1009, rounds=2)
    assert len(built) == 3 * len(STEPS)  # a new site for each question
    assert all(type(memory) is bytes for memory in engine.memories.values())


def masked_values(value: int, runs: int, modulus: int, length: int = 100) -> np.ndarray:
    """Collect the masked vectors of sites that all hold the same value."""
    seen = []
    for _ in range(runs):
        data = [SiteData(f"s{i}", np.full((length, 1), float(value)), np.zeros(length)) for i in range(3)]
        sites, recorder = record(data)
        column_sum(sites, modulus=modulus, length=length)
        seen += [answer.vector.numpy() for _, answer in recorder.answers(MaskedVector)]
    return np.concatenate(seen)


def test_masked_vectors_are_uniform_and_do_not_depend_on_the_data() -> None:
    modulus = 251
    low, high = (masked_values(value, runs=40, modulus=modulus) for value in (0, modulus - 1))
    histograms = [np.bincount(values.astype(int), minlength=modulus) for values in (low, high)]
    for histogram in histograms:
        assert chisquare(histogram).pvalue > 1e-6
    assert chi2_contingency(histograms).pvalue > 1e-6


def test_masked_vectors_are_uniform_in_64_bits() -> None:
    values = masked_values(3, runs=20, modulus=2**64)
    assert kstest(values.astype(float) / 2**64, "uniform").pvalue > 1e-6
    low = np.bincount((values & np.uint64(15)).astype(int), minlength=16)
    assert chisquare(low).pvalue > 1e-6
    assert len(np.unique(values)) == len(values)


def test_the_masks_of_two_rounds_and_of_two_runs_differ_everywhere() -> None:
    data = make_sites(3)
    vectors = []
    for _ in range(2):
        sites, recorder = record(data)
        column_sum(sites, modulus=2**64, rounds=2)
        vectors += [a.vector.numpy() for name, a in recorder.answers(MaskedVector) if name == data[0].name]
    assert len(vectors) == 4
    for i in range(4):
        for j in range(i):
            assert (vectors[i] != vectors[j]).all()


def test_a_resumed_run_sends_the_same_masked_vectors_again() -> None:
    data = make_sites(4)
    sites, recorder = record(data)
    (first,) = column_sum(sites, modulus=2**64)
    sent = recorder.answers(MaskedVector)
    asked = [(name, request) for name, request, _ in recorder.seen]
    recorder.seen.clear()
    for name, request in asked:  # all questions again, to sites built from the stored bytes
        dict(recorder.deliver({name: request}))
    assert recorder.answers(MaskedVector) == sent
    assert (first.vector == plain_sum(data, first.sites, 2**64)).all()


def test_a_run_resumed_at_any_point_uses_no_mask_for_another_vector(caplog: pytest.LogCaptureFixture) -> None:
    data = make_sites(3)
    sites, recorder = record(data)
    column_sum(sites, modulus=2**64)
    name = data[0].name
    changed = SiteData(name, data[0].X + 1, data[0].y)
    runner, memory = recorder.engine.runners[name], recorder.engine.memories[name]
    runner._data = lambda: changed
    (request,) = [r for n, r, _ in recorder.seen if n == name and unpack(r).kind == SumColumn.kind]
    reply, memory = runner.answer(request, memory)
    assert unpack(reply).kind == "refusal"
    assert LEAVES.encode() in reply
    assert "has changed since it was first sent" in caplog.text
    assert b"has left this run" in runner.answer(request, memory)[0]


HELLO = Hello(rounds=2, terms=ColumnSum(rounds=2).terms(), participants=tuple(s.name for s in make_sites(3)))


def test_a_run_whose_memory_was_lost_has_other_keys() -> None:
    data = make_sites(3)
    sites, engine = start(data)
    before = sites.ask(HELLO, expect=PublicKeys)
    again = sites.ask(HELLO, expect=PublicKeys)
    assert dict(before) == dict(again)
    engine.memories.clear()
    after = sites.ask(HELLO, expect=PublicKeys)
    for name in before:
        assert before[name].letters != after[name].letters
        assert not set(before[name].masks) & set(after[name].masks)
        assert not set(before[name].seals) & set(after[name].seals)


def together(n: int = 4) -> tuple[Joined, list[SiteData]]:
    data = make_sites(n)
    sites, _ = start(data, policy=PAIR)
    return joined(sites).joined, data


def with_answers(cohort: Joined, change: Callable[[str, object], object], kind: str) -> Joined:
    """Let a lying site change its answers of one kind."""
    deliver = cohort.sites._engine.deliver

    def lie(requests):  # type: ignore[no-untyped-def]
        for name, reply in deliver(requests):
            frame = unpack(reply)
            if frame.kind == kind and name == "s0001":
                content = change(name, msgspec.msgpack.decode(frame.body))
                yield (
                    name,
                    msgspec.msgpack.encode(msgspec.structs.replace(frame, body=msgspec.msgpack.encode(content))),
                )
            else:
                yield name, reply

    cohort.sites._engine.deliver = lie
    return cohort


def total_of(cohort: Joined) -> Total:
    return secure_sum(cohort, 0, SumColumn(), modulus=2**61 - 1, length=7, participants=cohort.names, min_sites=2)


@pytest.mark.parametrize(
    "vector",
    [
        {"dtype": "u8", "shape": [6], "data": bytes(48)},
        {"dtype": "u8", "shape": [7], "data": b"\xff" * 56},
        {"dtype": "f8", "shape": [7], "data": bytes(56)},
        {"dtype": "u8", "shape": [7, 1], "data": bytes(56)},
        {"dtype": "u8", "shape": [0, 7], "data": b""},
        {"dtype": "O8", "shape": [7], "data": bytes(56)},
    ],
)
def test_a_site_that_sends_no_ring_elements_is_left_out(vector: dict[str, object]) -> None:
    cohort, data = together()
    total = total_of(with_answers(cohort, lambda name, old: {"vector": vector}, "sum.masked"))
    assert total.sites == ("s0000", "s0002", "s0003")
    assert set(cohort.sites.lost) == {"s0001"}
    assert (total.vector == plain_sum(data, total.sites, 2**61 - 1)).all()


def test_a_wrong_share_stops_the_run_instead_of_spoiling_the_sum() -> None:
    def spoil(name: str, old: dict) -> dict:
        return old | {"self_shares": {owner: bytes(33) for owner in old["self_shares"]}}

    cohort, _ = together(2)  # so that every share is needed
    with pytest.raises(ProtocolError, match=r"do not (fit|belong)"):
        total_of(with_answers(cohort, spoil, "sum.shares"))


def test_what_the_ledger_says_of_a_masked_vector_is_its_real_size() -> None:
    sites, recorder = record(make_sites(3))
    column_sum(sites, modulus=1009)
    sizes = [len(reply) for _, _, reply in recorder.seen]
    assert [entry.bytes for entry in sites.ledger] == sizes
    assert all(entry.reveals for entry in sites.ledger)


def test_secure_memory_survives_as_bytes() -> None:
    sites, engine = start(make_sites(3))
    column_sum(sites, modulus=1009)
    for memory in engine.memories.values():
        again = msgspec.msgpack.encode(msgspec.msgpack.decode(memory, type=SecureMemory))
        assert again == memory


def test_the_frame_of_another_method_is_refused() -> None:
    _, engine = start(make_sites(3))
    reply, _ = engine.runners["s0000"].answer(pack(bytes(32), ColumnSum.name + "x", Hello(rounds=1)), None)
    assert unpack(reply).kind == "refusal"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lost", [True, False])
def test_a_site_that_signs_for_another_sum_and_is_lost_then_is_named(known: bool, lost: bool) -> None:
    """The others refuse to unmask with it, unless it signs the list like them."""
    data = make_sites(5)
    sites, engine = start(data, interfere=killer({"s0002": ("sum.confirm", 1)} if lost else {}))
    sites.roster = engine.roster if known else None
    deliver = engine.deliver

    def spoilt(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in deliver(requests):
            frame = unpack(reply) if isinstance(reply, bytes) else None
            if frame is not None and name == "s0002" and frame.kind == MaskedVector.kind:
                answer = msgspec.structs.replace(decode(frame.body, MaskedVector), signature=bytes(64))
                reply = pack(sites.run, ColumnSum.name, answer)
            yield name, reply

    engine.deliver = spoilt  # type: ignore[method-assign]
    if not lost:
        (total,) = column_sum(sites, modulus=2**64)
        assert (total.vector == plain_sum(data, sites.names, 2**64)).all()
        return
    words = "'s0002' signed its masked vector" if known else "signature of 's0002' for 'masked' is not valid"
    with pytest.raises(TooFewSitesError, match=f"{words}.*Nothing was revealed"):
        column_sum(sites, modulus=2**64)
    assert ("s0002" in sites.left_out) == known
