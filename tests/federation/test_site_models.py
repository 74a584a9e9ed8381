"""The model files that stay at sites know the rows that they were learnt from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom.crypto.keys import Identity, Roster
from fedgeom.data.sites import SiteData
from fedgeom.federation.novelty import KnownRows
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import SiteIdentity
from fedgeom.federation.site_models import describing, own_model_file
from tests.federation.counting import Counted, Counting, CountingSite
from tests.federation.test_model import LINE

METHODS = {
    "moments": fedgeom.Moments(space="euclidean"),
    "centroids": fedgeom.Moments(space="euclidean", rule="centroid"),
    "hulls": fedgeom.Hulls(embedding="discriminant"),
    "personal": fedgeom.Ditto(n_rounds=2),
    "shrunk": fedgeom.Shrunk(n_rounds=2),
    "ptopofl": fedgeom.PTopoFL(n_rounds=2, n_points=20),
    "anchors": fedgeom.XCLP(graph="anchors", n_anchors=40, hash_bits=256),
    "pairs": fedgeom.XCLP(hash_bits=1024, hidden_projection=False),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_sites_own_file_says_which_later_rows_fit_no_class(name: str, tmp_path: Path) -> None:
    sites = [site.take(np.arange(80)) for site in fedgeom.load_set("breast-cancer", n_sites=3).train]
    fedgeom.run(METHODS[name], sites, record=tmp_path / "run")
    own = fedgeom.load_model(tmp_path / "run" / "sites" / f"{sites[1].name}.safetensors")
    assert own.unknown(sites[1].X, 0.1).mean() < 0.2
    other = sites[1].X + 10 * np.std(sites[1].X, axis=0)
    assert own.unknown(other, 0.1).mean() > 0.9
    joint = fedgeom.load_model(tmp_path / "run")
    assert joint.known is None  # what the rows look like does not leave the site


def test_few_rows_or_rows_that_cannot_be_used_leave_the_model_as_it_is() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 2))
    few = SiteData("s", rows[:5], ["a"] * 5)
    assert describing(LINE, few) is LINE
    unlabelled = SiteData("s", rows, ["a"] * 12 + [""] * 18)
    known = describing(LINE, unlabelled).known
    assert isinstance(known, KnownRows)
    assert known.rows == 12


def test_what_another_packages_site_keeps_is_kept_as_it_is() -> None:
    class Keeping(CountingSite):
        def model_file(self) -> bytes:
            return b"a file of its own"

    key = Identity.generate()
    who = SiteIdentity("s", key, Roster({"s": key.public}), Policy())
    data = SiteData("s", np.zeros((1, 1)), ["a"])
    kept, nothing = (one(data, who, bytes(32), Counted(), Counting) for one in (Keeping, CountingSite))
    assert own_model_file(kept) == b"a file of its own"
    assert own_model_file(nothing) == b""


def test_rows_kept_aside_are_the_measure_where_a_model_knows_densities(tmp_path: Path) -> None:
    sites = fedgeom.load_set("digits", n_sites=3).train
    few = [site.take(np.arange(100)) for site in sites]
    for at, (tables, aside) in enumerate(((sites, True), (few, False))):
        method = fedgeom.XCLP(graph="anchors", n_anchors=40, hash_bits=256, holdout=0.3)
        fedgeom.run(method, tables, record=tmp_path / f"{at}")
        own = fedgeom.load_model(tmp_path / f"{at}" / "sites" / f"{sites[1].name}.safetensors")
        assert own.known.rows == pytest.approx(0.3 * len(tables[1]) if aside else 0.7 * len(tables[1]), abs=15)
        assert (own.known.cloud is None) == aside


def test_a_site_without_any_label_gets_labels_of_the_type_that_the_others_have() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    sites = [fedgeom.SiteData(f"s{at}", rng.normal(size=(40, 2)) + 4 * y[:, None], y) for at in range(3)]
    blank = fedgeom.SiteData("blank", sites[0].X + 0.01, np.full(40, "", object))
    run = fedgeom.run(fedgeom.XCLP(graph="anchors", n_anchors=4, n_rounds=3), [*sites, blank])
    assert run.labels["blank"].dtype.kind == "i"
    assert (run.labels["blank"] == y).mean() > 0.7
    assert run.model.for_site(run.local["blank"]).predict(blank.X).dtype.kind == "i"
