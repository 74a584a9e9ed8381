"""The coordinator's half: relay sealed columns, hear the joint ones, and have every step's sums added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fedgeom.errors import ProtocolError
from fedgeom.federation.joint_columns import uses_union
from fedgeom.federation.preparation import Fitting, Preparation
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.steps import Columns, Step
from fedgeom.protocols.preparing.messages import (
    SUMS,
    ColumnsHeld,
    CountCategories,
    HoldColumns,
    JointColumns,
    KeepColumns,
    PrepareRows,
    RowsPrepared,
    SealColumns,
    SealedColumns,
    hash_columns,
)
from fedgeom.protocols.secure_sum.messages import SumResult


def prepare(cohort: Any, steps: Sequence[Step]) -> Preparation:
    """Have all sites of a `Cohort` prepare their rows; those that fail to answer are left out of it."""
    raw = _agree(cohort)
    private = privacy_of(cohort.settings) is not None
    fitting = Fitting(
        tuple(steps),
        raw,
        cohort.sites.seed,
        cohort.class_floors,
        len(cohort.names),
        [],
        uses_union(steps),
        private,
        cohort.noise if private else None,
    )
    last: SumResult | None = None
    while (wanted := fitting.next()) is not None:
        kind, length = wanted
        cohort.skip_to(1 + fitting.planned())  # categories come first
        found: SumResult = cohort.sum_checked(SUMS[kind](last=last), length=length)
        last = found
        fitting.take(last.total.numpy())
    done = cohort.sites.ask(PrepareRows(last=last), of=cohort.left, expect=RowsPrepared)
    done.need(cohort.min_sites, "that their rows are prepared")
    cohort.lost_since(done)
    return fitting.finished()


def _agree(cohort: Any) -> Columns:
    """Return the joint columns, as all sites report them."""
    sites = cohort.sites
    questions = {
        name: SealColumns(participants=cohort.names, letters=dict(cohort.mail[name])) for name in cohort.left
    }
    given = sites.ask(questions, expect=SealedColumns)
    cohort.joined.delivered(given)
    given.need(cohort.min_sites, "with their columns")
    sealed = {name: answer.columns for name, answer in given.items()}
    held = sites.ask(HoldColumns(sealed=sealed), of=sealed, expect=ColumnsHeld)
    held.need(cohort.min_sites, "that they have the columns")
    cohort.lost_since(held)
    slots = max(answer.slots for answer in held.values())
    result = None
    if slots:
        ask = CountCategories(lists=hash_columns(sealed), slots=slots)
        result = cohort.sum_checked(ask, length=2 * slots)
    kept = sites.ask(KeepColumns(result=result), of=cohort.left, expect=JointColumns)
    kept.need(cohort.min_sites, "with the joint columns")
    counted = Counter(str(answer.columns) for answer in kept.values())
    if len(counted) > 1:
        raise ProtocolError("the sites do not report the same columns: one of them is at fault; run again")
    cohort.lost_since(kept)
    found: Columns = next(iter(kept.values())).columns
    return found
