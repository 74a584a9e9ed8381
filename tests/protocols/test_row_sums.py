"""Row sums: every site learns its own rows of the sum, and neither the coordinator nor anybody else more."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
import pytest

from fedgeom.crypto.masks import Ring
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import Array, Message, Name, Question, Refusal, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.plan import Plan, Shape, Sum
from fedgeom.federation.runner import LEAVES
from fedgeom.federation.settings import Between
from fedgeom.federation.site import Memory, Part, Site, answers
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.row_sums import MaskedRowSums, RowSums, RowSumsMemory
from fedgeom.protocols.secure_sum.messages import Confirm, MaskedVector, SumQuestion, Ticket, Unmask, Witness
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite
from tests.protocols.lying import ME, Lying, replace, stamped
from tests.protocols.summing import Interfere, killer
from tests.unlisted import unlisted

ROWS, COLUMNS = 2, 3
"""Each site's own rows, and the columns of every matrix."""


class SumMatrix(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.matrix"
    row_sum: ClassVar[bool] = True
    layout: dict[Name, tuple[int, int]]


class Taken(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.taken"


class TakeBlock(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.take"
    answer: ClassVar[type[Message]] = Taken
    of: Ticket
    block: Array


class MatrixMemory(SecureMemory, kw_only=True):
    row_sums: RowSumsMemory = msgspec.field(default_factory=RowSumsMemory)
    found: Array | None = None


class MatrixSite(SummingSite[MatrixMemory]):
    """A site whose table is its matrix."""

    memory_type: ClassVar[type[Memory]] = MatrixMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (RowSums,)
    row_sums: RowSums

    @answers(SumMatrix)
    def matrix(self, ask: SumMatrix) -> Contribution:
        height = max(end for _, end in ask.layout.values())
        return self.contribute(ask, self.data.X[:height].astype(np.uint64), own_rows=ask.layout[self.name])

    @answers(TakeBlock)
    def take(self, ask: TakeBlock) -> Taken:
        self.memory.found = Array.of(self.row_sums.unmask(ask.of, ask.block.numpy()))
        return Taken()


@unlisted
@dataclass(frozen=True, kw_only=True)
class MatrixSum(Method):
    name: ClassVar[str] = "matrix-sum"
    site: ClassVar[type[Site[Any]]] = MatrixSite
    attempts: Annotated[int, Between(1, 9)] = 2
    min_sites: int = 2

    def plan(self, shape: Shape) -> Plan:
        """Sum the matrix as often as it is tried; only the kind and number of the sums matter here."""
        for _ in range(self.attempts):
            yield Sum(SumMatrix(layout={}), length=0)


def matrices(n: int) -> list[SiteData]:
    rng = np.random.default_rng(n)
    return [
        SiteData(f"s{i:04d}", rng.integers(0, 1000, (ROWS * n, COLUMNS)).astype(float), np.zeros(ROWS * n))
        for i in range(n)
    ]


def layout(names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    return {name: (ROWS * at, ROWS * (at + 1)) for at, name in enumerate(names)}


def start(n: int, interfere: Interfere | None = None, **settings: Any) -> tuple[Cohort, EmbeddedEngine]:
    method = MatrixSum(**settings)
    engine = EmbeddedEngine(method, matrices(n), interfere=interfere)
    return join(Coordinator(engine, run=os.urandom(32), method=method.name), method), engine


def hidden_sum(cohort: Cohort, attempts: int = 2) -> MaskedRowSums:
    return cohort.sum_rows(
        lambda _, left: SumMatrix(layout=layout(left)), attempts=attempts, layout=layout, columns=COLUMNS
    )


def found(cohort: Cohort, engine: EmbeddedEngine, hidden: MaskedRowSums) -> dict[str, np.ndarray]:
    """Give each site its block and return what it reads there."""
    blocks = {name: TakeBlock(of=hidden.ticket, block=Array.of(block)) for name, block in hidden.blocks.items()}
    cohort.sites.ask(blocks, expect=Taken).need(len(blocks), "with their blocks")
    memories = {name: msgspec.msgpack.decode(engine.memories[name], type=MatrixMemory) for name in blocks}
    return {name: memory.found.numpy() for name, memory in memories.items() if memory.found is not None}


def wanted(n: int, left: Mapping[str, object]) -> dict[str, np.ndarray]:
    total = sum(site.X.astype(np.uint64) for site in matrices(n) if site.name in left)
    return {name: total[begin:end] for name, (begin, end) in layout(tuple(left)).items()}


@pytest.mark.parametrize("n", [3, 4, 7])
def test_every_site_reads_its_own_rows_of_the_sum(n: int) -> None:
    cohort, engine = start(n)
    hidden = hidden_sum(cohort)
    read, truth = found(cohort, engine, hidden), wanted(n, hidden.blocks)
    assert set(read) == {site.name for site in matrices(n)}
    for name in truth:
        assert np.array_equal(read[name], truth[name])
        assert not np.isin(hidden.blocks[name], truth[name].ravel()).any()  # to the coordinator it is random


def test_a_site_does_not_send_its_own_rows() -> None:
    lie = row_run(4)
    for name in lie.names:
        sent = lie.get(name, matrix(lie, name), MaskedVector).vector.numpy()
        assert sent.shape == ((4 - 1) * ROWS * COLUMNS,)


@pytest.mark.parametrize("victim", [0, 2])
def test_when_a_site_is_lost_the_sum_starts_anew_among_the_rest(victim: int) -> None:
    gone = f"s{victim:04d}"
    cohort, engine = start(5, killer({gone: ("test.matrix", 1)}))
    hidden = hidden_sum(cohort)
    assert hidden.ticket.round == 1
    assert gone not in hidden.blocks
    read, truth = found(cohort, engine, hidden), wanted(5, hidden.blocks)
    assert len(read) == 4
    assert all(np.array_equal(read[name], truth[name]) for name in truth)


def test_losses_in_every_attempt_end_the_run_and_reveal_nothing() -> None:
    cohort, _ = start(6, killer({"s0001": ("test.matrix", 1), "s0002": ("test.matrix", 2)}))
    with pytest.raises(TooFewSitesError, match="nothing was revealed"):
        hidden_sum(cohort)


def test_fewer_sites_than_the_method_needs_are_named() -> None:
    cohort, _ = start(4, killer({"s0001": ("test.matrix", 1)}), min_sites=4)
    with pytest.raises(TooFewSitesError, match="3 sites answered with their masked rows, 4 are needed"):
        hidden_sum(cohort)


@pytest.mark.parametrize(
    "vector", [np.zeros(5, np.uint64), np.zeros(3 * ROWS * COLUMNS), np.zeros((2, 9), np.uint64)]
)
def test_a_site_that_sends_no_fitting_matrix_is_left_out(vector: np.ndarray) -> None:
    cohort, engine = start(4)
    deliver, count = engine.deliver, itertools.count()

    def lying(requests: Mapping[str, bytes]) -> Any:
        for name, reply in deliver(requests):
            frame = unpack(reply)
            if name == ME and frame.kind == MaskedVector.kind and next(count) == 0:
                body = msgspec.msgpack.encode(MaskedVector(vector=Array.of(vector), signature=bytes(64)))
                reply = msgspec.msgpack.encode(msgspec.structs.replace(frame, body=body))
            yield name, reply

    engine.deliver = lying  # type: ignore[method-assign]
    hidden = hidden_sum(cohort)
    assert ME not in hidden.blocks
    assert "wrong size" in cohort.sites.lost[ME]
    assert ME in cohort.sites.left_out


# --- a coordinator that lies ---


def row_run(n: int = 4) -> Lying:
    """Return a run over matrices, joined."""
    lie = Lying(n, method=MatrixSum())
    for runner, own in zip(lie.engine.runners.values(), matrices(n), strict=True):
        runner._data = lambda own=own: own
    return lie.hello().share()


def matrix(lie: Lying, name: str, **changes: Any) -> SumMatrix:
    return stamped(SumMatrix(ticket=lie.ticket(name, **changes), layout=layout(lie.names)))


def summed_rows(lie: Lying) -> tuple[Ticket, dict[str, np.ndarray]]:
    sent = {name: lie.get(name, matrix(lie, name), MaskedVector).vector.numpy() for name in lie.names}
    return replace(matrix(lie, ME).ticket, letters={}), sent


@pytest.mark.parametrize("kind", [Confirm, Unmask])
def test_no_list_of_the_living_is_signed_in_a_row_sum(kind: type[Question]) -> None:
    """A mask key that "recovers" a lost site's masks would take all masks off the matrix it did send."""
    lie = row_run(5)
    summed_rows(lie)
    lists: dict[str, Any] = {"round": 0, "alive": lie.names[:4], "dropped": lie.names[4:]}
    extra = {"signatures": {}, "masked": {}} if kind is Unmask else {}
    for name in lie.names[:4]:
        lie.refused(name, kind(**lists, **extra), "round 0 is a row sum, of which nothing is unmasked")


@pytest.mark.parametrize("asked_before", [True, False])
def test_nor_by_witnesses(asked_before: bool) -> None:
    """Eight of twelve signatures would be enough to recover a mask key."""
    lie = row_run(12)
    few = lie.names[:4]
    ticket = replace(lie.ticket(ME, participants=few), letters={})
    question = stamped(SumMatrix(ticket=ticket, layout=layout(few)))
    if asked_before:
        ticket, _ = summed_rows(lie)
    for name in lie.names[4:]:
        ask = Witness(
            round=0,
            question_hash=question.ticket.question_hash,
            content=bytes(32),
            members=lie.names,
            participants=few,
            alive=few[:3],
            dropped=few[3:],
            letters=lie.mail[name],
        )
        reason = "another sum was asked for" if asked_before else "round 0 is a row sum"
        lie.refused(name, ask, reason)


def test_a_block_is_read_for_the_very_sum_that_the_site_took_part_in() -> None:
    lie = row_run(4)
    block = Array.of(np.zeros(ROWS * COLUMNS, np.uint64))
    lie.refused(ME, TakeBlock(of=matrix(lie, ME).ticket, block=block), "did not contribute to")
    ticket, _ = summed_rows(lie)
    for change in (
        {"round": 1},
        {"round": 2**40},
        {"modulus": "1"},
        {"modulus": "1009"},
        {"participants": lie.names[:3]},
        {"participants": ("mallory",)},
        {"members": ()},
        {"question_hash": bytes(32)},
    ):
        lie.refused(ME, TakeBlock(of=replace(ticket, **change), block=block), "did not contribute to")
    for wrong in (np.zeros(5, np.uint64), np.zeros(ROWS * COLUMNS), np.zeros((ROWS, COLUMNS), np.uint64)):
        lie.refused(ME, TakeBlock(of=ticket, block=Array.of(wrong)), "the block that came back has the wrong size")
    lie.get(ME, TakeBlock(of=ticket, block=block), Taken)


def test_a_second_matrix_in_a_round_is_refused_and_the_first_may_be_repeated() -> None:
    lie = row_run(4)
    first = lie.get(ME, matrix(lie, ME), MaskedVector)
    lie.refused(ME, matrix(lie, ME, participants=lie.names[:3]), "used for another question already")
    assert lie.ask(ME, matrix(lie, ME)) == first
    changed = matrices(4)[0]
    changed = SiteData(changed.name, changed.X + 1, changed.y)
    lie.engine.runners[ME]._data = lambda: changed
    said = lie.ask(ME, matrix(lie, ME))
    assert said == Refusal(reason=LEAVES)  # it depends on the data, so the site leaves
    lie.refused(ME, matrix(lie, ME), "has left this run")


def test_a_site_without_peers_sends_nothing() -> None:
    lie = row_run(4)
    summed_rows(lie)
    site = lie.as_site(ME)
    site.joining.memory.peers = ()
    with pytest.raises(ProtocolError, match="no peer is left to mask with"):
        site.row_sums.mask(lie.ticket(ME, round=1), np.zeros((8, COLUMNS), np.uint64), (0, ROWS))


def test_masks_of_two_sites_cancel_in_every_block_but_their_own() -> None:
    """By hand, from the masked matrices: what is left of the sum outside the owners' blocks is the plain sum."""
    lie = row_run(3)
    _, sent = summed_rows(lie)
    ring, rows = Ring(2**64), layout(lie.names)
    total = np.zeros((3 * ROWS, COLUMNS), np.uint64)
    for name, part in sent.items():
        begin, end = rows[name]
        padded = np.insert(part.reshape(-1, COLUMNS), [begin] * ROWS, 0, axis=0)
        assert (padded[begin:end] == 0).all()
        total = ring.add(total.ravel(), padded.ravel()).reshape(total.shape)
    for name in lie.names:
        begin, end = rows[name]
        masks = lie.as_site(name).row_sums._masks(matrix(lie, name).ticket, total.size).reshape(total.shape)
        others = sum(site.X.astype(np.uint64) for site in matrices(3) if site.name != name)
        assert np.array_equal(total[begin:end] + masks[begin:end], others[begin:end])
    assert not isinstance(lie.ask(ME, matrix(lie, ME)), Refusal)
