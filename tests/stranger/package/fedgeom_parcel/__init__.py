"""A package that fedgeom does not know: one method, learner, aggregation, reader and engine of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.extend import (
    Aggregation,
    HandOut,
    Learner,
    Method,
    Model,
    Site,
    Sum,
    SumQuestion,
    Table,
    Tree,
    answers,
    hand_out,
    join,
    read_text,
)


class SumLabels(SumQuestion, kind="majority.count"):
    """Ask how many rows of each class a site has, masked."""

    answer_reveals = "masked; with all others: how many rows each class has"
    classes: tuple[str, ...]


def count(y, classes):
    return (y.astype(str)[:, None] == np.array(classes)).sum(axis=0)


class MajoritySite(Site):
    """Counts labels."""

    @answers(SumLabels)
    def labels(self, ask):
        return self.contribute(ask, count(self.data.y, ask.classes))


@dataclass(frozen=True, repr=False)
class MajorityModel(Model):
    """Answers with the most frequent class, whatever is asked."""

    names: tuple[str, ...]
    counts: np.ndarray
    method: str = "majority"

    def predict(self, X):
        return np.full(len(np.asarray(X)), self.names[int(self.counts.argmax())])


@dataclass(frozen=True, kw_only=True)
class Majority(Method):
    """Sites count their labels under masks; the most frequent class is the answer."""

    name, site, model_type = "majority", MajoritySite, MajorityModel
    classes: tuple[str, ...] = ("left", "right")

    def plan(self, shape):
        yield Sum(SumLabels(classes=self.classes), length=len(self.classes))
        yield HandOut(MajorityModel(self.classes, np.zeros(len(self.classes), int)))

    def conduct(self, sites):
        cohort = join(sites, self)
        counts = cohort.sum_counts(SumLabels(classes=self.classes))
        return hand_out(cohort, MajorityModel(self.classes, counts))


class LeastSquares(Learner):
    """A linear score per class, fitted by squares; the softmax of the scores are its probabilities."""

    name = "parcel-squares"

    def start(self, columns, classes, rng):
        return Tree(weights=np.zeros((columns + 1, classes)))

    def _scores(self, parameters, X):
        return X @ parameters["weights"][1:] + parameters["weights"][0]

    def _error(self, parameters, X, y):
        return self._scores(parameters, X) - np.eye(parameters["weights"].shape[1])[y]

    def loss(self, parameters, X, y):
        return float((self._error(parameters, X, y) ** 2).sum(axis=1).mean() / 2)

    def gradient(self, parameters, X, y):
        rows = np.column_stack([np.ones(len(X)), X])
        return Tree(weights=rows.T @ self._error(parameters, X, y) / len(X))

    def predict_proba(self, parameters, X):
        scores = np.exp(self._scores(parameters, X))
        return scores / scores.sum(axis=1, keepdims=True)


LEARNER = LeastSquares()


@dataclass(frozen=True)
class Midrange(Aggregation):
    """The middle between the smallest and the largest of each coordinate, or nearer to one of them."""

    name = "parcel-midrange"
    lean: float = 0.5
    """Where between them: 0 is the smallest, 1 the largest."""

    def __call__(self, vectors, weights):
        return (1 - self.lean) * vectors.min(axis=0) + self.lean * vectors.max(axis=0)


def read_parcel(file, label, columns):
    """Read lines such as "label: 1 2 3"."""
    lines = [line.partition(":") for line in read_text(file).splitlines()]
    rows = np.array([numbers.split() for _, _, numbers in lines], np.float64)
    return Table(rows, None if label is None else np.array([word.strip() for word, _, _ in lines]))


class ParcelEngine(EmbeddedEngine):
    """The embedded engine, counting what it carries."""

    name = "parcel"
    carried = 0

    def deliver(self, requests):
        for name, reply in super().deliver(requests):
            ParcelEngine.carried += 1
            yield name, reply
