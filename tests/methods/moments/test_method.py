"""Moments by secure sum: the plain twin, hand-computable numbers, lost sites, names."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import unpack
from fedgeom.geometry.hyperbolic.poincare import log0, lorentz_centroid
from fedgeom.methods.moments.method import plain
from fedgeom.protocols.fixed_point import from_fixed, to_fixed
from tests.methods.hulls.test_method import blobs


@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
@pytest.mark.parametrize("space", ["ball", "euclidean"])
def test_secure_equals_plain_up_to_one_rounding_per_site(rule: str, space: str) -> None:
    sites = blobs(4, 3, spread=0.4)
    method = fedgeom.Moments(rule=rule, space=space)
    secure, pooled = fedgeom.run(method, sites).model, plain(method, sites)
    for mine, other in zip(secure.tensors()[0].values(), pooled.tensors()[0].values(), strict=True):
        assert np.allclose(mine, other, atol=1e-5)
    X = np.vstack([site.X for site in sites])
    assert np.array_equal(secure.predict(X), pooled.predict(X))


def test_without_shrinkage_it_is_bayes_rule_with_a_gaussian_per_class_in_the_tangent_space() -> None:
    sites = blobs(3, 3, spread=0.5)
    model = plain(fedgeom.Moments(shrinkage=0.0), sites)
    X, y = np.vstack([s.X for s in sites]), np.concatenate([s.y for s in sites])
    V = log0(X)
    densities = np.column_stack(
        [
            np.mean(y == k) * multivariate_normal(V[y == k].mean(axis=0), np.cov(V[y == k].T)).pdf(V)
            for k in range(3)
        ]
    )
    assert np.allclose(model.predict_proba(X), densities / densities.sum(axis=1, keepdims=True), atol=1e-6)


def test_centroids_are_lorentz_centroids_also_at_other_curvatures() -> None:
    for c in (0.25, 1.0, 4.0):
        sites = [SiteData(s.name, s.X / np.sqrt(c), s.y) for s in blobs(3, 2)]
        model = plain(fedgeom.Moments(rule="centroid", curvature=c), sites)
        for k, name in enumerate(model.names):
            members = np.vstack([s.X[s.y.astype(str) == name] for s in sites])
            assert np.allclose(model.centroids[k], lorentz_centroid(members, c=c), atol=1e-9)


def test_means_of_four_numbers_by_hand() -> None:
    sites = [
        SiteData("a", [[0.0], [2.0], [10.0], [12.0]], ["x", "x", "z", "z"]),
        SiteData("b", [[4.0], [6.0], [20.0], [22.0]], ["x", "x", "z", "z"]),
        SiteData("c", [[3.0], [3.0]], ["x", "x"]),
    ]
    model = fedgeom.run(fedgeom.Moments(space="euclidean", shrinkage=0.0), sites).model
    assert model.names == ("x", "z")
    assert np.allclose(model.means.ravel(), [3.0, 16.0])
    assert np.allclose(model.covariances.ravel(), [20 / 5, (36 + 16 + 16 + 36) / 3])
    assert np.allclose(np.exp(model.log_priors), [0.6, 0.4])


@pytest.mark.parametrize(
    "step", ["join.hello", "join.share", "names.seal", "names.open", "moments.give", "sum.confirm"]
)
def test_a_site_lost_at_any_step_is_left_out(step: str) -> None:
    sites = blobs(5, 2)
    dead: set[str] = set()

    def interfere(name: str, request: bytes) -> str | None:
        if name == "site-3" and (unpack(request).kind == step or dead):
            dead.add(name)
        return "gone" if name in dead else None

    run = fedgeom.run(fedgeom.Moments(), sites, interfere=interfere)
    assert set(run.lost) == {"site-3"}
    left = sites if step == "sum.confirm" else [s for s in sites if s.name != "site-3"]
    assert np.allclose(run.model.means, plain(fedgeom.Moments(), left).means, atol=1e-6)


def test_names_are_agreed_behind_the_coordinators_back() -> None:
    sites = [s.relabel({0: f"only-{s.name}", 1: "common"}) for s in blobs(3, 2)]
    seen: list[bytes] = []
    run = fedgeom.run(fedgeom.Moments(), sites, interfere=lambda _, request: seen.append(request))
    assert run.model.names == ("common", "only-site-1", "only-site-2", "only-site-3")
    sealed = [e for e in run.ledger if e.kind == "names.sealed"]
    assert len({e.bytes for e in sealed}) == 1, "padded: the length tells nothing"
    kinds = [unpack(request).kind for request in seen]
    before_union = seen[: kinds.index("moments.give")]
    assert not any(b"only-site" in request for request in before_union)


def test_wrong_input_is_refused_by_name() -> None:
    sites = blobs(3, 2)
    with pytest.raises(InputError, match="missing everywhere: 7"):
        fedgeom.run(fedgeom.Moments(classes=("0", "1", "7")), sites)
    with pytest.raises(InputError, match=r"site-1.*outside the agreed classes: 1"):
        fedgeom.run(fedgeom.Moments(classes=("0", "2")), sites)
    with pytest.raises(InputError, match="one class"):
        fedgeom.run(fedgeom.Moments(), [s.relabel({0: "a", 1: "a"}) for s in sites])
    with pytest.raises(InputError, match="rescale"):
        to_fixed([1e30], fraction_bits=24, sites=3)


def test_fixed_point_sums_are_exact_within_half_a_unit_per_site() -> None:
    rng = np.random.default_rng(0)
    parts = rng.normal(scale=1e4, size=(7, 50))
    total = sum(to_fixed(part, fraction_bits=24, sites=7) for part in parts)
    assert np.abs(from_fixed(total, fraction_bits=24) - parts.sum(axis=0)).max() <= 7 * 2.0**-25
