"""Regression where the data is: sums of columns, terms of Newton's steps, comparisons of sites."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import (
    Collector,
    FaultsError,
    Finding,
    check_finite,
    check_known_labels,
    check_table,
    fault,
)
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array, Name
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.regression.core import (
    DesignRows,
    NewtonFit,
    as_floats,
    between_length,
    between_sites,
    column_sums,
    columns_length,
    determined,
    enough_sites,
    own_intercept,
    places_left_out,
    row_squares,
    site_terms,
    squares_length,
    terms_length,
    too_few_rows,
)
from fedgeom.methods.regression.model import RegressionModel, blocks_of, made_model
from fedgeom.methods.regression.settings import RegressionSettings
from fedgeom.protocols.fixed_point import from_wide, to_wide
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

OUTCOME, WEIGHTS, OFFSET = "outcome", "weights", "offset"
"""What rows have beside columns (`SiteData.extra`)."""
LARGEST = 1e12
"""Larger outcomes and weights are refused: sums could not hold them."""

Classes = Annotated[tuple[Name, ...], msgspec.Meta(max_length=2)]


class SumRegressionColumns(SumQuestion, kind="regression.columns", checked=True, words_per_number=2):
    """Ask for masked sums of the outcome, of columns and of their squares."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: how many rows there are, the mean and variance of the outcome and "
        "of each "
        "column, and at how many sites the rows determine each coefficient"
    )
    classes: Classes = ()


class SumScores(SumQuestion, kind="regression.scores", checked=True):
    """Ask for the masked deviance, score and information at some coefficients."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the deviance of the model so far, its gradient and its information "
        "matrix, over all rows"
    )
    last: SumResult
    """The sum before this one, from which the coefficients follow."""


class SumRowSquares(SumQuestion, kind="regression.squares", checked=True):
    """Ask for masked products of rows' scores, and for means under treatment."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: sums over all rows of products of two derivatives of the "
        "likelihood, and "
        "with a treatment of the means that the model foresees with and without it"
    )
    last: SumResult


class SumBetweenSites(SumQuestion, kind="regression.sites", checked=True, over_rows=False):
    """Ask by how much a site's rows would move the joint coefficients, masked, and squared."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others, to everybody: the information after the last step, how far the sites' "
        "coefficients spread around the joint ones, and sums "
        "over sites of products of two derivatives of their likelihoods; of no site its own"
    )
    last: SumResult


KINDS: dict[str, type[SumQuestion]] = {
    one.kind: one for one in (SumRegressionColumns, SumScores, SumRowSquares, SumBetweenSites)
}


class RegressionMemory(SecureMemory, kw_only=True):
    """What a site remembers: the agreed names, and how far the fit has come."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    fit: NewtonFit = msgspec.field(default_factory=NewtonFit)
    last: bytes = b""
    """A hash of the sum that was taken last."""


class RegressionSite(SummingSite[RegressionMemory]):
    """Answers the questions of `Regression`."""

    memory_type: ClassVar[type[Memory]] = RegressionMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)
    names: LabelNames

    def check(self, settings: RegressionSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults = Collector(self.name)
        if settings.family == "binomial":
            with faults.take():
                least = self.policy.min_rows_per_class if OUTCOME not in self.data.extra else 0
                check_table(self.data, min_rows=0 if OUTCOME in self.data.extra else settings.min_rows,
                            min_rows_per_class=least)  # fmt: skip
            with faults.take():
                known = [str(name) for name in self.data.classes.tolist()]
                check_known_labels(self.name, known, settings.classes)
                if len(known) > 2:
                    raise FaultsError([_no_binary(self.data, known)])
        else:
            with faults.take():
                check_finite(self.data)
        with faults.take():
            found = check_outcome(self.data, settings)
            if found:
                raise FaultsError(found)
        faults.raise_all()

    @property
    def first(self) -> int:
        """The number of the first of the method's own sums."""
        return self.sums.steps().index(SumRegressionColumns.kind)

    @property
    def count(self) -> int:
        """How many coefficients are fitted together: with site effects without the intercept."""
        return self.data.shape[1] + int(self.settings.site_effects == "none")

    @property
    def _classes(self) -> tuple[str, ...]:
        """The agreed classes; none where the outcome is a number."""
        return self.names.agreed if self.settings.family == "binomial" else ()

    def design(self) -> DesignRows:
        """Return the rows as the model sees them, in the columns' own units."""
        event = event_of(self.settings, self._classes) if self._classes else ""
        return design_of(self.table, self.settings, event)

    def standardised(self) -> DesignRows:
        """Return the rows with standardised columns."""
        known: DesignRows | None = self.scratch.get("standardised")
        if known is None:
            assert self.memory.fit.scale is not None
            known = self.scratch["standardised"] = self.memory.fit.scale.standardised(self.design(), self.settings)
        return known

    @answers(SumRegressionColumns)
    def sum_columns(self, ask: SumRegressionColumns) -> Contribution:
        """Add up outcome and columns."""
        if self.settings.family == "binomial":
            self.names.check_agreed(ask.classes)
        columns = self.data.shape[1]
        self.check_size(2 * columns_length(columns))
        values = column_sums(self.design(), self.settings)
        return self.contribute(ask, to_wide(values, sites=len(ask.ticket.participants)), fresh=True)

    @answers(SumScores)
    def sum_scores(self, ask: SumScores) -> Contribution:
        """Add this site's terms to the secure sum."""
        fit = self.follow(ask.last)
        if fit.finished or self.sums.step_of(ask.ticket.round) != self.first + fit.taken:
            raise ProtocolError("this step of the fit does not come next")
        self.check_size(terms_length(self.count))
        assert fit.scale is not None
        left_out = left_out_of(self.preparing.preparation(), self.settings)
        why = too_few_rows(fit.scale.rows, self.count - len(left_out), self.joining.class_floors[1])
        if why:
            raise ProtocolError(why)
        assert fit.at is not None
        terms = site_terms(self.standardised(), fit.at.numpy(), self.settings, observed=fit.taken > 1)
        return self.contribute(ask, terms.flat())

    @answers(SumRowSquares)
    def sum_squares(self, ask: SumRowSquares) -> Contribution:
        """Add up products of the rows' scores."""
        fit = self._converged(ask.last)
        self.check_size(squares_length(self.count))
        at = self._treatment()
        values = (0.0, 0.0)
        if at >= 0:
            assert fit.scale is not None
            centre, spread = float(fit.scale.centre.numpy()[at]), float(fit.scale.spread.numpy()[at])
            at = at if spread > 0 else -1
            values = ((1 - centre) / (spread or 1.0), -centre / (spread or 1.0))
        rows = self.standardised()
        return self.contribute(ask, row_squares(rows, fit.coefficients, self.settings, at, values))

    @answers(SumBetweenSites)
    def sum_between(self, ask: SumBetweenSites) -> Contribution:
        """Add up by how much each site's rows would move the coefficients."""
        fit = self._converged(ask.last)
        count = self.count
        self.check_size(between_length(count))
        rows = self.standardised()
        terms = site_terms(rows, fit.coefficients, self.settings)
        assert fit.scale is not None
        own = determined(self.design().X)[-count:] > 0.5
        counted = enough_sites(fit.scale, count, self.joining.class_floors[0])
        return self.contribute(ask, between_sites(terms, counted, own))

    def _treatment(self) -> int:
        """Return the place of the treatment's column; -1 where there is none."""
        wanted = self.settings.treatment
        if not wanted:
            return -1
        names = names_of(self.whole, self.preparing.preparation())
        return names.index(wanted) if wanted in names else -1

    def _converged(self, last: SumResult) -> NewtonFit:
        fit = self.follow(last)
        if not fit.converged:
            raise ProtocolError("the fit has not converged")
        return fit

    def follow(self, last: SumResult) -> NewtonFit:
        """Take the sum that came before, once, if it is the one that the sites added up; return how far the fit is."""
        memory = self.memory
        stamp = fingerprint(b"last", msgspec.msgpack.encode(last))
        if memory.last == stamp:
            return memory.fit
        step = self.sums.step_of(last.round)
        kind = KINDS.get(self.sums.steps()[step], SumQuestion)
        fit = memory.fit
        expected = self.first + fit.taken if not fit.finished else -1
        late = (kind is SumRowSquares and fit.squares is None) or (kind is SumBetweenSites and fit.between is None)
        if step != expected and not (fit.finished and late):
            raise ProtocolError("the sum that came is not the one that was taken last")
        self.sums.check_result(last, kind)
        try:
            left_out = left_out_of(self.preparing.preparation(), self.settings)
            take(fit, kind, last, self.settings, left_out, self.joining.class_floors[1])
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:  # by the sum alone
            raise ProtocolError("no coefficients follow from the sum that came") from error
        memory.last = stamp
        return fit

    def model_from(self, result: SumResult) -> RegressionModel:
        """Make the model from the last sum."""
        fit = self.follow(result)
        if not fit.finished:
            raise ProtocolError("the fit has not come to its end yet")
        floor = self.joining.class_floors[0]
        found: RegressionModel = made_model(
            fit,
            self.settings,
            in_order(self.settings, self._classes),
            sites=len(result.sites),
            floor=floor,
            left_out=left_out_of(self.preparing.preparation(), self.settings),
        )
        return found

    def model_file(self) -> bytes:
        """Return the joint model, with the site's own intercept where sites have such."""
        model = self.handed.model
        return b"" if model is None else model.for_site(self.result()).to_bytes()

    def joint_file(self) -> bytes:
        """Return the joint model, where the site has an intercept of its own."""
        return self.memory.handed.model if self.settings.site_effects == "fixed" else b""

    def result(self) -> dict[str, Any]:
        """Return how many rows the site has, and its own intercept where sites have such."""
        model = self.handed.model
        if model is None:
            return {}
        found: dict[str, Any] = {"rows": len(self.data), **(self.names.left_out() if self._classes else {})}
        if self.settings.site_effects == "fixed":
            rows = self.design()
            own = own_intercept(rows, rows.X @ model.coefficients[1:] + rows.offset, self.settings.family)
            if own is not None:
                found["intercept"] = own
        return found


def take(
    fit: NewtonFit,
    kind: type[SumQuestion],
    result: SumResult,
    settings: RegressionSettings,
    left_out: list[int],
    floor: int,
) -> None:
    """Take a sum of one of the method's kinds: what sites and coordinator do alike.

    ``left_out``: the places of reference columns; ``floor``: how many rows policies want.
    """
    if kind is SumRegressionColumns:
        fit.begin(from_wide(result.total.numpy()), settings, left_out)
        return
    total = result.reals(kind)
    if kind is SumScores:
        fit.take(total, settings, floor)
    elif kind is SumRowSquares:
        fit.squares = Array.of(total)
    else:
        fit.between = Array.of(total)


def in_order(settings: RegressionSettings, classes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the two classes, the event last; none where the outcome is a number."""
    if settings.family != "binomial":
        return ()
    event = event_of(settings, classes)
    return (*(name for name in classes if name != event), event)


def event_of(settings: RegressionSettings, classes: tuple[str, ...]) -> str:
    """Return the class whose odds are modelled."""
    if len(classes) != 2 or (settings.event and settings.event not in classes):
        raise ProtocolError(
            f"two classes are wanted, one of them the event {settings.event!r}; agreed on: {', '.join(classes)}"
        )
    return settings.event or max(classes)


def design_of(table: SiteData, settings: RegressionSettings, event: str = "") -> DesignRows:
    """Return a table's rows as the model sees them."""
    count = len(table)
    binary = settings.family == "binomial"
    y = (table.y.astype(str) == event).astype(np.float64) if binary else numbers_of(table)
    offset = as_floats(table.extra[OFFSET]) if settings.offset else np.zeros(count)
    weights = as_floats(table.extra[WEIGHTS]) if settings.weights else np.ones(count)
    return DesignRows(table.X, y, offset, weights)


def numbers_of(table: SiteData) -> Floats:
    """Return the outcome as numbers: that which the site was given with, or its labels."""
    return as_floats(table.extra.get(OUTCOME, table.y))


def check_outcome(table: SiteData, settings: RegressionSettings) -> list[Finding]:
    """Return what does not fit of outcome, offset and weights."""
    found = []

    def say(what: str, remedy: str) -> None:
        found.append(fault(what, remedy, site=table.name, topic="outcome"))

    if settings.family == "binomial" and OUTCOME in table.extra:
        y = numbers_of(table)
        odd = ~np.isin(y, (0.0, 1.0))
        if odd.any():
            say(
                f"the outcome of {int(odd.sum()):,} rows is neither 0 nor 1, the first of them {y[odd][0]:g}",
                'for a count take family="poisson", for a number "gaussian" or "gamma"',
            )
    elif settings.family != "binomial":
        y = numbers_of(table)
        bad = ~np.isfinite(y) | (np.abs(y) > LARGEST)
        if bad.any():
            say(
                f"the outcome of {int(bad.sum()):,} of {len(y):,} rows is no number below {LARGEST:g}",
                "name the column of numbers as the outcome (outcome = …), and leave rows without one out "
                "(drop_unlabelled = true)",
            )
        elif settings.family == "poisson" and (y < 0).any():
            say(
                f"{int((y < 0).sum()):,} outcomes are below 0",
                'a count is 0 or more; for other numbers take "gaussian"',
            )
        elif settings.family == "gamma" and (y <= 0).any():
            say(
                f"{int((y <= 0).sum()):,} outcomes are 0 or below",
                'family="gamma" is for numbers above 0; take "gaussian", or leave these rows out',
            )
    for wanted, name in ((settings.offset, OFFSET), (settings.weights, WEIGHTS)):
        if not wanted:
            continue
        if name not in table.extra:
            say(
                f"has no {name}", f"name their column: SiteData.from_frame(…, {name}=…), or {name} = … in the file"
            )
            continue
        values = as_floats(table.extra[name])
        bad = ~np.isfinite(values) | (np.abs(values) > LARGEST) | ((values < 0) & (name == WEIGHTS))
        if bad.any():
            least = " of at least 0" if name == WEIGHTS else ""
            say(f"{int(bad.sum()):,} {name} are no numbers{least}", "mend them, or leave these rows out")
    return found


def _no_binary(table: SiteData, known: list[str]) -> Finding:
    shown = ", ".join(known[:4]) + (" …" if len(known) > 4 else "")
    return fault(
        f'has {len(known)} classes ({shown}); family="binomial" is for two',
        'put classes together, or take family="gaussian", "poisson" or "gamma" for numbers; for more classes take '
        "Ridge",
        site=table.name,
        topic="classes",
    )


def names_of(whole: SiteData, preparation: Preparation | None) -> list[str]:
    """Return the names of the columns that the model sees, where they are known."""
    if preparation is None:
        return list(whole.columns)
    if preparation.columns.names:
        return list(preparation.columns.names)
    if len(whole.columns) != preparation.raw.width:
        return []
    kept = preparation.rows(np.arange(float(len(whole.columns)))[None])[0]
    return [whole.columns[int(at)] for at in kept]


def left_out_of(preparation: Preparation | None, settings: Any) -> list[int]:
    """Return the places of reference columns: coordinator and sites find the same."""
    if preparation is None or not preparation.columns.names:
        return []
    names, blocks = preparation.columns.names, list(blocks_of(preparation).values())
    return [int(at) for at in places_left_out(names, blocks, settings.reference, settings.treatment)]
