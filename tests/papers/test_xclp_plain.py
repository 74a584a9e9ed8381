"""Label propagation across sites on pooled data: Algorithm 1 step by step, odd sites, later points."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedgeom.data.split import split
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.lsh import cosine_from_hamming, hamming, hash_bits
from fedgeom.methods.xclp.core import VARIANTS, at_site, code_confidence, setting_for
from papers.xclp.plain import per_client, plain, rescale_confidence

SEED = bytes(range(32))
Part = tuple[np.ndarray, np.ndarray]


def digits(n_sites: int, share: float, how: str = "iid", seed: int = 0) -> tuple[list[Part], list[np.ndarray]]:
    """Return sites with hidden labels, and the hidden truth (-1 where a label is shown)."""
    bunch, rng = load_digits(), np.random.default_rng(seed)
    alpha = 0.3 if how == "dirichlet" else None
    parts = split(bunch.data, bunch.target, n_sites, how, seed, alpha=alpha)  # type: ignore[arg-type]
    sites, hidden = [], []
    for part in parts:
        shown = rng.random(len(part)) < share
        sites.append((part.X, np.where(shown, part.y, -1)))
        hidden.append(np.where(shown, -1, part.y))
    return sites, hidden


def accuracy(found: list[np.ndarray], hidden: list[np.ndarray]) -> float:
    right = [f[h >= 0] == h[h >= 0] for f, h in zip(found, hidden, strict=True)]
    return float(np.concatenate(right).mean())


@pytest.fixture(scope="module")
def small() -> tuple[list[Part], list[np.ndarray]]:
    sites, hidden = digits(4, 0.05)
    return [(X[:90], y[:90]) for X, y in sites], [h[:90] for h in hidden]


def test_the_paper_variant_is_algorithm_1_to_the_letter(small: tuple[list[Part], list[np.ndarray]]) -> None:
    sites, _ = small
    found = plain(sites, variant="paper", L=1024, seed=SEED)
    B = np.vstack([hash_bits(X, SEED, 1024) for X, _ in sites])
    A = cosine_from_hamming(hamming(B, B, 1024), 1024)
    kept = np.zeros_like(A)
    for i, row in enumerate(A):
        best = sorted(range(len(row)), key=lambda j: (-row[j], j))[:10]
        kept[i, best] = np.maximum(row[best], 0)
    W = kept + kept.T
    d = W.sum(axis=1)
    S = np.linalg.inv(np.eye(len(W)) - 0.99 * W / np.sqrt(np.outer(d, d)))
    y = np.concatenate([y for _, y in sites])
    Z = S[:, y >= 0] @ np.eye(10)[y[y >= 0]]
    np.testing.assert_allclose(found.Z, Z, atol=1e-7)
    p = Z / Z.sum(axis=1, keepdims=True)
    confidence = 1 + (p * np.log(np.maximum(p, 1e-300))).sum(axis=1) / np.log(10)
    np.testing.assert_array_equal(np.concatenate([s.codes for s in found.sites]), Z.argmax(axis=1))
    np.testing.assert_allclose(np.concatenate([s.confidence for s in found.sites]), confidence, atol=1e-6)


@pytest.mark.parametrize("variant", sorted(VARIANTS))
@pytest.mark.parametrize("graph", ["pairs", "anchors"])
def test_the_joint_graph_beats_each_site_alone(variant: str, graph: str) -> None:
    sites, hidden = digits(10, 0.05)
    joint = plain(sites, variant=variant, graph=graph, L=1024)  # type: ignore[arg-type]
    alone = per_client(sites, variant=variant)  # type: ignore[arg-type]
    found, baseline = (accuracy([s.codes for s in r], hidden) for r in (joint.sites, alone))
    assert found > 0.8
    assert found > baseline + 0.1


def test_the_order_of_sites_and_rows_does_not_matter_where_there_are_no_ties() -> None:
    # Many bits make ties at the k-th neighbour rare; the few that are left may go either way.
    sites, _ = digits(3, 0.1)
    sites = [(X[:80], y[:80]) for X, y in sites]
    first = plain(sites, L=32_768, seed=SEED)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(y)) for _, y in sites]
    mixed = [(X[o], y[o]) for (X, y), o in zip(sites, orders, strict=True)][::-1]
    second = plain(mixed, L=32_768, seed=SEED)
    same = [np.mean(first.sites[i].codes[o] == second.sites[2 - i].codes) for i, o in enumerate(orders)]
    assert min(same) >= 0.98


def test_all_kinds_of_sites(small: tuple[list[Part], list[np.ndarray]]) -> None:
    (X, y), *_ = small[0]
    bunch = load_digits()
    odd: list[Part] = [
        (bunch.data[:300], bunch.target[:300]),  # fully labelled
        (X, y),  # partly
        (bunch.data[600:700], np.full(100, -1)),  # not at all
        (bunch.data[700:701], np.array([-1])),  # one row
        (bunch.data[701:702], bunch.target[701:702]),
        (np.zeros((0, 64)), np.zeros(0, int)),  # none
        (bunch.data[800:840][bunch.target[800:840] > 4], bunch.target[800:840][bunch.target[800:840] > 4]),
        (np.zeros((2, 64)), np.array([-1, -1])),  # blank rows
    ]
    for graph in ("pairs", "anchors"):
        found = plain(odd, L=1024, graph=graph)  # type: ignore[arg-type]
        assert [len(s.codes) for s in found.sites] == [len(part[1]) for part in odd]
        # These rows are by other writers than the labelled ones: the nearest labelled row has the right class in 81 %.
        assert np.mean(found.sites[2].codes == bunch.target[600:700]) > 0.7
        for site in found.sites:
            assert ((site.confidence >= 0) & (site.confidence <= 1)).all()
    assert found.sites[-1].codes.tolist() == [-1, -1]  # nothing is like a blank row: it has no code on the anchors
    assert found.sites[-1].confidence.tolist() == [0.0, 0.0]
    assert len(per_client(odd)) == len(odd)


def test_a_class_may_be_missing_everywhere_and_names_may_be_words(
    small: tuple[list[Part], list[np.ndarray]],
) -> None:
    sites = [(X, np.array([f"digit {v}" if v >= 0 else None for v in y], object)) for X, y in small[0]]
    names = [f"digit {i}" for i in range(12)]
    found = plain(sites, L=512, classes=names)
    assert found.counts[10:].tolist() == [0, 0]
    assert max(s.codes.max() for s in found.sites) < 10
    assert found.labels(0)[0].startswith("digit")
    with pytest.raises(InputError, match="digit 9"):
        plain(sites, L=512, classes=names[:9])


def test_unreached_rows_abstain() -> None:
    left, right = np.eye(4)[[0, 0, 1]], np.eye(4)[[2, 3, 3]]
    found = plain([(left, np.array([0, -1, -1])), (right, np.array([-1, 1, -1]))], k=1, variant="code", L=8192)
    assert found.sites[0].codes[:2].tolist() == [0, 0]
    assert found.sites[1].codes[1:].tolist() == [1, 1]


def test_rows_that_come_later_are_labelled_without_the_old_ones(
    small: tuple[list[Part], list[np.ndarray]],
) -> None:
    sites, hidden = digits(4, 0.1)
    later = [(X[300:], h[300:]) for (X, _), h in zip(sites, hidden, strict=True)]
    before = [(X[:300], y[:300]) for X, y in sites]
    for graph in ("pairs", "anchors"):
        found = plain(before, L=2048, graph=graph)  # type: ignore[arg-type]
        known = [found.predict(X, site=i).codes for i, (X, _) in enumerate(later)]
        assert accuracy(known, [h for _, h in later]) > 0.9
        again = found.predict(before[0][0], site=0).codes  # old rows, asked about as if they were new
        assert np.mean(again == found.sites[0].codes) > 0.9


@pytest.mark.full
@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_turned_bits_cost_little(rate: float) -> None:
    sites, hidden = digits(4, 0.1)
    clean = accuracy([s.codes for s in plain(sites).sites], hidden)
    noisy = accuracy([s.codes for s in plain(sites, flip_rate=rate).sites], hidden)
    assert noisy > clean - 0.06


def test_later_rows_are_scaled_like_the_others(small: tuple[list[Part], list[np.ndarray]]) -> None:
    sites, _ = small
    found, before = (plain(sites, graph="anchors", confidence=how) for how in ("code", "entropy"))  # type: ignore[arg-type]
    assert found.joint is not None
    later, plainly = (r.predict(sites[1][0], 0) for r in (found, before))
    np.testing.assert_array_equal(later.codes, plainly.codes)
    np.testing.assert_allclose(
        later.confidence, code_confidence(plainly.scores, *found.joint, np.full(len(later.codes), -1))
    )


def test_confidences_are_scaled_only_with_joint_numbers() -> None:
    found = at_site(
        np.array([[3.0, 1.0]]), np.array([-1]), setting_for("paper", None, None), np.array([1.0, 1.0]), "none"
    )
    nobody, joint = np.array([-1]), (4096, np.array([1.0, 3.0]))
    assert rescale_confidence(found, None, nobody) is found
    scaled = rescale_confidence(found, joint, nobody)
    np.testing.assert_array_equal(scaled.confidence, code_confidence(found.scores, 4096, [1, 3], nobody))
    np.testing.assert_array_equal(scaled.codes, found.codes)
    kept = rescale_confidence(found, joint, np.array([1]))
    assert (kept.codes.tolist(), kept.confidence.tolist()) == ([1], [1.0])


def test_the_prior_lifts_skewed_sites_and_leaves_even_ones() -> None:
    for how, least, most in (("dirichlet", 0.01, 1.0), ("iid", -0.01, 0.01)):
        gains = []
        for seed in range(2):
            sites, hidden = digits(10, 0.03, how, seed)
            with_, without = (
                accuracy([s.codes for s in plain(sites, L=1024, prior=kind).sites], hidden)  # type: ignore[arg-type]
                for kind in ("em", "none")
            )
            gains.append(with_ - without)
        assert least <= np.mean(gains) <= most


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plain([(np.ones((2, 2)), [-1, -1])]), "no site has a label"),
        (lambda: plain([(np.ones((2, 2)), [0])]), "site 0"),
        (lambda: plain([(np.ones((2, 2)), [0, 1])], variant="best"), "best"),  # type: ignore[arg-type]
        (lambda: plain([(np.ones((2, 2)), [0, 1])], graph="tree"), "tree"),  # type: ignore[arg-type]
        (lambda: plain([(np.ones((2, 2)), [0, 1])], confidence="certain"), "certain"),  # type: ignore[arg-type]
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
