"""Sites out of tables that hold labels, sites and patients in columns: frames, AnnData, and files that were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.data.bio import anndata_table
from fedgeom.data.categories import with_text
from fedgeom.data.frames import frame_table
from fedgeom.data.tables import Columns, Table
from fedgeom.errors import InputError

MOST_SITES = 5000
"""A column with more values than this does not say to which site a row belongs."""


class FromTables:
    """The ways in which a `SiteData` is made from a table with more columns than the features."""

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str,
        by: str | None = None,
        name: str = "site",
        group: str | None = None,
        columns: Columns | None = None,
        drop_unlabelled: bool = False,
        text: bool = False,
    ) -> Any:
        """Return the rows of a pandas DataFrame as a site, or with ``by`` as a list of sites, one for each value there.

        - ``label``: the column with the class of each row, in text; ``by``: that with the row's site (hospital, donor);
        - ``name``: what the one site is called, without ``by``;
        - ``group``: the column with the row's patient or the like: none stands on both sides of a holdout;
        - ``columns``: the features; all other columns if not given;
        - ``drop_unlabelled``: leave rows without a label out; otherwise their label is "";
        - ``text``: keep columns of text, as `categories`, for methods with preparation.

        Names of columns are kept, and the frame's index as `index`.
        """

        def read(some: Columns | None, beside: Sequence[str]) -> Table:
            return frame_table(frame, "the frame", label, some, also=beside)

        beside = [one for one in (by, group) if one]
        table = with_text(read, columns, beside) if text else read(columns, beside)
        return cls.from_table(table, "the frame", name, by=by, group=group, drop_unlabelled=drop_unlabelled)

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        *,
        label: str,
        by: str | None = None,
        name: str = "site",
        layer: str | None = None,
        use_raw: bool = False,
        obsm: str | None = None,
        group: str | None = None,
        columns: Sequence[str] | None = None,
        drop_unlabelled: bool = False,
    ) -> Any:
        """Return the cells of an AnnData as a site, or with ``by`` as a list of sites, one for each value there.

        - ``layer``, ``use_raw``, ``obsm``: where the numbers are, ``X`` if none is given; sparse ones stay sparse;
        - ``columns``: genes, all if not given;
        - the others as in `from_frame`, with columns of ``obs``.

        Names of genes are kept, and those of cells (barcodes) as `index`.
        """
        table = anndata_table(
            adata,
            "the AnnData",
            label,
            genes=columns,
            layer=layer,
            use_raw=use_raw,
            obsm=obsm,
            also=[one for one in (by, group) if one],
        )
        return cls.from_table(table, "the AnnData", name, by=by, group=group, drop_unlabelled=drop_unlabelled)

    @classmethod
    def from_table(
        cls,
        table: Table,
        where: str,
        name: str,
        *,
        by: str | None = None,
        group: str | None = None,
        drop_unlabelled: bool = False,
        rows: npt.ArrayLike | None = None,
    ) -> Any:
        """Return a table that was read, or some of its rows, as a site, or with ``by`` as a list of sites."""
        if table.y is None or len(table.y) != len(table):
            n = 0 if table.y is None else len(table.y)
            raise InputError(f"{where}: {len(table)} rows but {n} labels; wanted one label per row")
        numbers = table.first_row + np.arange(len(table))
        groups = None if group is None else table.also[group]
        make: Any = cls
        site = make(name, table.X, table.y, {}, table.columns, numbers, table.index, groups, table.categories)
        owner = None if by is None else table.also[by]
        if rows is not None:
            chosen = np.atleast_1d(np.asarray(rows))
            try:
                site, owner = site.take(chosen), None if owner is None else owner[chosen]
            except IndexError as error:
                raise InputError(f"{where} has {len(site)} rows; `rows` does not fit: {error}") from error
        if drop_unlabelled and not site.has_label.all():
            kept = site.has_label
            site, owner = site.take(kept), None if owner is None else owner[kept]
        if len(site) == 0:
            raise InputError(f"{where} has no {'labelled ' if drop_unlabelled else ''}rows")
        for column, values in ((group, site.groups), (by, owner)):
            _check_all_said(where, column, values, site)
        if owner is None:
            return site
        values, of_row = np.unique(owner, return_inverse=True)
        n = len(values)
        if n > MOST_SITES or n == len(site) > 2:
            raise InputError(
                f"{where}: column {by!r} has {n:,} values in {len(site):,} rows, too many to be sites; wanted the "
                f"column that says from which hospital, donor or laboratory a row comes, at most {MOST_SITES:,}"
            )
        return [replace(site.take(np.flatnonzero(of_row == i)), name=str(one)) for i, one in enumerate(values)]


def _check_all_said(where: str, column: str | None, values: npt.NDArray[Any] | None, site: Any) -> None:
    """Refuse rows that do not say to which group or site they belong."""
    without = np.empty(0, np.intp) if values is None else np.flatnonzero(values == "")
    if len(without) and site.row_numbers is not None:
        raise InputError(
            f"{where}: column {column!r} is empty in {len(without):,} of {len(site):,} rows, the first of them row "
            f"{site.row_numbers[without[0]]}; wanted a value in each: fill them, or leave these rows out"
        )
