"""Adding rows to a ridge, or taking them out: one secure sum of the change, and the model of all rows as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.checks import check_columns
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Array
from fedgeom.federation.method import Method, Plain
from fedgeom.federation.model import Model
from fedgeom.federation.site import Site
from fedgeom.methods.ridge.core import Solution, solve
from fedgeom.methods.ridge.discriminant import turn_of, turned
from fedgeom.methods.ridge.gram import packed_gram, starts
from fedgeom.methods.ridge.learning import Plan, features_of
from fedgeom.methods.ridge.messages import SolutionTaken, TakeSolution
from fedgeom.methods.ridge.model import RidgeModel
from fedgeom.methods.ridge.statistics import Statistics
from fedgeom.methods.ridge.sums import change_bits, gram_parts, rows_of
from fedgeom.methods.ridge_update.messages import CheckUpdate, SumChange, SumChangedGram, TakeBase
from fedgeom.methods.ridge_update.settings import UpdateSettings, signs_of
from fedgeom.methods.ridge_update.site import UpdateSite
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.names.coordinator import agree_on_names

_KEPT: WeakValueDictionary[str, Statistics] = WeakValueDictionary()
"""Sums by what stands for them in the terms; they are large, and no part of the terms."""


@dataclass(frozen=True, kw_only=True)
class RidgeUpdate(UpdateSettings, Method):
    """Sites add up what changed since a run of Ridge; its sums and the change give the ridge of all rows now.

    `Run.update` makes it. Features, classes and the temperature of probabilities stay those of the first run, and so
    does what prepares raw rows: changed rows come prepared by it.
    """

    site: ClassVar[type[Site[Any]]] = UpdateSite
    model_type: ClassVar[type[Model]] = RidgeModel
    private_units: ClassVar[tuple[str, ...]] = ()

    def on(self, before: Statistics) -> RidgeUpdate:
        """Hand the coordinator the sums from before, which are no part of the terms; return the method itself."""
        if before.stands_for != self.since:
            raise InputError("the sums that were kept are not those that `since` stands for")
        _KEPT[self.since] = before
        object.__setattr__(self, "_before", before)  # keeps them as long as the method, for copies of it too
        return self

    @property
    def before(self) -> Statistics:
        """The sums from before."""
        found = _KEPT.get(self.since)
        if found is None:
            raise InputError("an update needs the sums of the run before; in Python, run.update(…) has them")
        return found

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})

    def conduct(self, sites: Sites) -> RidgeModel:
        """Hold the conversation: join, give the features, sum the change, solve, let the sites check."""
        before, cohort = self.before, join(sites, self)
        assert self.classes is not None
        kept = agree_on_names(cohort, self.classes)
        plan = Plan(self, before.made.seed, (1, 1), cohort.columns, len(self.classes))
        self._tell(cohort, TakeBase(made=msgspec.msgpack.encode(before.made), hashes=before.hashes))
        counts = cohort.sum_checked(SumChange(classes=kept), length=2 * plan.classes)
        added, removed = counts.counts().reshape(2, -1).sum(axis=1).tolist()
        lengths = [len(part) for part in before.parts]
        asked = [SumChangedGram(counts=counts, part=part) for part in range(len(lengths))]
        results = cohort.sum_parts(asked, lengths=lengths)
        bits = change_bits(self, float(added + removed), len(cohort.names))
        after = tuple(
            old + from_fixed(one.total.numpy(), fraction_bits=bits)
            for old, one in zip(before.parts, results, strict=True)
        )
        found = self._solve(after, plan)
        self._tell(
            cohort,
            TakeSolution(weights=Array.of(found.weights), alpha=found.alpha, freedom=max(found.freedom, 0.0)),
        )
        for number, (old, result) in enumerate(zip(before.parts, results, strict=True)):
            self._tell(cohort, CheckUpdate(number=number, before=Array.of(old), result=result))
        sites.artifacts |= Statistics(before.made, after).artifacts()
        sites.metrics |= {
            "sites": len(cohort.left),
            "rows added": added,
            "rows taken out": removed,
            "rows": round(float(after[0][0])),
            "alpha": found.alpha,
        }
        sites.preparation = before.made.preparation()  # changed rows came prepared by it
        return self._model(found, plan, after)

    def _tell(self, cohort: Cohort, question: Any) -> None:
        told = cohort.sites.ask(question, of=cohort.left, expect=SolutionTaken)
        told.need(cohort.min_sites, "that they have looked at it")
        cohort.lost_since(told)

    def _solve(self, parts: Sequence[Floats], plan: Plan) -> Solution:
        rows = parts[0][0]
        if rows < 1:
            raise InputError(
                f"{rows:,.0f} rows are left after the change; wanted some: were others taken out than were in?"
            )
        return solve(parts, gram_parts(self, plan.width, plan.classes), plan.width, plan.classes, self.alpha)

    def _model(self, found: Solution, plan: Plan, sums: Sequence[Floats]) -> RidgeModel:
        made, parts = self.before.made, gram_parts(self, plan.width, plan.classes)
        by = turn_of(sums, parts, found.weights, found.freedom) if self.rule == "discriminant" else None
        ground = made.fit.finished(plan)
        assert self.classes is not None
        final = turned(found.weights, by)
        return RidgeModel.made(self.classes, self.maps, ground, final, found.alpha, made.temperature)

    def plain(self, sites: Sequence[SiteData], seed: int = 0) -> Plain:
        """Compute the same in one place."""
        before = self.before
        assert self.classes is not None
        plan = Plan(self, before.made.seed, (1, 1), sites[0].shape[1], len(self.classes))
        ground, at = before.made.fit.finished(plan), starts(plan.width, plan.classes)
        place, total = {name: code for code, name in enumerate(self.classes)}, np.concatenate(before.parts)
        for site in sites:
            codes, signs = np.array([place[str(one)] for one in site.y.tolist()], np.int64), signs_of(site)
            for sign in (1, -1):
                rows = np.flatnonzero(signs == sign)
                features = features_of(rows_of(site)[rows], plan, ground)
                total += sign * packed_gram(features, codes[rows], plan.classes, plan.width)
        parts = [total[at[first] : at[last]] for first, last in gram_parts(self, plan.width, plan.classes)]
        model = self._model(self._solve(parts, plan), plan, parts)
        return Plain(model.with_preparation(before.made.preparation()))


RidgeUpdate.name = "ridge-update"  # said here, so that it is in no list of methods: `Run.update` alone makes it
