"""Every method that comes with fedgeom keeps the contract, and what breaks it is found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError, ProtocolError
from fedgeom.extend import Method, Plain, answers
from fedgeom.federation.messages import encode
from fedgeom.federation.method import METHODS
from fedgeom.methods.moments.site import MomentsSite, SumClassMoments
from fedgeom.protocols.model_delivery import TakeResult
from fedgeom.testing import (
    Check,
    CheckResult,
    check_method,
    checks_of,
    example_sites,
    parametrize_with_checks,
)
from fedgeom.testing.check import CHECKS
from fedgeom.testing.rehearsal import CheckContext
from tests.testing.test_adversary import Trusted
from tests.testing.test_agreement import Crowd, Forgetful, Miscounted, Muted, Unwritten
from tests.testing.test_faults import Counting, Fragile, FragileTest

pytest_plugins = ["pytester"]

QUICK = {"n_rounds": 3, "epochs": 1}
SPREADING: dict[str, Any] = {"n_rounds": 2, "epochs": 1, "warmup_rounds": 1}
OPEN = {"hidden_projection": False}
DEEP = ["Moon", "FedNTD", "FedSAM", "FedRoD", "FedLC", "SphereFed", "FedProto"]
SMALL = {"n_rounds": 2, "epochs": 1, "network": {"name": "mlp", "features": 4, "hidden": 4}}
ALGORITHMS = [
    "FedAvg", "FedProx", "Scaffold", "FedDyn", "FedAdam", "FedYogi", "Ditto", "PFedMe", "FedPer", "Interpolated",
    "LocalOnly", "FedAvgM", "FedNova", "FedRep", "FedBABU", "FedMTL", "Apple", "FedExP", "FedDC", "FedALA",
]  # fmt: skip

TREE: dict[str, Any] = {
    "class_tree": {"left": "both", "right": "both"},
    "loss": "tree-softmax",
    "aggregation": "mean",
}


def cases() -> list[Any]:
    """Return every method, with settings that keep a run short."""
    found: list[tuple[str, Any]] = [
        ("hulls", lambda: fedgeom.Hulls(epsilon=0.2)),
        ("hulls mapped", lambda: fedgeom.Hulls(epsilon=0.2, embedding="discriminant")),
        ("hulls shared", lambda: fedgeom.Hulls(epsilon=0.2, names="shared")),
        ("hulls shared mapped", lambda: fedgeom.Hulls(epsilon=0.2, names="shared", embedding="discriminant")),
        ("ellipses", fedgeom.Ellipses),
        ("moments", fedgeom.Moments),
        ("ridge", lambda: fedgeom.Ridge(features=["linear", "binned"])),
        ("poincare map", lambda: fedgeom.PoincareMap(n_landmarks=6)),
        ("xclp", lambda: fedgeom.XCLP(hash_bits=64, hidden_projection=False, confidence="code")),
        ("xclp anchors", lambda: fedgeom.XCLP(graph="anchors", n_anchors=6, n_rounds=2)),
        (
            "xclp training",
            lambda: fedgeom.XCLPTraining(**SPREADING, labels={"name": "xclp", "n_anchors": 6, "steps": 1}),
        ),
        (
            "xclp training pairs",
            lambda: fedgeom.XCLPTraining(
                **SPREADING, labels={"name": "xclp", "graph": "pairs", "hash_bits": 64} | OPEN
            ),
        ),
        ("xclp training network", lambda: fedgeom.XCLPTraining(**SPREADING, labels="network")),
        ("shrunk", lambda: fedgeom.Shrunk(n_rounds=2, n_folds=2)),
        ("ptopofl", lambda: fedgeom.PTopoFL(n_rounds=2, epochs=1, n_points=12)),
        (
            "ptopofl activations",
            lambda: fedgeom.PTopoFL(**SMALL, n_points=12, descriptor_input="activations", topo_inputs=True),
        ),
        (
            "ptopofl activations later",
            lambda: fedgeom.PTopoFL(
                **SMALL,
                n_points=12,
                descriptor_input="activations",
                first_descriptor_round=1,
                closeness=False,
                trust="none",
            ),
        ),
        (
            "hyperfed",
            lambda: fedgeom.HyperFed(n_rounds=2, steps=2, network=None, head="linear", loss="cross-entropy"),
        ),
        ("hyperfed network", lambda: fedgeom.HyperFed(**SMALL)),
        ("hyperfed tree", lambda: fedgeom.HyperFed(**SMALL, **TREE)),
        ("fedavg open", lambda: fedgeom.FedAvg(**QUICK, aggregation="median")),
    ]
    found += [(name.lower(), lambda name=name: getattr(fedgeom, name)(**QUICK)) for name in ALGORITHMS]
    found += [(name.lower(), lambda name=name: getattr(fedgeom, name)(**SMALL)) for name in DEEP]
    needs = {
        "xclp": "seal",
        "xclp training pairs": "seal",
        "hyperfed": "seal",
        "hyperfed tree": "torch",
        "hyperfed network": "torch seal",
        "ptopofl": "gudhi",
        "ptopofl activations": "gudhi torch",
        "ptopofl activations later": "gudhi torch",
    }
    needs |= dict.fromkeys(map(str.lower, DEEP), "torch")
    return [
        pytest.param(make, id=name, marks=[pytest.mark.needs(one) for one in needs.get(name, "").split()])
        for name, make in found
    ]


@pytest.mark.full
@parametrize_with_checks(cases())
def test_our_methods_keep_the_contract(check, request) -> None:
    for mark in request.node.iter_markers("needs"):
        pytest.importorskip(mark.args[0])
    if request.node.callspec.id in OTHER_QUESTIONS:
        request.applymarker(
            pytest.mark.xfail(reason=OTHER_QUESTIONS[request.node.callspec.id], raises=AssertionError)
        )
    check()


OTHER_QUESTIONS = {
    "hyperfed network-refusals_reveal_nothing": "weights follow from how sites' updates compare, so that with other "
    "labels the honest question is another one, and the lie about it too: the check has to lie about the same one",
}
"""Cases in which a check compares answers to different questions."""


ELSEWHERE = {
    "regression": "methods/regression/test_regression.py",
}
"""Methods that are held to the contract on tables of their own."""


def test_no_method_is_left_out() -> None:
    checked = {make.values[0]().name for make in cases()}
    ours = {name for name, cls in METHODS.items() if cls.__module__.startswith("fedgeom.")}
    assert ours == checked | ELSEWHERE.keys()
    for name, file in ELSEWHERE.items():
        assert "check_method" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8"), name


@pytest.mark.full
def test_everything_at_the_full_level() -> None:
    counts = check_method(fedgeom.Moments(), level="full")
    assert counts["survives_dropout"] >= 4 * 6
    assert counts["refuses_spoilt_messages"] >= 200 * 6


def test_four_sites_are_wanted() -> None:
    with pytest.raises(AssertionError, match="3 sites were given; at least 4"):
        checks_of(fedgeom.Moments(), example_sites(3))


def test_only_methods_are_checked() -> None:
    with pytest.raises(AssertionError, match=r"<class 'dict'> is no fedgeom\.Method"):
        checks_of(dict)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class OtherTwin(fedgeom.Moments):
    name: ClassVar[str] = "test other twin"

    def plain(self, sites: Any, seed: int = 0) -> Plain:
        moved = [fedgeom.SiteData(site.name, 0.99 * site.X, site.y) for site in sites]
        return super().plain(moved, seed)


class TalkativeSite(MomentsSite):
    """Refuses by what its rows are: all but those of the example."""

    @answers(SumClassMoments)
    def sum_moments(self, ask: SumClassMoments) -> Any:
        known = {site.name: site.X for site in example_sites()}
        if not np.array_equal(self.whole.X, known[self.name]):
            raise ProtocolError("other rows")
        return super().sum_moments(ask)


class CarelessSite(MomentsSite):
    """Fails at a model that it does not expect."""

    expected: ClassVar[dict[bytes, int]] = {}

    def answer(self, question: Any) -> Any:
        if isinstance(question, TakeResult):
            if not self.expected:
                self.expected[encode(question)] = 1
            self.expected[encode(question)] += 1
        return super().answer(question)


class DrawnAnew(MomentsSite):
    """Answers the same question differently each time."""

    @answers(SumClassMoments)
    def sum_moments(self, ask: SumClassMoments) -> Any:
        found = super().sum_moments(ask)
        noise = np.random.default_rng().integers(0, 2**20, found.vector.shape).astype(np.uint64)
        return self.contribute(ask, found.vector + noise)


@dataclass(frozen=True, kw_only=True)
class Unfloored(fedgeom.Moments):
    """Sums columns that a single row sets apart."""

    name: ClassVar[str] = "test unfloored"
    column_floors: ClassVar[bool] = False


class LooseSite(MomentsSite):
    """Adds twice what its noise is made for."""

    def contribute_noisy(self, ask: Any, whole: Any, **bounds: Any) -> Any:
        return super().contribute_noisy(ask, 2 * whole, **bounds)


def private_moments(kind: type[fedgeom.Moments] = fedgeom.Moments) -> fedgeom.Moments:
    """Return Moments with privacy, for the example's sites."""
    return kind(
        space="euclidean",
        classes=("left", "right"),
        min_sites=3,
        privacy=fedgeom.DP(epsilon=1, clip=2),
    )


def broken(site: type[MomentsSite], title: str) -> Any:
    """Return Moments with another site."""
    return dataclass(frozen=True, kw_only=True)(type("Broken", (fedgeom.Moments,), {"name": title, "site": site}))


BROKEN: dict[str, tuple[Method, str]] = {
    "terms_round_trip": (Forgetful(), "does not exist is accepted"),
    "secure_equals_plain": (OtherTwin(), "differs from the plain run"),
    "same_seed_same_model": (broken(DrawnAnew, "test drawn anew")(), "other bytes"),
    "ledger_is_complete": (Unwritten(), "the ledger does not hold"),
    "site_files_match_model": (Muted(), "no model file of its own"),
    "rows_are_predicted_alone": (Crowd(), "when it comes alone"),
    "evaluation_equals_plain_count": (Miscounted(), "rows are called rightly, not"),
    "evaluation_survives_dropout": (FragileTest(), "while the model was tested, and the run died of it"),
    "survives_dropout": (Fragile(), "the run died of it"),
    "survives_restart": (Counting(), "the resumed run yields another model"),
    "refuses_spoilt_messages": (broken(CarelessSite, "test careless")(), "made the site fail"),
    "refuses_tricks": (Trusted(), "gets an answer"),
    "refusals_reveal_nothing": (broken(TalkativeSite, "test talkative")(), "depends on the data"),
    "no_sum_rests_on_few": (Unfloored(), r"one 1: .* rest on fewer than 10 rows(.|\n)*row 7 of 'site-2'"),
    "sensitivity_holds": (
        private_moments(broken(LooseSite, "test loose")),
        r"by 1\.875 times the declared",
    ),
}
"""For each check a method that breaks its law, and what is said of it."""


def named(method: Method, name: str, **options: Any) -> Check:
    """Return one check of a method."""
    return next(check for check in checks_of(method, **options) if check.name == name)


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_alone_finds_what_breaks_its_law(name: str) -> None:
    method, words = BROKEN[name]
    check = named(method, name)
    with pytest.raises(AssertionError, match=words) as caught:
        check()
    assert caught.value.__notes__ == [f"{name}: {check.law}"]


def test_there_is_such_a_method_for_every_check_and_every_law_is_a_sentence() -> None:
    checks = list(checks_of(fedgeom.Moments))
    assert [check.name for check in checks] == [function.__name__ for function in CHECKS]
    assert {check.name for check in checks} == set(BROKEN)
    assert all(re.fullmatch(r"[A-Z].{30,110}\.", check.law) for check in checks)


def test_checks_are_tried_in_any_order() -> None:
    concern = [check for check in checks_of(fedgeom.Moments()) if check.name != "sensitivity_holds"]
    assert {check.name: check() for check in reversed(concern)} == check_method(fedgeom.Moments)


def test_a_check_that_tries_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle(context: CheckContext) -> int:
        """Nothing is wrong where nothing is tried."""
        return 0

    monkeypatch.setattr("fedgeom.testing.check.CHECKS", (idle,))
    with pytest.raises(AssertionError, match="there was nothing to try"):
        check_method(fedgeom.Moments)


def test_the_level_smoke_is_brief() -> None:
    counts = check_method(fedgeom.Moments, level="smoke")
    wanted = {"secure_equals_plain": 1, "survives_dropout": 1, "survives_restart": 1, "refuses_spoilt_messages": 5}
    assert counts == wanted


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(InputError, match=r"level='ful' given; wanted one of .* Did you mean 'full'\?"):
        check_method(fedgeom.Moments, level="ful")  # type: ignore[arg-type]


def test_checks_are_skipped_with_a_reason_and_the_callback_is_told() -> None:
    told: list[CheckResult] = []
    skip = {"secure_equals_plain": "its twin is another method"}
    counts = check_method(OtherTwin, level="smoke", skip=skip, callback=told.append)
    assert list(counts) == ["survives_dropout", "survives_restart", "refuses_spoilt_messages"]
    assert [result.status for result in told] == ["skipped", "passed", "passed", "passed"]
    assert told[0].reason == "its twin is another method"
    assert told[-1].tried == 5


def test_a_check_that_does_not_concern_the_method_is_skipped_and_says_why() -> None:
    with pytest.raises(SkipTest, match="the method has no privacy"):
        named(fedgeom.Moments(), "sensitivity_holds")()
    told: list[CheckResult] = []
    rest = {
        check.name: "tried elsewhere" for check in checks_of(fedgeom.Moments) if check.name != "sensitivity_holds"
    }
    assert check_method(fedgeom.Moments, skip=rest, callback=told.append) == {}
    assert (told[-1].name, told[-1].status) == ("sensitivity_holds", "skipped")
    assert "the method has no privacy" in told[-1].reason


def test_the_callback_is_told_of_the_check_that_failed() -> None:
    told: list[CheckResult] = []
    with pytest.raises(AssertionError, match="differs from the plain run"):
        check_method(OtherTwin, level="smoke", callback=told.append)
    assert [(result.name, result.status) for result in told] == [("secure_equals_plain", "failed")]
    assert "differs from the plain run" in told[0].reason


@pytest.mark.parametrize(
    ("skip", "words"),
    [
        ({"survives_dropouts": "rare"}, r"skip has 'survives_dropouts'.* Did you mean 'survives_dropout'\?"),
        ({"survives_dropout": " "}, "wanted some words why it is skipped"),
    ],
)
def test_a_skip_that_names_no_check_or_no_reason_is_refused(skip: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_method(fedgeom.Moments, skip=skip)
    with pytest.raises(InputError, match=words):
        parametrize_with_checks([fedgeom.Moments], skip=skip)


def fail() -> Any:
    """Stand for what is not to be called while tests are collected."""
    raise AssertionError("called too early")


def test_a_test_is_made_of_each_check_of_each_method() -> None:
    methods = [
        fedgeom.Hulls(epsilon=0.2, names="shared"),
        fedgeom.Moments,
        pytest.param(fail, id="later", marks=pytest.mark.needs("torch")),
        fail,
    ]
    made = parametrize_with_checks(methods, fail, level="smoke", skip={"survives_restart": "no disk"})
    argument, cases = made.args
    assert argument == "check"
    names = ["secure_equals_plain", "survives_dropout", "survives_restart", "refuses_spoilt_messages"]
    titles = ["hulls(epsilon=0.2,names='shared')", "moments", "later", "fail"]
    assert [case.id for case in cases] == [f"{title}-{name}" for title in titles for name in names]
    marks = [[mark.name for mark in case.marks] for case in cases]
    assert marks == 2 * [[], [], ["skip"], []] + [["needs"], ["needs"], ["needs", "skip"], ["needs"]] + [
        [], [], ["skip"], []
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="called too early"):
        cases[-1].values[0]()
    by_name = parametrize_with_checks({"mine": fedgeom.Moments, "yours": fail}, level="smoke").args[1]
    assert [case.id for case in by_name] == [f"{title}-{name}" for title in ("mine", "yours") for name in names]


TEST_FILE = """
import fedgeom
from fedgeom.testing import example_sites, parametrize_with_checks
from tests.testing.test_check import OtherTwin

@parametrize_with_checks(
    [fedgeom.Moments, OtherTwin()], lambda: example_sites(5), level="smoke", skip={"survives_restart": "no disk"}
)
def test_contract(check):
    check()
"""


def test_pytest_runs_them_and_says_why_it_skips(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST_FILE)
    done = pytester.runpytest_inprocess("-v", "-rs", "-p", "no:cacheprovider", "-p", "no:randomly")
    done.assert_outcomes(passed=5, failed=1, skipped=2)
    done.stdout.fnmatch_lines(["*test other twin-secure_equals_plain? FAILED*", "*SKIPPED*no disk*"])
