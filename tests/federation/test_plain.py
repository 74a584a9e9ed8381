"""A plain run is the conversation of a run with nothing masked, and no engine can have such a site."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.crypto.keys import Identity, Roster
from fedgeom.errors import ContractError, InputError
from fedgeom.federation.messages import Question
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.plain import OpenSites
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import DP
from fedgeom.federation.runner import SiteRunner
from fedgeom.federation.site import SiteIdentity
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.moments.site import SumClassMoments
from tests.methods.hulls.drawing import blobs

MOMENTS = fedgeom.Moments(space="euclidean")


def test_no_runner_takes_a_site_that_masks_nothing() -> None:
    identity = SiteIdentity("a", Identity.generate(), Roster({}), Policy())
    for method in METHODS.values():
        assert method.site.masked
        assert not method.site.unmasked().masked
        with pytest.raises(ContractError, match=r"for Method\.plain, never for an engine"):
            SiteRunner(method.site.unmasked(), method, identity, lambda: blobs(1, 2)[0])


def test_the_open_class_is_made_once_and_answers_the_same_questions() -> None:
    for method in METHODS.values():
        assert method.site.unmasked() is method.site.unmasked()
        assert method.site.unmasked().understands() == method.site.understands()
        assert method.site.masked, "to make it changes nothing at the usual sites"


def test_what_a_site_adds_to_a_sum_is_there_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {}
    answer = OpenSites._exchange

    def listening(self: OpenSites, asked: dict[str, Question], expect: type) -> object:
        for name, reply in answer(self, asked, expect):
            if isinstance(asked[name], SumClassMoments):
                added[name] = reply.vector.numpy().view(np.int64) / 2.0**SumClassMoments.fraction_bits  # type: ignore[union-attr]
            yield name, reply

    monkeypatch.setattr(OpenSites, "_exchange", listening)
    sites = blobs(3, 2)
    MOMENTS.plain(sites)
    for site in sites:
        counts = [np.sum(site.y == name) for name in np.unique(site.y)]
        assert set(counts) <= set(added[site.name])


def test_it_is_a_run_to_the_last_digit_with_what_the_sites_have() -> None:
    sites = blobs(4, 3)
    run, plain = fedgeom.run(MOMENTS, sites, seed=3), MOMENTS.plain(sites, 3)
    assert plain.model.to_bytes() == run.model.to_bytes()
    assert plain.local == run.local


def test_rows_are_prepared_and_kept_aside_as_in_a_run() -> None:
    sites = blobs(3, 2)
    method = fedgeom.Moments(space="euclidean", prepare=["scale"], holdout=0.25)
    run, plain = fedgeom.run(method, sites, seed=1), method.plain(sites, 1)
    assert plain.model.to_bytes() == run.model.to_bytes()
    assert plain.model.preparation is not None
    assert plain.local["site-1"].keys() == run.local["site-1"].keys()


def test_one_site_will_do_and_one_name_only_once() -> None:
    one = blobs(1, 2)
    assert MOMENTS.plain(one).model.names == ("0", "1")
    with pytest.raises(InputError, match="site names must differ; given more than once: site-1"):
        MOMENTS.plain([*one, *one])


@pytest.mark.parametrize(
    "method",
    [
        fedgeom.Ellipses(),
        fedgeom.FedAvg(n_rounds=2),
        fedgeom.HyperFed(n_rounds=2),
        fedgeom.Hulls(),
        fedgeom.PTopoFL(n_rounds=2),
        fedgeom.Ridge(features="linear"),
        fedgeom.Shrunk(n_rounds=2),
        fedgeom.XCLP(),
        fedgeom.XCLP(graph="pairs", hash_bits=64),
        fedgeom.XCLPTraining(n_rounds=2),
    ],
    ids=lambda one: one.name,
)
def test_one_site_will_do_for_every_method(method: Method) -> None:
    if isinstance(method, fedgeom.PTopoFL):
        pytest.importorskip("gudhi", reason="gudhi is not installed (fedgeom[topology])")
    (one,) = blobs(1, 2)
    found = method.plain([one])
    assert len(found.model.for_site(found.local.get(one.name, {})).predict(one.X)) == len(one)


def test_it_follows_from_the_seed_and_the_order_of_sites_plays_no_part() -> None:
    method, sites = fedgeom.FedAvg(n_rounds=2, batch_size=4), blobs(3, 2)
    first, again, other = (method.plain(sites, seed).model.to_bytes() for seed in (1, 1, 2))
    assert first == again == method.plain(sites[::-1], 1).model.to_bytes()
    assert first != other


def test_what_is_wrong_with_a_table_is_said_and_noise_is_not_added() -> None:
    broken = [fedgeom.SiteData("a", np.full((4, 2), np.nan), list("xxyy")), *blobs(2, 2)]
    with pytest.raises(InputError, match="site 'a'"):
        MOMENTS.plain(broken)
    private = fedgeom.Moments(space="euclidean", classes=("0", "1"), privacy=DP(epsilon=1, clip=1.0))
    with pytest.raises(InputError, match=r"the plain run adds no noise; .* use fedgeom\.run"):
        private.plain(blobs(3, 2))


def test_models_on_the_way_are_told() -> None:
    kept = {}
    method = fedgeom.FedAvg(n_rounds=3, prepare=["scale"])
    last = method.plain(blobs(3, 2), keep=kept.__setitem__).model
    assert list(kept) == ["rounds/0001", "rounds/0002", "rounds/0003"]
    assert read_model(kept["rounds/0003"]).to_bytes() == last.to_bytes()
    assert kept["rounds/0001"] != kept["rounds/0003"]
