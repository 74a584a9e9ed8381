"""Labels come back as they were given: from models, from their files, and from each site's own results."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedgeom
from fedgeom.data.readers import read_site
from fedgeom.engines.check import check

RNG = np.random.default_rng(0)
y = RNG.integers(0, 2, 240)
X = RNG.normal(size=(240, 3)) + 2 * y[:, None]
RIDGE = fedgeom.Ridge(features="linear")


@pytest.mark.parametrize(
    "given", [y, y.astype(np.uint8), y.astype(float), y.astype(bool), y.astype(str), y.astype(object), y + 0.5]
)
@pytest.mark.parametrize("prepare", [None, "table"])
def test_predictions_have_the_type_of_the_labels(tmp_path, given, prepare):
    sites = fedgeom.split(X, given)
    run = fedgeom.run(fedgeom.Ridge(features="linear", prepare=prepare), sites, holdout=0.25)
    kind = "i" if given.dtype.kind in "uO" else given.dtype.kind
    assert run.model.predict(X).dtype.kind == kind
    assert (run.model.predict(X) == given).mean() > 0.9
    assert run.model.classes_.tolist() == np.unique(given).tolist()
    assert run.model.score(X, given) > 0.9
    assert run.evaluation["pooled"].accuracy.value > 0.9
    run.model.save(tmp_path / "model.safetensors")
    again = fedgeom.load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(X), run.model.predict(X), strict=True)
    own = run.model.for_site(run.local["site-1"])
    assert (own.predict(X) == given).mean() > 0.9


@pytest.mark.parametrize("hidden", [-1, np.nan, None])
def test_labels_that_were_found_are_of_the_type_of_those_given(tmp_path, hidden):
    """They were text: compared with whole numbers, all were wrong."""
    shown = np.where(np.arange(len(y)) % 2, y, hidden)
    run = fedgeom.run(fedgeom.XCLP(), fedgeom.split(X, shown), record=tmp_path / "run")
    truth = {part.name: part for part in fedgeom.split(X, shown, extra={"true": y})}
    for name, found in run.labels.items():
        assert (found == truth[name].extra["true"]).mean() > 0.8
        kept = json.loads((tmp_path / "run" / "sites" / f"{name}.json").read_text())
        assert kept["labels"] == found.tolist()
        own = fedgeom.load_model(tmp_path / "run" / "sites" / f"{name}.safetensors")
        assert own.classes_.tolist() == [0, 1]


def test_words_of_a_site_are_of_its_own_type():
    """With names of their own, sites may have other types, and nothing is said of it."""
    parts = fedgeom.split(X, y, n_sites=3)
    named = np.where(parts[1].y == 1, "ill", "well")
    sites = [parts[0], fedgeom.SiteData(parts[1].name, parts[1].X, named), parts[2]]
    run = fedgeom.run(fedgeom.Ellipses(names="own", n_classes=2), sites)
    assert run.model.for_site(run.local["site-1"]).predict(X).dtype == np.int64
    assert set(run.model.for_site(run.local["site-2"]).predict(X).tolist()) == {"ill", "well"}
    assert not any("types" in str(one) for one in run.warnings)


def test_of_sites_with_different_types_it_is_decided_and_said():
    a, b, c = fedgeom.split(X, y, n_sites=3)
    gaps = fedgeom.SiteData("gaps", b.X, b.y.astype(float))
    run = fedgeom.run(RIDGE, [a, gaps, c])
    assert run.model.predict(X).dtype == np.int64
    assert not run.warnings
    text = fedgeom.SiteData("text", b.X, b.y.astype(str))
    run = fedgeom.run(RIDGE, [a, text, c])
    assert run.model.predict(X).dtype.kind == "U"
    (warning,) = [str(one) for one in run.warnings]
    assert "integer at 'site-1', 'site-3'; text at 'text'" in warning
    assert (
        check(fedgeom.Ridge(features="linear", prepare="table"), [a, text, c]).warnings[0].what
        == run.warnings[0].what
    )


def test_files_give_whole_numbers_back_as_such(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    frame = pandas.DataFrame(X, columns=list("abc")).assign(y=y, site=np.arange(len(y)) % 3)
    sites = fedgeom.SiteData.from_frame(frame, label="y", by="site")
    model = fedgeom.run(RIDGE, sites).model
    assert (model.predict(frame[list("abc")]) == frame["y"]).mean() > 0.9
    for label, kind in ((y, "i"), (y.astype(str), "U"), (np.where(y, 1.0, np.nan), "O"), (y.astype(bool), "b")):
        made = frame.assign(y=label)
        assert fedgeom.SiteData.from_frame(made, label="y").y.dtype.kind == kind
        made.to_parquet(tmp_path / "a.parquet")
        assert read_site(tmp_path / "a.parquet", label="y", columns=list("abc")).y.dtype.kind == kind
    for label, kind in (
        (y, "i"),
        (y.astype(bool), "b"),
        (np.where(y, "07", "1"), "U"),
        (np.where(y, "1", ""), "O"),
    ):
        frame.assign(y=label).to_csv(tmp_path / "a.csv", index=False)
        assert read_site(tmp_path / "a.csv", label="y").y.dtype.kind == kind


def test_labels_can_be_renamed_by_their_number_or_its_text():
    site = fedgeom.SiteData("north", X, y)
    for names in ({0: "no", 1: "yes"}, {"0": "no", "1": "yes"}):
        assert site.relabel(names).y.tolist() == np.where(y, "yes", "no").tolist()
