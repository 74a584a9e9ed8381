"""A site's look at a solution: the true one passes, a false one does not."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import ProtocolError
from fedgeom.methods.ridge import site
from fedgeom.methods.ridge.core import GRID, Solution, solve
from fedgeom.methods.ridge.site import SolutionMemory
from tests.methods.ridge.test_core import CLASSES, parts_of, problem


def looked_at(found: Solution, vectors: list, rows: list, given: float | str = "gcv") -> SolutionMemory:
    memory = SolutionMemory()
    memory.take(found.weights, found.alpha, found.freedom, given, found.weights.shape)
    for vector, one in zip(vectors, rows, strict=True):
        memory.look_at(vector, one)
    memory.conclude()
    return memory


@pytest.mark.parametrize("part", [60, 10_000])
@pytest.mark.parametrize("alpha", ["gcv", GRID[3], GRID[-1]])
def test_the_solution_of_the_sums_is_taken(part: int, alpha: float | str) -> None:
    F, y = problem()
    vectors, rows = parts_of(F * 10.0 ** np.arange(-6, 6), y, part=part)
    memory = looked_at(solve(vectors, rows, 12, CLASSES, alpha), vectors, rows, alpha)
    assert memory.good
    assert memory.remainder is None


def test_the_parts_of_folds_are_added_up() -> None:
    F, y = problem()
    own = np.arange(len(F)) % 3 == 0
    one, rows = parts_of(F[own], y[own])
    other, _ = parts_of(F[~own], y[~own])
    assert looked_at(solve([*one, *other], rows * 2, 12, CLASSES, "folds"), [*one, *other], rows * 2, "folds").good


@pytest.mark.parametrize("place", [(0, 0), (1, 2), (12, 1)])
def test_another_solution_is_refused(place: tuple[int, int]) -> None:
    F, y = problem()
    vectors, rows = parts_of(F, y)
    found = solve(vectors, rows, 12, CLASSES, 1.0)
    found.weights[place] += 1e-3
    with pytest.raises(ProtocolError, match="not that of the sums"):
        looked_at(found, vectors, rows, 1.0)


def test_the_solution_of_another_alpha_is_refused() -> None:
    F, y = problem()
    vectors, rows = parts_of(F, y)
    found = solve(vectors, rows, 12, CLASSES, GRID[8])
    with pytest.raises(ProtocolError, match="not that of the sums"):
        looked_at(Solution(found.weights, GRID[12], found.freedom, found.scale), vectors, rows)


@pytest.mark.parametrize(
    ("weights", "alpha", "freedom", "given", "words"),
    [
        (np.zeros((3, 2)), 1.0, 1.0, 2.0, "another alpha"),
        (np.zeros((3, 2)), 1.5, 1.0, "gcv", "another alpha"),
        (np.zeros((3, 2)), 1.0, 9.0, 1.0, "more degrees of freedom"),
        (np.zeros((2, 2)), 1.0, 1.0, 1.0, "not one of these features"),
        (np.full((3, 2), np.nan), 1.0, 1.0, 1.0, "not one of these features"),
        (np.zeros((3, 2), np.float32), 1.0, 1.0, 1.0, "not one of these features"),
    ],
)
def test_what_cannot_be_a_solution_is_refused_at_once(
    weights: np.ndarray, alpha: float, freedom: float, given: float | str, words: str
) -> None:
    with pytest.raises(ProtocolError, match=words):
        SolutionMemory().take(weights, alpha, freedom, given, (3, 2))


def test_a_part_before_the_solution_is_refused() -> None:
    with pytest.raises(ProtocolError, match="before the solution"):
        SolutionMemory().look_at(np.zeros(3), (0, 1))


def shown(vectors: list) -> list[memoryview]:
    """Return parts as they stand in messages."""
    return [memoryview(vector.tobytes()) for vector in vectors]


def test_the_same_bytes_are_looked_at_once_and_say_the_same_to_every_site(monkeypatch: pytest.MonkeyPatch) -> None:
    F, y = problem()
    vectors, rows = parts_of(F, y, part=60)
    found, calls = solve(vectors, rows, 12, CLASSES, 1.0), []
    true = site.summed_scores
    monkeypatch.setattr(site, "summed_scores", lambda *given: calls.append(1) or true(*given))
    memories = [SolutionMemory(), SolutionMemory(), SolutionMemory()]
    for memory in memories:
        memory.take(found.weights, 1.0, found.freedom, 1.0, found.weights.shape)
    for came, one in zip(shown(vectors), rows, strict=True):
        for memory in memories:
            memory.look_at(np.frombuffer(came), one, came=came)
    for memory in memories:
        memory.conclude()
    assert len(calls) == len(rows) > 1
    assert memories[0] == memories[1] == memories[2]


def test_other_weights_or_other_bytes_are_looked_at_anew() -> None:
    F, y = problem()
    vectors, rows = parts_of(F, y, part=10_000)
    found = solve(vectors, rows, 12, CLASSES, 1.0)
    (came,), (other,) = shown(vectors), shown([vectors[0] + 100 * (np.arange(len(vectors[0])) == 1)])

    def conclude(weights: np.ndarray, part: memoryview) -> None:
        memory = SolutionMemory()
        memory.take(weights, 1.0, found.freedom, 1.0, weights.shape)
        memory.look_at(np.frombuffer(part), rows[0], came=part)
        memory.conclude()

    conclude(found.weights, came)
    with pytest.raises(ProtocolError, match="not that of the sums"):
        conclude(found.weights * 1.01, came)
    conclude(found.weights, came)
    with pytest.raises(ProtocolError, match="not that of the sums"):
        conclude(found.weights, other)


def test_what_can_be_written_to_is_not_remembered() -> None:
    F, y = problem()
    vectors, rows = parts_of(F, y, part=10_000)
    found = solve(vectors, rows, 12, CLASSES, 1.0)
    changing = bytearray(vectors[0].tobytes())
    came = memoryview(changing).toreadonly()
    for spoilt in (False, True):
        memory = SolutionMemory()
        memory.take(found.weights, 1.0, found.freedom, 1.0, found.weights.shape)
        memory.look_at(np.frombuffer(came), rows[0], came=came)
        if spoilt:
            with pytest.raises(ProtocolError, match="not that of the sums"):
                memory.conclude()
        else:
            memory.conclude()
        changing[8:16] = np.float64(1e6).tobytes()
