"""Naive Bayes over sites, a method of one's own: one secure sum of counts, means and squares of each class."""

from dataclasses import dataclass

import numpy as np

import fedgeom
from fedgeom.extend import HandOut, Method, Model, Site, Sum, SumQuestion, answers, hand_out, join


class SumByClass(SumQuestion, kind="naive-bayes.sums"):
    answer_reveals = "masked; with all others: for each class the number of rows, and of each column Σx and Σx²"
    classes: tuple[str, ...]


class NaiveBayesSite(Site):
    @answers(SumByClass)
    def add(self, ask):
        one_hot = self.data.y.astype(str) == np.array(ask.classes)[:, None]
        columns = np.column_stack([np.ones(len(self.data)), self.data.X, self.data.X**2])
        return self.contribute(ask, one_hot @ columns)


@dataclass(frozen=True, repr=False)
class NaiveBayesModel(Model):
    names: tuple[str, ...]
    sums: np.ndarray
    method: str = "naive-bayes"

    def predict_proba(self, X):
        n, x, square = np.split(self.sums, [1, 1 + (self.sums.shape[1] - 1) // 2], axis=1)
        mean, spread = x / n, np.maximum(square / n - (x / n) ** 2, 1e-9)
        away = (np.asarray(X, float)[:, None] - mean) ** 2 / spread + np.log(spread)
        score = np.log(n[:, 0]) - away.sum(axis=2) / 2
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)

    def predict(self, X):
        return np.array(self.names)[self.predict_proba(X).argmax(axis=1)]


@dataclass(frozen=True, kw_only=True)
class NaiveBayes(Method):
    name, site, model_type = "naive-bayes", NaiveBayesSite, NaiveBayesModel
    column_floors = sums_by_class = True  # columns that few rows of a class set apart are in no sum
    classes: tuple[str, ...] = ("left", "right")

    def plan(self, shape):
        size = (len(self.classes), 1 + 2 * shape.columns)
        yield Sum(SumByClass(classes=self.classes), length=size[0] * size[1])
        yield HandOut(NaiveBayesModel(self.classes, np.ones(size)))

    def conduct(self, sites):
        cohort = join(sites, self)
        total = cohort.sum_reals(SumByClass(classes=self.classes))
        return hand_out(cohort, NaiveBayesModel(self.classes, total.reshape(len(self.classes), -1)))


if __name__ == "__main__":
    wine = fedgeom.load_set("wine", n_sites=3)
    run = fedgeom.run(NaiveBayes(classes=wine.classes), wine.train, seed=0, holdout=0.25)
    print(f"naive Bayes: {run.evaluation['own'].accuracy}, from {len(run.ledger)} messages")
