"""A regression's result: coefficients with intervals, tests, fit, heterogeneity, and what it predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.ledger import as_frame
from fedgeom.federation.model import Model, decisions
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.results import RunWarning
from fedgeom.methods.regression.core import (
    NewtonFit,
    ScoreTerms,
    enough_sites,
    row_fit,
    symmetric,
)
from fedgeom.methods.regression.settings import RegressionSettings

INTERCEPT = "(intercept)"
Errors = Literal["model", "robust", "cluster"]


def indexed(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], index: str) -> Any:
    """Return a frame indexed by one of its columns; records without pandas."""
    found = as_frame(list(columns), rows)
    return found.set_index(index) if hasattr(found, "set_index") else found


def interval(coef: Floats, se: Floats, level: float, freedom: float) -> tuple[Floats, Floats, Floats]:
    """Return low and high ends of intervals, and p values; ``freedom`` is that of t, or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = coef / se
        reach = (
            stats.t.ppf((1 + level) / 2, freedom) if math.isfinite(freedom) else stats.norm.ppf((1 + level) / 2)
        )
        p = 2 * (stats.t.sf(np.abs(z), freedom) if math.isfinite(freedom) else stats.norm.sf(np.abs(z)))
    return coef - reach * se, coef + reach * se, np.asarray(p)


RATIOS = {"binomial": "odds ratio", "poisson": "rate ratio", "gamma": "ratio of means", "cox": "hazard ratio"}


def told_chance(p: float) -> str:
    """Write a p value."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def conclusion_of(model: Any) -> str:
    """Return what coefficients say in a sentence: of the treatment, or of all of them together."""
    facts, ratio = model.statistics, RATIOS.get(model.family)
    if not facts["converged"]:
        return "The fit did not come to its end: coefficients have no errors, and the warnings say why."
    for term, coef, _, low, high, p in model.coefficient_rows(exponentiate=bool(ratio)):
        if model.treatment and term == model.treatment and math.isfinite(low):
            none = 1 if ratio else 0
            within = low <= none <= high
            size = f"{ratio or 'difference'} {coef:.3g} ({model.level:.0%} interval {low:.3g} to {high:.3g}"
            means = f"includes {none}: no effect is not ruled out"
            if not within:
                means = f"excludes {none}, which would be no effect"
            return f"{term}: {size}, {told_chance(p)}). The interval {means}."
    begin = f"A fit over {facts['rows']:,.0f} rows of {facts['sites']:.0f} sites."
    if "lr_p" not in facts or not facts["lr_df"]:
        return begin
    more = "more than chance would" if facts["lr_p"] < 1 - model.level else "no more than chance may"
    test = f"χ² {facts['lr_chi2']:,.4g}, {facts['lr_df']:.0f} df, {told_chance(facts['lr_p'])}"
    return f"{begin} Together the {facts['lr_df']:.0f} columns explain {more} ({test})."


def compare_nested(larger: Any, smaller: Any) -> dict[str, float]:
    """Return the likelihood-ratio test of a model against one with fewer of its columns, of the same rows."""
    one, other = larger.statistics, smaller.statistics
    df = one["coefficients"] - other["coefficients"]
    alike = larger.family == smaller.family and type(larger) is type(smaller)
    extra = set(smaller.terms) - set(larger.terms)
    if not alike or one["rows"] != other["rows"] or df <= 0 or extra or not one["converged"] * other["converged"]:
        raise InputError(
            f"a {larger.family} model of {one['rows']:,.0f} rows and {one['coefficients']:.0f} coefficients is "
            f"compared to a {smaller.family} model of {other['rows']:,.0f} rows and {other['coefficients']:.0f}; "
            "wanted two fits that converged, of the same rows and the same family, the second with fewer of the "
            "first one's columns"
        )
    if "deviance" in one:
        chi2 = (other["deviance"] - one["deviance"]) / one["dispersion"]
    else:
        chi2 = 2 * (one["log_likelihood"] - other["log_likelihood"])
    return {"chi2": chi2, "df": df, "p": float(stats.chi2.sf(chi2, df))}


def per_deviation(steps: Sequence[Any]) -> list[RunWarning]:
    """Say that coefficients are not told per unit, where steps of preparation scale the columns."""
    if not any(step.name == "scale" for step in steps):
        return []
    what = "coefficients are per standard deviation of a column, of those of 0 and 1 too, for a step scales them"
    return [
        RunWarning(what, remedy='without that step, as with prepare = ["one-hot", "impute"], they are per unit')
    ]


@dataclass(frozen=True, eq=False, repr=False)
class RegressionModel(Model):
    """A generalised linear model: `summary` has the table, `statistics` the fit, `predict` the means."""

    method = "regression"
    family: str
    names: tuple[str, ...]
    """With "binomial", the class without the event and the one with it."""
    coefficients: Floats
    """(1 + columns,): of the intercept, and of the columns as they came."""
    states: npt.NDArray[np.uint8]
    """(1 + columns,): 1 where a coefficient is estimated, 2 where it grows without end, 3 where it follows from others
    or is constant, 0 where the column was left out (a reference)."""
    spreads: Floats
    """(columns,): the standard deviations of the columns; 0 of those without a coefficient."""
    covariance: Floats
    """(1 + columns, 1 + columns): by the model."""
    robust: Floats
    """The same by rows (HC0); empty where it was not asked for."""
    cluster: Floats
    """The same by sites (CR1); empty where it was not, or too few sites are there."""
    compared: Floats
    """(4, 1 + columns): sites, and sums of weights, of w·d and of w·d² (`between_sites`); empty where not asked for."""
    effect: Floats
    """(2, 2) means had all been treated, or nobody, with their covariance behind, (3, 2); empty without treatment."""
    facts: Mapping[str, float]
    """What `statistics` tells."""
    errors: str
    level: float
    site_effects: str = "none"
    treatment: str = ""

    @property
    def takes_holdout(self) -> bool:
        """Whether rows can be kept aside for a test, by class."""
        return self.family == "binomial"

    @property
    def width(self) -> int | None:
        """How many columns the model takes."""
        return len(self.coefficients) - 1

    @property
    def terms(self) -> list[str]:
        """The names of the intercept and of all columns."""
        names: Sequence[str] = self.column_names
        if self.preparation is not None:
            names = self.preparation.columns.names or names_after(self)
        return [INTERCEPT, *(names or (f"x{at}" for at in range(len(self.coefficients) - 1)))]

    @property
    def references(self) -> dict[str, list[str]]:
        """By column of words, those that the others are compared to: more than one where floors left words out."""
        told = zip(self.terms, self.states.tolist(), strict=True)
        return references_of(self.preparation, [term for term, state in told if state in (1, 2)])

    def errors_of(self, errors: str = "") -> tuple[Floats, float]:
        """Return standard errors, (1 + columns,), and the degrees of freedom of t, infinite for a normal one."""
        wanted = errors or self.errors
        found = {"model": self.covariance, "robust": self.robust, "cluster": self.cluster}.get(wanted)
        if found is None or not found.size:
            known = [
                n for n, one in (("model", 1), ("robust", self.robust.size), ("cluster", self.cluster.size)) if one
            ]
            raise InputError(
                f'errors={wanted!r} given; this run has {", ".join(known)}. Robust errors need errors="robust", '
                f"errors by "
                'site errors="cluster" and five sites or more'
            )
        freedom = self.facts["df_resid"] if wanted == "model" and self.family == "gaussian" else math.inf
        return np.sqrt(np.maximum(np.diag(found), 0.0)), freedom

    def summary(self, errors: str = "", *, exponentiate: bool = False, level: float | None = None) -> Any:
        """Return a frame by term: coef, se, low, high, p; without pandas, records.

        Parameters
        ----------
        errors: "model", "robust" or "cluster"; those of the run if not given
            Which standard errors.
        exponentiate: true or false; false if not given
            Tell odds ratios, rate ratios or ratios of means and their intervals; se stays that of the logarithm.
        level: a number from 0.5 to 0.999 or None; None if not given
            The level of the intervals. None: that of the run.
        """
        rows = self.coefficient_rows(errors, exponentiate=exponentiate, level=level)
        return indexed(["term", "coef", "se", "low", "high", "p"], rows, "term")

    def coefficient_rows(
        self, errors: str = "", *, exponentiate: bool = False, level: float | None = None
    ) -> list[tuple[str, float, float, float, float, float]]:
        """Return the rows of `summary`: term, coef, se, low, high, p."""
        se, freedom = self.errors_of(errors)
        low, high, p = interval(self.coefficients, se, level or self.level, freedom)
        show = np.exp if exponentiate else np.asarray
        rows = []
        for at, term in enumerate(self.terms):
            state = int(self.states[at])
            if state == 0:
                continue
            with np.errstate(over="ignore"):  # of a coefficient that grows without end
                numbers = [show(one[at]) for one in (self.coefficients, low, high)]
            told = [float(numbers[0]), float(se[at]), float(numbers[1]), float(numbers[2]), float(p[at])]
            if state == 3:
                told = [math.nan] * 5
            elif state == 2 or not self.facts["converged"]:
                told[1:] = [math.nan] * 4
            rows.append((term, told[0], told[1], told[2], told[3], told[4]))
        return rows

    @property
    def statistics(self) -> dict[str, float]:
        """What the fit is like: rows, sites, deviance, log likelihood, AIC, R², the test against the model without
        columns, heterogeneity over all columns, RMSE of numbers."""
        return dict(self.facts)

    def heterogeneity(self) -> Any:
        """Return a frame by term: sites, q, df, p and i2, how much coefficients differ between sites.

        Cochran's Q of the sites' one-step estimates around the joint one, from sums over sites: no site's own is known.
        A term that fewer than five sites' rows determine has none.
        """
        return indexed(["term", "sites", "q", "df", "p", "i2"], self.heterogeneity_rows(), "term")

    def heterogeneity_rows(self) -> list[tuple[str, int, float, float, float, float]]:
        """Return the rows of `heterogeneity`."""
        if not self.compared.size:
            raise InputError(
                "sites were not compared; wanted heterogeneity=True, five sites or more, and a fit that converges"
            )
        rows = []
        for at, (sites, weight, first, second) in enumerate(self.compared.T.tolist()):
            if not sites or weight <= 0 or self.states[at] != 1:
                continue
            q = max(second - first**2 / weight, 0.0)
            df = sites - 1
            rows.append(
                (
                    self.terms[at],
                    int(sites),
                    q,
                    df,
                    float(stats.chi2.sf(q, df)),
                    max(0.0, (q - df) / q) if q else 0.0,
                )
            )
        return rows

    def wald(self, terms: Sequence[str], errors: str = "") -> dict[str, float]:
        """Return the Wald test of several coefficients together, such as of all words of a column: chi2, df and p."""
        known = self.terms
        wrong = [term for term in terms if term not in known or self.states[known.index(term)] != 1]
        if wrong or not terms:
            raise InputError(f"terms={list(terms)!r} given; wanted some of {', '.join(known)}")
        self.errors_of(errors)
        matrix = {"model": self.covariance, "robust": self.robust, "cluster": self.cluster}[errors or self.errors]
        at = [known.index(term) for term in terms]
        some = self.coefficients[at]
        chi2 = float(some @ np.linalg.solve(matrix[np.ix_(at, at)], some))
        return {"chi2": chi2, "df": float(len(at)), "p": float(stats.chi2.sf(chi2, len(at)))}

    def likelihood_ratio(self, smaller: RegressionModel) -> dict[str, float]:
        """Return the likelihood-ratio test against a fit of the same rows by fewer columns: chi2, df and p."""
        return compare_nested(self, smaller)

    def standardised_effect(self) -> Any:
        """Return a frame by measure (mean with and without treatment, difference, ratio): estimate, se, low, high, p.

        The means are over all sites' rows, each as if it were treated, and as if it were not (standardisation). Errors
        are robust (M-estimation), of which those of the ratio are on its logarithm.
        """
        return indexed(["measure", "estimate", "se", "low", "high", "p"], self.effect_rows(), "measure")

    @property
    def conclusion(self) -> str:
        """What the fit says, in a sentence or two: of the treatment, where there is one."""
        found = conclusion_of(self)
        if not self.effect.size:
            return found
        share = self.family == "binomial"
        (_, a, *_), (_, b, *_), (_, away, _, low, high, _) = self.effect_rows()[:3]
        factor, per, points = (100, " %", " points") if share else (1, "", "")
        means = f"{factor * a:.3g}{per} if all rows were treated, {factor * b:.3g}{per} if none were"
        interval = f"{factor * away:.2g}{points} ({factor * low:.2g} to {factor * high:.2g})"
        return f"{found} The mean outcome would be {means}: a difference of {interval}."

    def effect_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows of `standardised_effect`."""
        if not self.effect.size:
            raise InputError('no treatment was named; wanted Regression(treatment="…")')
        treated, untreated = self.effect[0].tolist()
        covariance = self.effect[1:3]
        reach = float(stats.norm.ppf((1 + self.level) / 2))
        rows: list[tuple[Any, ...]] = []
        for name, value, at in (("treated", treated, 0), ("untreated", untreated, 1)):
            se = math.sqrt(covariance[at, at])
            rows.append((name, value, se, value - reach * se, value + reach * se, math.nan))
        difference = treated - untreated
        se = math.sqrt(max(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1], 0.0))
        p = float(2 * stats.norm.sf(abs(difference) / se)) if se else math.nan
        rows.append(("difference", difference, se, difference - reach * se, difference + reach * se, p))
        if treated > 0 < untreated:
            ratio = math.log(treated / untreated)
            gradient = np.array([1 / treated, -1 / untreated])
            se = math.sqrt(max(float(gradient @ covariance @ gradient), 0.0))
            ends = math.exp(ratio - reach * se), math.exp(ratio + reach * se)
            rows.append(
                (
                    "ratio",
                    math.exp(ratio),
                    se,
                    *ends,
                    float(2 * stats.norm.sf(abs(ratio) / se)) if se else math.nan,
                )
            )
        return rows

    def _eta(self, X: npt.ArrayLike) -> Floats:
        # Row by row: what is said of a row must not depend on the others, not even by rounding.
        return np.asarray((np.asarray(X, np.float64) * self.coefficients[1:]).sum(axis=1) + self.coefficients[0])

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the mean of each row's outcome, or with "binomial" the likelier class; offsets count as 0."""
        if self.family == "binomial":
            return np.asarray(np.array(self.names)[(self._eta(X) > 0).astype(int)])
        return row_fit(np.ones(1), self._eta(X), np.ones(1), self.family).mean

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Return the share of rows that are put into their class, or of numbers R²."""
        if self.family == "binomial":
            return super().score(X, y)
        numbers = np.asarray(y, np.float64)
        away = numbers - self.predict(X)
        return float(1 - away @ away / ((numbers - numbers.mean()) ** 2).sum())

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> Any:
        """Build the model from a file's content: of two classes a classifier."""
        kind = TwoClassModel if facts.get("family") == "binomial" else RegressionModel
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
        try:
            return kind(**arrays, **fields)  # type: ignore[arg-type]
        except TypeError as error:
            raise InputError(f"the file holds no regression: {error}") from error

    def for_site(self, local: Mapping[str, Any]) -> RegressionModel:
        """Return the model with the site's own intercept, where sites have such; otherwise itself."""
        own = local.get("intercept")
        if own is None:
            return self
        coefficients = self.coefficients.copy()
        coefficients[0] = own
        return self._having("coefficients", coefficients)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: of a classifier, or of a regressor."""
        if self.family == "binomial":
            return super().__sklearn_tags__()
        from sklearn.utils import RegressorTags, Tags, TargetTags  # 2 s, and only where scikit-learn asks

        return Tags(
            estimator_type="regressor", target_tags=TargetTags(required=False), regressor_tags=RegressorTags()
        )

    def line(self) -> str:
        """Return a line for people."""
        estimated = int((self.states[1:] == 1).sum())
        return f"{self.family} regression, {estimated} coefficients, {int(self.facts['rows']):,} rows"


@dataclass(frozen=True, eq=False, repr=False)
class TwoClassModel(RegressionModel):
    """A regression of the log odds of a class: a classifier."""

    def class_scores(self, X: npt.ArrayLike) -> Floats:
        """Return the scores of both classes, (rows, 2): their difference is the log odds."""
        eta = self._eta(X)
        return np.column_stack([np.zeros(len(eta)), eta])

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the probabilities of both classes, (rows, 2)."""
        chance = row_fit(np.ones(1), self._eta(X), np.ones(1), "binomial").mean
        return np.column_stack([1 - chance, chance])

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Return the log odds of the event."""
        return decisions(self.class_scores(X))

    def linear_scores(self) -> tuple[Floats, Floats] | None:
        """Return weights (columns, 2) and intercepts (2,): zeros, and the log odds."""
        weights = np.zeros((len(self.coefficients) - 1, 2))
        weights[:, 1] = self.coefficients[1:]
        return weights, np.array([0.0, self.coefficients[0]])


def names_after(model: Model) -> Sequence[str]:
    """Return the names of the columns that are left of the model's own, where nothing but floors was applied."""
    made = model.preparation
    if made is None or not model.column_names:
        return ()
    kept = made.rows(np.arange(float(len(model.column_names)))[None])[0]
    return [model.column_names[int(at)] for at in kept]


def blocks_of(preparation: Preparation | None) -> dict[str, tuple[str, ...]]:
    """Return the names of the columns that each column of words became, before any was left out."""
    before = None
    for ground in () if preparation is None else preparation.grounds:
        columns = ground.columns
        if columns.one_hot and before is not None:
            names = [columns.names[first:end] for first, end in columns.one_hot]
            return dict(zip(before.texts, names, strict=True))
        before = columns
    return {}


def references_of(preparation: Preparation | None, terms: Sequence[str]) -> dict[str, list[str]]:
    """Return by column which words the others are compared to: those without a coefficient."""
    found = {}
    for title, names in blocks_of(preparation).items():
        others = [
            name.removeprefix(f"{title} ").removeprefix("= ").removeprefix("is ")
            for name in names
            if name not in terms
        ]
        if others and len(others) < len(names):
            found[title] = others
    return found


def made_model(
    fit: NewtonFit,
    settings: RegressionSettings,
    classes: Sequence[str],
    *,
    sites: int,
    floor: int,
    left_out: Sequence[int],
) -> Any:
    """Return the model that follows from all sums; coordinator and sites make it alike.

    ``sites`` took part; ``floor``: the fewest that a policy lets be summed (`between_sites`); ``left_out``: references.
    """
    assert fit.scale is not None
    assert fit.terms is not None
    assert fit.kept is not None
    scale = fit.scale
    T, t = scale.turned(settings)
    fixed = settings.site_effects == "fixed"
    b = fit.coefficients
    count = len(b)
    terms = ScoreTerms.read(fit.terms.numpy(), count)
    kept = fit.kept.numpy().astype(bool)
    runaway = np.zeros(count, bool) if fit.runaway is None else fit.runaway.numpy().astype(bool)
    penalty = np.full(count, settings.ridge)
    if not fixed:
        penalty[0] = 0.0
    assert fit.at_start is not None
    last = fit.at_start.numpy() if settings.family == "gamma" else terms.information  # that which is expected
    if fit.between is not None:  # it was summed once more, after the last step
        last = symmetric(fit.between.numpy()[: count * (count + 1) // 2], count)
    information = last[np.ix_(kept, kept)]
    bread = np.linalg.inv(information + np.diag(penalty[kept]))
    estimated = int(kept.sum())
    parameters = estimated + (terms.with_intercept if fixed else 0)
    rows = scale.weight if settings.weights else scale.rows
    freedom = rows - parameters
    pearson = terms.pearson
    phi = 1.0 if settings.family in ("binomial", "poisson") else pearson / max(freedom, 1.0)

    def spread_out(matrix: Floats) -> Floats:
        whole = np.zeros((1 + len(scale.centre.numpy()),) * 2)
        at = np.flatnonzero(kept) + int(fixed)
        whole[np.ix_(at, at)] = matrix
        return np.asarray(T @ whole @ T.T)

    standard = np.zeros(len(T))
    standard[int(fixed) :] = b
    if fixed:
        standard[0] = terms.intercept
    coefficients = T @ standard + t
    model_errors = spread_out(phi * bread @ information @ bread)
    states = np.zeros(len(T), np.uint8)
    states[int(fixed) :] = np.where(runaway, 2, np.where(kept, 1, 3))
    spread = scale.spread.numpy()
    states[1:][spread == 0] = 3
    states[1:][list(left_out)] = 0
    empty = np.zeros((0, 0))
    robust = effect = cluster = compared = empty
    if fit.squares is not None:
        robust, effect = _by_rows(fit, settings, kept, bread, spread_out, terms)
    facts = _facts(fit, settings, terms, parameters, rows, sites)
    if fit.between is not None:
        cut = count * (count + 1) // 2
        meat = symmetric(fit.between.numpy()[cut : 2 * cut], count)[np.ix_(kept, kept)]
        factor = sites / max(sites - 1, 1) * (rows - 1) / max(rows - parameters, 1)
        cluster = spread_out(factor * bread @ meat @ bread) if settings.errors == "cluster" else empty
        counted = enough_sites(scale, count, floor)
        found = fit.between.numpy()[2 * cut :].reshape(3, count)
        compared = np.zeros((4, len(T)))
        compared[0, int(fixed) :] = np.where(counted, scale.determined.numpy()[-count:], 0)
        compared[1:, int(fixed) :] = found / phi
        if not settings.heterogeneity:
            compared = empty
    if settings.errors == "cluster" and not cluster.size:
        facts["cluster_errors_missing"] = 1.0
    shown = settings.errors if settings.errors != "cluster" or cluster.size else "model"
    made = TwoClassModel if settings.family == "binomial" else RegressionModel
    return made(
        settings.family,
        tuple(classes) if settings.family == "binomial" else (),
        coefficients,
        states,
        spread,
        model_errors,
        robust,
        cluster,
        compared,
        effect,
        facts,
        shown,
        settings.level,
        settings.site_effects,
        settings.treatment,
    )


def _by_rows(
    fit: NewtonFit, settings: RegressionSettings, kept: Any, bread: Floats, spread_out: Any, terms: ScoreTerms
) -> tuple[Floats, Floats]:
    """Return the robust covariance, and the standardised means with theirs (Stefanski and Boos 2002)."""
    assert fit.squares is not None
    assert fit.scale is not None
    scale = fit.scale
    count = len(kept)
    wide = count + 3
    cut = wide * (wide + 1) // 2
    flat = fit.squares.numpy()
    products = symmetric(flat[:cut], wide)
    meat = products[:count, :count][np.ix_(kept, kept)]
    robust = spread_out(bread @ meat @ bread)
    if not settings.treatment:
        return robust, np.zeros((0, 0))
    gradients = flat[cut:-2].reshape(2, count)[:, kept]
    weight = scale.weight
    means = flat[-2:] / weight
    if not gradients.any():  # the column was left out
        return robust, np.zeros((0, 0))
    scores = products.copy()  # of each row w·(m - mean), beside those of the coefficients
    for at in range(2):
        row = count + at
        scores[row] -= means[at] * products[-1]
    for at in range(2):
        column = count + at
        scores[:, column] -= means[at] * scores[:, -1]
    some = np.concatenate([np.flatnonzero(kept), [count, count + 1]])
    B = scores[np.ix_(some, some)]
    size = len(bread)
    A = np.zeros((size + 2, size + 2))
    A[:size, :size] = bread
    A[size:, :size] = gradients @ bread / weight
    A[size:, size:] = np.eye(2) / weight
    covariance = (A @ B @ A.T)[size:, size:] * scale.unit**2
    return robust, np.vstack([scale.middle + scale.unit * means, covariance])


def _facts(
    fit: NewtonFit, settings: RegressionSettings, terms: ScoreTerms, parameters: int, rows: float, sites: int
) -> dict[str, float]:
    """Return what the fit is like."""
    assert fit.scale is not None
    scale = fit.scale
    square = scale.unit**2 if settings.family == "gaussian" else 1.0
    deviance = (terms.deviance - (fit.left if fit.converged else 0.0)) * square
    freedom = rows - parameters
    found = {
        "rows": scale.rows,
        "weight": scale.weight,
        "sites": float(sites),
        "coefficients": float(parameters),
        "df_resid": float(freedom),
        "deviance": deviance,
        "converged": float(fit.converged),
        "steps": float(fit.taken - 1),
    }
    phi = 1.0
    if settings.family in ("gaussian", "gamma"):
        phi = terms.pearson * square / max(freedom, 1.0)
    found["dispersion"] = phi
    found["pearson"] = terms.pearson * square
    likelihood = -deviance / 2 + scale.constant
    if settings.family == "gaussian":
        likelihood = -rows / 2 * (math.log(2 * math.pi * max(deviance, 1e-300) / rows) + 1)
    elif settings.family == "gamma":
        k = 1 / max(phi, 1e-12)
        likelihood = k * (-deviance / 2 - rows) + rows * k * math.log(k) - scale.constant - rows * math.lgamma(k)
    found |= {"log_likelihood": likelihood, "aic": 2 * parameters - 2 * likelihood}
    found["bic"] = parameters * math.log(max(rows, 1.0)) - 2 * likelihood
    if settings.family == "gaussian":
        found["rmse"] = math.sqrt(max(deviance, 0.0) / rows)
    null = fit.start_deviance * square
    known = not settings.offset or settings.family in ("gaussian", "poisson") or settings.site_effects == "fixed"
    if known and null > 0:
        found |= {"null_deviance": null, "r2": 1 - deviance / null}
        columns = parameters - (terms.with_intercept if settings.site_effects == "fixed" else 1)
        chi2 = (null - deviance) / phi
        found |= {"lr_chi2": chi2, "lr_df": float(columns), "lr_p": float(stats.chi2.sf(chi2, max(columns, 1)))}
    return found
