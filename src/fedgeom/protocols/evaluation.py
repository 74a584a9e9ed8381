"""Testing the model on held-out rows: messages, what sites count, both halves."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.holdout import by_group
from fedgeom.federation.messages import Array
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape, Steps, Sum
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.results import RunWarning
from fedgeom.federation.site import Part, answers
from fedgeom.memo import Store
from fedgeom.privacy.mechanism import SumNoise
from fedgeom.protocols.secure_sum.messages import SumQuestion


class SumEvaluation(SumQuestion, kind="evaluation.sum", counts_rows_aside=True):
    """Ask how often the model is right on the rows that a site kept aside."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many rows kept aside have which class and are given which, by the model, by the "
        "joint one and by models trained at each site alone (for two classes also by score, where policies have "
        "floors by the mean score of min_rows neighbours, and the mean AUC of sites with as many rows of each class), "
        "how many rows of each class were learnt from, and at how many "
        "sites; a count of 1 is one row, but not whose, and nothing else of it is in any sum; where the terms keep "
        "rows aside by group, also how many groups there are and sums over groups of squares of rows and right answers"
    )
    classes: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    """How many classes the model has."""


MODELS = ("own", "joint", "local")
"""Whose answers are counted: the model that a site ends with, the joint one where that is another, and one that is
trained on the site's own rows alone."""
BINS = 256
"""How many bins the scores of two classes fall into."""
FARTHEST = 8.0
"""asinh of the largest log-odds with a bin of its own: farther ones are in the last bin."""
WITHIN = 5
"""How many numbers say how well scores order the rows inside sites (`Tally.within`)."""
UNIT = 2**-20
"""Of weights, and of AUCs times these."""


SQUARES = 4
"""How many numbers say how a model's right answers fall on groups of rows (`Tally.groups`)."""


def counts_length(classes: int, *, grouped: bool = False) -> int:
    """Return how many numbers a site sends: they follow from the number of classes, and whether rows have groups."""
    return 1 + (classes + 1) + len(MODELS) * (_block(classes) + SQUARES * grouped)


def _block(classes: int) -> int:
    return 1 + (classes + 1) ** 2 + (2 * BINS + WITHIN if classes == 2 else 0)


@dataclass(frozen=True, eq=False)
class Tally:
    """The counts of one model."""

    right: int
    """How many rows it calls as their site does."""
    confusion: Ints
    """(classes + 1, classes + 1): rows by the class they have and the class they are given. The last row is of words
    that no joint class stands for, the last column of answers that are none of the site's words for the class."""
    scores: Ints | None
    """(2, bins): for two classes, rows by the class they have and the bin of the log-odds (`score_bins`)."""
    groups: Ints | None = None
    """(4,): where rows are kept aside by group, such as patient, with r of its n rows called rightly: how many groups
    there are, and the sums over groups of r², r·n and n²."""
    within: Ints | None = None
    """(5,): for two classes, where scores are means of neighbours, sums over sites: 1, how many are neighbours, the
    site's weight w, w times its AUC, and w² times the AUC's variance, the last three in `UNIT`."""

    @property
    def rows(self) -> int:
        """How many rows were tested."""
        return int(self.confusion.sum())

    def flat(self) -> Ints:
        """Return all counts in one vector."""
        scores = []
        if self.scores is not None:
            scores = [self.scores.ravel(), np.zeros(WITHIN) if self.within is None else self.within]
        return np.concatenate([[self.right], self.confusion.ravel(), *scores]).astype(np.int64)

    @classmethod
    def read(cls, values: Ints, classes: int) -> Tally:
        """Read a vector of counts."""
        size = classes + 1
        scores = values[1 + size**2 : -WITHIN].reshape(2, BINS) if classes == 2 else None
        within = values[-WITHIN:] if classes == 2 else None
        return cls(int(values[0]), values[1 : 1 + size**2].reshape(size, size), scores, within=within)

    @property
    def neighbours(self) -> int:
        """How many neighbours share a score, at least; 1: each row has its own."""
        if self.scores is None or self.within is None:
            return 1
        return max(int(self.within[1]) // max(int(self.within[0]), 1), 1)

    @classmethod
    def blank(cls, classes: int, *, grouped: bool = False) -> Tally:
        """Return counts of nothing."""
        made = cls.read(np.zeros(_block(classes), np.int64), classes)
        return replace(made, groups=np.zeros(SQUARES, np.int64)) if grouped else made


def summed(tallies: Sequence[Tally], classes: int) -> Tally:
    """Return the counts of several parts of the rows together, without those by group."""
    return Tally.read(sum((one.flat() for one in tallies), Tally.blank(classes).flat()), classes)


@dataclass(frozen=True, eq=False)
class Counts:
    """All counts of one site, or their sum over sites."""

    sites: int
    """How many sites had rows to test on."""
    trained: Ints
    """(classes + 1,): how many rows of each class were learnt from; the last are of words without a joint class."""
    models: dict[str, Tally]
    """By name (`MODELS`); all zero where a model is none."""

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.trained) - 1

    def flat(self) -> Ints:
        """Return all counts in one vector, (`counts_length`,)."""
        ordered = [self.models[name] for name in MODELS]
        squares = [one.groups for one in ordered if one.groups is not None]
        return np.concatenate([[self.sites], self.trained, *(one.flat() for one in ordered), *squares]).astype(
            np.int64
        )

    @classmethod
    def read(cls, values: Ints, classes: int) -> Counts:
        """Read a vector of counts."""
        first = 2 + classes
        size = _block(classes)
        blocks = [values[first + at * size : first + (at + 1) * size] for at in range(len(MODELS))]
        models = {name: Tally.read(block, classes) for name, block in zip(MODELS, blocks, strict=True)}
        if len(values) == counts_length(classes, grouped=True):
            squares = values[counts_length(classes) :].reshape(len(MODELS), SQUARES)
            models = {name: replace(models[name], groups=own) for name, own in zip(MODELS, squares, strict=True)}
        return cls(int(values[0]), values[1:first], models)


def private_counts(counts: Counts) -> Ints:
    """Return what is summed with privacy: which class the rows have and which the joint model gives them, and no more.

    A row is in one cell, so that one more or less moves one number by 1. What models trained at one site say, and how
    many rows they were trained on, has no such bound. Returns (classes²,).
    """
    return counts.models["own"].confusion[:-1, :-1].ravel()


def mended_counts(noisy: Floats, classes: int, sites: int) -> Counts:
    """Return counts that could be, from a sum with noise: the nearest with no cell below 0 and the same total.

    noisy (classes²,), f8. Cutting off what is below 0 alone would add rows that nobody has: one for each empty cell.
    """
    total = max(float(noisy.sum()), 0.0)
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(noisy) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1]) if (ordered > excess).any() else 0
    cells = np.rint(np.maximum(noisy - excess[last], 0.0)).astype(np.int64).reshape(classes, classes)
    models = {name: Tally.blank(classes) for name in MODELS}
    confusion = np.zeros((classes + 1, classes + 1), np.int64)
    confusion[:-1, :-1] = cells
    models["own"] = Tally(int(np.trace(cells)), confusion, models["own"].scores)
    # How many rows were learnt from is not told; which class most rows have, the test's counts say as well.
    return Counts(sites, np.append(cells.sum(axis=1), 0), models)


def tally(
    said: npt.NDArray[np.str_],
    words: npt.NDArray[np.str_],
    said_class: Ints,
    true_class: Ints,
    classes: int,
    chances: Floats | None = None,
    groups: npt.NDArray[Any] | None = None,
    least: int = 1,
) -> Tally:
    """Count what a model says of rows.

    said, words (rows,): the model's words and the site's own; said_class, true_class (rows,): the joint classes of
    both, ``classes`` where there is none; chances (rows, 2): for two classes, their probabilities; groups (rows,): the
    group of each, where intervals are to heed them.
    """
    right = said == words
    # The class may be right and the word another one of the site: then the row is called wrongly all the same.
    given = np.where((said_class == true_class) & ~right, classes, said_class)
    confusion = np.zeros((classes + 1, classes + 1), np.int64)
    np.add.at(confusion, (true_class, given), 1)
    found = Tally(int(right.sum()), confusion, None, groups=None if groups is None else _squares(right, groups))
    if classes != 2:
        return found
    if chances is None:
        return replace(found, scores=np.zeros((2, BINS), np.int64), within=np.zeros(WITHIN, np.int64))
    known = true_class < classes
    odds = _log_odds(chances[known])
    second = true_class[known] == 1
    return replace(found, scores=score_bins(odds, second, least), within=_within(odds, second, least))


def _squares(right: npt.NDArray[np.bool_], groups: npt.NDArray[Any]) -> Ints:
    """Return how right answers fall on groups (`Tally.groups`)."""
    found, of_row = np.unique(groups, return_inverse=True)
    n = np.bincount(of_row, minlength=len(found)).astype(np.int64)
    r = np.bincount(of_row, weights=right, minlength=len(found)).astype(np.int64)
    return np.array([len(found), (r * r).sum(), (r * n).sum(), (n * n).sum()], np.int64)


def _log_odds(chances: Floats) -> Floats:
    """Return the log-odds of the second class, finite. chances (rows, 2); returns (rows,), f8."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(chances[:, 1]) - np.log(chances[:, 0])
    return np.asarray(np.nan_to_num(found, nan=0.0, posinf=1e300, neginf=-1e300))


def score_bins(odds: Floats, second: npt.NDArray[np.bool_], least: int = 1) -> Ints:
    """Count rows of each class by bins of their log-odds, equally wide in asinh, so that far ones have bins too.

    Rows are put where the mean of a group of at least ``least`` neighbours is, of both classes: so no bin has fewer,
    and the share of a class in a bin is what it is among rows with such scores. Rows that are fewer are in no group.
    odds (rows,), f8; second (rows,): whether a row is of the second class; returns (2, `BINS`), i8.
    """
    found = np.zeros((2, BINS), np.int64)
    groups = len(odds) // least
    if not groups:
        return found
    order = np.argsort(odds, kind="stable")
    place = np.clip((np.arcsinh(odds[order]) / FARTHEST + 1) / 2 * BINS, 0, BINS - 1)
    first = least * np.arange(groups)
    sizes = np.diff(np.append(first, len(odds)))
    bins = (np.add.reduceat(place, first) / sizes).astype(np.int64)
    np.add.at(found, (second[order].astype(np.int64), np.repeat(bins, sizes)), 1)
    return found


def bin_chances() -> Floats:
    """Return the probability of the second class in the middle of each bin, and at the end of each but the last.

    Returns (2, `BINS`), f8; the last end is 1.
    """
    at = np.arange(BINS)
    middle, end = (np.sinh(FARTHEST * (2 * (at + part) / BINS - 1)) for part in (0.5, 1.0))
    with np.errstate(over="ignore"):
        found = 1 / (1 + np.exp(-np.stack([middle, end])))
    found[1, -1] = 1.0
    return np.asarray(found)


def _within(odds: Floats, second: npt.NDArray[np.bool_], least: int) -> Ints:
    """Return how well scores order this site's own rows (`Tally.within`), from classes of at least ``least`` rows.

    The AUC's variance is DeLong's: from how the rows of either class stand among those of the other.
    """
    found = np.zeros(WITHIN)
    if least == 1 or not len(odds):
        return found.astype(np.int64)
    found[:2] = 1, least
    high = np.sort(odds[second])
    low = np.sort(odds[~second])
    if min(len(high), len(low)) >= least:
        above = _share_below(high, low)
        below = _share_below(-low[::-1], -high[::-1])
        weight = len(high) * len(low) / len(odds)
        variance = above.var(ddof=1) / len(high) + below.var(ddof=1) / len(low)
        found[2:] = np.array([weight, weight * above.mean(), weight**2 * variance]) / UNIT
    return np.rint(found).astype(np.int64)


def _share_below(some: Floats, others: Floats) -> Floats:
    """Return for each number the share of others that are smaller, ties as half; ``others`` are sorted."""
    under = np.searchsorted(others, some, "left")
    upto = np.searchsorted(others, some, "right")
    return np.asarray((under + upto) / (2 * len(others)))


def class_numbers(words: npt.NDArray[np.str_], numbers: dict[str, int], classes: int) -> Ints:
    """Return the joint class of each word, ``classes`` where there is none.

    words (rows,); returns (rows,), i8.
    """
    return np.array([numbers.get(word, classes) for word in words.tolist()], np.int64)


def numbered(names: Sequence[object]) -> dict[str, int]:
    """Return the number of each name of a list."""
    return {str(name): at for at, name in enumerate(names)}


MOST_WORK = 2 * 10**7
"""The most numbers (rows, columns and classes multiplied) that a baseline looks at in a step; of more rows a part is
drawn."""
MOST_STEPS = 200


@dataclass(frozen=True)
class Baseline:
    """Logistic regression on standardised columns."""

    names: tuple[str, ...]
    """The classes that it was trained on, sorted; one that is alone is always the answer."""
    weights: Floats
    """(1 + columns, classes): intercepts, then weights of the columns as they are given."""

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.weights.nbytes

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return a probability for each row and class, in the order of ``names``."""
        scores = np.asarray(X, np.float64) @ self.weights[1:] + self.weights[0]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.str_]:
        """Return the name of the likeliest class of each row."""
        return np.asarray(np.array(self.names, np.str_)[self.predict_proba(X).argmax(axis=1)])


_TRAINED = Store[Baseline](max_bytes=2**25)
"""Several methods that are compared on the same rows have the same baselines."""


def train_baseline(X: Floats, words: npt.NDArray[np.str_]) -> Baseline:
    """Train on a table; the same table gives the same model, once in a process, and the work is bounded.

    X (rows, columns), f8; words (rows,): the class of each.
    """
    table = hashlib.sha256(np.ascontiguousarray(X, np.float64).data).digest()
    key = X.shape, table, hashlib.sha256("\n".join(words.tolist()).encode()).digest()
    return _TRAINED.find(key, lambda: _train(X, words))


def _train(X: Floats, words: npt.NDArray[np.str_]) -> Baseline:
    names = tuple(np.unique(words).tolist())
    if len(names) < 2:
        return Baseline(names, np.zeros((1 + X.shape[1], 1)))
    most = max(MOST_WORK // (max(X.shape[1], 1) * len(names)), 50 * len(names))
    if len(X) > most:
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:most])
        rows = np.union1d(rows, np.unique(words, return_index=True)[1])  # no class is left out
        X = X[rows]
        words = words[rows]
    centre = X.mean(axis=0)
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    from sklearn.linear_model import LogisticRegression  # scikit-learn: 2 s

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may stop before the optimum: the effort is bounded
        fitted = LogisticRegression(max_iter=MOST_STEPS).fit((X - centre) / spread, words)
    slopes = fitted.coef_.T / spread[:, None]
    starts = fitted.intercept_
    if len(names) == 2:  # scikit-learn has the log-odds of the second class
        slopes = np.column_stack([np.zeros(len(slopes)), slopes])
        starts = np.array([0.0, starts[0]])
    return Baseline(names, np.vstack([starts - centre @ slopes, slopes]))


class EvaluationMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: what it counted, which it sends again when it is asked again."""

    counts: Array | None = None
    """(numbers,), i8 (`Counts.flat`)."""
    classes: int = 0


class EvaluationPart(Part[EvaluationMemory]):
    """Counts how often models are right on the rows kept aside."""

    name: ClassVar[str] = "evaluation"

    @answers(SumEvaluation)
    def count(self, ask: SumEvaluation) -> Any:
        """Add this site's counts to the secure sum."""
        site = self.site
        memory = self.memory
        file = site.model_file()
        if not file:
            raise ProtocolError("the model was to be tested before the site had one")
        own = site.handed.read(file)  # type: ignore[attr-defined]
        if own.joint_classes != ask.classes:
            raise ProtocolError(f"a model of {ask.classes} classes was to be tested; the site's has others")
        site.check_size(counts_length(ask.classes, grouped=self._grouped))
        if memory.counts is None:
            memory.classes, memory.counts = ask.classes, Array.of(self._counts(own).flat())
        if privacy_of(site.settings) is not None:  # type: ignore[attr-defined]
            counts = Counts.read(memory.counts.numpy(), ask.classes)
            return site.contribute_noisy(ask, private_counts(counts), sensitivity=1.0, apart=True)  # type: ignore[attr-defined]
        return site.contribute(ask, memory.counts.numpy())  # type: ignore[attr-defined]

    def _counts(self, own: Model) -> Counts:
        site: Any = self.site
        file = site.joint_file()
        joint = site.handed.read(file) if file else None
        train = self._labelled(site.data)
        aside = self._labelled(site.aside)
        least = 1 if privacy_of(site.settings) is not None else site.joining.class_floors[1]
        return count_rows(
            train,
            aside,
            own,
            joint,
            site.class_numbers(own),
            grouped=self._grouped,
            least=least,
            rivals=site.settings.holdout.rivals,
        )

    @property
    def _grouped(self) -> bool:
        """Whether the terms keep rows aside by group, so that intervals heed groups."""
        return by_group(self.site.settings)  # type: ignore[attr-defined]

    def _labelled(self, part: SiteData) -> SiteData:
        """Return the rows of a part that have a label, in the site's words, those of rare classes aside."""
        read: SiteData = self.site.settings.normalise_labels(part)  # type: ignore[attr-defined]
        names = getattr(self.site.memory, "names", None)
        known = read.has_label & ~np.isin(read.y.astype(str), names.rare if names is not None else ())
        return read.take(known)

    def result(self) -> dict[str, Any]:
        """Return, for the site's own result, what it counted."""
        memory = self.memory
        if memory.counts is None:
            return {}
        return {"evaluation": {"classes": memory.classes, "counts": memory.counts.numpy().tolist()}}


def count_rows(
    train: SiteData,
    aside: SiteData,
    own: Model,
    joint: Model | None,
    numbers: dict[str, int],
    *,
    grouped: bool = False,
    least: int = 1,
    rivals: bool = True,
) -> Counts:
    """Count what models say of a site's rows: its own, the joint one, and one trained on the site's rows alone.

    ``train`` and ``aside`` have labels in the site's words only; ``numbers`` gives the joint class of each; for
    ``least`` see `tally`.
    """
    classes = own.joint_classes
    words = aside.y.astype(str)
    here = class_numbers(train.y.astype(str), numbers, classes)
    trained = np.bincount(here, minlength=classes + 1).astype(np.int64)
    models = {name: Tally.blank(classes, grouped=grouped) for name in MODELS}
    groups = aside.groups if grouped else None
    if len(aside):
        true = class_numbers(words, numbers, classes)
        models["own"] = _said_by(own, aside, words, true, groups, least)
        if joint is not None:
            models["joint"] = _said_by(joint, aside, words, true, groups, least)
        if len(train) and rivals:
            models["local"] = _said_alone(train, aside, words, true, numbers, classes, groups, least)
    return Counts(int(len(aside) > 0), trained, models)


def _said_by(
    model: Model,
    aside: SiteData,
    words: npt.NDArray[np.str_],
    true: Ints,
    groups: npt.NDArray[Any] | None,
    least: int,
) -> Tally:
    classes = model.joint_classes
    said = model.predict(aside.X).astype(str)
    given = class_numbers(said, model.answer_numbers(), classes)
    chances: Floats | None = None
    if classes == 2 == len(model.classes_) and hasattr(model, "predict_proba"):
        chances = model.predict_proba(aside.X)
    return tally(said, words, given, true, classes, chances, groups, least)


def _said_alone(
    train: SiteData,
    aside: SiteData,
    words: npt.NDArray[np.str_],
    true: Ints,
    numbers: dict[str, int],
    classes: int,
    groups: npt.NDArray[Any] | None,
    least: int,
) -> Tally:
    alone = train_baseline(train.X, train.y.astype(str))
    chances = alone.predict_proba(aside.X)
    said = alone.predict(aside.X)
    by_class = np.zeros((len(aside), classes + 1))
    np.add.at(by_class.T, class_numbers(np.array(alone.names, np.str_), numbers, classes), chances.T)
    given = class_numbers(said, numbers, classes)
    return tally(said, words, given, true, classes, by_class[:, :2] if classes == 2 else None, groups, least)


NOT_TESTED = "the model was not tested on the rows that the sites kept aside"


class EvaluationCohort(Protocol):
    """What testing needs of the cohort."""

    sites: Coordinator
    left: tuple[str, ...]
    missed_sums: set[str]
    settings: Any

    @property
    def names(self) -> tuple[str, ...]:
        """All sites that joined."""

    def noise(self, **sum: Any) -> SumNoise:
        """Return the noise that the sites put into a sum."""

    def sum_counts(self, question: SumQuestion, *, length: int) -> npt.NDArray[np.int64]:
        """Return the sum of the whole numbers that all sites still there contribute."""


@dataclass(frozen=True)
class EvaluateModel(Steps):
    """The plan of `evaluate`."""

    classes: int
    grouped: bool = False
    matched: bool = False
    """Whether the number of classes is known only after the sites' own names are matched."""

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield the last sum of a run."""
        if not self.matched:
            yield Sum(SumEvaluation(classes=self.classes), self._length(self.classes, private))
            return
        most = sum(map(len, shape.own_names)) or shape.n_sites * self.classes
        length = max(self._length(2, private), self._length(most, private))  # two classes are tested by score, too
        yield Sum(SumEvaluation(classes=most), length, bound="how many joint classes there are after matching")

    def _length(self, classes: int, private: bool) -> int:
        return classes**2 if private else counts_length(classes, grouped=self.grouped)


def still_there(cohort: EvaluationCohort) -> None:
    """Leave out who missed a sum: it stays away from later ones, as strict policies refuse sums that differ by few."""
    away = {*cohort.sites.lost, *cohort.missed_sums}
    cohort.left = tuple(name for name in cohort.left if name not in away)


def evaluate(cohort: EvaluationCohort, grouped: bool, model: Any) -> None:
    """Add up what the sites count; where that cannot be done, the run has its model all the same, and a warning."""
    sites = cohort.sites
    still_there(cohort)
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
