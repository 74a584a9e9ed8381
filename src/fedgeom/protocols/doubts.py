"""Doubts: at how many sites the joint model does much worse than the site's own rows allow.

One site that adds what it likes to a sum makes the joint model what it likes, and masks hide that it did. But every
honest site can see what came of it: a model that is worse on its rows than the simplest one that they alone yield. Each
site judges that for itself, and one masked sum says how many doubt. The run's warnings then say so.

A liar must not be able to cancel doubts, so they are no ones that are added up: a site that doubts puts a random
number, which nobody else knows, into a random slot of many. How many slots are not 0 tells how many sites doubt, and
not which. Whoever adds to other slots can raise a false alarm, and not silence a true one. Sites that are content do
the same in as many other slots, so that those that cannot judge, by too few rows or a single class, count as neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData, drawn_rows
from fedgeom.errors import FedgeomError, ProtocolError, TooFewSitesError
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape, Steps, Sum
from fedgeom.federation.results import RunWarning
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.evaluation import EvaluationCohort, still_there
from fedgeom.protocols.secure_sum.messages import SumQuestion


class SumDoubts(SumQuestion, kind="model.doubts", over_rows=False):
    """Ask whether the joint model does much worse on a site's rows than they alone allow."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: at how many sites the joint model does much worse on the site's own rows than a "
        "simple model of these rows alone, and how many sites could tell; not which"
    )


SLOTS_PER_SITE = 16
MOST_SLOTS = 4096
NUMBER_BITS = 44
"""Of the random numbers: so many of a hundred thousand sites fit into a sum."""
LEAST_ROWS = 20
"""A site with fewer rows does not judge."""
LEAST_OF_CLASS = 5
"""Classes with fewer rows at a site are not judged there."""
MOST_JUDGED = 2000
"""Of more rows, so many are drawn."""
MARGIN = 0.2
"""By how much of the way from guessing to perfection the joint model must be worse, beside what chance may do."""


def slots(sites: int) -> int:
    """Return in how many slots so many sites put their doubts."""
    return min(SLOTS_PER_SITE * sites, MOST_SLOTS)


def estimated(filled: int, count: int) -> float:
    """Return how many sites filled so many of ``count`` slots, each a random one: some fall together."""
    return -count * math.log1p(-filled / count) if filled < count else math.inf


def doubtful(model: Model, rows: SiteData) -> bool | None:
    """Return whether a model does much worse on a site's rows than they alone allow; None where nobody can tell.

    Both choose among the site's classes, and each class counts the same: sites may have classes in other shares than
    all together. What the rows allow is how well the nearest class mean of all *other* rows finds a row's class, on
    columns that are scaled to their deviation inside the classes.
    """
    labels = rows.y.astype(str)
    names, counts = np.unique(labels, return_counts=True)
    names = names[counts >= LEAST_OF_CLASS]
    some = np.flatnonzero(np.isin(labels, names))
    if len(names) < 2 or len(some) < LEAST_ROWS:
        return None
    some = some[drawn_rows(len(some), MOST_JUDGED)]
    codes = np.searchsorted(names, labels[some])
    sizes = np.bincount(codes, minlength=len(names))
    if sizes.min() < LEAST_OF_CLASS:
        return None
    X = np.asarray(rows.take(some).X, np.float64)  # of the whole table, which may be sparse, no dense copy is made
    guess = 1 / len(names)
    own = (_recall(_nearest(X, codes, sizes), codes, sizes) - guess) / (1 - guess)
    joint = (_recall(_said(model, X, names.tolist()), codes, sizes) - guess) / (1 - guess)
    chance = math.sqrt(float((1 / (4 * sizes)).sum())) / len(names) / (1 - guess)
    return own - joint > MARGIN + chance


def _recall(said: Ints, codes: Ints, sizes: Ints) -> float:
    """Return the share of rows that are put into their class, averaged over classes."""
    return float(np.mean(np.bincount(codes[said == codes], minlength=len(sizes)) / sizes))


def _nearest(X: Floats, codes: Ints, sizes: Ints) -> Ints:
    """Return for each row the class whose mean, of all other rows, is nearest, (rows,)."""
    means = np.zeros((len(sizes), X.shape[1]))
    np.add.at(means, codes, X)
    means /= sizes[:, None]
    spread = np.sqrt(np.mean((X - means[codes]) ** 2, axis=0))
    scale = 1 / np.where(spread > 1e-9 * max(float(spread.max(initial=0.0)), 1e-300), spread, np.inf)
    away = np.stack([(((X - mean) * scale) ** 2).sum(axis=1) for mean in means], axis=1)
    # The mean without the row itself is farther from it by n/(n - 1).
    away[np.arange(len(X)), codes] *= (sizes[codes] / (sizes[codes] - 1)) ** 2
    return np.asarray(away.argmin(axis=1))


def _said(model: Model, X: Floats, names: Sequence[str]) -> Ints:
    """Return which of some classes a model finds likeliest for each row, (rows,); -1 where it finds none."""
    place = {str(name): at for at, name in enumerate(model.classes_.tolist())}
    known = [at for at, name in enumerate(names) if name in place]
    said: Ints = np.full(len(X), -1)
    if not known:
        return said
    try:
        with np.errstate(all="ignore"):
            chances = np.nan_to_num(model.predict_proba(X), nan=-1.0)  # type: ignore[attr-defined]
    except (FedgeomError, ValueError, ArithmeticError):  # a model that cannot even be tried is in doubt
        return said
    best = chances[:, [place[names[at]] for at in known]].argmax(axis=1)
    return np.asarray(np.array(known)[best])


class DoubtsMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: whether it doubts, which it says again when it is asked again."""

    judged: bool = False
    doubts: bool | None = None


class DoubtsPart(Part[DoubtsMemory]):
    """Judges the joint model by the site's own rows."""

    name: ClassVar[str] = "doubts"

    @answers(SumDoubts)
    def judge(self, ask: SumDoubts) -> Any:
        """Put a random number into a random slot: of the first half for doubt, of the second for none."""
        site: Any = self.site
        memory = self.memory
        file = site.joint_file() or site.model_file()
        if not file:
            raise ProtocolError("the model was to be judged before the site had one")
        if not memory.judged:
            memory.doubts = doubtful(site.handed.read(file), site.table)
            memory.judged = True
        joined = site.joining.memory
        count = slots(len(joined.order))
        vector: npt.NDArray[np.uint64] = np.zeros(2 * count, np.uint64)
        if memory.doubts is not None:
            hidden = fingerprint(
                b"doubts", joined.private, site.name.encode(), str(ask.ticket.round).encode(), site.run
            )
            slot = int.from_bytes(hidden[:8], "big") % count
            number = 1 + int.from_bytes(hidden[8:16], "big") % (2**NUMBER_BITS - 1)
            vector[slot if memory.doubts else count + slot] = number
        return site.contribute(ask, vector)

    def result(self) -> dict[str, Any]:
        """Return, for the site's own result, that it doubts the joint model; nothing where it does not."""
        return {"doubts": True} if self.memory.doubts else {}


@dataclass(frozen=True)
class JudgeModel(Steps):
    """The plan of `judge`."""

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield the one sum."""
        yield Sum(SumDoubts(), 2 * slots(shape.n_sites), work=1e-8 * min(shape.rows, MOST_JUDGED) * shape.columns)


NOT_JUDGED = "the sites did not say how many of them doubt the joint model"


def judge(cohort: EvaluationCohort, model: Any) -> None:
    """Add up the sites' doubts, and warn where more than half of those that can tell have some."""
    sites = cohort.sites
    still_there(cohort)
    count = slots(len(cohort.names))
    try:
        total = cohort.sum_counts(SumDoubts(), length=2 * count)
    except (TooFewSitesError, ProtocolError) as error:
        remedy = "the model is kept; compare it with models of single sites, or run again when all sites are there"
        sites.notices.append(RunWarning(NOT_JUDGED, str(error), remedy))
        return
    doubts, content = (int(np.count_nonzero(part)) for part in (total[:count], total[count:]))
    told = len(cohort.left)
    if doubts + content > told:
        sites.notices.append(
            RunWarning(
                "the joint model is doubtful: a site added what it should not to the count of those that doubt it",
                f"{doubts + content} slots are filled by {told} sites",
                REMEDY,
            )
        )
    elif doubts > 1 and estimated(doubts, count) > estimated(content, count):
        sites.notices.append(
            RunWarning(
                f"the joint model is doubtful: at most sites that can tell, {round(estimated(doubts, count))} of "
                f"{round(estimated(doubts, count) + estimated(content, count))}, it does much worse than a simple "
                "model of the site's own rows",
                "a site may have added what no rows have, and masks hide which, or the sites' rows differ so much that "
                "one model does not fit them",
                REMEDY,
            )
        )


REMEDY = (
    "do not use it unseen: look at the figures at each site, run again without sites you doubt, or with "
    "aggregation=GroupMedian(n_groups=…), or take a method with a model for each site (docs/robust.md)"
)
