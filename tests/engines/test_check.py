"""`fedgeom.check`: all faults of all sites at once, for every method, before anything is sent."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.engines import check as checking
from fedgeom.engines.check import check_own
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.policy import StrictPolicy

EUCLIDEAN = fedgeom.Moments(space="euclidean")


def tables(n=4, rows=60, d=6, k=3, seed=0):
    rng, found = np.random.default_rng(seed), []
    for at in range(n):
        y = np.arange(rows) % k
        X = rng.normal(size=(rows, d)) + y[:, None] * np.arange(d) / d
        found.append(
            SiteData(f"s{at}", X, np.char.add("class ", y.astype(str)), columns=[f"c{i}" for i in range(d)])
        )
    return found


def whats(report, topic):
    return [(one.sites, one.what) for one in report.findings if one.topic == topic]


def test_good_tables_are_ready():
    report = fedgeom.check(EUCLIDEAN, tables())
    assert report.ready
    assert report.findings == ()
    assert [(site.name, site.rows, site.columns) for site in report.sites] == [
        (f"s{at}", 60, 6) for at in range(4)
    ]


def test_all_faults_of_all_sites_are_found_at_once():
    """Findings 9 and 10: one cell, one class or one site was named at a time, by number instead of name."""
    sites = tables()
    sites[0].X[7, 2] = np.nan
    sites[1].X[3, 4] = np.inf
    sites[2].y[:-1] = "class 0"  # one row of another class is left
    sites[3].y[5] = ""
    report = fedgeom.check(EUCLIDEAN, sites)
    assert not report.ready
    assert whats(report, "gaps") == [
        (("s0",), "row 7, column 'c2' is nan"),
        (("s1",), "row 3, column 'c4' is inf"),
        ((), "4 of 6 columns have no gap at any site: 'c0', 'c1', 'c3', 'c5'"),
    ]
    assert (("s2",), "has classes with fewer than 2 rows: 'class 2' (1)") in whats(report, "classes")
    assert whats(report, "labels") == [(("s3",), "1 of 60 rows have no label, which this method cannot use")]
    with pytest.raises(InputError) as caught:
        fedgeom.run(EUCLIDEAN, sites)
    lines = str(caught.value).splitlines()
    assert lines[0] == "not ready, 4 faults:"
    assert lines[1:] == [str(one) for one in report.errors]


def test_classes_too_small_are_named_at_all_sites_whoever_else_has_faults():
    sites = tables()
    for site in sites[:2]:
        site.y[:-1] = "class 0"
        site.X[0, 0] = np.nan
    report = fedgeom.check(EUCLIDEAN, sites, fedgeom.Policy(min_rows_per_class=30))
    assert {sites for sites, _ in whats(report, "classes")} == {("s0", "s1"), ("s2", "s3")}
    assert {one.sites for one in report.errors if one.topic == "gaps"} == {
        ("s0", "s1")
    }  # what is the same at both is said once


def test_rows_outside_the_ball_are_counted_and_the_remedy_is_named():
    """Finding 8: the norm of the first row was shown, and space="euclidean" never mentioned."""
    sites = tables()
    sites[1].X[:] *= 1000
    report = fedgeom.check("moments", sites)
    assert {one.sites for one in report.errors} == {("s0",), ("s1",), ("s2",), ("s3",)}
    assert all('space="euclidean"' in one.remedy for one in report.errors)
    (found,) = [one for one in report.errors if one.sites == ("s1",)]
    farthest = int(np.linalg.norm(sites[1].X, axis=1).argmax())
    assert found.what.startswith(f"60 of 60 rows are no points of the Poincaré ball: row {farthest} has norm ")


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (EUCLIDEAN, 'rule="centroid"'),
        (fedgeom.Hulls(embedding="discriminant"), "take fewer columns"),
    ],
)
def test_too_many_columns_are_one_fault_with_a_way_out(method, words):
    """Finding 7: 13,656 genes ended in a MemoryError, or in a message after minutes."""
    sites = [SiteData(f"s{at}", np.zeros((4, 13_656)), list("aabb")) for at in range(4)]
    report = fedgeom.check(method, sites)
    (found,) = report.errors
    assert found.topic == "size"
    assert found.sites == ()
    assert words in found.remedy


def test_columns_that_differ_are_said_once_and_nothing_is_computed_over_them():
    sites = tables()
    sites[3] = SiteData("s3", sites[3].X[:, 1:], sites[3].y, columns=sites[3].columns[1:])
    report = fedgeom.check(EUCLIDEAN, sites)
    (found,) = report.errors
    assert (found.topic, found.sites) == ("columns", ("s3",))


def test_what_all_sites_together_lack():
    one = [SiteData(site.name, site.X, ["a"] * 60) for site in tables()]
    report = fedgeom.check(EUCLIDEAN, one)
    assert [error.what for error in report.errors] == [
        "all sites together have one class, a; a classifier needs two"
    ]
    report = fedgeom.check(fedgeom.Moments(space="euclidean", classes=["class 0", "class 9"]), tables())
    assert len(report.errors) == 2  # labels outside the classes, at all sites; one that nobody has


def test_too_few_sites_and_what_the_policy_forbids():
    report = fedgeom.check("xclp", tables(2), StrictPolicy(methods=("moments",)))
    said = " ".join(one.what for one in report.errors if one.topic == "policy")
    assert "2 sites were given; sums need 3 (min_cohort in the policy, min_sites of the method)" in said
    assert "the policy allows the methods moments, not xclp" in said
    assert "secure_only = true" in said


def test_classes_too_rare_for_the_policy_are_said_to_be_left_out():
    sites = tables()
    sites[0].y[:9] = "rare"
    strict = StrictPolicy(secure_only=False)
    (found,) = [one for one in fedgeom.check(EUCLIDEAN, sites, strict).warnings if one.topic == "classes"]
    assert found.what.startswith(
        "1 of 4 classes are left out of every sum, with their rows: 'rare' (1 site, 9 rows);"
    )
    assert not fedgeom.check(EUCLIDEAN, sites).warnings
    assert not fedgeom.check(fedgeom.Hulls(embedding="discriminant"), sites, strict).warnings  # it knows no names
    own = [site.relabel({f"class {k}": f"{site.name} {k}" for k in range(3)}) for site in tables()]
    (found,) = [one for one in fedgeom.check(EUCLIDEAN, own, strict).errors if one.topic == "classes"]
    assert found.what.startswith("12 of 12 classes are left out")


def test_rows_kept_aside_are_looked_at_and_what_is_left_is_enough():
    sites = tables(rows=18)
    tested = fedgeom.Moments(space="euclidean", holdout=0.3)
    report = fedgeom.check(tested, sites)
    assert report.ready
    (note,) = report.findings
    assert note.sites == ("s0", "s1", "s2", "s3")
    assert note.what == "fewer than 10 rows are kept aside for testing"
    for seed in range(3):  # a gap is found wherever its row is
        sites[1].X[4, 0] = np.nan
        assert whats(fedgeom.check(tested, sites, seed=seed), "gaps")[0] == (("s1",), "row 4, column 'c0' is nan")
    grouped = fedgeom.Moments(space="euclidean", holdout={"share": 0.3, "grouped": True})
    (found,) = fedgeom.check(grouped, tables()).errors
    assert found.sites == ("s0", "s1", "s2", "s3")
    assert 'group = "patient" in site.toml' in found.what


def test_words_that_no_two_sites_share_are_told_before_and_once_after():
    own = [site.relabel({f"class {k}": f"{site.name} {k}" for k in range(3)}) for site in tables()]
    (found,) = fedgeom.check("fedavg", own).warnings
    assert found.what.startswith("no label name is shared by two sites")
    assert "matches names (ellipses, hulls)" in found.remedy
    assert not fedgeom.check(fedgeom.Hulls(embedding="discriminant"), own).warnings
    (warning,) = fedgeom.run(EUCLIDEAN, own).warnings
    assert "no label name is shared" in str(warning)


def test_rows_of_a_run_over_pairs_against_the_limit():
    """Finding 9: sites were lost to the limit while the screen showed a hook."""
    assert fedgeom.check("xclp", tables(n=5, rows=360)).ready  # in waves
    sites = tables(n=5, rows=1800)
    report = fedgeom.check("xclp", sites)
    (found,) = report.errors
    assert found.what.startswith("the largest message, 'xclp.begin', has about 84,")
    assert 'graph="anchors"' in found.remedy
    assert fedgeom.check(fedgeom.XCLP(graph="anchors"), sites).ready


def test_columns_on_different_scales_are_said_where_nobody_scales_them():
    sites = tables()
    for site in sites:
        site.X[:, 2] *= 1e5
    scaled = {
        name: [one for one in fedgeom.check(method, sites).warnings if one.topic == "scale"]
        for name, method in {
            "fedavg": fedgeom.FedAvg(),
            "unscaled": fedgeom.FedAvg(scale="none"),
            "xclp": fedgeom.XCLP(graph="anchors"),
            "centroid": fedgeom.Moments(space="euclidean", rule="centroid"),
            "gaussian": EUCLIDEAN,
        }.items()
    }
    assert {name: bool(found) for name, found in scaled.items()} == {
        "fedavg": False,
        "unscaled": True,
        "xclp": True,
        "centroid": True,
        "gaussian": False,
    }


def test_warnings_stay_with_the_run():
    sites = tables()
    sites[1].X[:, 3] = 0.0
    found = fedgeom.run(EUCLIDEAN, sites)
    (warning,) = found.warnings
    assert warning.site == "s1"
    assert "site 's1' has columns with one value in all rows that vary at all other sites: 'c3' is 0" in str(
        warning
    )
    assert "measured there at all" in warning.remedy


def test_weights_that_single_sites_out_are_told_beforehand(monkeypatch):
    """Finding 9: "the weights make this a sum of 2.2 sites" came in the middle of the run, without a remedy."""
    pytest.importorskip("gudhi")
    rng, everyone = np.random.default_rng(1), []
    for at in range(9):  # clouds of very different sizes
        X = rng.normal(size=(40, 3)) * 10 ** rng.uniform(-1, 2)
        everyone.append(SiteData(f"s{at}", X, np.arange(40) % 2))
    method = fedgeom.PTopoFL(n_rounds=1, n_clusters=3)
    (found,) = fedgeom.check(method, everyone).errors
    assert re.fullmatch(
        r"the weights of closeness and trust make the sum over s\d, s\d, s\d one of 2\.3 sites; the policy asks for 3 "
        r"\(min_cohort\)",
        found.what,
    )
    assert found.remedy == 'weigh the sites alike: closeness=False, trust="none"'
    with monkeypatch.context() as patch:  # and so it would be
        patch.setattr(fedgeom.PTopoFL, "check", lambda *_: [])
        with pytest.raises(ProtocolError, match=r"make this a sum of 2\.3 sites"):
            fedgeom.run(method, everyone)
    alike = fedgeom.PTopoFL(n_rounds=1, n_clusters=3, closeness=False, trust="none")
    assert fedgeom.run(alike, everyone).lost == {}


SIZED = [
    EUCLIDEAN,
    fedgeom.Moments(space="euclidean", rule="centroid"),
    fedgeom.Hulls(embedding="discriminant"),
    fedgeom.FedAvg(n_rounds=2),
    fedgeom.Scaffold(n_rounds=2),
    fedgeom.PTopoFL(n_rounds=2, closeness=False, trust="none", n_clusters=1),
    fedgeom.XCLP(graph="anchors", n_rounds=2),
    fedgeom.XCLP(hash_bits=512),
    fedgeom.Shrunk(n_rounds=2),
]


@pytest.mark.parametrize("names", ["own", "shared"])
def test_encoded_hulls_are_foreseen_where_they_are_the_largest_message(names):
    """Only the joint map was; with many sites and corners the words are larger."""
    angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    ring = 0.3 * np.column_stack([np.cos(angles), np.sin(angles)])  # every row is a corner
    rows, words = np.vstack([ring - (0.4, 0), np.add(ring, (0.4, 0))]), np.repeat(["left", "right"], 400)
    sites = [SiteData(f"s{at}", rows * (1 - at / 20), words) for at in range(5)]
    method = fedgeom.Hulls(names=names, trim=0.0, epsilon=0.003)
    sent = max(entry.bytes for entry in fedgeom.run(method, sites).ledger)
    assert sent > 2 * 25_000  # larger than everybody's keys
    small = fedgeom.Policy(max_message_bytes=sent - 1)
    assert any("the largest message, 'hulls." in one.what for one in fedgeom.check(method, sites, small).errors)


def test_a_message_too_large_for_the_policy_is_said_for_every_method():
    small = fedgeom.Policy(max_message_bytes=1500)
    for method in SIZED:
        sites = tables(d=100, k=2, rows=30)
        errors = [one for one in fedgeom.check(method, sites, small).errors if one.topic == "size"]
        assert len(errors) == 1, method.name
        assert "1,500" in errors[0].what


def test_memory(monkeypatch):
    monkeypatch.setattr(checking, "free_memory", lambda: 1000)
    (found,) = [one for one in fedgeom.check(EUCLIDEAN, tables()).findings if one.topic == "memory"]
    assert found.level == "warning"
    assert "fewer columns or rows" in found.remedy
    monkeypatch.setattr(checking, "free_memory", lambda: None)
    assert not whats(fedgeom.check(EUCLIDEAN, tables()), "memory")
    monkeypatch.setattr(checking, "ANNOUNCED", 100)
    (found,) = [one for one in fedgeom.check(EUCLIDEAN, tables()).findings if one.topic == "memory"]
    assert found.level == "note"


def test_free_memory_is_a_number_where_the_machine_says_it():
    free = checking.free_memory()
    assert free is None or free > 2**20


def test_a_strangers_method_is_checked_as_it_checks_itself(monkeypatch):
    def refuse(self, settings):
        raise InputError(f"site {self.name!r} does not like it")

    monkeypatch.setattr(fedgeom.FedAvg.site, "check", refuse)
    report = fedgeom.check("fedavg", tables())
    assert [str(one) for one in report.errors] == ["sites 's0', 's1', 's2', 's3': does not like it"]


def test_what_are_no_sites_is_raised():
    with pytest.raises(InputError, match="no sites were given"):
        fedgeom.check("fedavg", [])
    with pytest.raises(InputError, match=r"wanted a list of fedgeom\.SiteData"):
        fedgeom.check("fedavg", [3])


# One site by itself.


def test_a_sites_own_table():
    (own, *_) = tables()
    own.X[:, 1] = 2.0
    own.X[4, 0] = np.nan
    own.y[3] = ""
    report = check_own(None, own, StrictPolicy())
    assert [(one.level, one.topic) for one in report.findings] == [
        ("error", "gaps"),
        ("warning", "constants"),
        ("note", "labels"),
    ]
    report = check_own(EUCLIDEAN, own, StrictPolicy(min_rows_per_class=30))
    assert {one.topic for one in report.errors} == {"gaps", "labels", "classes"}


def test_a_sites_own_table_against_terms_and_policy():
    (own, *_) = tables(rows=1800)
    report = check_own(fedgeom.XCLP(), own, StrictPolicy(), sites=6)
    said = [one.what for one in report.errors]
    assert any("secure_only" in one for one in said)
    assert any("the largest message, 'xclp.begin', has about" in one for one in said)
    assert check_own(fedgeom.XCLP(graph="anchors"), own, StrictPolicy(), sites=6).ready
