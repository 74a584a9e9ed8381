"""Columns that few rows or sites set apart are left out, before anything of them is summed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Ints, Words
from fedgeom.data.tables import is_sparse
from fedgeom.federation.disclosure import (
    COUNTS_AS_0,
    COUNTS_AS_1,
    REASONS,
    FloorLayout,
    cell_counts_length,
    count_cells,
    count_looks,
    judge,
    small_cells,
)
from fedgeom.federation.steps import Block, Columns, FitContext, PreparedRows, Step, StepFit, SumKind

AS_ONE = "of these words too few rows or sites have one, so that they count as one"


@dataclass(frozen=True)
class ColumnFloors(Step):
    """Leave out columns in which too few rows, or sites, differ from the usual value (`federation.disclosure`).

    Runs add this step by themselves where a site's policy has floors; where none has, it does nothing.
    """

    name: ClassVar[str] = "floors"
    keeps_gaps: ClassVar[bool] = True

    by_class: bool = False
    """Whether columns are looked at in each class, too: for methods that sum products for each class."""
    gaps: bool = False
    """Whether a later step makes columns of gaps ("is missing"), which then have floors as well."""
    blank: bool = False
    """Whether columns that are left out become 0, for images, whose columns have a place; otherwise they go."""

    small_cells_as_zero: bool = False
    """Whether numbers other than 0 that few rows or sites of a class have in a column count as 0 before, and numbers
    that few rows of a column of 0 and 1 have as 1: for methods that add up the rows of each class. Only rows that are
    learnt from are changed."""

    def _layout(self, ground: FitContext) -> FloorLayout:
        classes = len(ground.classes) if self.by_class else 0
        last = tuple(end - 1 for _, end in ground.columns.one_hot)
        return FloorLayout(ground.columns.width, self.gaps, classes, ground.sites, ground.floors[1], last)

    def bounded(self) -> None:
        """With privacy noise hides the few, and nothing is counted."""

    def sums(self) -> tuple[SumKind, ...]:
        """Return the sum of what sets columns apart, and before it that of small cells where these count as 0."""
        return ("floors", "floors") if self.small_cells_as_zero else ("floors",)

    def _counts_cells(self, fit: StepFit) -> bool:
        """Whether the next sum is that of small cells."""
        return self.small_cells_as_zero and fit.taken == 0

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many counts there are; none where no policy has floors."""
        if ground.floors == (1, 1):
            return 0
        if self._counts_cells(fit):
            return cell_counts_length(len(ground.classes), ground.columns.width)
        return self._layout(ground).length

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> Ints:
        """Count rows that differ from the usual value, or, before, those of each class that are not 0."""
        if self._counts_cells(fit):
            return count_cells(
                rows.blocks(), rows.codes, len(ground.classes), ground.columns.width, ground.floors[1]
            )
        layout = self._layout(ground)
        blocks = self._as_learnt(fit, rows) if self.changes_learnt(fit) else rows.blocks()
        return count_looks(blocks, rows.labels, ground.classes, layout, ground.floors[1], ground.key)

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take which cells are small, or which columns are kept and whose gaps may become columns."""
        if self._counts_cells(fit):
            shape = len(ground.classes), ground.columns.width
            fit.put(small=small_cells(total.view(np.int64), shape, ground.floors))
            return
        found = judge(total.view(np.int64), self._layout(ground), ground.floors, ground.columns.one_hot)
        fit.put(kept=found.kept, few_gaps=found.few_gaps, why=found.why)

    def idle(self, fit: StepFit) -> bool:
        """Return whether nothing is left out."""
        return "why" not in fit.arrays or not fit.get("why").any()

    def left_out(self, ground: FitContext, fit: StepFit) -> dict[str, list[str]]:
        """Return the columns that are left out, and those of gaps, by why."""
        found: dict[str, list[str]] = {}
        if self.idle(fit):
            return found
        width = ground.columns.width
        why_of = fit.get("why").tolist()
        words: set[int] = set()
        for begin, end in ground.columns.one_hot:
            gone = [at for at in range(begin, end) if why_of[at] in REASONS]
            words.update(gone)
            if len(gone) > 1:  # one is the one that the others are compared to
                found.setdefault(AS_ONE, []).append(" or ".join(ground.columns.title(at) for at in gone))
        for at, why in enumerate(why_of):
            if why in REASONS and at not in words:
                title = ground.columns.title(at % width)
                found.setdefault(REASONS[why], []).append(title if at < width else f"gaps of {title}")
        return found

    def changed(self, fit: StepFit) -> str:
        """Say in how many cells, a column in a class each, numbers count as 0 or 1."""
        if not self.changes_learnt(fit):
            return ""
        cells = int(np.count_nonzero(fit.get("small")))
        return (
            f"in {cells:,} cell{'s' * (cells > 1)}, each a column in a class, too few rows or sites have "
            "numbers other than 0: where they are learnt from, these count as 0, and as 1 in columns of 0 and 1"
        )

    def changes_learnt(self, fit: StepFit) -> bool:
        """Return whether some cells are small."""
        return "small" in fit.arrays and bool(fit.get("small").any())

    def transform_learnt(self, ground: FitContext, fit: StepFit, block: Block, codes: Ints) -> Block:
        """Return a block without the columns that are left out, and with what small cells count as."""
        return self.transform(ground, fit, self._settled(fit, block, codes))

    def _as_learnt(self, fit: StepFit, rows: PreparedRows) -> Iterator[Block]:
        """Yield rows with what small cells count as."""
        codes = rows.codes
        first = 0
        for block in rows.blocks():
            last = first + block.shape[0]
            yield self._settled(fit, block, codes[first:last])
            first = last

    def _settled(self, fit: StepFit, block: Block, codes: Ints) -> Block:
        """Return rows with what small cells count as; gaps stay gaps."""
        if not self.changes_learnt(fit):
            return block
        found = fit.get("small")
        small = np.vstack([found, np.zeros_like(found[:1])])  # the last: of no class
        if is_sparse(block):
            cells = block.tocsr(copy=True)
            kinds = small[np.repeat(codes, np.diff(cells.indptr)), cells.indices]
            kinds[~np.isfinite(cells.data) | (cells.data == 0)] = 0
            cells.data[kinds == COUNTS_AS_1] = 1
            cells.data[kinds == COUNTS_AS_0] = 0
            cells.eliminate_zeros()
            return cells
        made: npt.NDArray[Any] = np.array(block)
        kinds = small[codes]
        kinds[~np.isfinite(made) | (made == 0)] = 0
        made[kinds == COUNTS_AS_1] = 1
        made[kinds == COUNTS_AS_0] = 0
        return made

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block without the columns that are left out."""
        if self.idle(fit) or len(fit.get("kept")) == ground.columns.width:
            return block
        kept = fit.get("kept").astype(np.intp)
        if not self.blank:
            return block[:, kept]
        cells: npt.NDArray[Any] = np.array(block.toarray() if is_sparse(block) else block)
        cells[:, np.setdiff1d(np.arange(cells.shape[1]), kept)] = 0
        return cells

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the columns that are kept."""
        if self.idle(fit):
            return ground.columns
        kept = ground.columns if self.blank else ground.columns.kept(fit.get("kept").astype(np.intp))
        return kept.with_few_gaps(fit.get("few_gaps").tolist())
