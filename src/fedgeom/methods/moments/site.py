"""Moments where the data is: counts, sums and squares of each class."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData, drawn_rows
from fedgeom.data.validation import Collector, check_ball, check_known_labels, check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE, Array, Names, Question
from fedgeom.federation.novelty import MOST_COLUMNS, MOST_SCORED, KnownRows
from fedgeom.federation.privacy import class_floors
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.geometry.gaussians import class_moments, length
from fedgeom.methods.moments import core
from fedgeom.methods.moments.core import build_model, check_width, middle
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.settings import MomentsSettings
from fedgeom.protocols.model_delivery import UNUSABLE, DeliveredModel, ModelTaken
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.secure_sum.rules import GroupSum, check_group_sums, own_group
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite


class SumClassMoments(SumQuestion, kind="moments.sum", fraction_bits=24, reals=True, checked=True):
    """Ask for a site's masked class moments."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: counts and means of each class (and covariances, with the gaussian rule), pooled, "
        "to the coordinator and the sites (of a class that one site alone has, that site's own, unless a policy leaves "
        "such classes out)"
    )
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None


class SumGroupMoments(
    SumQuestion,
    kind="moments.group",
    fraction_bits=SumClassMoments.fraction_bits,
    reals=True,
    checked=True,
    in_groups=True,
):
    """Ask for a site's masked class moments, for the sum over its drawn group (`GroupMedian`)."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others of its drawn group: the group's counts and means of each class (and covariances, with "
        "the gaussian rule), to the coordinator and all sites, of each group apart"
    )
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None
    group: Annotated[int, msgspec.Meta(ge=0)]


class TakeGroups(Question, kind="moments.groups", answer=ModelTaken):
    """Give the sites the sums over the groups; each checks them and makes the model itself."""

    sums: Annotated[tuple[GroupSum, ...], msgspec.Meta(max_length=500)]


FOLDS = 5
"""Into how many parts a site's rows are cut to score each by a model of all sites' other rows."""
EUCLIDEAN = 'for a table of ordinary columns say space="euclidean" (in a federation file under [parameters])'
"""What to do with rows that are no points of the ball."""


class MomentsMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys and the model: the agreed names, and how well its rows fit."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    fits: Array | None = None
    """(rows,): the scores of the site's rows, at most as many as are kept with a model."""


class MomentsSite(SummingSite[MomentsMemory]):
    """Answers the questions of `Moments`."""

    memory_type: ClassVar[type[Memory]] = MomentsMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)
    handed: DeliveredModel[MomentsModel]
    names: LabelNames

    def check(self, settings: MomentsSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults = Collector(self.name)
        names = [str(name) for name in self.data.classes.tolist()]
        with faults.take():
            floors = class_floors(settings, settings.min_rows, self.policy.min_rows_per_class)
            check_table(self.data, **floors)
        with faults.take():
            check_known_labels(self.name, names, settings.classes)
        if settings.c is not None:
            with faults.take():
                check_ball(self.data, settings.c, EUCLIDEAN)
        with faults.take():
            limit = min(self.policy.max_message_bytes, LARGEST_MESSAGE)
            check_width(settings, len(settings.classes or names), self.data.shape[1], limit)
        faults.raise_all()

    @answers(SumClassMoments)
    def sum_moments(self, ask: SumClassMoments | SumGroupMoments) -> Contribution:
        """Add this site's moments to the secure sum."""
        if ask.curvature != self.settings.c:
            raise ProtocolError("the moments are asked for in another space than the one the site joined on")
        self.names.check_agreed(ask.classes)
        squares = self.settings.squares
        clip = self.settings.clip
        self.check_size(length(len(ask.classes), self.data.shape[1], squares=squares))
        if clip is not None:
            whole = core.bounded_moments(self.data.X, self.data.y, ask.classes, self.settings, clip)
            return self.contribute_noisy(ask, whole, sensitivity=core.sensitivity(squares))
        moments = class_moments(self.data.X, self.data.y, ask.classes, c=ask.curvature, squares=squares)
        return self.contribute(ask, moments)

    @answers(SumGroupMoments)
    def sum_group(self, ask: SumGroupMoments) -> Contribution:
        """Add this site's moments to those of its group."""
        if ask.group != own_group(self):
            raise ProtocolError("the sum is of another group than the one that this site was drawn into")
        return self.sum_moments(ask)

    @answers(TakeGroups)
    def take_groups(self, ask: TakeGroups) -> ModelTaken:
        """Make the model from the sums over the groups, after a look at whether they are those."""
        settings = self.settings
        classes = self.names.agreed
        columns = self.data.shape[1]
        if settings.group_draw is None:
            raise ProtocolError("the terms of this run draw no groups")
        check_group_sums(self, ask.sums, SumGroupMoments, classes=classes, curvature=settings.c)
        size = length(len(classes), columns, squares=settings.squares)
        if any(one.result.total.shape != (size,) for one in ask.sums):
            raise ProtocolError(f"sums of {size} numbers each are wanted")
        try:
            total = middle(
                settings, [one.result.reals(SumGroupMoments) for one in ask.sums], len(classes), columns
            )
            model = build_model(settings, total, classes, columns)
        except UNUSABLE as error:  # it depends on the sums alone, which are the same for all sites
            raise ProtocolError("no model can be made from the sums that came") from error
        self.handed.keep(model.to_bytes())
        return ModelTaken()

    def model_from(self, result: SumResult) -> MomentsModel:
        """Make the model from the sum of all sites' moments, after a look at whether it is that sum."""
        self.sums.check_result(result, SumClassMoments)
        if self.settings.clip is not None:
            classes = self.names.agreed
            columns = self.data.shape[1]
            noise = self.noising.noise(**core.bounds(self.settings, len(classes), columns))
            return core.read_model(self.settings, result, noise, classes, columns)
        total = result.reals(SumClassMoments)
        scores = self._scores_held_out(total)
        self.memory.fits = None if scores is None else Array.of(KnownRows.scored(scores).scores)
        return build_model(self.settings, total, self.names.agreed, self.data.shape[1])

    def _scores_held_out(self, total: Floats) -> Floats | None:
        """Return how well each row fits the model of all other rows but its fold: the sum without the fold's moments.

        None where that cannot be told, since a class is too small without the fold, or there are no densities, and
        where so many columns would make it costly.
        """
        settings = self.settings
        classes = self.names.agreed
        if not settings.squares or self.data.shape[1] > MOST_COLUMNS:
            return None
        table, folds = self._scored(self.table)
        scores = np.empty(len(table))
        for fold in folds:
            rows = table.X[fold]
            own = class_moments(rows, table.y[fold], classes, c=settings.c)
            try:
                found = build_model(settings, total - own, classes, rows.shape[1]).density_scores(rows)
            except (InputError, np.linalg.LinAlgError):
                return None
            scores[fold] = found
        return scores if len(scores) and np.isfinite(scores).all() else None

    def _scored(self, table: SiteData) -> tuple[SiteData, list[slice]]:
        """Return the rows that are scored, of very many some, fold after fold; drawn once for both times they are."""
        known: tuple[SiteData, SiteData, list[slice]] | None = self.scratch.get("scored")
        if known is None or known[0] is not table:
            some = drawn_rows(len(table), MOST_SCORED)
            fold = np.random.default_rng(0).permutation(len(some)) % FOLDS
            ends = np.cumsum(np.bincount(fold, minlength=FOLDS)).tolist()
            folds = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
            known = table, table.take(some[np.argsort(fold, kind="stable")]), folds
            self.scratch["scored"] = known
        return known[1:]

    def known_scores(self) -> Floats | None:
        """Return how well the site's rows fit a model that did not learn from them."""
        return None if self.memory.fits is None else self.memory.fits.numpy()

    def result(self) -> dict[str, Any]:
        """Return how well the model fits the site's rows."""
        model = self.handed.model
        if model is None:
            return {}
        some, _ = self._scored(self.data)
        right = np.mean(model.predict(some.X) == some.y.astype(str))
        return {"fits": float(right), "rows": len(self.data), **self.names.left_out()}
