"""Label propagation across sites on pooled data: Algorithm 1 step by step, odd sites, priors, later points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fedgeom.data.sites import split
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.lsh import cosine_from_hamming, hamming, hash_bits
from fedgeom.methods.xclp.plain import VARIANTS, label_numbers, per_client, plain
from fedgeom.methods.xclp.prior import base_shares, em_prior, own_prior, site_prior, skew_weight, with_prior
from fedgeom.methods.xclp.scores import (
    class_weights,
    code_confidence,
    confidence_level,
    is_labelled,
    labels_and_confidence,
    normalise_classes,
    one_hot,
    shares,
)

SEED = bytes(range(32))
Part = tuple[np.ndarray, np.ndarray]


def digits(n_sites: int, share: float, how: str = "iid", seed: int = 0) -> tuple[list[Part], list[np.ndarray]]:
    """Return sites with hidden labels, and the hidden truth (-1 where a label is shown)."""
    bunch, rng = load_digits(), np.random.default_rng(seed)
    parts = split(bunch.data, bunch.target, n_sites, how, seed, alpha=0.3)  # type: ignore[arg-type]
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


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_turned_bits_cost_little(rate: float) -> None:
    sites, hidden = digits(4, 0.1)
    clean = accuracy([s.codes for s in plain(sites).sites], hidden)
    noisy = accuracy([s.codes for s in plain(sites, flip_rate=rate).sites], hidden)
    assert noisy > clean - 0.06


# Scores


def test_labels_and_confidence_by_hand() -> None:
    Z = np.array([[1.0, 1.0], [3.0, 0.0], [0.0, 0.0], [1.0, 3.0]])
    labels, confidence = labels_and_confidence(Z)
    assert labels.tolist() == [0, 0, -1, 1]
    quarter = 1 + (0.25 * np.log(0.25) + 0.75 * np.log(0.75)) / np.log(2)
    np.testing.assert_allclose(confidence, [0, 1, 0, quarter], atol=1e-12)


def test_the_reference_codes_confidences_are_options() -> None:
    Z = np.array([[1.0, 3.0], [3.0, 1.0], [9.0, 1.0]])
    _, plain_ = labels_and_confidence(Z)
    _, scaled = labels_and_confidence(Z, largest=float(plain_.max()))
    np.testing.assert_allclose(scaled, plain_ / plain_.max())
    labels, weighted = labels_and_confidence(Z, class_sizes=[2, 1])
    np.testing.assert_allclose(weighted, plain_ * np.array([1.5, 1.5, 0.75])[labels] / np.array([1, 2, 2]))


def test_the_reference_codes_confidences_by_hand() -> None:
    """Shares of 3/4 and 1/4 have confidence 0.18872, on the grid 774/4096; labels 0, 1, 1 weigh 3/2 and 3/4."""
    one, two = [[3.0, 1.0]], [[1.0, 3.0], [2.0, 6.0], [0.0, 0.0]]
    level = max(confidence_level(labels_and_confidence(Z)[1]) for Z in (one, two))
    assert level == 774
    np.testing.assert_allclose(code_confidence(one, level, [1, 2]), [0.188722 * 4096 / 774 * 1.5], rtol=1e-5)
    expected = 0.188722 * 4096 / 774 * 0.75
    np.testing.assert_allclose(code_confidence(two, level, [1, 2]), [expected, expected, 0], rtol=1e-5)
    assert code_confidence([[1.0, 1.0]], 0, [1, 0]).tolist() == [0.0]  # nobody is sure of anything
    assert confidence_level([1.0]) == 4096


def test_later_rows_are_scaled_like_the_others(small: tuple[list[Part], list[np.ndarray]]) -> None:
    sites, _ = small
    found, before = (plain(sites, graph="anchors", confidence=how) for how in ("code", "entropy"))  # type: ignore[arg-type]
    assert found.joint is not None
    later, plainly = (r.predict(sites[1][0], 0) for r in (found, before))
    np.testing.assert_array_equal(later.codes, plainly.codes)
    np.testing.assert_allclose(later.confidence, code_confidence(plainly.scores, *found.joint))


def test_one_class_is_certain_and_negative_rounding_is_nothing() -> None:
    assert labels_and_confidence([[2.0]])[1].tolist() == [1.0]
    assert labels_and_confidence([[-1e-18, 0.0]])[0].tolist() == [-1]
    assert labels_and_confidence([[1e-9, 0.0]], least=1e-6)[0].tolist() == [-1]


def test_class_normalisation_lets_columns_sum_alike() -> None:
    Y = one_hot([0, 0, 0, 1, -1], 3)
    np.testing.assert_array_equal(normalise_classes(Y, Y.sum(axis=0)).sum(axis=0), [1, 1, 0])
    assert class_weights([4, 0]).tolist() == [0.25, 0.0]


@pytest.mark.parametrize(
    ("y", "wanted"),
    [
        ([3, -1, 0], [True, False, True]),
        (np.array([3.0, np.nan, -1.0]), [True, False, False]),
        (["a", None, float("nan"), ""], [True, False, False, False]),
        (np.array(["a", "-1", "nan"]), [True, False, False]),
        (np.array([0, 255], np.uint8), [True, True]),
    ],
)
def test_what_counts_as_a_label(y: object, wanted: list[bool]) -> None:
    assert is_labelled(y).tolist() == wanted  # type: ignore[arg-type]


def test_numbers_read_with_gaps_are_the_same_classes() -> None:
    assert label_numbers(np.array([1.0, np.nan, 2.0]), [1, 2]).tolist() == [0, -1, 1]


# Priors


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 500), min_size=1, max_size=12))
def test_base_shares_are_shares(counts: list[int]) -> None:
    base = base_shares(counts)
    assert base.sum() == pytest.approx(1.0)
    assert (base >= 0).all()


def test_counts_that_differ_by_chance_count_as_equal_and_others_are_believed() -> None:
    np.testing.assert_allclose(base_shares([11, 9, 10, 10]), 0.25)
    np.testing.assert_allclose(base_shares([970, 10, 10, 10]), np.array([970, 10, 10, 10]) / 1000, atol=2e-3)


def evidence(true: np.ndarray, n: int, seed: int, noise: float = 1.2) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes from shares, and evidence whose square is the likelihood of a noisy look at them."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(true), n, p=true)
    look = np.eye(len(true))[y] + noise / 2 * rng.normal(size=(n, len(true)))
    likelihood = np.exp(-((look[:, None] - np.eye(len(true))) ** 2).sum(axis=2) / (2 * (noise / 2) ** 2))
    return shares(np.sqrt(likelihood)), y


@pytest.mark.parametrize("seed", range(3))
def test_expectation_maximisation_finds_a_known_skew(seed: int) -> None:
    true = np.array([0.7, 0.2, 0.06, 0.04])
    E, y = evidence(true, 3000, seed)
    found = em_prior(E, 2.0, iterations=200)
    np.testing.assert_allclose(found, true, atol=0.04)
    base = np.full(4, 0.25)
    weight = skew_weight(E, found, base)
    assert weight > 0.6
    adapted = with_prior(E, found, base, weight).argmax(axis=1)
    assert np.mean(adapted == y) > np.mean(E.argmax(axis=1) == y) + 0.05


@pytest.mark.parametrize("seed", range(5))
def test_without_skew_the_prior_has_no_say(seed: int) -> None:
    E, _ = evidence(np.full(4, 0.25), 400, seed)
    assert skew_weight(E, em_prior(E), np.full(4, 0.25)) == 0.0


def test_own_labels_join_the_estimate() -> None:
    base = np.full(3, 1 / 3)
    np.testing.assert_allclose(own_prior([8, 0, 0], base), [(8 + 2 / 3) / 10, 2 / 30, 2 / 30])
    np.testing.assert_allclose(em_prior(np.zeros((4, 3)), own_counts=[8, 0, 0]), own_prior([8, 0, 0], base))
    np.testing.assert_allclose(em_prior(np.zeros((0, 3))), base)
    skewed = site_prior(np.zeros((40, 3)), np.r_[np.zeros(38), 1, -1], [50, 45, 52], kind="own")
    assert skewed.weight > 0.5
    assert site_prior(np.zeros((1, 3)), [-1], [5, 5, 5], kind="own").weight == 0.0


def test_own_labels_must_bear_the_estimate_out() -> None:
    E, _ = evidence(np.array([0.85, 0.05, 0.05, 0.05]), 300, 0)
    counts, silent = [100, 100, 100, 100], np.full(300, -1)
    assert site_prior(E, silent, counts).weight == 0.0
    assert site_prior(E, silent, counts, kind="em-unchecked").weight > 0.5
    agreeing, contradicting = silent.copy(), silent.copy()
    agreeing[:6], contradicting[:6] = 0, [1, 2, 3, 1, 2, 3]
    assert site_prior(E, agreeing, counts).weight > 0.5
    assert site_prior(E, contradicting, counts).weight == 0.0
    assert site_prior(E, contradicting, counts, kind="em-unchecked").weight == 0.0


def test_a_site_that_looks_like_another_class_is_not_led_astray() -> None:
    """All rows of a site without labels lean to a rare class they are not, as across laboratories."""
    rng = np.random.default_rng(0)
    E = np.column_stack([0.55 + 0.1 * rng.random(200), 0.4 + 0.1 * rng.random(200), np.full(200, 0.02)])
    counts, silent = np.array([10.0, 150.0, 140.0]), np.full(200, -1)
    Z = E * counts
    right, wrong = (
        np.mean(site_prior(Z, silent, counts, kind=kind).scores(Z).argmax(axis=1) == 1)
        for kind in ("em", "em-unchecked")
    )
    repeated = em_prior(E, 2.0, iterations=30, base=base_shares(counts))
    assert repeated[0] > 0.5  # what made labels collapse before
    assert right == 1.0
    assert wrong <= right


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


def test_rows_without_evidence_stay_without() -> None:
    found = site_prior(np.zeros((2, 3)), [-1, -1], [5, 3, 2])
    assert found.scores(np.zeros((2, 3))).sum() == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plain([(np.ones((2, 2)), [-1, -1])]), "no site has a label"),
        (lambda: plain([(np.ones((2, 2)), [0])]), "site 0"),
        (lambda: plain([(np.ones((2, 2)), [0, 1])], variant="best"), "best"),  # type: ignore[arg-type]
        (lambda: plain([(np.ones((2, 2)), [0, 1])], graph="tree"), "tree"),  # type: ignore[arg-type]
        (lambda: plain([(np.ones((2, 2)), [0, 1])], confidence="certain"), "certain"),  # type: ignore[arg-type]
        (lambda: site_prior(np.ones((1, 2)), [-1], [1, 1], kind="map"), "map"),  # type: ignore[arg-type]
        (lambda: labels_and_confidence([[np.nan]]), "finite"),
        (lambda: base_shares([-1]), "at least 0"),
    ],
)
def test_refuses(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
