"""Moments by secure sum: the plain run, lost sites, names that stay among the sites, wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import unpack
from fedgeom.methods.catalogue import read_model
from tests.methods.coordinators import kill
from tests.methods.hulls.drawing import blobs


@pytest.mark.parametrize("classes", [None, ("0", "1", "2")])
def test_the_same_run_gives_the_same_bytes_whatever_the_keys_and_the_order_of_sites(classes: Any) -> None:
    """Sums in fixed point are exact, so nothing that is drawn anew can show."""
    sites, method = blobs(4, 3), fedgeom.Moments(classes=classes)
    first = fedgeom.run(method, sites).model.to_bytes()
    assert fedgeom.run(method, sites).model.to_bytes() == first
    assert fedgeom.run(method, sites[::-1]).model.to_bytes() == first


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
    "step",
    [
        "join.hello",
        "join.meet",
        "join.share",
        "names.seal",
        "names.open",
        "moments.sum",
        "sum.confirm",
        "sum.unmask",
        "model.result",
    ],
)
def test_a_site_lost_at_any_step_is_left_out(step: str) -> None:
    sites = blobs(5, 2)
    run = fedgeom.run(fedgeom.Moments(), sites, interfere=kill("site-3", step))
    assert set(run.lost) == {"site-3"}
    counted = step in ("sum.confirm", "sum.unmask", "model.result")  # its moments were in already
    left = sites if counted else [s for s in sites if s.name != "site-3"]
    assert run.metrics["sites"] == len(left)
    assert np.allclose(run.model.means, fedgeom.Moments().plain(left).model.means, atol=1e-6)


def test_names_are_agreed_behind_the_coordinators_back() -> None:
    sites = [s.relabel({0: f"only-{s.name}", 1: "common"}) for s in blobs(3, 2)]
    seen: list[bytes] = []
    run = fedgeom.run(fedgeom.Moments(), sites, interfere=lambda _, request: seen.append(request))
    assert run.model.names == ("common", "only-site-1", "only-site-2", "only-site-3")
    sealed = [e for e in run.ledger if e.kind == "names.sealed"]
    assert len({e.bytes for e in sealed}) == 1, "padded: the length tells nothing"
    kinds = [unpack(request).kind for request in seen]
    before_union = seen[: kinds.index("moments.sum")]
    assert not any(b"only-site" in request for request in before_union)


def test_names_that_the_settings_give_are_not_asked_for() -> None:
    run = fedgeom.run(fedgeom.Moments(classes=("1", "0")), blobs(3, 2))
    assert run.model.names == ("1", "0")
    assert not any(entry.kind.startswith("names.") for entry in run.ledger)


def test_one_sum_and_doubts_are_all_that_leaves_a_site() -> None:
    run = fedgeom.run(fedgeom.Moments(), blobs(3, 2))
    told = {entry.kind for entry in run.ledger if not entry.reveals.startswith("nothing")}
    assert told == {"join.keys", "names.vocabulary", "sum.masked", "sum.shares"}
    assert sum(entry.kind == "sum.masked" for entry in run.ledger) == 2 * 3


def test_wrong_input_is_refused_by_name() -> None:
    sites = blobs(3, 2)
    with pytest.raises(InputError, match="missing everywhere: 7"):
        fedgeom.run(fedgeom.Moments(classes=("0", "1", "7")), sites)
    with pytest.raises(InputError, match=r"site-1.*outside the agreed classes: 1"):
        fedgeom.run(fedgeom.Moments(classes=("0", "2")), sites)
    with pytest.raises(InputError, match="one class"):
        fedgeom.run(fedgeom.Moments(), [s.relabel({0: "a", 1: "a"}) for s in sites])
    odd = SiteData("odd", np.zeros((4, 3)), [0, 0, 1, 1])
    with pytest.raises(InputError, match="most have 2, but site 'odd' has 3"):
        fedgeom.run(fedgeom.Moments(), [*sites, odd])


def wide(columns: int, sites: int = 3) -> list[SiteData]:
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"] * 4)
    rows = [rng.normal(size=(8, columns)) + (y == "b")[:, None] for _ in range(sites)]
    return [SiteData(f"s{at}", X, y) for at, X in enumerate(rows)]


def test_centroids_of_thousands_of_columns_are_summed_without_covariances() -> None:
    columns, method = 13_656, fedgeom.Moments(rule="centroid", space="euclidean")
    sites = wide(columns)
    run = fedgeom.run(method, sites)
    assert run.metrics["numbers"] == 2 * 2 * (columns + 1)
    assert run.model.covariances.shape == (2, 0, 0)
    assert all((run.model.predict(site.X) == site.y).all() for site in sites)
    again = read_model(run.model.to_bytes())
    assert again.to_bytes() == run.model.to_bytes()


def test_covariances_too_large_for_a_message_are_refused_before_anything_is_sent() -> None:
    sites, asked = wide(13_656), []
    words = r'^the covariances of 2 classes and 13,656 columns .* rule="centroid".*fewer columns'
    with pytest.raises(InputError, match=words):
        fedgeom.run(fedgeom.Moments(space="euclidean"), sites, interfere=lambda *one: asked.append(one))
    assert not asked
    small = fedgeom.Policy(max_message_bytes=4000)
    with pytest.raises(InputError, match=r"the limit is 4,000 \(max_message_bytes in the policy\)"):
        fedgeom.run(fedgeom.Moments(space="euclidean"), wide(40), policy=small)
    with pytest.raises(
        InputError, match=r"the means of 2 classes and 400 columns .* limit is 4,000.*; take fewer columns"
    ):
        fedgeom.run(fedgeom.Moments(space="euclidean", rule="centroid"), wide(400), policy=small)


def test_classes_of_all_sites_together_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedgeom.methods.moments.method.LARGEST_MESSAGE", 20_000)
    sites = [site.relabel({"a": f"a{site.name}", "b": f"b{site.name}"}) for site in wide(40)]
    with pytest.raises(InputError, match="the covariances of 6 classes and 40 columns"):
        fedgeom.run(fedgeom.Moments(space="euclidean"), sites)
