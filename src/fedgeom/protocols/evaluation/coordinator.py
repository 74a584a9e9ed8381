"""The coordinator's half of testing: the last sum of a run, which no model is lost for."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.run_warnings import RunWarning
from fedgeom.privacy.mechanism import SumNoise
from fedgeom.protocols.evaluation.counts import Counts, counts_length, mended_counts
from fedgeom.protocols.evaluation.messages import SumEvaluation

NOT_TESTED = "the model was not tested on the rows that the sites kept aside"


class Summing(Protocol):
    """What testing needs of the cohort."""

    sites: Sites
    left: tuple[str, ...]
    missed_sums: set[str]
    settings: Any

    def noise(self, **sum: Any) -> SumNoise:
        """Return the noise that the sites put into a sum."""

    def sum_counts(self, question: SumEvaluation, *, length: int) -> npt.NDArray[np.int64]:
        """Return the sum of the whole numbers that all sites still there contribute."""


def evaluate(cohort: Summing, grouped: bool, model: Any) -> None:
    """Add up what the sites count; where that cannot be done, the run has its model all the same, and a warning."""
    sites = cohort.sites
    # A site that missed a sum stays away from later ones: strict policies refuse sums that differ by a few sites.
    away = {*sites.lost, *cohort.missed_sums}
    cohort.left = tuple(name for name in cohort.left if name not in away)
    try:
        classes = len(model.classes_)
        private = privacy_of(cohort.settings) is not None
        length = classes**2 if private else counts_length(classes, grouped=grouped)
        total = cohort.sum_counts(SumEvaluation(classes=classes), length=length)
    except AttributeError as error:
        sites.notices.append(RunWarning(NOT_TESTED, str(error), "give the model classes_, or names"))
    except (TooFewSitesError, ProtocolError) as error:
        remedy = "the model is kept; to have figures, run again when all sites are there"
        sites.notices.append(RunWarning(NOT_TESTED, str(error), remedy))
    else:
        if not private:
            sites.evaluation = Counts.read(total, classes)
            return
        noise = cohort.noise(sensitivity=1.0, numbers=length, apart=True)
        sites.evaluation = mended_counts(noise.read(total), classes, len(cohort.left))
        sites.notices.append(
            RunWarning(
                f"the test's counts have noise of deviation {noise.spread:.2g} each, for privacy",
                remedy="figures of small classes mean little, and intervals do not heed the noise: read them with care",
            )
        )
