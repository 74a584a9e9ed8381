"""Exact ridge classification on features, from a handful of secure sums: the same for every partition of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, check_two_classes
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import LARGEST_MESSAGE, Array
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.results import RunWarning
from fedgeom.federation.site import Site
from fedgeom.methods.ridge import private
from fedgeom.methods.ridge.core import TEMPERATURES, Solution, best_temperature, solve, starts, turn_of, turned
from fedgeom.methods.ridge.features import check_widths
from fedgeom.methods.ridge.messages import (
    CheckPart,
    CountBinnedRows,
    CountPatches,
    SolutionTaken,
    SumBounded,
    SumCalibration,
    SumClusters,
    SumGram,
    SumPatches,
    SumPersonalEvidence,
    SumRidgeColumns,
    TakePersonalEvidence,
    TakeSolution,
)
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.personal import STRENGTHS
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.site import RidgeSite, too_few_rows
from fedgeom.methods.ridge.statistics import (
    FeatureFit,
    FeatureProblem,
    Statistics,
    check_counted_cells,
    gram_bits,
    gram_parts,
    made_by,
)
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.model_delivery import HandOut, hand_out
from fedgeom.protocols.names import AgreeOnNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import SumResult


@dataclass(frozen=True, kw_only=True)
class Ridge(RidgeSettings, Method):
    """For tables or images with shared class names: the model of all rows in one place, quickly.

    Sites add up products of features; one linear system gives what ridge on all rows in one place would give.
    How rows are spread over the sites makes no difference. Needs the same label names everywhere. Tables: "linear",
    "fourier" or "binned" features; images: ``Ridge(features="conv", shape=(28, 28, 1))`` on rows of their cells.
    """

    name: ClassVar[str] = "ridge"
    site: ClassVar[type[Site[Any]]] = RidgeSite
    model_type: ClassVar[type[Model]] = RidgeModel
    column_floors: ClassVar[bool] = True
    small_cells_as_zero: ClassVar[bool] = True
    doubts: ClassVar[bool] = True

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})
        present = check_two_classes(sites)
        check_widths(self.maps, sites[0].shape[1], self.shape, self.max_features)
        absent = sorted(set(self.classes or ()) - present)
        if absent and privacy_of(self) is None:
            raise InputError(f"labels missing everywhere: {', '.join(absent)}; leave them out of `classes`")
        return []

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse more features than the policy allows for the rows of all sites."""
        if privacy_of(self) is None:
            width = check_widths(self.maps, sites[0].shape[1], self.shape, self.max_features)
            why = too_few_rows(policy, sum(map(len, sites)), width, self.folds)
            if why:
                raise InputError(f"the policy has {why}")
            if self.binned is not None and policy.class_floors != (1, 1):
                classes = len({str(word) for site in sites for word in site.classes.tolist()})
                problem = FeatureProblem(self, 0, policy.class_floors, sites[0].shape[1], classes)
                check_counted_cells(problem, min(policy.max_message_bytes, LARGEST_MESSAGE))

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, make features, sum their products, let the sites check the solution, calibrate."""
        classes = yield AgreeOnNames(self.classes)
        count = len(classes)
        if privacy_of(self) is not None:
            bounds = private.bounds(count, private.width_of(self, shape.columns) if shape.known else 1)
            result = yield Sum(SumBounded(classes=classes), bounds["numbers"])
            yield HandOut(result=result)
            return
        problem = FeatureProblem(self, shape.seed, shape.policy.class_floors, shape.columns, count)
        last = yield from self._plan_features(problem, classes, counted=problem.floored or not shape.known)
        width = problem.width if shape.known else 1
        at = starts(width, count)
        parts = gram_parts(self, width, count)
        results = []
        for part, (first, end) in enumerate(parts):
            size = int(at[end] - at[first])
            spare = self.planned_parts - len(parts) if part == len(parts) - 1 else 0
            ask = SumGram(last=last, classes=classes, part=part)
            results.append((yield Sum(ask, size, spare=spare, work=1e-9 * shape.rows * size)))
        weights = Array.of(np.zeros((width + 1, count)))
        yield Ask(TakeSolution(weights=weights, alpha=1.0, freedom=1.0), SolutionTaken())
        for number, one in enumerate(results):
            check = CheckPart(number=number, result=one)
            yield Ask(check, SolutionTaken(), work=3.2e-8 * one.total.shape[0])
        scored = 1e-9 * shape.rows * width * count
        result = yield Sum(SumCalibration(), len(TEMPERATURES), work=scored)
        evidence = (yield Sum(SumPersonalEvidence(), len(STRENGTHS) + 1)) if self.personal else None
        yield HandOut(result=result, work=scored)
        if evidence is not None:
            yield Ask(TakePersonalEvidence(evidence=evidence), SolutionTaken())

    def _plan_features(self, problem: FeatureProblem, classes: tuple[str, ...], *, counted: bool) -> Plan:
        """Yield the sums that features are made from; return the last. ``counted``: cells of bins are."""
        cells = problem.cells
        last = yield Sum(SumRidgeColumns(classes=classes), 2 * (problem.classes + 2 * problem.columns))
        if problem.binned:
            found = yield Sum(
                CountBinnedRows(last=last),
                problem.counted_cells,
                times=int(counted),
                spare=int(not counted),
            )
            last = found if counted else last
        if self.conv is not None:
            last = yield Sum(SumPatches(last=last), 1 + cells + cells * (cells + 1) // 2)
            for _ in range(self.conv.n_rounds):
                last = yield Sum(CountPatches(last=last), 2 * self.conv.n_filters)
                few = "clusters of few patches are not summed"
                last = yield Sum(SumClusters(last=last), self.conv.n_filters * cells, bound=few)
        return last

    def conduct(self, sites: Coordinator) -> RidgeModel:
        """Hold the conversation: join, agree on names, make features, sum, solve, let the sites check, calibrate."""
        cohort = join(sites, self)
        classes = agree_on_names(cohort, self.classes)
        if privacy_of(self) is not None:
            return self._conduct_private(cohort, classes)
        plan = FeatureProblem(
            self, sites.seed, cohort.class_floors, cohort.columns, len(classes), len(cohort.names)
        )
        fit = FeatureFit()
        last = cohort.sum_checked(SumRidgeColumns(classes=classes), length=fit.length(plan))
        fit.take(last.total.numpy(), plan)
        if plan.floored:
            last = cohort.sum_checked(CountBinnedRows(last=last), length=fit.length(plan))
            fit.take(last.total.numpy(), plan)
            self._warn_of_bins(cohort, fit, plan)
        elif plan.binned:
            cohort.skip_to(cohort.planned.index(CountBinnedRows.kind) + 1)
        for kind in self._patch_sums():
            last = cohort.sum_checked(kind(last=last), length=fit.length(plan))
            fit.take(last.total.numpy(), plan)
        parts = gram_parts(self, plan.width, plan.classes)
        asked = [SumGram(last=last, classes=classes, part=part) for part in range(len(parts))]
        results = cohort.sum_parts(asked)
        bits = gram_bits(self, fit, len(cohort.names))
        vectors = [from_fixed(one.total.view(), fraction_bits=bits) for one in results]
        found = solve(vectors, parts, plan.width, plan.classes, self.alpha)
        self._show(cohort, found, results)
        result = cohort.sum_checked(SumCalibration())
        temperature = best_temperature(result.reals(SumCalibration))
        evidence = cohort.sum_checked(SumPersonalEvidence()) if self.personal else None
        sites.metrics |= {
            "sites": len(cohort.left),
            "classes": len(classes),
            "rows": int(fit.rows()),
            "features": plan.width,
            "numbers": sum(map(len, vectors)),
            "alpha": found.alpha,
            "freedom": round(found.freedom, 1),
        }
        if self.updatable:
            made = made_by(fit, sites.seed, temperature, cohort.preparation)
            sites.artifacts |= Statistics(made, tuple(vectors)).artifacts()
        by = turn_of(vectors, parts, found.weights, found.freedom) if self.rule == "discriminant" else None
        final = turned(found.weights, by)
        model = RidgeModel.made(classes, self.maps, fit.finished(plan), final, found.alpha, temperature)
        return self._settle(cohort, hand_out(cohort, model, result), evidence)

    def _conduct_private(self, cohort: Cohort, classes: tuple[str, ...]) -> RidgeModel:
        """Sum once, with noise, and solve."""
        bounds = private.bounds(len(classes), private.width_of(self, cohort.columns))
        result = cohort.sum_checked(SumBounded(classes=classes))
        noise = cohort.noise(**bounds)
        spread = round(noise.spread / private.WEIGHTS[0], 2)
        numbers = {"numbers": bounds["numbers"], "noise on counts": spread}
        cohort.sites.metrics |= {"sites": len(cohort.left), "classes": len(classes), **numbers}
        model = private.read_model(self, result, noise, classes, cohort.columns, cohort.sites.seed)
        return hand_out(cohort, model, result)

    def __post_init__(self) -> None:
        super().__post_init__()
        private.check_private(self)

    def _settle(self, cohort: Cohort, model: RidgeModel, evidence: SumResult | None) -> RidgeModel:
        """Give the sites everybody's evidence on personal models, where there is any; return the joint model."""
        if evidence is not None:
            told = cohort.sites.ask(TakePersonalEvidence(evidence=evidence), of=cohort.left, expect=SolutionTaken)
            cohort.lost_since(told)
            right = evidence.reals(SumPersonalEvidence)
            rates = dict(
                zip(map(str, STRENGTHS), (right[:-1] / max(right[-1], 1.0)).round(4).tolist(), strict=True)
            )
            cohort.sites.metrics["right when left out, by strength"] = rates
        return model

    def _warn_of_bins(self, cohort: Cohort, fit: FeatureFit, plan: FeatureProblem) -> None:
        """Say how many bins joined their neighbours."""
        joined = fit.merged_bins()
        if joined and self.binned is not None:
            whole = plan.columns * self.binned.n_bins
            sites, rows = cohort.class_floors
            what = f"{joined:,} of {whole:,} bins of columns joined a neighbour: their cells had too few rows or sites"
            remedy = (
                f"policies ask for {sites} sites and {rows} rows (min_sites, min_rows) of each class in each cell: "
                "take fewer bins, or smaller groups"
            )
            cohort.sites.notices.append(RunWarning(what, remedy=remedy))

    def _patch_sums(self) -> list[type[SumPatches | CountPatches | SumClusters]]:
        """Return the questions for sums that features of images are made from, each after the one before."""
        if self.conv is None:
            return []
        return [SumPatches, *(CountPatches, SumClusters) * self.conv.n_rounds]

    def _show(self, cohort: Cohort, found: Solution, results: Sequence[SumResult]) -> None:
        """Give the sites the solution, and then the sums, part by part, with which they check it."""
        given = TakeSolution(weights=Array.of(found.weights), alpha=found.alpha, freedom=max(found.freedom, 0.0))
        questions = [given, *(CheckPart(number=at, result=one) for at, one in enumerate(results))]
        for question in questions:
            told = cohort.sites.ask(question, of=cohort.left, expect=SolutionTaken)
            told.need(cohort.min_sites, "that they have looked at the solution")
            cohort.lost_since(told)
