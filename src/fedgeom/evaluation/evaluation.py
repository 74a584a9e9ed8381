"""How well a run's model does on held-out rows, beside simple baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.evaluation import metrics
from fedgeom.evaluation.metrics import CalibrationBin, Figure, ThresholdFigures, row_worth
from fedgeom.federation.holdout import Parts
from fedgeom.federation.ledger import as_frame
from fedgeom.federation.method import Method
from fedgeom.federation.results import UNTESTED
from fedgeom.geometry.graphs.class_tree import ClassTree, tree_error
from fedgeom.protocols.evaluation import Counts, Tally, class_numbers, numbered, summed, tally, train_baseline

FILE = "evaluation.json"
"""The file of a run's folder that has the figures."""
LEAST_ROWS = 10
"""A figure from fewer test rows is not shown: it says next to nothing, and at a site nearly names its rows."""
TITLES = {
    "majority": "majority class",
    "local": "each site alone",
    "own": "federated",
    "joint": "federated, joint model",
    "pooled": "pooled rows",
    "matched": "pooled rows, names as matched",
}
"""What is scored, as people read it, in the order of the table."""
WIDE = 0.2
"""An interval as wide as this leaves much open."""
ALIKE = 0.02
"""Figures that differ by no more, and not clearly, are called as good as each other."""
NEVER_FOUND = 5
"""A class with so many test rows of which none is called by its name is told."""
COLUMNS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "macro_f1": "macro-F1", "auc": "AUC"}


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one model over all test rows."""

    model: str
    """majority (always the commonest class), local (each site's own, trained alone), own (what each site ends with),
    joint (the joint model, where sites end with others), pooled (trained on all rows in one place) or matched (the same
    where sites have names of their own: with those that the run takes for one class)."""
    rows: int
    accuracy: Figure | None = None
    balanced_accuracy: Figure | None = None
    macro_f1: Figure | None = None
    auc: Figure | None = None
    """For two classes: from a histogram of the scores."""
    auc_error: float = 0.0
    """How far the AUC may be from that of the scores themselves, where it is from a histogram."""

    def values(self) -> dict[str, float]:
        """Return the figures that there are, without their intervals."""
        found = {name: getattr(self, name) for name in COLUMNS}
        return {name: figure.value for name, figure in found.items() if figure is not None}


class ClassFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the federated models make of one class."""

    name: str
    trained: int
    """How many rows were learnt from."""
    tested: int
    recall: float | None = None
    precision: float | None = None
    f1: float | None = None


class SiteFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One site's figures, which only a process that simulates all sites can see; in a deployment they stay there."""

    site: str
    tested: int
    accuracy: dict[str, float] = {}
    """By model; empty where fewer than `LEAST_ROWS` rows were tested."""


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    classes: list[str]
    rows: int
    """How many rows were tested."""
    sites: int
    """How many sites had rows to test on."""
    groups: int = 0
    """How many groups, such as patients, the test rows are of, where rows were kept aside by group: intervals then take
    groups as drawn one by one, not rows."""
    unscored: dict[str, str] = {}
    """Which models were not scored, and why."""
    scores: list[Score]
    by_class: list[ClassFigures]
    by_site: list[SiteFigures] = []
    """In simulated runs: every site, in the order of the run."""
    confusion: list[list[int]]
    """Rows by the class they have and the class that the federated models give them; the last row is of words that no
    class stands for, the last column of answers that are none of the site's words."""
    neighbours: int = 1
    """How many rows share a score at least, where policies have floors. Then AUC is the mean of the sites', each over
    its own rows, and what follows is of means of so many neighbours."""
    calibration: list[CalibrationBin] = []
    """For two classes: which probabilities of the second class the federated models give, and what came."""
    thresholds: list[ThresholdFigures] = []
    """For two classes: sensitivity, specificity and predictive values, by the probability from which a row is called
    by the second class."""

    def __getitem__(self, model: str) -> Score:
        """Return the figures of one model, such as "own"."""
        for one in self.scores:
            if one.model == model:
                return one
        raise KeyError(f"{model!r} was not scored; there are {', '.join(one.model for one in self.scores)}")

    def __contains__(self, model: object) -> bool:
        return any(one.model == model for one in self.scores)

    @property
    def beats_majority(self) -> bool:
        """Whether the federated models are clearly right more often than the commonest class, always, would be."""
        own = self["own"].accuracy if "own" in self else None
        floor = self["majority"].accuracy if "majority" in self else None
        return own is not None and floor is not None and _clearly_above(own, floor)

    @property
    def verdict(self) -> str:
        """Say in two sentences whether the model is worth using, and what to do otherwise, from the intervals.

        One figure is clearly above another where each lies outside the other's interval: both are of the same rows.
        """
        own = self["own"].accuracy if "own" in self else None
        if own is None:
            return UNTESTED
        grouped = f" of {self.groups:,} groups" if self.groups else ""
        begin = f"On {self.rows:,} test rows{grouped} the federated model has accuracy {own}"
        return f"{begin}: {_listed(_beside(self, own))}. {_advice(self, own)}".rstrip()

    def tree_error(self, tree: Mapping[str, Any] | ClassTree) -> tuple[float, float]:
        """Return the mean tree distance between true class and the federated models' answer, and that of mistakes.

        It follows from the confusion matrix, so no site shows more for it. Rows that no class stands for, and answers
        that are none, are left out; ``tree`` is a `ClassTree` or what its ``read`` takes.
        """
        known = tree if isinstance(tree, ClassTree) else ClassTree.read(tree, self.classes)
        of = {known.nodes[node]: at for at, node in enumerate(known.classes.tolist())}
        missing = [name for name in self.classes if name not in of]
        if missing:
            raise InputError(f"{missing[0]!r} is no class of the tree; it has {', '.join(list(of)[:8])}")
        order = [of[name] for name in self.classes]
        size = len(self.classes)
        return tree_error(np.array(self.confusion)[:size, :size], known.distances()[np.ix_(order, order)])

    def frame(self) -> Any:
        """Return the figures as a pandas frame (model, metric, value, low, high), or as records without pandas."""
        rows = [
            (one.model, name, found.value, found.low, found.high)
            for one in self.scores
            for name in COLUMNS
            if (found := getattr(one, name)) is not None
        ]
        return as_frame(["model", "metric", "value", "low", "high"], rows)

    def class_frame(self) -> Any:
        """Return the figures of each class as a pandas frame, or as records without pandas."""
        names = ["name", "trained", "tested", "recall", "precision", "f1"]
        return as_frame(names, [tuple(getattr(one, name) for name in names) for one in self.by_class])

    def calibration_frame(self) -> Any:
        """Return the calibration curve as a pandas frame (rows, predicted, observed, low, high), or as records."""
        rows = [
            (one.rows, one.predicted, one.observed.value, one.observed.low, one.observed.high)
            for one in self.calibration
        ]
        return as_frame(["rows", "predicted", "observed", "low", "high"], rows)

    def threshold_frame(self) -> Any:
        """Return sensitivity, specificity, ppv and npv by threshold as a pandas frame, or as records."""
        names = ["sensitivity", "specificity", "ppv", "npv"]
        rows = [
            (
                one.threshold,
                one.called,
                *(None if (found := getattr(one, name)) is None else found.value for name in names),
            )
            for one in self.thresholds
        ]
        return as_frame(["threshold", "called", *names], rows)

    def site_frame(self) -> Any:
        """Return the accuracy at each site as a pandas frame (site, tested, model, accuracy), or as records."""
        rows = [
            (one.site, one.tested, model, one.accuracy.get(model))
            for one in self.by_site
            for model in (one.accuracy or ("own",))
        ]
        return as_frame(["site", "tested", "model", "accuracy"], rows)

    def __repr__(self) -> str:
        parts = [f"{TITLES[one.model]} {one.accuracy}" for one in self.scores if one.accuracy is not None]
        told = f"accuracy of {'; '.join(parts) or 'nothing'}. {self.verdict}"
        return f"<Evaluation on {self.rows:,} rows of {self.sites} sites: {told}>"

    def _repr_html_(self) -> str:
        head, rows = score_rows(self)
        cells = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        titles = "".join(f"<th>{escape(name)}</th>" for name in head)
        return (
            f"<p>{escape(self.verdict)}</p>"
            f"<b>Evaluation</b> on {self.rows:,} rows of {self.sites} sites<table><tr>{titles}</tr>{cells}</table>"
        )


def _clearly_above(one: Figure, other: Figure) -> bool:
    return one.low > other.value and one.value > other.high


def _beside(evaluation: Evaluation, own: Figure) -> list[str]:
    """Say how the federated models stand beside each rival that was scored."""
    said = []
    for model, rival in (
        ("majority", "always naming the majority class"),
        ("local", "each site alone"),
        ("pooled", "pooled rows"),
        ("matched", "pooled rows with names as matched"),
    ):
        other = evaluation[model].accuracy if model in evaluation else None
        if other is None:
            continue
        if _clearly_above(own, other):
            how = "better than"
        elif _clearly_above(other, own):
            how = "worse than"
        elif model == "majority":
            how = "no better than"
        elif model == "local":
            how = "not clearly better than"
        else:
            how = "as good as" if own.value >= other.value - ALIKE else "not clearly worse than"
        said.append(f"{how} {rival} ({other.value:.3f})")
    return said


def _advice(evaluation: Evaluation, own: Figure) -> str:
    """Say what to do, by the gravest of what the figures show; nothing where all is well."""
    others = {model: evaluation[model].accuracy for model in ("local", "pooled") if model in evaluation}
    lost = [
        f"{one.name} (0 of {one.tested})"
        for one in evaluation.by_class
        if one.recall == 0 and one.tested >= NEVER_FOUND
    ]
    never = f"It never finds {_listed(lost[:4])}: look at the figures of each class." if lost else ""
    if "majority" in evaluation and not evaluation.beats_majority:
        chance = evaluation["majority"].balanced_accuracy
        balanced = evaluation["own"].balanced_accuracy
        if chance is not None and balanced is not None and _clearly_above(balanced, chance):
            return (
                f"It tells classes apart better than chance (balanced accuracy {balanced} against {chance.value:.3f}), "
                f"at the price of the commonest class: judge it by balanced accuracy. {never}"
            ).rstrip()
        return (
            "Do not use it as it is: nothing that it has learnt can be seen here. More rows or sites, other columns or "
            "another method (fedgeom compare) may help."
        )
    alone = others.get("local")
    if alone is not None and _clearly_above(alone, own):
        return (
            "Sites do better with their own rows alone: try a personal model or another method (fedgeom compare)."
        )
    if never:
        return never
    if own.high - own.low > WIDE:
        return (
            "So few test rows leave much open: keep more aside, or let fedgeom compare --seeds 5 split them anew."
        )
    pooled = others.get("pooled")
    if pooled is not None and _clearly_above(pooled, own):
        return "Rows in one place would tell more: another method may lose less (fedgeom compare)."
    if alone is not None and not _clearly_above(own, alone):
        return "The federation pays off for sites that lack classes or rows, and for newcomers."
    return ""


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def evaluate(
    counts: Counts, classes: Sequence[str], by_site: Mapping[str, Counts | None] | None = None, seed: int = 0
) -> Evaluation:
    """Return the figures that follow from the counts of all sites, and those of single sites where they are known."""
    own = counts.models["own"]
    tallies = {"majority": majority(counts), **counts.models}
    worth = metrics.row_worth(own)
    if np.array_equal(own.flat(), counts.models["joint"].flat()):  # sites end with the joint model after all
        tallies.pop("joint")
    scores = [
        _score(name, tallies[name], seed, worth) for name in TITLES if name in tallies and tallies[name].rows
    ]
    tested = own.confusion.sum(axis=1)
    confusion = own.confusion
    columns = [metrics.recalls(confusion), metrics.precisions(confusion), metrics.f1_scores(confusion)]
    by_class = [
        ClassFigures(
            name=name,
            trained=int(counts.trained[at]),
            tested=int(tested[at]),
            **{
                key: _known(column[at]) for key, column in zip(("recall", "precision", "f1"), columns, strict=True)
            },
        )
        for at, name in enumerate(classes)
    ]
    return Evaluation(
        classes=list(classes),
        rows=own.rows,
        sites=counts.sites,
        groups=0 if own.groups is None else int(own.groups[0]),
        scores=scores,
        by_class=by_class,
        by_site=[_at_site(name, one) for name, one in (by_site or {}).items()],
        confusion=confusion.tolist(),
        neighbours=own.neighbours,
        calibration=metrics.calibration(own, worth),
        thresholds=metrics.thresholds(own, worth),
    )


def with_score(
    evaluation: Evaluation, model: str, found: Tally, seed: int = 0, worth: float | None = None
) -> Evaluation:
    """Return the figures with those of one more model; ``worth`` as for `fedgeom.evaluation.metrics.score`."""
    return msgspec.structs.replace(evaluation, scores=[*evaluation.scores, _score(model, found, seed, worth)])


def majority(counts: Counts) -> Tally:
    """Return the counts of a model that always answers with the class that most rows had which were learnt from."""
    true = counts.models["own"].confusion.sum(axis=1)
    confusion = np.zeros_like(counts.models["own"].confusion)
    commonest = int(counts.trained[:-1].argmax())
    confusion[:, commonest] = true
    return Tally(int(true[commonest]), confusion, None)


def _score(name: str, found: Tally, seed: int, worth: float | None = None) -> Score:
    # What nobody counted by group is taken to fall on groups as the federated models' answers do.
    figures = metrics.score(found, seed, worth if found.groups is None else None)
    binned = "auc" in figures and found.scores is not None and found.neighbours == 1
    error = metrics.auc_error(found.scores) if binned and found.scores is not None else 0.0
    return Score(model=name, rows=found.rows, auc_error=error, **figures)


def _at_site(name: str, counts: Counts | None) -> SiteFigures:
    tested = 0 if counts is None else counts.models["own"].rows
    if counts is None or tested < LEAST_ROWS:
        return SiteFigures(site=name, tested=tested)
    found = {model: one.right / one.rows for model, one in counts.models.items() if one.rows}
    return SiteFigures(site=name, tested=tested, accuracy=found)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def score_rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of all models."""
    shown = [name for name in COLUMNS if any(getattr(one, name) is not None for one in evaluation.scores)]
    order = [one for name in TITLES for one in evaluation.scores if one.model == name]
    rows = [[TITLES[one.model], *(_cell(getattr(one, name)) for name in shown)] for one in order]
    return ["model", *(COLUMNS[name] for name in shown)], rows


def _cell(figure: Figure | None) -> str:
    return "–" if figure is None else str(figure)


def read_evaluation(folder: str | Path) -> Evaluation | None:
    """Read the figures of a run's folder; None where nothing was tested."""
    file = Path(folder) / FILE
    return msgspec.json.decode(file.read_bytes(), type=Evaluation) if file.is_file() else None


Truth = Mapping[str, Mapping[str, str]]
"""Site, the site's name of a class, the name that all share."""
Local = Mapping[str, Mapping[str, Any]]
"""What each site itself has after a run (`Run.local`)."""


def own_counts(local: Mapping[str, Any]) -> Counts | None:
    """Return what one site counted, from what it has after the run; None where it counted nothing."""
    found = local.get("evaluation")
    return None if not found else Counts.read(np.array(found["counts"], np.int64), int(found["classes"]))


def class_titles(model: Any, local: Local) -> list[str]:
    """Return what the classes are called: as the model has it, or where sites have words of their own, as most do."""
    names = [str(name) for name in model.classes_.tolist()]
    if getattr(model, "names", ()):  # it speaks words: everybody's, or of the one site that it is bound to
        return names
    words: list[Counter[str]] = [Counter() for _ in names]
    for found in local.values():
        for word, group in found.get("names", {}).items():
            words[group][word] += 1
    if not any(words):
        return names
    return [
        f"{name} ({min(count, key=lambda word: (-count[word], word))})" if count else name
        for name, count in zip(names, words, strict=True)
    ]


def evaluate_run(
    method: Method,
    model: Any,
    counts: Counts | None,
    parts: Sequence[Parts],
    local: Local,
    seed: int = 0,
) -> Evaluation | None:
    """Return the figures of a simulated run, those of pooled rows beside them; None where nothing was tested."""
    if counts is None:
        return None
    by_site = {train.name: own_counts(local.get(train.name, {})) for train, _ in parts}
    found = without_joint(evaluate(counts, class_titles(model, local), by_site, seed), model, counts)
    worth = row_worth(counts.models["own"])
    kept: Any = method.holdout
    if kept is not None and not kept.rivals:
        return found
    pooled = pooled_tally(method, model, parts, local)
    if pooled is not None:
        return beside_pooled(found, pooled, seed, worth)
    matched = matched_tally(method, model, parts, local)
    return found if matched is None else with_score(found, "matched", matched, seed, worth)


def without_joint(evaluation: Evaluation, model: Any, counts: Counts) -> Evaluation:
    """Return the figures, and why there are none of a joint model where there is none that predicts."""
    if counts.models["joint"].rows or getattr(model, "everywhere", True):
        return evaluation
    why = "there is none that predicts by itself, because sites keep parts of theirs to themselves"
    return msgspec.structs.replace(evaluation, unscored=evaluation.unscored | {"joint": why})


def beside_pooled(
    evaluation: Evaluation, pooled: Tally | None, seed: int = 0, worth: float | None = None
) -> Evaluation:
    """Return the figures with those of pooled rows, where there are any and they are not there yet.

    Where they are, those with names as matched are no longer needed.
    """
    if pooled is None or "pooled" in evaluation:
        return evaluation
    scores = [one for one in evaluation.scores if one.model != "matched"]
    return with_score(msgspec.structs.replace(evaluation, scores=scores), "pooled", pooled, seed, worth)


def matched_tally(method: Method, model: Any, parts: Sequence[Parts], local: Local) -> Tally | None:
    """Train on all rows in one place, by the classes that the run put the sites' own names into, and count.

    A row is right when the site's word for the class that it is given is the row's own: names that were matched wrongly
    cost this rival what they cost the federation. None where names were not matched.
    """
    rows = list[tuple[SiteData, SiteData, dict[str, int]]]()
    classes = model.joint_classes
    for train, aside in parts:
        names = local.get(train.name, {}).get("names")
        if isinstance(names, Mapping) and own_counts(local[train.name]) is not None:
            matched = {str(word): int(group) for word, group in names.items() if group >= 0}
            rows.append((_labelled(method, train), _labelled(method, aside), matched))
    learnt = [class_numbers(a.y.astype(str), names, classes) for a, _, names in rows]
    y = np.concatenate(learnt) if learnt else np.empty(0, np.int64)
    if not (y < classes).any() or not sum(len(b) for _, b, _ in rows):
        return None
    known = y < classes
    whole = train_baseline(np.vstack([a.X for a, _, _ in rows])[known], y[known].astype(str))
    least = _neighbours(local)
    found = []
    for _, aside, names in rows:
        given = whole.predict(aside.X).astype(np.int64)
        said = np.array(model.for_site(local[aside.name]).names, np.str_)[given]
        words = aside.y.astype(str)
        chances = whole.predict_proba(aside.X) if classes == 2 == len(whole.names) else None
        true = class_numbers(words, names, classes)
        found.append(tally(said, words, given, true, classes, chances, least=least))
    return summed(found, classes)


def _neighbours(local: Local) -> int:
    """Return how many neighbours share a score in what the sites counted."""
    counted = [counts for found in local.values() if (counts := own_counts(found)) is not None]
    return max((one.models["own"].neighbours for one in counted), default=1)


def pooled_tally(
    method: Method, model: Any, parts: Sequence[Parts], local: Local, truth: Truth | None = None
) -> Tally | None:
    """Train on the rows of all sites in one place and count what that model says of the rows kept aside.

    That needs one vocabulary. ``truth`` gives it; without, the sites' words are one if the model has them, or if there
    are no more than it has classes. None where there is none, or nothing to train on.
    """
    read = [(_labelled(method, train), _labelled(method, aside)) for train, aside in parts]
    words = {str(name) for train, _ in read for name in np.unique(train.y.astype(str)).tolist()}
    classes = [str(name) for name in model.classes_.tolist()]
    own_words = not getattr(model, "names", ()) and any("names" in found for found in local.values())
    if truth is None and own_words and len(words) > len(classes):
        return None
    known = None if own_words else classes  # rare classes are left out here as they were there
    counted = {name for name, found in local.items() if own_counts(found) is not None}
    train = [_translated(a, truth, known) for a, _ in read]
    aside = [_translated(b, truth, known) for _, b in read if b.name in counted]
    y = np.concatenate([one.y for one in train])
    if not len(y) or not sum(map(len, aside)):
        return None
    names = np.unique(y).tolist() if own_words else classes
    whole = train_baseline(np.vstack([one.X for one in train]), y)
    return tally_of(whole, [(one.X, one.y) for one in aside], names, _neighbours(local))


def tally_of(
    model: Any, parts: Sequence[tuple[Any, npt.NDArray[Any]]], classes: Sequence[str], least: int = 1
) -> Tally:
    """Count what a model with names of its own for classes (``names``) says of the sites' rows with these labels."""
    numbers = numbered(classes)
    size = len(classes)
    found = []
    for X, y in parts:
        chances = model.predict_proba(X)
        said = np.asarray(model.predict(X)).astype(str)
        by_class = np.zeros((len(said), size + 1))
        np.add.at(by_class.T, class_numbers(np.array(model.names, np.str_), numbers, size), chances.T)
        words = np.asarray(y).astype(str)
        true_class = class_numbers(words, numbers, size)
        said_class = class_numbers(said, numbers, size)
        own = by_class[:, :2] if size == 2 else None
        found.append(tally(said, words, said_class, true_class, size, own, least=least))
    return summed(found, size)


def evaluate_elsewhere(model: Any, parts: Sequence[Parts], seed: int = 0, least: int = 1) -> Evaluation:
    """Return the figures of a model that was trained without any protocol, on the rows kept aside at the sites.

    ``parts`` are the rows that were learnt from and those kept aside, with labels as they are; ``least`` neighbours
    share a score, as at the sites.
    """
    aside = [part.take(part.has_label) for _, part in parts]
    classes = [str(name) for name in model.names]
    if model.preparation is not None:
        seen = [model.preparation.transform(part) for part in aside if len(part)]
    else:
        seen = [part for part in aside if len(part)]
    found = tally_of(model.bare(), [(part.table, part.y) for part in seen], classes, least)
    learnt = np.concatenate([part.y[part.has_label].astype(str) for part, _ in parts])
    trained = np.bincount(class_numbers(learnt, numbered(classes), len(classes)), minlength=len(classes) + 1)
    blank = Tally.blank(len(classes))
    models = {"own": found, "joint": blank, "local": blank}
    return evaluate(Counts(sum(map(bool, map(len, aside))), trained, models), classes, seed=seed)


def _labelled(method: Method, part: SiteData) -> SiteData:
    read = method.normalise_labels(part)
    return read.take(read.has_label)


def _translated(part: SiteData, truth: Truth | None, only: Sequence[str] | None) -> SiteData:
    """Return a part with its labels in the words that all share, and rows of ``only`` these where they are named."""
    known = {} if truth is None else truth[part.name]
    y = np.array([known.get(word, word) for word in part.y.astype(str).tolist()], np.str_)
    named = SiteData(part.name, part.X, y)
    return named if only is None else named.take(np.isin(y, list(only)))
