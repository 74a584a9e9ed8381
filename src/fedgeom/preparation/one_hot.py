"""Categories as columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.onnx import Graph
from fedgeom.federation.settings import Between, Distinct, read_value
from fedgeom.federation.steps import Block, Columns, FitContext, Step, StepFit
from fedgeom.preparation.quantiles import as_dense, some_columns

MISSING = "is missing"
OTHER = "is another"
"""What the columns of empty cells, and of rare words, are called after the column they come from."""
MOST_NAMED = 3
"""So many words that were put with rare ones are named."""


def title_of_rest(columns: Columns, at: int) -> str:
    """Return what the column of a column's rare words is called: "arm = placebo or another" after what is in it.

    >>> title_of_rest(Columns(width=1, names=("arm",), together=(0,)), 0)
    'arm is another'
    >>> title_of_rest(Columns(width=1, names=("arm",), together=(0,), merged={0: ("placebo",)}), 0)
    'arm = placebo or another'
    """
    words = columns.merged.get(at, ())
    if not words or not all(words):
        return f"{columns.names[at]} {OTHER}"
    more = " or more" if len(words) > MOST_NAMED else ""
    return f"{columns.names[at]} = {', '.join(words[:MOST_NAMED])}{more} or another"


@dataclass(frozen=True)
class OneHot(Step):
    """Make a column of 0 and 1 of each category that the sites agree on (OneHotEncoder); empty cells are one, too.

    Categories that few rows or sites have are put together. Which there are the sites tell each other sealed; the
    coordinator learns only those that enough sites and rows have.
    """

    name: ClassVar[str] = "one-hot"
    keeps_gaps: ClassVar[bool] = True
    takes_text: ClassVar[bool] = True

    columns: Annotated[tuple[str, ...], Distinct()] | None = None
    """Columns of numbers that are categories, too, such as codes. Columns of text always are."""
    min_rows: Annotated[int, Between(1)] = 10
    """Categories that fewer rows of all sites have are put together. Policies may ask for more."""
    min_sites: Annotated[int, Between(1)] = 1
    """Categories that fewer sites have are put together. Policies may ask for more."""
    max_categories: Annotated[int, Between(2, 10_000)] = 100
    """A column with more words than this at a site is free text, and is left out."""

    categories: Annotated[Any, "a table of lists of words by column, or None"] = None
    """The words of each column of categories, where all agreed on them beforehand: {"sex": ["f", "m"]}. Then nothing is
    told of a site's words; all others are taken together, and empty cells are one. Wanted in runs with privacy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.categories is None:
            return
        if not isinstance(self.categories, Mapping) or not self.categories or self.columns is not None:
            raise InputError(
                f"categories={self.categories!r}, columns={self.columns!r} given; wanted one of them, and categories "
                'as a table of words: {"sex": ["f", "m"]}'
            )
        known = {
            str(name): list(read_value(f"categories of {name!r}", words, Annotated[tuple[str, ...], Distinct()]))
            for name, words in self.categories.items()
        }
        object.__setattr__(self, "categories", known)

    def bounded(self) -> None:
        """With privacy the words stand in the terms: a list that sites made of theirs would tell of a single row."""
        if self.categories is None:
            raise InputError(
                'the step "one-hot" with privacy needs the words of each column in its terms, such as '
                'categories={"sex": ["f", "m"]}: a list that sites made of theirs would tell of a single row'
            )

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block with all columns of text replaced; theirs come behind those of numbers."""
        columns = ground.columns
        if not columns.categories:
            return block
        cells = as_dense(block)
        numbers = np.array([at for at in range(columns.width) if at not in columns.categories], np.intp)
        found = np.empty((len(cells), self.output(ground, fit).width), cells.dtype)
        found[:, : len(numbers)] = some_columns(cells, numbers)
        begin = len(numbers)
        for at, words in columns.categories.items():
            end = begin + len(words) + (at in columns.together)
            found[:, begin:end] = cells[:, at, None] == np.arange(end - begin)
            begin = end
        return found

    def onnx(self, graph: Graph, ground: FitContext, fit: StepFit, rows: str) -> str:
        """Add the columns of numbers, and behind them which category each row has."""
        columns = ground.columns
        if not columns.categories:
            return rows
        numbers = [at for at in range(columns.width) if at not in columns.categories]
        parts = [graph.columns(rows, numbers)] if numbers else []
        for at, words in columns.categories.items():
            count = len(words) + (at in columns.together)
            same = graph.add("Equal", graph.columns(rows, [at]), graph.constant(np.arange(float(count))))
            parts.append(graph.as_numbers(same))
        return graph.beside(*parts)

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the columns of numbers, and behind them one for each category."""
        columns = ground.columns
        names = [name for at, name in enumerate(columns.names) if at not in columns.categories]
        width = columns.width - len(columns.categories)
        ranges = []
        for at, words in columns.categories.items():
            title = columns.names[at]
            names += [f"{title} = {word}" if word else f"{title} {MISSING}" for word in words]
            names += [title_of_rest(columns, at)] if at in columns.together else []
            ranges.append((width, width + len(words) + (at in columns.together)))
            width = ranges[-1][1]
        return Columns(width=width, names=tuple(names), one_hot=tuple(ranges))

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of dense rows, where there are categories."""
        return 8 * rows * self.output(ground, fit).width if ground.columns.categories else came
