"""A complete federated method: least squares from one secure sum, equal to pooled rows whatever the partition.

Sites add XᵀX and XᵀY, masked; the coordinator sees the sums alone, solves for one score per class, and hands the
model out. `check_method` holds it to everything that a method promises: losses, resuming, lies, the ledger.
"""

from dataclasses import dataclass

import numpy as np

from fedgeom.extend import HandOut, Method, Model, Site, Sum, SumQuestion, answers, hand_out, join
from fedgeom.testing import check_method


class SumGram(SumQuestion, kind="least-squares.gram"):
    answer_reveals = "masked; with all others: the sums XᵀX and XᵀY over all rows"
    classes: tuple[str, ...]


def gram(X, y, classes):
    Y = y.astype(str)[:, None] == np.array(classes)
    A = np.column_stack([np.ones(len(X)), X])[Y.any(axis=1)]  # a row of another class is in no sum
    return A.T @ np.column_stack([A, Y[Y.any(axis=1)]])


class LeastSquaresSite(Site):  # runs where the data is
    @answers(SumGram)
    def add(self, ask):
        return self.contribute(ask, gram(self.data.X, self.data.y, ask.classes))


@dataclass(frozen=True, repr=False)
class LeastSquaresModel(Model):
    names: tuple[str, ...]
    weights: np.ndarray
    method: str = "least-squares"

    def predict(self, X):
        return np.array(self.names)[(np.asarray(X) @ self.weights[1:] + self.weights[0]).argmax(axis=1)]


@dataclass(frozen=True, kw_only=True)
class LeastSquares(Method):
    name, site, model_type = "least-squares", LeastSquaresSite, LeastSquaresModel
    column_floors = True  # columns that few rows set apart are in no sum: their products would be these rows
    classes: tuple[str, ...] = ("left", "right")

    def solve(self, total):
        return LeastSquaresModel(self.classes, np.linalg.solve(total[:, : len(total)], total[:, len(total) :]))

    def plan(self, shape):  # what is asked, and how long the answers are: sites hold the run to it
        rows, classes = shape.columns + 1, len(self.classes)
        yield Sum(SumGram(classes=self.classes), length=rows * (rows + classes))
        yield HandOut(LeastSquaresModel(self.classes, np.zeros((rows, classes))))

    def conduct(self, sites):
        cohort = join(sites, self)
        total = cohort.sum_reals(SumGram(classes=self.classes))
        return hand_out(cohort, self.solve(total.reshape(cohort.columns + 1, -1)))


if __name__ == "__main__":
    print(check_method(LeastSquares))
