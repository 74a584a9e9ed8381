"""The site of Moments: it looks at its data first, keeps to the terms, and keeps the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import Moments, load_model, run
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array, Refusal, decode, pack, unpack
from fedgeom.methods.moments.site import FOLDS, MomentsSite, SumClassMoments
from fedgeom.protocols.doubts import SumDoubts
from fedgeom.protocols.model_delivery import TakeModel, TakeResult
from fedgeom.protocols.names import CountNames
from fedgeom.protocols.preparation import SumFloors
from tests.methods.coordinators import RUN, fresh, hold, refusals, stamped
from tests.methods.hulls.drawing import blobs
from tests.methods.laws import assert_model_files_are_the_sites_own

CLASSES = ("0", "1")


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (SiteData("s", np.zeros((0, 2)), []), {}, "site 's' has no rows"),
        (SiteData("s", [[0.0, np.inf], [0.0, 0.0]], [0, 0]), {}, "row 0, column 1 is inf"),
        (SiteData("s", [[0.0, 0.0], [0.0, 0.0]], ["a", ""]), {}, "1 of 2 rows have no label"),
        (SiteData("s", [[0.0, 0.0]], ["a"]), {}, "fewer than 2 rows: 'a'"),
        (
            SiteData("s", [[2.0, 0.0], [0.0, 0.0]], [0, 0]),
            {},
            r"site 's': 1 of 2 rows are no points .*row 0 has norm 2, .* table .*say space=\"euclidean\"",
        ),
        (
            SiteData("s", [[0.0, 0.0], [0.0, 0.0]], ["c", "c"]),
            {"classes": CLASSES},
            "outside the agreed classes: c",
        ),
    ],
)
def test_data_that_cannot_be_used_are_refused_naming_the_site(
    data: SiteData, settings: dict[str, Any], words: str
) -> None:
    method = Moments(**settings)
    with pytest.raises(InputError, match=words):
        fresh(method, data).check(method)


def test_in_euclidean_space_rows_may_lie_anywhere() -> None:
    method = Moments(space="euclidean")
    fresh(method, SiteData("s", [[2.0, 0.0], [0.0, 0.0]], [0, 0])).check(method)


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        (Moments(), {"curvature": 2.0}, "another space than the one the site joined on"),
        (Moments(), {"curvature": None}, "another space than the one the site joined on"),
        (Moments(space="euclidean"), {"curvature": 1.0}, "another space than the one the site joined on"),
        (Moments(classes=CLASSES), {"classes": ("1", "0")}, "other classes than the sites agreed on"),
    ],
)
def test_moments_of_another_kind_than_the_terms_say_are_refused(
    method: Moments, change: dict[str, Any], words: str
) -> None:
    (reason,) = refusals(method, blobs(3, 2), SumClassMoments, lambda ask: stamped(ask, **change))
    assert words in reason


def test_a_second_sum_is_not_planned() -> None:
    assert tuple(MomentsSite.all_sums(Moments())) == (CountNames, SumFloors, SumClassMoments, SumDoubts)
    later = {"round": 4}
    (reason,) = refusals(
        Moments(),
        blobs(3, 2),
        SumClassMoments,
        lambda ask: stamped(ask, ticket=msgspec.structs.replace(ask.ticket, **later)),
    )
    assert "round 4 was not announced when joining" in reason


@pytest.mark.parametrize("space", ["ball", "euclidean"])
def test_every_site_keeps_the_joint_model(space: Any) -> None:
    sites, method = blobs(3, 3), Moments(space=space)
    assert_model_files_are_the_sites_own(method, sites)
    held = hold(method, sites)
    for site in sites:
        assert held.site(site.name).model_file() == held.model.to_bytes()
        right = float(np.mean(held.model.predict(site.X) == site.y.astype(str)))
        assert held.local()[site.name] == {"fits": right, "rows": len(site), "label_type": "integer"}


def test_before_it_has_the_model_a_site_has_nothing() -> None:
    site = fresh(Moments(), blobs(3, 2)[0])
    assert (site.result(), site.model_file()) == ({}, b"")


def other_total(ask: Any) -> TakeResult:
    """Add one row to the first class."""
    total = ask.result.total.numpy()
    total[0] += np.uint64(1 << SumClassMoments.fraction_bits)
    return TakeResult(result=msgspec.structs.replace(ask.result, total=Array.of(total)))


def of_other_sites(ask: Any) -> TakeResult:
    """Say that the sum has no part of the last site."""
    return TakeResult(result=msgspec.structs.replace(ask.result, sites=ask.result.sites[:-1]))


@pytest.mark.parametrize("lie", [other_total, of_other_sites])
def test_a_false_sum_is_not_taken(lie: Any) -> None:
    reasons = refusals(Moments(), blobs(4, 2), TakeResult, lie)
    assert reasons == {"the sum that came is not the one that the sites added up: its tag does not fit"}


def test_a_model_on_the_coordinators_word_is_not_taken() -> None:
    sites = blobs(3, 2)
    held = hold(Moments(), sites)
    request = pack(RUN, "moments", TakeModel(model=held.model.to_bytes()))
    reply, _ = held.engine.runners["site-1"].answer(request, held.engine.memories["site-1"])
    assert "do not take a model on the coordinator's word" in decode(unpack(reply).body, Refusal).reason


def test_a_site_scores_its_rows_by_a_model_of_all_other_rows_but_their_fold(tmp_path: Path) -> None:
    """Rows that a model learnt from fit it too well: by them, a quarter of new rows was called unknown, not 5 %."""
    sites = [SiteData(f"s{at}", X, y) for at, (X, y) in enumerate(tables())]
    method = Moments(space="euclidean", shrinkage=0.0)
    run(method, sites, record=tmp_path / "run")
    own = load_model(tmp_path / "run" / "sites" / "s1.safetensors")
    fold = np.random.default_rng(0).permutation(len(sites[1])) % FOLDS
    scores = np.empty(len(sites[1]))
    for number in range(FOLDS):
        kept = method.plain([sites[0], sites[1].take(fold != number), sites[2]]).model
        scores[fold == number] = kept.density_scores(sites[1].X[fold == number])
    np.testing.assert_allclose(own.known.scores, np.sort(scores), rtol=1e-6)
    X, _ = tables(rows=3000, seed=9)[1]
    assert own.unknown(X, 0.1).mean() < 0.2
    plain = own.with_known(sites[1].X)  # by the rows that it learnt from
    assert plain.unknown(X, 0.1).mean() > 0.25


def tables(rows: int = 90, seed: int = 1) -> list[tuple[Any, Any]]:
    """Return three tables of two classes in 30 columns: few rows for that many."""
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(rows, 30)) + (np.arange(rows) % 2)[:, None], np.arange(rows) % 2) for _ in range(3)]


def test_where_a_class_is_too_small_without_a_fold_the_site_describes_its_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rare = [SiteData(f"s{at}", rng.normal(size=(30, 2)), np.arange(30) % 2) for at in range(3)]
    rare[1] = SiteData("s1", rare[1].X, np.where(np.arange(30) < 2, 5, rare[1].y))
    run(Moments(space="euclidean"), rare, record=tmp_path / "run")
    own = load_model(tmp_path / "run" / "sites" / "s1.safetensors")
    assert own.known.cloud is not None


def test_many_columns_are_described_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedgeom.methods.moments.site.MOST_COLUMNS", 29)
    run(
        Moments(space="euclidean"),
        [SiteData(f"s{i}", *table) for i, table in enumerate(tables())],
        record=tmp_path / "r",
    )
    assert load_model(tmp_path / "r" / "sites" / "s1.safetensors").known.cloud is not None


def test_of_very_many_rows_some_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is of all rows; how well they fit is told from some, which scoring all would not tell much better."""
    sites, settings = blobs(3, 2), {"space": "euclidean"}
    whole = run(Moments(**settings), sites)
    monkeypatch.setattr("fedgeom.methods.moments.site.MOST_SCORED", 20)
    some = run(Moments(**settings), sites)
    assert some.model.to_bytes() == whole.model.to_bytes()
    for site in sites:
        drawn = site.some(20)
        right = np.mean(whole.model.predict(drawn.X) == drawn.y)
        assert some.local[site.name]["fits"] == right
        assert whole.local[site.name]["rows"] == some.local[site.name]["rows"] == len(site)
