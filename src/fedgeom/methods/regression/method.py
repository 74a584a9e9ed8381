"""Regression: generalised linear models of all sites' rows, with intervals and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, check_two_classes
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.results import RunWarning
from fedgeom.federation.site import Site
from fedgeom.methods.regression.core import (
    LEAST_SITES,
    NewtonFit,
    between_length,
    columns_length,
    columns_told_apart,
    squares_length,
    terms_length,
    too_few_rows,
)
from fedgeom.methods.regression.model import RegressionModel, made_model, per_deviation
from fedgeom.methods.regression.settings import RegressionSettings
from fedgeom.methods.regression.site import (
    OUTCOME,
    RegressionSite,
    SumBetweenSites,
    SumRegressionColumns,
    SumRowSquares,
    SumScores,
    in_order,
    left_out_of,
    numbers_of,
    take,
)
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.model_delivery import HandOut, hand_out
from fedgeom.protocols.names import AgreeOnNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.registry import did_you_mean

SOON = "how soon the fit converges"
ENDS = "whether the fit converges"


@dataclass(frozen=True, kw_only=True)
class Regression(RegressionSettings, Method):
    """For tables and an outcome: coefficients with intervals and tests, as of all rows in one place.

    A generalised linear model, by Newton's steps: sites add up derivatives of the likelihood, so that how rows are
    spread over the sites makes no difference. ``run.model.summary()`` is a table of coefficients, errors, intervals and
    p values. Logistic regression of two classes unless ``family`` says otherwise.
    """

    name: ClassVar[str] = "regression"
    site: ClassVar[type[Site[Any]]] = RegressionSite
    model_type: ClassVar[type[Model]] = RegressionModel
    column_floors: ClassVar[bool] = True
    standardises: ClassVar[bool] = True

    @property
    def sums_by_class(self) -> bool:  # type: ignore[override]
        """Of two classes, columns have floors in each: what is summed tells how rows with the event differ."""
        return self.family == "binomial"

    def sums_of_few(self) -> Mapping[str, str]:
        """Return that counts of the test, by score, tell sites apart where each has an intercept of its own."""
        if self.site_effects == "none":
            return {}
        return {
            "evaluation.sum": "counts of test rows by score: with site effects, some scores occur at few sites"
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.treatment and any(step.name == "scale" for step in self.preparing):
            raise InputError(
                f'treatment={self.treatment!r} given, and a step "scale" after which its column is no longer 0 and 1; '
                'wanted preparation without it, such as prepare=["one-hot", "impute"]'
            )
        if self.family != "binomial" and self.holdout is not None:
            raise InputError(
                f'holdout={self.holdout!r} given with family="{self.family}"; rows kept aside are counted by class: '
                f"leave "
                "it out, and read rmse and r2 in run.model.statistics"
            )

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse tables that do not fit together, an outcome that does not vary, and more columns than rows."""
        check_columns({site.name: site.shape[1] for site in sites})
        if self.family == "binomial":
            present = check_two_classes(sites)
            if len(present) > 2:
                raise InputError(
                    f"the sites have {len(present)} classes, {', '.join(sorted(present)[:5])}; wanted two: put classes "
                    "together (SiteData.relabel), or take Ridge"
                )
            if self.event and self.event not in present:
                raise InputError(
                    f"event={self.event!r} given; the sites' classes are {', '.join(sorted(present))}"
                )
        else:
            y = np.concatenate([numbers_of(site) for site in sites])
            if len(y) and np.ptp(y) == 0:
                raise InputError(
                    f"the outcome is {y[0]:g} in all rows of all sites; nothing explains what never varies"
                )
        rows = sum(map(len, sites))
        columns = sites[0].shape[1]
        if not self.ridge and rows <= columns + 1:
            raise InputError(
                f"{rows:,} rows of all sites and {columns:,} columns given; wanted more rows than columns, or ridge=1.0"
            )
        return []

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse more columns than a message can hold products of."""
        columns = sites[0].columns
        if self.treatment and columns and self.treatment not in columns:
            words = [
                name for name in columns if name.startswith((f"{self.treatment} = ", f"{self.treatment} is "))
            ]
            meant = (
                f"one of its words: {', '.join(map(repr, words))}" if words else "the name of a column of 0 and 1"
            )
            hint = "" if words else did_you_mean(self.treatment, columns)
            raise InputError(f"treatment={self.treatment!r} given, which is no column; wanted {meant}.{hint}")
        count = sites[0].shape[1] + 1
        size = 8 * max(terms_length(count), squares_length(count))
        rows, floor = sum(map(len, sites)), policy.class_floors[1]
        if too_few_rows(
            rows, self._count(sites[0].shape[1]), floor
        ):  # columns that follow from others do not count
            why = too_few_rows(rows, self._count(columns_told_apart([site.X for site in sites])), floor)
            if why:
                raise InputError(why)
        limit = min(policy.max_message_bytes, LARGEST_MESSAGE)
        if size > limit:
            raise InputError(
                f"products of {count:,} columns are a message of {size:,} bytes; the limit is {limit:,} "
                "(max_message_bytes in the policy): take fewer columns"
            )

    def _count(self, columns: int) -> int:
        return columns + (self.site_effects == "none")

    def plan(self, shape: Shape) -> Plan:
        """Agree on the classes, sum columns, take Newton's steps, compare rows and sites, hand out the model."""
        classes: tuple[str, ...] = ()
        if self.family == "binomial":
            classes = yield AgreeOnNames(self.classes)
        count = self._count(shape.columns)
        work = 1e-9 * shape.rows * count**2
        last = yield Sum(SumRegressionColumns(classes=classes[:2]), 2 * columns_length(shape.columns), work=work)
        for _ in range(self.n_rounds):
            last = yield Sum(SumScores(last=last), terms_length(count), work=work, bound=SOON)
        if self.by_rows:
            last = yield Sum(SumRowSquares(last=last), squares_length(count), work=2 * work, bound=ENDS)
        if self.by_sites:
            enough = not shape.known or shape.n_sites >= LEAST_SITES
            ask = SumBetweenSites(last=last)
            found = yield Sum(
                ask, between_length(count), times=int(enough), spare=int(not enough), work=work, bound=ENDS
            )
            last = found if enough else last
        yield HandOut(result=last)

    def conduct(self, sites: Coordinator) -> RegressionModel:
        """Hold the conversation: join, agree on classes, sum columns, take steps, compare, tell."""
        if self.reference and not self.preparing:
            raise InputError(
                f'reference={list(self.reference)!r} given without prepare; wanted prepare=["one-hot", …], which names '
                "the columns, or leave those columns out of the table"
            )
        cohort = join(sites, self)
        classes = agree_on_names(cohort, self.classes) if self.family == "binomial" else ()
        if self.family == "binomial":
            in_order(self, classes)
        fit = NewtonFit()
        count = self._count(cohort.columns)
        left_out = left_out_of(cohort.preparation, self)

        def after(question: SumQuestion, length: int) -> SumResult:
            result = cohort.sum_checked(question, length=length)
            try:
                take(fit, type(question), result, self, left_out, cohort.class_floors[1])
            except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                raise InputError(
                    f"no coefficients follow from the sums of all rows: {error}. {HOPELESS}"
                ) from error
            return result

        last = after(SumRegressionColumns(classes=classes), 2 * columns_length(cohort.columns))
        assert fit.scale is not None
        why = too_few_rows(fit.scale.rows, count - len(left_out), cohort.class_floors[1])
        if why:
            raise InputError(why)
        while not fit.finished:
            last = after(SumScores(last=last), terms_length(count))
        if self.by_rows and fit.converged:
            last = after(SumRowSquares(last=last), squares_length(count))
        if self.by_sites and fit.converged and len(cohort.left) >= LEAST_SITES:
            last = after(SumBetweenSites(last=last), between_length(count))
        model: RegressionModel = made_model(
            fit,
            self,
            in_order(self, classes),
            sites=len(last.sites),
            floor=cohort.class_floors[0],
            left_out=left_out,
        )
        sites.metrics |= {"sites": len(cohort.left), **model.statistics}
        self._say(cohort, model)
        return hand_out(cohort, model, last)

    def _say(self, cohort: Cohort, model: RegressionModel) -> None:
        """Say what a reader of the table must know: separation, collinear columns, a fit that did not end."""
        preparation = cohort.preparation
        names = list(cohort.sites.columns if preparation is None else preparation.columns.names)

        def shown(state: int) -> str:
            places = np.flatnonzero(model.states == state).tolist()
            some = [
                "the intercept" if at == 0 else repr(names[at - 1]) if names else f"number {at - 1}"
                for at in places
            ]
            return ", ".join(some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "")

        notices = cohort.sites.notices
        notices += per_deviation(self.preparing)
        if (model.states == 2).any():
            notices.append(
                RunWarning(
                    f"columns separate the outcome, in full or nearly ({shown(2)}): their coefficients grow without "
                    f"end, "
                    "and what is summed would come to rest on few rows, so that the fit was ended",
                    remedy="no errors and p values are told; leave a column out, put rare words together, take more "
                    "rows, or ridge=1.0, which holds coefficients back",
                )
            )
        elif not model.facts["converged"]:
            notices.append(
                RunWarning(
                    f"the fit did not converge in {self.n_rounds} steps; no errors and p values are told",
                    remedy="coefficients are those of the last step: allow more (n_rounds), or look for extreme values",
                )
            )
        if (model.states == 3).any():
            notices.append(
                RunWarning(
                    f"columns are constant, or follow from others ({shown(3)}); they have no coefficient",
                    remedy="leave them out; the other coefficients are as without them",
                )
            )
        if model.facts["converged"] and "cluster_errors_missing" in model.facts:
            notices.append(
                RunWarning(
                    f"errors by site need {LEAST_SITES} sites; those of the model are shown",
                    remedy='take errors="robust"',
                )
            )
        if self.treatment and model.facts["converged"] and not model.effect.size:
            notices.append(
                RunWarning(
                    f"the column {self.treatment!r} is not among those that are summed; no standardised effect is told",
                    remedy="look at its name (run.model.terms), and whether enough rows have 0 and 1 there",
                )
            )


HOPELESS = "Look for an outcome that never varies, and for columns with extreme values"

__all__ = ["OUTCOME", "Regression"]
