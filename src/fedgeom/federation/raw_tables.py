"""Raw tables as a preparation takes them: columns found by name, words of text columns by their joint number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.data.columns import names_of
from fedgeom.data.rows import dense
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import Table, as_labels, is_sparse, listed
from fedgeom.errors import InputError
from fedgeom.federation.steps import Block, Columns

GIVEN = "X"
"""What rows are called that a model is given; they are no site's."""


@dataclass
class Picker:
    """Takes the agreed columns out of a site's blocks, in the agreed order."""

    site: SiteData
    wanted: Columns
    fill: bool = False
    """Whether columns that the site lacks are empty, instead of an error."""

    def __post_init__(self) -> None:
        own, wanted = self.site.columns, self.wanted.names
        where = "" if self.site.name == GIVEN else f"site {self.site.name!r}: "
        self.order: npt.NDArray[np.intp] | None = None
        self.codes: dict[int, npt.NDArray[np.float64]] = {}
        if not own and self.wanted.categories:
            raise InputError(
                f"{where}columns without names given; this model learnt from columns of text, so it wants names: "
                "give a frame, a SiteData or a file"
            )
        if not own or not wanted:
            if self.site.shape[1] != self.wanted.width:
                raise InputError(
                    f"{where}{self.site.shape[1]:,} columns without names given; wanted {self.wanted.width:,}, in "
                    "the order in which they were learnt from"
                )
        elif own != wanted:
            places = {name: at for at, name in enumerate(own)}
            missing = [name for name in wanted if name not in places]
            if missing and not self.fill:
                raise InputError(
                    f"{where}these columns are missing: {listed(missing)}; give all raw columns that the model "
                    "learnt from (where gaps are filled in, give them as empty ones)"
                )
            self.order = np.array([places.get(name, -1) for name in wanted], np.intp)
        texts = [
            name
            for at, name in enumerate(wanted)
            if name in self.site.categories and at not in self.wanted.categories
        ]
        if texts:
            raise InputError(
                f"{where}these columns hold text, but numbers were learnt from: {listed(texts)}; mend them"
            )
        for at in self.wanted.categories:
            self.codes[at] = self._translation(at)

    def _translation(self, at: int) -> npt.NDArray[np.float64]:
        """Return the joint number of each of the site's own words of a column, the last one for empty cells."""
        words = self.wanted.categories[at]
        place = {word: float(number) for number, word in enumerate(words)}
        rest = float(len(words)) if at in self.wanted.together else np.nan
        own = self.site.categories.get(self.wanted.names[at], ()) if self.wanted.names else ()
        return np.array([*(place.get(word, rest) for word in own), place.get("", rest)])

    def pick(self, block: Block) -> Block:
        """Return a block's agreed columns."""
        if self.order is not None:
            lacking = np.flatnonzero(self.order < 0)
            if len(lacking) or self.codes:
                block = dense(block, self.site.name)
            block = block[:, self.order]
            if len(lacking):
                block[:, lacking] = np.nan
        for at, numbers in self.codes.items():
            block = dense(block, self.site.name).copy() if at == min(self.codes) else block
            name = self.wanted.names[at]
            cells = block[:, at]
            if name in self.site.categories or not np.isfinite(cells).any():
                empty = ~np.isfinite(cells)
                block[:, at] = numbers[np.where(empty, len(numbers) - 1, cells).astype(np.intp)]
            else:  # numbers that stand for categories
                block[:, at] = self._numbers_as_words(at, cells)
        return block

    def _numbers_as_words(self, at: int, cells: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        words = self.wanted.categories[at]
        place = {word: float(number) for number, word in enumerate(words)}
        rest = float(len(words)) if at in self.wanted.together else np.nan
        found, back = np.unique(cells, return_inverse=True)
        return np.array([place.get(word, rest) for word in as_labels(found).tolist()])[back]


def read_raw(X: Any, wanted: Columns) -> SiteData:
    """Return rows of any kind as a raw table: a `SiteData`, a table that was read, a frame, an AnnData or an array."""
    if isinstance(X, SiteData):
        return X
    if isinstance(X, Table):
        return SiteData(GIVEN, X.X, np.zeros(len(X)), columns=X.columns, categories=X.categories)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        from fedgeom.data.categories import with_text  # pandas is an extra
        from fedgeom.data.frames import frame_table

        known = set(wanted.names)
        some = [name for name in map(str, X.columns) if name in known] if known else None
        if known and not some:
            raise InputError(f"X has none of the columns {listed(wanted.names, 6)}")
        return read_raw(with_text(lambda c, also: frame_table(X, GIVEN, None, c, also=also), some, ()), wanted)
    cells = X.X if hasattr(X, "var_names") else X
    rows = cells if is_sparse(cells) else np.asarray(cells)
    if rows.ndim != 2:
        raise InputError(f"X has shape {rows.shape}; wanted rows and columns")
    return SiteData(GIVEN, rows, np.zeros(rows.shape[0]), columns=names_of(X))
