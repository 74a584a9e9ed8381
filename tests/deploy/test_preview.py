"""The rehearsal at a site: the same messages as in a run, and nothing written or sent."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.deploy.answers import read_data
from fedgeom.deploy.federation_file import build_method, read_federation
from fedgeom.deploy.preview import SHAPING, drawn, perturbed, preview
from fedgeom.errors import InputError
from fedgeom.federation.method import ShownRows
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.methods.catalogue import METHODS
from fedgeom.methods.moments.method import Moments
from tests.deploy.making import edit, make_coordinator, make_sites, parameters_of, set_policy, small


@pytest.fixture
def anna(tmp_path):
    return make_sites(tmp_path, make_coordinator(tmp_path / "c"), policy=StrictPolicy())["anna"]


def federation(tmp_path, text='method = "hulls"\n[parameters]\nepsilon = 0.05\n'):
    file = tmp_path / "study.toml"
    file.write_text(text)
    return file


def files(folder):
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*")}


def test_what_would_leave(anna, tmp_path):
    file = federation(tmp_path)
    before = files(tmp_path)
    found = preview(anna, file)
    assert files(tmp_path) == before
    assert (found.site, found.method, found.phantoms, found.refusals) == ("anna", "hulls", 2, [])
    asked = [one.question for one in found.messages]
    assert asked[:3] == ["join.hello", "join.meet", "join.share"]
    assert {"hulls.extent", "hulls.encode", "sum.unmask"} <= set(asked)
    assert all(one.bytes > 0 and one.received > 0 and one.reveals for one in found.messages)
    if not found.broke_off:
        assert asked[-1] == "hulls.take-model"


WAYS = {
    "moments": "",
    "hulls": "[parameters]\nepsilon = 0.05",
    "ridge": "holdout = 0.25",
    "fedavg": 'prepare = "table"\n[parameters]\nn_rounds = 3',
    "xclp": '[parameters]\nhash_bits = 64\nhamming = "lattice"',
}


@pytest.mark.parametrize("name", WAYS)
def test_it_is_what_leaves_the_site_in_a_run(name, anna, tmp_path):
    """Of sites that are called as the phantoms are, and have their rows."""
    file = federation(tmp_path, f'method = "{name}"\n{WAYS[name]}\n')
    found = preview(anna, file)
    method, rng = build_method(file, read_federation(file)), np.random.default_rng(0)
    own = read_data(anna, text=bool(method.preparing))
    alike = drawn if method.preparing else perturbed
    phantoms = [alike(own, rng, f"phantom-{at}") for at in (1, 2)]
    policy = Policy(
        **{key: getattr(anna.config().policy, key) for key in SHAPING}
    )  # it shows also what is refused
    run = fedgeom.run(method, [own, *phantoms], policy=policy)
    left = Counter(entry.kind for entry in run.ledger if entry.site == own.name)
    sent = sum(entry.bytes for entry in run.ledger if entry.site == own.name)
    told = Counter()
    for one in found.messages:
        told[one.answer] += one.times
    bytes_told = sum(one.times * one.bytes for one in found.messages)
    assert left <= told
    assert sent <= bytes_told
    if not any(one.bound for one in found.messages):
        assert (left, sent) == (told, bytes_told)


def test_it_is_said_whether_names_are_told(anna, tmp_path):
    assert preview(anna, federation(tmp_path)).names == "own"
    shared = preview(anna, federation(tmp_path, 'method = "hulls"\nnames = "shared"\n'))
    assert shared.names == "shared"
    assert {"names.seal", "hulls.corners"} <= {one.question for one in shared.messages}
    assert {corner.label for corner in shared.corners} == {"no", "yes"}
    assert preview(anna, federation(tmp_path, 'method = "moments"\n')).names == "shared"


def test_corners(anna, tmp_path):
    found = preview(anna, federation(tmp_path))
    y = np.load(tmp_path / "anna.npz")["y"]
    assert {c.label: c.rows for c in found.corners} == {name: int((y == name).sum()) for name in ("no", "yes")}
    for c in found.corners:
        assert 3 <= c.corners <= c.rows
        assert c.share == c.corners / c.rows
        nearest = np.linalg.norm(c.sent[:, None] - c.points[None], axis=2).min(axis=1)
        assert nearest.max() < 0.05  # every corner is a row, rounded


@pytest.mark.parametrize("embedding", ["discriminant", "map"])
def test_a_table_with_a_joint_map(embedding, anna, tmp_path):
    rng = np.random.default_rng(1)
    y = np.repeat(["a", "b"], 40)
    np.savez(tmp_path / "anna.npz", X=rng.normal(size=(80, 5)) + 2.0 * (y == "b")[:, None], y=y)
    text = f'method = "hulls"\n[parameters]\nembedding = "{embedding}"\nepsilon = 0.1\n'
    found = preview(anna, federation(tmp_path, text), sites=4)
    assert found.phantoms == 3
    asked = {"discriminant": "hulls.scatter", "map": "prepare.cell-sums"}[embedding]
    assert asked in [one.question for one in found.messages]
    assert {c.label for c in found.corners} == {"a", "b"}


def test_a_message_too_large_is_refused_before_the_rehearsal(anna, tmp_path):
    y = np.repeat(["a", "b"], 6)
    np.savez(tmp_path / "anna.npz", X=np.random.default_rng(1).normal(size=(12, 6000)), y=y)
    wide = 'method = "moments"\n[parameters]\nspace = "euclidean"\n'
    found = preview(anna, federation(tmp_path, wide))
    (said,) = found.refusals
    assert said.startswith("site 'anna': the covariances of 2 classes and 6,000 ")
    assert 'rule="centroid"' in said
    assert not found.messages
    found = preview(anna, federation(tmp_path, f'{wide}rule = "centroid"\n'))
    assert not found.refusals
    assert not found.broke_off


class Strange(Moments):
    """A stranger's method, which says itself which rows it shows."""

    def rows_shown(self, shape):
        (own,) = (table for table in shape.tables if table.name == shape.site)
        return [ShownRows(f"{own.name} of {shape.n_sites}", len(own), 1, own.X[:, :2], own.X[:1, :2])]


def test_any_method_can_say_which_rows_it_shows(anna, tmp_path, monkeypatch):
    monkeypatch.setattr("fedgeom.deploy.preview.build_method", lambda file, plan: Strange())
    (shown,) = preview(anna, federation(tmp_path, 'method = "moments"\n')).corners
    assert shown.label == "anna of 3"
    assert shown.share == 1 / len(read_data(anna))


def test_other_methods_have_no_corners(anna, tmp_path):
    found = preview(anna, federation(tmp_path, 'method = "moments"\n'))
    assert found.corners == []
    assert not found.broke_off
    assert len(found.messages) > 4


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_rehearsed(name, anna, tmp_path):
    method = small(name)
    if name == "regression":  # of the rows that stand for all sites' it wants more, where policies have floors
        set_policy(anna, Policy(secure_only=True))
    found = preview(anna, federation(tmp_path, f'method = "{name}"\n{parameters_of(method)}\n'))
    assert (found.method, found.broke_off) == (name, "")
    shown = method.shows_one_site()
    assert len(found.refusals) == bool(shown)
    assert all(
        f"secure_only = true, but these settings show the coordinator {shown}" in why for why in found.refusals
    )
    assert found.messages[0].question == "join.hello"
    assert all(one.bytes > 0 and one.reveals for one in found.messages)


def test_what_the_site_would_refuse(anna, tmp_path):
    edit(anna, "methods = []", 'methods = ["moments"]')
    edit(anna, "runs_per_day = 20", "runs_per_day = 0")
    found = preview(
        anna, federation(tmp_path, 'method = "hulls"\n[[sites]]\nname = "bert"\n[[sites]]\nname = "carl"\n')
    )
    assert len(found.refusals) == 3
    assert "moments, not hulls" in found.refusals[0]
    assert found.messages  # and still it is shown what would leave


def test_what_the_policy_says_to_the_settings_and_to_the_data_is_all_said(anna, tmp_path):
    text = 'method = "fedavg"\n[parameters]\nsecure = false\nn_rounds = 201\nbatch_size = 2\nsolver = "sgd"\n'
    edit(anna, "min_rows_per_class = 5", "min_rows_per_class = 500")
    said = preview(anna, federation(tmp_path, text)).refusals
    keys = ("secure_only = true", "max_rounds = 200", "min_batch_size = 8", "min_rows_per_class knowingly")
    assert len(said) == len(keys)
    assert all(key in why for key, why in zip(keys, said, strict=True))


def test_corners_beyond_the_policy_are_said_and_still_shown(anna, tmp_path):
    edit(anna, "max_corner_share = 0.5", "max_corner_share = 0.05")
    found = preview(anna, federation(tmp_path))
    assert [why for why in found.refusals if "max_corner_share = 0.05" in why] == found.refusals
    assert len(found.refusals) == 2  # one for each class
    assert found.corners


def test_how_many_sites(anna, tmp_path):
    file = federation(tmp_path)
    assert preview(anna, file, sites=5).phantoms == 4
    with pytest.raises(InputError, match=r"2 sites were assumed.*at least 3"):
        preview(anna, file, sites=2)
    (anna.path / "roster.json").unlink()  # a preview comes before the site is admitted
    assert preview(anna, file).phantoms == 2


def test_data_that_do_not_fit_are_said(anna, tmp_path):
    X, y = np.full((20, 2), 3.0), np.repeat(["a", "b"], 10)
    X[4, 1], y[0] = np.nan, "c"
    np.savez(tmp_path / "anna.npz", X=X, y=y)
    found = preview(anna, federation(tmp_path))
    assert [one.topic for one in found.report.errors] == ["gaps", "classes", "ball"]  # all of it, at once
    assert found.refusals == [str(one) for one in found.report.errors]
    assert found.messages == []
    assert "the site's table is not ready" in found.broke_off


def test_phantoms_stay_within_the_farthest_row():
    rng = np.random.default_rng(0)
    own = SiteData("anna", rng.normal(size=(50, 3)), np.repeat(["a", "b"], 25))
    phantom = perturbed(own, rng, "phantom-1")
    norms = [np.linalg.norm(site.X, axis=1) for site in (own, phantom)]
    assert norms[1].max() <= norms[0].max() * (1 + 1e-12)
    assert not (phantom.X == own.X).any()
    np.testing.assert_array_equal(phantom.y, own.y)
    still = perturbed(SiteData("z", np.zeros((3, 2)), ["a", "a", "b"]), rng, "p")
    assert np.isfinite(still.X).all()
