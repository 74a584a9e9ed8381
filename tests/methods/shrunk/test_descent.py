"""Newton's steps descend to the pooled optimum, and a state that was stored goes on as if it had not been."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom.methods.shrunk.core import Descent, Terms, profile, site_terms, terms_length
from tests.methods.shrunk.making import outcomes


def descend(summed, ridges: np.ndarray, folds: int, columns: int, steps: int) -> np.ndarray:
    """Take all steps, one sum over the sites per step."""
    state = Descent.start(len(ridges), folds, columns)
    for _ in range(steps):
        state.take(summed(state.at.numpy()), ridges)
    return state.good.numpy()


@pytest.mark.parametrize("ridge", [0.5, 10.0, 300.0])
def test_sums_descend_to_the_pooled_optimum(ridge: float) -> None:
    X, y = outcomes(rows=90)
    sites = [(X[at::3], y[at::3]) for at in range(3)]

    def summed(directions: np.ndarray) -> Terms:
        parts = [site_terms(a, b[None], np.zeros(len(b), np.int64), directions) for a, b in sites]
        flat = np.sum([part.flat() for part in parts], axis=0)
        assert len(flat) == terms_length((1, 2), 3)
        return Terms.read(flat, (1, 2), 3)

    found = descend(summed, np.array([ridge]), 2, 3, 12)[0, 1]
    gradient = ridge * found + np.sum([profile(a, b, found)[1] for a, b in sites], axis=0)
    assert np.abs(gradient).max() < 1e-8
    left_out = descend(summed, np.array([ridge]), 2, 3, 12)[0, 0]  # all rows of fold 0: nothing to learn
    assert not left_out.any()


def test_a_step_too_far_is_halved_from_where_it_began() -> None:
    """Far from the optimum Newton overshoots on √(1+w²): without halving it would run away, with it 0 is found."""

    def summed(at: np.ndarray) -> Terms:
        w = at[..., 0] - 3.0
        root = np.sqrt(1 + w**2)
        return Terms(root, (w / root)[..., None], (root**-3)[..., None, None])

    found = descend(summed, np.array([0.0]), 1, 1, 60)
    assert found[0, 0, 0] == pytest.approx(3.0, abs=1e-6)


def test_a_state_that_was_stored_goes_on_where_it_was() -> None:
    X, y = outcomes(rows=60)
    ridges, fold = np.array([1.0, 10.0]), np.arange(60) % 2
    kept = Descent.start(2, 3, 3)
    again = Descent.start(2, 3, 3)
    for _ in range(4):
        kept.take(site_terms(X, y[None], fold, kept.at.numpy()), ridges)
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(again), type=Descent)
        again.take(site_terms(X, y[None], fold, again.at.numpy()), ridges)
    assert kept == again
    assert kept.taken == 4
