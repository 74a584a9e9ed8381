"""What a run yields: the contract of all models, and their files (safetensors with a few plain facts; no pickle)."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.columns import check_distinct
from fedgeom.data.kinds import Kind, read_kinds, write_kinds
from fedgeom.data.labels import LABEL_TYPES, LabelType, as_given, in_words, type_of_words
from fedgeom.errors import InputError
from fedgeom.federation.ledger import as_frame
from fedgeom.federation.novelty import PREFIX, KnownRows, RowNovelty
from fedgeom.federation.onnx import Graph
from fedgeom.federation.preparation import FACT, Preparation
from fedgeom.storage import write_file

FORMAT = "fedgeom-model/2"
UNSEALED = "fedgeom-model/1"
"""The format of earlier releases, whose files have no checksum; they are read all the same."""
BLANK = "0" * 64
"""Stands in the place of the checksum while it is computed: the SHA-256 of the whole file, with this in its place."""
COLUMN_NAMES = "column_names"
"""The fact of a model file that names the columns, where they are known."""
COLUMN_KINDS = "column_kinds"
"""The fact that says of what kind their numbers are: a letter for each column."""
LABELS = "label_type"
"""The fact that says of what type answers are; also in what a site has after a run (`Run.local`)."""
TAKE_ROWS = (
    "predict",
    "predict_proba",
    "decision_function",
    "class_scores",
    "scores",
    "to_disc",
    "transform",
    "pseudotime",
    "density_scores",
)
"""What a model may have that takes rows: each puts the columns of a table with names into the model's order."""

Tensors = dict[str, npt.NDArray[Any]]
"""A model file's arrays, by name."""
Facts = dict[str, Any]
"""What else a model file says: text, numbers, lists of these."""


class Model(RowNovelty, ABC):
    """Something that predicts, for everybody or for one site, and can be saved without pickles.

    Models that give probabilities have `predict_proba` too: (rows, classes), rows summing to 1. Whatever takes rows
    takes a frame or an AnnData as well: where the model knows its columns by name, another order is put right, and
    missing or unknown columns are refused by name, as are columns of text, and numbers of another kind than those that
    it learnt from (`column_kinds`). The columns of an array are taken as they stand. What a model says of a row depends
    on that row alone.
    """

    method: str
    """The name of the method that yields it."""
    column_names: tuple[str, ...] = ()
    """The names of the columns, where they are known (`with_columns`); empty otherwise."""
    preparation: Preparation | None = None
    """What takes raw rows to those that the model learnt from; None: it takes rows as they are."""
    label_type: LabelType = "text"
    """Of what type `predict` answers: "integer", "float" or "bool" where all sites' labels were, otherwise "text"."""
    column_kinds: tuple[Kind, ...] = ()
    """Of what kind the numbers of each column were: "flag" (0 or 1), "whole" or "number"; empty where nobody looked."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in TAKE_ROWS:
            if callable(vars(cls).get(name)):
                setattr(cls, name, _by_name(vars(cls)[name]))
        if "for_site" in vars(cls):
            cls.for_site = _keeping_names(vars(cls)["for_site"])  # type: ignore[method-assign]

    def with_preparation(self, preparation: Preparation | None) -> Self:
        """Return the model with what takes raw rows to those that it learnt from; without another one, as it is."""
        if preparation is None or preparation is self.preparation:
            return self
        names = preparation.raw.names or self.column_names
        made = self.bare().with_columns(names)._having("preparation", preparation)
        return made.with_labels(self.label_type)

    def bare(self) -> Self:
        """Return the model without its preparation: it takes rows that are prepared already, and answers in words."""
        if self.preparation is None and not self.column_names and self.label_type == "text":
            return self
        made = self._having("preparation", None)._having("column_names", ())._having("column_kinds", ())
        return made._having("label_type", "text")

    def with_labels(self, named: LabelType | None) -> Self:
        """Return the model with the type of its answers; None: whole numbers, or true and false, if all look so.

        A model that has no words, but numbers of classes, or words that are of no such type, stays as it is.
        """
        found = getattr(self, "names", None) or getattr(self, "classes", None)
        words = [] if isinstance(found, int) else [word for word in found or () if isinstance(word, str)]
        wanted = type_of_words(words) if named is None else named
        if wanted not in LABEL_TYPES:
            raise InputError(f"label type {wanted!r} given; wanted one of {', '.join(LABEL_TYPES)}")
        fits = bool(words) and as_given(words, wanted).dtype.kind != "U"
        made: LabelType = wanted if fits else "text"
        return self if made == self.label_type else self._having("label_type", made)

    def with_columns(self, names: Sequence[str], kinds: Sequence[Kind] = ()) -> Self:
        """Return the model with names for its columns, and the kinds of their numbers; without names, as it is."""
        if not names:
            return self
        check_distinct(names, "the model")
        if kinds and len(kinds) != len(names):
            raise InputError(f"{len(names)} names and {len(kinds)} kinds of columns given; wanted one for each")
        return self._having("column_names", tuple(map(str, names)))._having("column_kinds", tuple(kinds))

    @abstractmethod
    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return a class for each row of X, (rows, columns): in the joint words, or the site's (see `for_site`)."""

    def tensors(self) -> tuple[Tensors, Facts]:
        """Return the arrays and the plain facts that make up the model file: of a dataclass, its fields."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.init}  # type: ignore[arg-type]
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        facts = {name: value for name, value in values.items() if name not in arrays and value is not None}
        return arrays, {name: list(v) if isinstance(v, tuple) else v for name, v in facts.items()}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Build the model from a file's content: of a dataclass, its fields."""
        try:
            return cls(**arrays, **{name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()})
        except TypeError as error:
            raise InputError(f"the file holds no {cls.__name__}: {error}") from error

    predicts: ClassVar[bool] = True
    """Whether it says anything of rows; a description does not."""

    def for_site(self, local: Mapping[str, Any]) -> Model:
        """Return the model as one site uses it, from what the site learnt (``run.local[site]``).

        It answers in the site's own words, or is the site's personal model. A model that is the same for all sites
        returns itself.
        """
        return self

    @property
    def width(self) -> int | None:
        """How many columns the model takes, where that can be said."""
        return len(self.column_names) or None

    @property
    def n_features_in_(self) -> int:
        """How many columns the model takes, as scikit-learn calls it."""
        if self.preparation is not None:
            return self.preparation.raw.width
        if self.width is None:
            raise AttributeError(f"{type(self).__name__} does not say how many columns it takes")
        return self.width

    @property
    def feature_names_in_(self) -> npt.NDArray[Any]:
        """The names of the columns, as scikit-learn calls them, where they are known."""
        if not self.column_names:
            raise AttributeError("the model knows no names of columns: the sites had none, or did not tell them")
        return np.array(self.column_names, dtype=object)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """What `predict` may answer, as scikit-learn calls it, in the order of the columns of `predict_proba`."""
        found = getattr(self, "names", None) or getattr(self, "classes", None)
        if not found:
            raise AttributeError(f"{type(self).__name__} does not say which classes it knows")
        return np.arange(found) if isinstance(found, int) else as_given(np.array(found), self.label_type)

    def linear_scores(self) -> tuple[Floats, Floats] | None:
        """Return weights (columns, classes) and intercepts (classes,) of the logarithms of probabilities.

        Up to a number that is the same for all classes. None: the model is not linear in the columns that it takes.
        """
        return None

    def onnx_scores(self, graph: Graph, rows: str) -> str:
        """Add the scores of classes to an ONNX graph, (rows, classes): log probabilities, up to a constant."""
        found = self.linear_scores()
        if found is None:
            raise InputError(
                f"this {self.method} model cannot be exported to ONNX; those that can are Ridge on linear or Fourier "
                "features, Moments in Euclidean space, and training in rounds with the logistic learner"
            )
        return graph.affine(rows, *found)

    def to_onnx(self) -> bytes:
        """Return the model as an ONNX file, which gives ``label`` and ``probabilities`` of raw rows.

        Its input is ``X``, numbers in double precision in the order of `feature_names_in_`, NaN for gaps. Where columns
        of text were learnt from, each column is an input of its own, (rows, 1), an empty text for a gap. Nothing is
        checked there: neither the names nor the kinds of columns.
        """
        if not self.everywhere:
            raise InputError(
                "only sites have models that predict; export a site's: model.for_site(run.local[site])"
            )
        graph = Graph()
        rows = self._onnx_rows(graph)
        if self.preparation is not None:
            for step, fit, ground in zip(
                self.preparation.steps, self.preparation.fits, self.preparation.grounds, strict=False
            ):
                rows = step.onnx(graph, ground, fit, rows)
        scores = self.bare().onnx_scores(graph, rows)
        return graph.to_bytes(scores, self.classes_, f"fedgeom: {self.line()}")

    def _onnx_rows(self, graph: Graph) -> str:
        """Add the inputs, and return the name of the rows with numbers for words."""
        raw = None if self.preparation is None else self.preparation.raw
        if raw is None or not raw.categories:
            return graph.input("X", self.n_features_in_)
        parts = []
        for at, name in enumerate(raw.names):
            words = raw.categories.get(at)
            cells = graph.input(name, 1, text=words is not None)
            rest = float(len(words or ())) if at in raw.together else float("nan")
            parts.append(cells if words is None else graph.codes(cells, tuple(words), rest))
        return graph.beside(*parts)

    def _linear(self) -> tuple[tuple[str, ...], Floats, Floats]:
        """Return the names of columns, and the log odds' weights (rows of `coef_`) and intercepts."""
        found = self.linear_scores()
        if found is None:
            raise AttributeError(
                f'this {self.method} model is not linear, so it has no coefficients; Ridge(features="linear"), or '
                "FedAvg with its logistic learner, gives one that is"
            )
        weights, intercepts = found
        names = self.column_names
        if self.preparation is not None:
            columns, weights, intercepts = self.preparation.before(weights, intercepts)
            names = columns.names or tuple(map(str, range(columns.width)))
        if len(intercepts) == 2:
            weights = weights[:, 1:] - weights[:, :1]
            intercepts = intercepts[1:] - intercepts[:1]
        else:  # scores are told apart from their mean, as scikit-learn's are
            weights = weights - weights.mean(axis=1, keepdims=True)
            intercepts = intercepts - intercepts.mean()
        return names or tuple(map(str, range(len(weights)))), weights.T, intercepts

    @property
    def coef_(self) -> Floats:
        """The weights of the log odds, (1 or classes, columns), per unit of each column, as scikit-learn calls them.

        Of two classes: for the second. Raw rows that are prepared are told in their own units, columns of text as one
        column for each word; `odds_ratios` has the names. A model that is not linear has none.
        """
        return self._linear()[1]

    @property
    def intercept_(self) -> Floats:
        """The log odds where all columns are 0, (1 or classes,)."""
        return self._linear()[2]

    def odds_ratios(self) -> Any:
        """Return a frame (class, column, coefficient, odds_ratio), or records without pandas, of a linear model.

        The odds ratio is by what the odds of the class are multiplied when the column grows by one unit. Of more than
        two classes the odds are against the geometric mean of all.
        """
        names, weights, _ = self._linear()
        classes = self.classes_.tolist()[-len(weights) :]
        rows = [
            (label, name, value, float(np.exp(value)))
            for label, own in zip(classes, weights.tolist(), strict=True)
            for name, value in zip(names, own, strict=True)
        ]
        return as_frame(["class", "column", "coefficient", "odds_ratio"], rows)

    def partial_dependence(self, X: Any, column: Any, *, n_points: int = 20) -> Any:
        """Return a frame (value, class, probability), or records without pandas: what one column does to the answer.

        The cells of the column are set to a value in all rows, and the probabilities averaged over them, as
        `sklearn.inspection.partial_dependence` does; but gaps, words and whole numbers may stand in the column.

        Parameters
        ----------
        X: a frame, or an array (rows, columns)
            Raw rows, as `predict_proba` takes them.
        column: the name of a column of the frame, or the number of one of the array
        n_points: a whole number of at least 2; 20 if not given
            From up to so many different numbers of the column all are taken, otherwise as many of its quantiles
            between 5 and 95 %; of words all are.
        """
        if not hasattr(self, "predict_proba"):
            raise InputError(f"this {self.method} model gives no probabilities; take one that does, such as Ridge")
        if isinstance(n_points, bool) or not isinstance(n_points, int) or n_points < 2:
            raise InputError(f"n_points={n_points!r} given; wanted a whole number of at least 2")
        values = _values_of(X, column, n_points)
        classes = self.classes_.tolist()
        rows = []
        for value in values:
            chances = self.predict_proba(_with_value(X, column, value)).mean(axis=0).tolist()
            rows += [(value, label, chance) for label, chance in zip(classes, chances, strict=True)]
        return as_frame(["value", "class", "probability"], rows)

    @property
    def joint_classes(self) -> int:
        """How many classes the joint model tells apart: a word of a site may stand for several of them."""
        return len(self.classes_)

    def answer_numbers(self) -> dict[str, int]:
        """Return which joint class each answer stands for; of one that stands for several, none."""
        return {str(name): at for at, name in enumerate(self.bare().classes_.tolist())}

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Self:
        """Refuse to learn: scikit-learn asks whether a classifier has this; models are learnt by `fedgeom.run`."""
        raise InputError(
            "a model does not learn anew from one table; run the method over the sites: fedgeom.run(…)"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags  # 2 s, and only where scikit-learn asks

        target = TargetTags(required=False)
        return Tags(estimator_type="classifier", target_tags=target, classifier_tags=ClassifierTags())

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Return the share of rows that `predict` puts into their class y, (rows,)."""
        found = self.predict(X)
        wanted = in_words(np.asarray(y))
        if found.shape != wanted.shape or not len(found):
            raise InputError(f"{len(found)} rows and labels of shape {wanted.shape} given; wanted a label per row")
        if (
            found.dtype.kind != wanted.dtype.kind
        ):  # of a model without a type, or labels of another: by their words
            found = in_words(found).astype(str)
            wanted = wanted.astype(str)
        return float(np.mean(found == wanted))

    @property
    def everywhere(self) -> bool:
        """Whether the joint model predicts by itself, without `for_site`."""
        return True

    @property
    def single(self) -> bool:
        """Whether predictions are computed in single precision: as they are where the file has such arrays."""
        return any(array.size and array.dtype == np.float32 for array in self.tensors()[0].values())

    @property
    def in_disc(self) -> bool:
        """Whether rows become points of the Poincaré disc (``to_disc``), so that the model can be drawn there."""
        return False

    def to_bytes(self) -> bytes:
        """Return the model file's bytes; the same model always gives the same."""
        arrays, facts = self.tensors()
        known = {} if self.known is None else self.known.arrays()
        prepared, fact = ({}, {}) if self.preparation is None else self.preparation.stored()
        named = _columns_facts(self.column_names, self.column_kinds)
        if self.label_type != "text":
            named[LABELS] = self.label_type
        return to_bytes(self.method, arrays | known | prepared, facts | fact | named)

    @classmethod
    def from_file(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Build the model from a file's content, the names of its columns and its known rows included.

        A file may come from anybody: whatever cannot be made of it raises `InputError`.
        """
        try:
            made = cls._from_file(arrays, facts)
            if not isinstance(made.method, str):
                raise InputError(f"the file's method is {made.method!r}; wanted its name")
            return made
        except InputError:
            raise
        except (
            Exception
        ) as error:  # each model builds its own parts, and numpy says in many ways that they do not fit
            why = f"{type(error).__name__}: {error}"
            raise InputError(f"the file holds no {cls.__name__} that could be used ({why[:200]})") from error

    @classmethod
    def _from_file(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        names = facts.get(COLUMN_NAMES) or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("the names of the file's columns are no texts")
        kinds = read_kinds(facts.get(COLUMN_KINDS, ""))
        own = {name: array for name, array in arrays.items() if not name.startswith((PREFIX, f"{FACT}/"))}
        rest = {
            name: fact for name, fact in facts.items() if name not in (COLUMN_NAMES, COLUMN_KINDS, LABELS, FACT)
        }
        made = cls.from_tensors(own, rest).with_columns(names, kinds)
        if FACT in facts:
            made = made.with_preparation(Preparation.read(arrays, facts[FACT]))
        made = made.with_labels(facts.get(LABELS, "text"))
        known = KnownRows.read(arrays)
        return made if known is None else made.knowing(known)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_pickle, (type(self), self.to_bytes())

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    def save(self, path: str | Path) -> None:
        """Write the model to a safetensors file; read it back with `fedgeom.load_model`."""
        write_file(path, self.to_bytes())

    def summary(self) -> Any:
        """Return what people read of the model: a line, or for methods with tests a table of coefficients."""
        return self.line()

    def line(self) -> str:
        """Return a line for people: what kind of model it is, and how large."""
        arrays, facts = self.tensors()
        size = sum(int(np.size(array)) for array in arrays.values())
        names = facts.get("names") or facts.get("classes")
        count = len(names) if isinstance(names, list) else names
        classes = f"{count} classes, " if count else ""
        return f"{self.method}, {classes}{size:,} numbers"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.line()}>"

    def _repr_html_(self) -> str:
        return f"<b>{type(self).__name__}</b> {escape(self.line())}"


def decisions(scores: Floats) -> Floats:
    """Return scores of classes as scikit-learn's `decision_function` has them: of two, by how much the second leads."""
    return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def _cells_of(X: Any, column: Any) -> npt.NDArray[Any]:
    """Return the cells of a column of a frame or an array that are no gaps."""
    if hasattr(X, "iloc"):
        if column not in X.columns:
            raise InputError(f"X has no column {column!r}; it has {', '.join(map(str, X.columns[:10]))}")
        return np.asarray(X[column].dropna())
    rows = np.asarray(X)
    if (
        rows.ndim != 2
        or isinstance(column, bool)
        or not isinstance(column, int)
        or not 0 <= column < rows.shape[1]
    ):
        raise InputError(f"column {column!r} of X of shape {rows.shape} given; wanted its number, from 0")
    cells = rows[:, column]
    return np.asarray(cells[np.isfinite(cells)])


def _values_of(X: Any, column: Any, n_points: int) -> list[Any]:
    """Return the values of a column for which a partial dependence is told."""
    cells = _cells_of(X, column)
    if not len(cells):
        raise InputError(f"column {column!r} has no value in any row; give rows in which it has some")
    known = np.unique(cells if cells.dtype.kind in "biuf" else cells.astype(str))
    if known.dtype.kind in "bU" or len(known) <= n_points:
        return list(known.tolist())
    shares = np.linspace(0.05, 0.95, n_points)
    return list(np.unique(np.quantile(cells, shares, method="nearest")).tolist())


def _with_value(X: Any, column: Any, value: Any) -> Any:
    """Return a frame or an array with one value in all rows of a column."""
    if hasattr(X, "iloc"):
        return X.assign(**{column: value})
    made = np.array(X)
    made[:, column] = value
    return made


def _from_pickle(kind: type[Model], data: bytes) -> Model:
    """Build a model that was pickled or copied: it goes through the bytes of its file, as everywhere."""
    _, arrays, facts = from_bytes(data)
    return kind.from_file(arrays, facts)


def _by_name(takes_rows: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(takes_rows)
    def ordered(self: Model, X: Any, *more: Any, **options: Any) -> Any:
        if not self.predicts:
            return takes_rows(self, X, *more, **options)
        if self.preparation is not None:  # the bare model takes what its own methods pass on
            found = takes_rows(self.bare(), self.preparation.rows(X), *more, **options)
        else:
            words = self if self.label_type == "text" else self._having("label_type", "text")
            found = takes_rows(words, self.ordered(X), *more, **options)
        return as_given(found, self.label_type) if takes_rows.__name__ == "predict" else found

    return ordered


def _keeping_names(for_site: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(for_site)
    def kept(self: Model, local: Mapping[str, Any]) -> Any:
        made = for_site(self, local).with_columns(self.column_names, self.column_kinds)
        return made.with_preparation(self.preparation).with_labels(local.get(LABELS, self.label_type))

    return kept


def _columns_facts(names: Sequence[str], kinds: Sequence[Kind]) -> Facts:
    """Return what a model file says of columns: nothing where they have no names."""
    said = {COLUMN_NAMES: list(names), COLUMN_KINDS: write_kinds(kinds)}
    return {name: fact for name, fact in said.items() if names and fact}


def finish_file(
    data: bytes,
    model_type: type[Model],
    *,
    columns: Sequence[str] = (),
    kinds: Sequence[Kind] = (),
    preparation: Preparation | None = None,
    labels: LabelType | None = None,
) -> bytes:
    """Return a model file with what its users need: columns or preparation, and the type of labels."""
    if not data:
        return data
    _, arrays, facts = from_bytes(data)
    model = model_type.from_file(arrays, facts)
    named = model.with_columns(columns, kinds) if preparation is None else model.with_preparation(preparation)
    return named.with_labels(labels).to_bytes()


def to_bytes(method: str, tensors: Tensors, facts: Facts) -> bytes:
    """Encode a model file's content, with its checksum; the same content always gives the same bytes."""
    from safetensors.numpy import save  # 20 ms, and only where models are written

    # One entry only: the library writes several in no particular order.
    note = {"fedgeom": msgspec.json.encode([FORMAT, method, facts, BLANK], order="sorted").decode()}
    ordered = {key: np.asarray(tensors[key], order="C") for key in sorted(tensors)}
    data = bytes(save(ordered, metadata=note))
    at = data.rindex(BLANK.encode(), 0, 8 + int.from_bytes(data[:8], "little"))
    return b"".join((data[:at], hashlib.sha256(data).hexdigest().encode(), data[at + len(BLANK) :]))


def _check_seal(data: bytes, head: int, seal: Any) -> None:
    """Refuse a file that is not as it was written; ``head`` is where its numbers begin."""
    text = seal.encode() if isinstance(seal, str) else b""
    at = data.rfind(text, 0, head) if len(text) == len(BLANK) else -1
    whole = b"" if at < 0 else b"".join((data[:at], BLANK.encode(), data[at + len(BLANK) :]))
    if hashlib.sha256(whole).hexdigest() != seal:
        raise InputError(
            "the model file is damaged: it is not as it was written (its checksum differs). Copy it again, or take it "
            "from the folder of the run"
        )


def from_bytes(data: bytes) -> tuple[str, Tensors, Facts]:
    """Decode a model file into its method's name, arrays and facts."""
    from safetensors import SafetensorError  # 20 ms, and only where models are read
    from safetensors.numpy import load

    try:
        tensors = load(data)
        size = int.from_bytes(data[:8], "little")
        note = msgspec.json.decode(data[8 : 8 + size])["__metadata__"]["fedgeom"]
        format, *content = msgspec.json.decode(note, type=list[Any])
        if format == FORMAT:
            _check_seal(data, 8 + size, content.pop())
        elif format != UNSEALED:
            raise InputError(f"the model file has format {format!r}; this version reads {FORMAT!r}")
        method, facts = msgspec.convert(content, tuple[str, dict[str, Any]])
        return method, tensors, facts
    except InputError:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InputError(f"this is not a fedgeom model file ({error})") from error
