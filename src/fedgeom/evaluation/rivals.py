"""From a finished run to its figures: the sites' counts, and in simulated runs a rival that has all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.evaluation.figures import Evaluation, evaluate, with_score
from fedgeom.evaluation.metrics import row_worth
from fedgeom.federation.holdout import Parts
from fedgeom.federation.method import Method
from fedgeom.protocols.evaluation.baseline import train_baseline
from fedgeom.protocols.evaluation.counts import Counts, Tally, class_numbers, numbered, tally

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
    worth, pooled = row_worth(counts.models["own"]), pooled_tally(method, model, parts, local)
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
    rows, classes = list[tuple[SiteData, SiteData, dict[str, int]]](), model.joint_classes
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
    given = [whole.predict(b.X).astype(np.int64) for _, b, _ in rows]
    words = [
        np.array(model.for_site(local[b.name]).names, np.str_)[at]
        for (_, b, _), at in zip(rows, given, strict=True)
    ]
    true = [class_numbers(b.y.astype(str), names, classes) for _, b, names in rows]
    own = np.concatenate([b.y.astype(str) for _, b, _ in rows])
    chances = None
    if classes == 2 == len(whole.names):
        chances = np.vstack([whole.predict_proba(b.X) for _, b, _ in rows])
    return tally(np.concatenate(words), own, np.concatenate(given), np.concatenate(true), classes, chances)


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
    X, true = np.vstack([one.X for one in aside]), np.concatenate([one.y for one in aside])
    numbers, size = numbered(names), len(names)
    chances, said = whole.predict_proba(X), whole.predict(X)
    by_class = np.zeros((len(X), size + 1))
    np.add.at(by_class.T, class_numbers(np.array(whole.names, np.str_), numbers, size), chances.T)
    true_class, said_class = class_numbers(true, numbers, size), class_numbers(said, numbers, size)
    return tally(said, true, said_class, true_class, size, by_class[:, :2] if size == 2 else None)


def _labelled(method: Method, part: SiteData) -> SiteData:
    read = method.normalise_labels(part)
    return read.take(read.has_label)


def _translated(part: SiteData, truth: Truth | None, only: Sequence[str] | None) -> SiteData:
    """Return a part with its labels in the words that all share, and rows of ``only`` these where they are named."""
    known = {} if truth is None else truth[part.name]
    y = np.array([known.get(word, word) for word in part.y.astype(str).tolist()], np.str_)
    named = SiteData(part.name, part.X, y)
    return named if only is None else named.take(np.isin(y, list(only)))
