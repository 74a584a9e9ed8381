"""Moments where the data is: counts, sums and squares of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.data.checks import check_ball, check_known_labels, check_table
from fedgeom.data.findings import Collector
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.geometry.gaussians.class_sums import class_moments, length
from fedgeom.methods.moments.core import build_model, check_width
from fedgeom.methods.moments.messages import SumMoments
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.settings import MomentsSettings
from fedgeom.protocols.handing_out import HandedModel
from fedgeom.protocols.names.messages import CountNames
from fedgeom.protocols.names.site import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

EUCLIDEAN = 'for a table of ordinary columns say space="euclidean" (in a federation file under [parameters])'
"""What to do with rows that are no points of the ball."""


class MomentsMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys and the model: the agreed names."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)


class MomentsSite(SummingSite[MomentsMemory]):
    """Answers the questions of `Moments`."""

    memory_type: ClassVar[type[Memory]] = MomentsMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)
    handed: HandedModel[MomentsModel]
    names: LabelNames

    def check(self, settings: MomentsSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults, names = Collector(self.name), [str(name) for name in self.data.classes.tolist()]
        with faults.take():
            check_table(self.data, min_rows=settings.min_rows, min_rows_per_class=self.policy.min_rows_per_class)
        with faults.take():
            check_known_labels(self.name, names, settings.classes)
        if settings.c is not None:
            with faults.take():
                check_ball(self.data, settings.c, EUCLIDEAN)
        with faults.take():
            limit = min(self.policy.max_message_bytes, LARGEST_MESSAGE)
            check_width(settings, len(settings.classes or names), self.data.shape[1], limit)
        faults.raise_all()

    @classmethod
    def planned_sums(cls, settings: MomentsSettings) -> Sequence[type[SumQuestion]]:
        """Return the one secure sum of this method, after the names where a policy wants them counted."""
        return (CountNames, SumMoments)

    @answers(SumMoments)
    def sum_moments(self, ask: SumMoments) -> Contribution:
        """Add this site's moments to the secure sum."""
        if ask.curvature != self.settings.c:
            raise ProtocolError("the moments are asked for in another space than the one the site joined on")
        self.names.check_agreed(ask.classes)
        squares = self.settings.squares
        self.check_size(length(len(ask.classes), self.data.shape[1], squares=squares))
        moments = class_moments(self.data.X, self.data.y, ask.classes, c=ask.curvature, squares=squares)
        return self.contribute(ask, moments)

    def model_from(self, result: SumResult) -> MomentsModel:
        """Make the model from the sum of all sites' moments, after a look at whether it is that sum."""
        self.sums.check_result(result, SumMoments)
        return build_model(self.settings, result.reals(SumMoments), self.names.agreed, self.data.shape[1])

    def result(self) -> dict[str, Any]:
        """Return how well the model fits the site's rows."""
        model = self.handed.model
        if model is None:
            return {}
        right = np.mean(model.predict(self.data.X) == self.data.y.astype(str))
        return {"fits": float(right), "rows": len(self.data), **self.names.left_out()}
