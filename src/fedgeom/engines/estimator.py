"""A method as a classifier of scikit-learn's: federated training in one process, for pipelines and searches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fedgeom.arrays import Floats
from fedgeom.data.labels import in_words
from fedgeom.data.sites import SiteData
from fedgeom.data.split import split
from fedgeom.engines.run import run
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.settings import is_called_now
from fedgeom.methods.catalogue import as_method


def _whole(rows: Any, labels: npt.NDArray[Any]) -> SiteData:
    """Return all rows as one table, the text columns of a frame among them."""
    if not hasattr(rows, "iloc"):
        return SiteData("all", rows, labels)
    label = "label"
    while label in rows.columns:
        label += "_"
    made: SiteData = SiteData.from_frame(rows.assign(**{label: labels}), label=label, name="all", text=True)
    return replace(made, y=labels)


def _gives_probabilities(estimator: FederatedClassifier) -> bool:
    return hasattr(as_method(estimator.method).model_type, "predict_proba")


class FederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns from rows as if they lay at several sites, by `fedgeom.run`, and predicts by the joint model.

    >>> from sklearn.model_selection import cross_val_score
    >>> learner = FederatedClassifier(fedgeom.Moments(space="euclidean"))          # doctest: +SKIP
    >>> cross_val_score(learner, X, y, params={"sites": hospital})                 # doctest: +SKIP

    In a search, the settings of the method are ``method__shrinkage`` and so on. A method that prepares its rows
    (``prepare="table"``) takes gaps, and columns of text in a frame, as they are. For others gaps have to be filled
    before, as in a pipeline with an imputer; what the sites would have to agree on there, such as its means, is then
    learnt from all rows together, so it is no simulation of that.

    Parameters
    ----------
    method: a method, or its name for the default settings; "fedavg" if not given
        It must yield a joint model in the words of the labels; those of sites alone are in ``run_`` (`Run.local`).
    n_sites: a whole number of at least 1; 3 if not given
        How many sites the rows are dealt to, where `fit` is not told which row is whose.
    seed: a whole number; 0 if not given
        For dealing and for training.
    policy: a `Policy` or None; None if not given
        What every site insists on.
    """

    def __init__(
        self, method: Method | str = "fedavg", n_sites: int = 3, seed: int = 0, policy: Policy | None = None
    ):
        self.method = method
        self.n_sites = n_sites
        self.seed = seed
        self.policy = policy

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sites: npt.ArrayLike | None = None) -> Self:
        """Learn from rows X, (rows, columns), and labels y, (rows,); ``sites``, (rows,), says which row is whose."""
        rows, labels = validate_data(self, X, y, **self._wanted())
        labels = column_or_1d(labels)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise InputError("y has one class; wanted at least two to tell apart")
        words = in_words(labels).astype(str)
        whole = _whole(rows, labels)
        numbers = np.arange(float(len(whole)))[:, None]
        if sites is None:
            parts = split(numbers, labels, n_sites=self.n_sites, seed=self.seed)
        else:
            parts = split(numbers, labels, by=np.asarray(sites).astype(str))
        dealt = [
            replace(whole.take(part.X[:, 0].astype(np.intp)), name=part.name, row_numbers=None) for part in parts
        ]
        self.run_ = run(as_method(self.method), dealt, seed=self.seed, policy=self.policy)
        self.model_ = self.run_.model
        known = np.asarray(self.model_.bare().classes_)
        words_only = known.dtype.kind == "U" and not {*known.tolist()} - {*words.tolist()}  # numbers are no words
        if not self.model_.everywhere or not words_only:
            raise InputError(
                f"{self.model_.method!r} yields no joint model that answers in the words of y; use fedgeom.run(…), and "
                "run.model.for_site(run.local[site])"
            )
        return self

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the class of each row, as y had it."""
        rows = self._rows(X)
        found = in_words(self.model_.predict(rows)).astype(str)
        known = in_words(self.classes_).astype(str)
        order = np.argsort(known)
        at = np.minimum(np.searchsorted(known[order], found), len(known) - 1)
        lost = np.flatnonzero(known[order][at] != found)
        if lost.size:
            raise InputError(f"{lost.size} rows get no class, the first is row {lost[0]}: no label reaches them")
        named: npt.NDArray[Any] = self.classes_[order[at]]
        return named

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return a probability for each row and class, (rows, classes), in the order of ``classes_``."""
        rows = self._rows(X)
        chances = self.model_.predict_proba(rows)
        places = {str(name): at for at, name in enumerate(self.model_.bare().classes_)}
        columns = [places.get(name) for name in in_words(self.classes_).astype(str)]
        none = np.zeros(len(chances))
        return np.column_stack([none if at is None else chances[:, at] for at in columns])

    @property
    def coef_(self) -> Floats:
        """The coefficients of the joint model, where it is linear (`Model.coef_`)."""
        check_is_fitted(self)
        return np.asarray(self.model_.coef_)

    @property
    def intercept_(self) -> Floats:
        """The log odds of the joint model where all columns are 0, where it is linear."""
        check_is_fitted(self)
        return np.asarray(self.model_.intercept_)

    def _rows(self, X: npt.ArrayLike) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, **self._wanted())

    def _wanted(self) -> dict[str, Any]:
        """Return what is asked of rows: numbers without gaps, unless the method prepares what it is given."""
        return {"skip_check_array": True} if as_method(self.method).preparing else {"dtype": np.float64}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        raw = bool(as_method(self.method).preparing)
        tags.input_tags.allow_nan = raw
        tags.input_tags.string = raw
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of the method (``method__shrinkage``) make it a new one, because methods are frozen."""
        inner = {name: value for name, value in params.items() if name.startswith("method__")}
        super().set_params(**{name: value for name, value in params.items() if name not in inner})
        if inner:
            changes = {name.removeprefix("method__"): value for name, value in inner.items()}
            unknown = sorted(set(changes) - set(as_method(self.method).get_params(deep=False)))
            if unknown:
                known = as_method(self.method).get_params(deep=False)
                now = is_called_now(unknown[0], known) or f"it has {', '.join(known)}"
                raise InputError(f"{as_method(self.method).name!r} has no setting {unknown[0]!r}; {now}")
            self.method = replace(as_method(self.method), **changes)
        return self
