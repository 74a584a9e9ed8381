"""Check that a method keeps the contract, as scikit-learn's ``check_estimator`` checks an estimator."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args
from unittest import SkipTest

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.registry import did_you_mean
from fedgeom.testing import adversary, agreement, few, rehearsal, sensitivity
from fedgeom.testing.rehearsal import CheckContext, Level, MethodOrMaker, SitesOrMaker, make_method, make_sites

if TYPE_CHECKING:
    import pytest

CheckFunction = Callable[[CheckContext], int]
"""Tries a law on a context's method: raises `AssertionError` where it is broken, returns how many cases were tried."""

CHECKS: tuple[CheckFunction, ...] = (
    agreement.terms_round_trip,
    agreement.secure_equals_plain,
    agreement.same_seed_same_model,
    agreement.ledger_is_complete,
    agreement.site_files_match_model,
    agreement.rows_are_predicted_alone,
    agreement.evaluation_equals_plain_count,
    rehearsal.evaluation_survives_dropout,
    rehearsal.survives_dropout,
    rehearsal.survives_restart,
    adversary.refuses_spoilt_messages,
    adversary.refuses_tricks,
    agreement.refusals_reveal_nothing,
    few.no_sum_rests_on_few,
    sensitivity.sensitivity_holds,
)
"""All checks. A new one is a function in this list: its name is the check's, its docstring's first line the law."""

SMOKE: tuple[CheckFunction, ...] = (
    agreement.secure_equals_plain,
    rehearsal.survives_dropout,
    rehearsal.survives_restart,
    adversary.refuses_spoilt_messages,
)
"""The checks of the level "smoke"."""


@dataclass(frozen=True)
class Check:
    """A law that a method is to keep, ready to be tried: ``check()`` returns how many cases were tried.

    It raises `AssertionError`, in words, where the law is broken, and `unittest.SkipTest`, which pytest knows, where it
    does not concern the method.
    """

    name: str
    """A short name, such as "secure_equals_plain"."""
    law: str
    """The law, in a sentence."""
    context: CheckContext = dataclasses.field(repr=False)
    function: CheckFunction = dataclasses.field(repr=False)

    def __call__(self) -> int:
        """Try the law; return how many cases were tried."""
        try:
            tried = self.function(self.context)
            assert tried > 0, "there was nothing to try; give sites on which the method asks all its questions"
        except SkipTest:
            raise
        except Exception as error:
            error.add_note(f"{self.name}: {self.law}")
            raise
        return tried


@dataclass(frozen=True)
class CheckResult:
    """What came of a check."""

    name: str
    law: str
    status: Literal["passed", "failed", "skipped"]
    tried: int = 0
    """How many cases were tried, where it passed."""
    reason: str = ""
    """Why it was skipped, how it failed, or where it passed, what was left out and why (`Cases`)."""


def checks_of(
    method: Method | type[Method],
    sites: Sequence[SiteData] | None = None,
    *,
    level: Level = "quick",
    seed: int = 0,
    tolerance: float = 1e-6,
) -> Iterator[Check]:
    """Return the checks of a method, one by one; each can be called alone, in any order.

    Undisturbed runs are shared by the checks, and made when the first of them needs one.

    Parameters
    ----------
    method : Method or class of methods
        The method, or its class for the default settings.
    sites : sequence of SiteData, default=None
        As for `check_method`.
    level : {"smoke", "quick", "full"}, default="quick"
        As for `check_method`.
    seed : int, default=0
        The seed of the runs, and of what is spoilt or lied about.
    tolerance : float, default=1e-6
        As for `check_method`.

    >>> import fedgeom
    >>> from fedgeom.testing import checks_of
    >>> [check.name for check in checks_of(fedgeom.Moments, level="smoke")]
    ['secure_equals_plain', 'survives_dropout', 'survives_restart', 'refuses_spoilt_messages']
    """
    # Made now: what cannot be checked is refused here, not by the first check.
    context = CheckContext(make_method(method), make_sites(sites), level, seed, tolerance)
    return iter(_checks(context))


def _checks(context: CheckContext) -> list[Check]:
    levels = get_args(Level)
    level = context.level
    if level not in levels:
        wanted = ", ".join(map(repr, levels))
        raise InputError(f"level={level!r} given; wanted one of {wanted}.{did_you_mean(str(level), levels)}")
    found = []
    for function in SMOKE if level == "smoke" else CHECKS:
        law = (inspect.getdoc(function) or "").partition("\n")[0]
        found.append(Check(function.__name__, law, context, function))
    return found


def check_method(
    method: Method | type[Method],
    sites: Sequence[SiteData] | None = None,
    *,
    level: Level = "quick",
    seed: int = 0,
    tolerance: float = 1e-6,
    skip: Mapping[str, str] | None = None,
    callback: Callable[[CheckResult], None] | None = None,
) -> dict[str, int]:
    """Run all checks of a method; return how many cases each has tried.

    Raises `AssertionError`, in words, at the first law that the method breaks:

    - the secure run equals `Method.plain`, and the same seed gives the same bytes on every engine;
    - a row is put into the same class alone as among others;
    - terms travel, the ledger is complete, each site has a model file that predicts as ``model.for_site`` does;
    - with rows held out, the secure sum of the evaluation is the plain count, and a site lost then costs no model;
    - a site lost at any step, and a coordinator that dies at any step and is resumed, do no harm;
    - spoilt messages and the standard tricks of a lying coordinator are refused;
    - sites that differ in rows, labels, numbers of rows or sizes of classes refuse alike, or leave for good;
    - at strict sites, no weighted sum of all numbers that are added up rests on few rows or sites, though a table has
      one gap, one rare word, one 1, one rare class, one outlier or few rows (`CheckResult.reason` says what was left
      out of that, and why);
    - with privacy, one hostile row, however large its numbers are, moves what a site adds to a sum by no more than the
      sensitivity for which its noise is made. A method without privacy skips this one.

    `checks_of` returns the checks one by one, `parametrize_with_checks` makes a test of each.

    Parameters
    ----------
    method : Method or class of methods
        The method, or its class for the default settings.
    sites : sequence of SiteData, default=None
        Small tables on which the method can run, of at least four sites, so that one may be lost. None: four sites
        with two classes inside the unit disc (`example_sites`).
    level : {"smoke", "quick", "full"}, default="quick"
        "smoke" compares with `Method.plain`, loses one site, resumes one run and spoils five messages; "quick" tries
        one case of each kind in all checks; "full" loses every site at every step and spoils more messages.
    seed : int, default=0
        The seed of the runs, and of what is spoilt or lied about.
    tolerance : float, default=1e-6
        How much numbers of the secure run may differ from the plain ones, relative to the largest.
    skip : mapping from names of checks to reasons, default=None
        Checks that are not run.
    callback : function of a CheckResult, default=None
        Called after each check, the one that fails and those skipped included.

    Returns
    -------
    dict from names of checks to int
        How many cases each check has tried; without the skipped ones.

    >>> import fedgeom
    >>> from fedgeom.testing import check_method
    >>> check_method(fedgeom.Moments, level="smoke", skip={"survives_restart": "no disk"})
    {'secure_equals_plain': 1, 'survives_dropout': 1, 'refuses_spoilt_messages': 5}
    """
    skipped = _skipped(skip)
    checks = checks_of(method, sites, level=level, seed=seed, tolerance=tolerance)
    return _run_checks(checks, skipped, callback or (lambda result: None))


def _run_checks(
    checks: Iterable[Check], skipped: Mapping[str, str], report: Callable[[CheckResult], None]
) -> dict[str, int]:
    counts = {}
    for check in checks:
        if check.name in skipped:
            report(CheckResult(check.name, check.law, "skipped", reason=skipped[check.name]))
            continue
        try:
            counts[check.name] = check()
        except SkipTest as why:
            report(CheckResult(check.name, check.law, "skipped", reason=str(why)))
            continue
        except Exception as error:
            report(CheckResult(check.name, check.law, "failed", reason=str(error)))
            raise
        tried = counts[check.name]
        report(CheckResult(check.name, check.law, "passed", int(tried), getattr(tried, "reason", "")))
    return counts


def _skipped(skip: Mapping[str, str] | None) -> dict[str, str]:
    """Return which checks are skipped and why; refuse names that no check has, and names without a reason."""
    names = [function.__name__ for function in CHECKS]
    for name, reason in (skip or {}).items():
        if name not in names:
            wanted = ", ".join(names)
            raise InputError(f"skip has {name!r}; wanted names of checks: {wanted}.{did_you_mean(name, names)}")
        if not isinstance(reason, str) or not reason.strip():
            raise InputError(f"skip has {name!r} with the reason {reason!r}; wanted some words why it is skipped")
    return dict(skip or {})


def parametrize_with_checks(
    methods: Mapping[str, MethodOrMaker] | Iterable[MethodOrMaker | Any],
    sites: SitesOrMaker = None,
    *,
    level: Level = "quick",
    seed: int = 0,
    tolerance: float = 1e-6,
    skip: Mapping[str, str] | None = None,
) -> pytest.MarkDecorator:
    """Return a decorator of pytest that makes a test of each check of each method.

    Parameters
    ----------
    methods : iterable of methods, or mapping from names to methods
        Each a method, its class for the default settings, or a function without arguments that returns a method: it is
        called by the first test that runs. Names are those of the tests; without any, a test has the method's name and
        the settings that are not the default ones. ``pytest.param(method, id=…, marks=…)`` gives one method marks.
    sites : sequence of SiteData or function, default=None
        As for `check_method`, for all methods; or a function without arguments, called by the first test of a method.
    level : {"smoke", "quick", "full"}, default="quick"
        As for `check_method`.
    seed : int, default=0
        As for `check_method`.
    tolerance : float, default=1e-6
        As for `check_method`.
    skip : mapping from names of checks to reasons, default=None
        Checks whose tests are skipped, for all methods.

    >>> import fedgeom
    >>> from fedgeom.testing import parametrize_with_checks
    >>> @parametrize_with_checks([fedgeom.Moments(), fedgeom.Hulls(epsilon=0.2)])
    ... def test_contract(check):
    ...     check()
    """
    import pytest  # only who tests with it has it

    skipped = _skipped(skip)
    cases = []
    named = (
        [pytest.param(one, id=name) for name, one in methods.items()] if isinstance(methods, Mapping) else methods
    )
    for given in named:
        case = given if isinstance(given, type(pytest.param())) else pytest.param(given)
        method: Any = case.values[0]
        name = case.id or _title(method)
        for check in _checks(CheckContext(method, sites, level, seed, tolerance)):
            reason = skipped.get(check.name)
            marks = [*case.marks, *([pytest.mark.skip(reason=reason)] if reason else [])]
            cases.append(pytest.param(check, id=f"{name}-{check.name}", marks=marks))
    return pytest.mark.parametrize("check", cases)


def _title(method: MethodOrMaker) -> str:
    """Return a method's name, with the settings that are not the default ones."""
    if not isinstance(method, Method):
        return str(getattr(method, "name", None) or getattr(method, "__name__", "method"))
    try:
        usual = type(method)().terms()
    except (TypeError, ValueError):  # it has settings without a default
        return method.name
    changed = [f"{name}={value!r}" for name, value in method.terms().items() if value != usual[name]]
    settings = ",".join(changed).replace(" ", "")
    return f"{method.name}({settings})" if changed else method.name
