"""Rows as points of a joint hyperbolic map: landmarks of all sites' rows by secure sums, and their Poincaré map.

Landmarks are the means of cells. All rows are one cell at first. Its joint mean and the deviations of its columns say
where it is cut: along the columns that vary most within cells, at the cell's mean. The sites count, masked, how many
rows each part has, and how they are spread over sites; parts that have too few rows or sites join the nearest part of
the same cell. Then the sites add up their rows in each cell, and cells are cut again at their new means.

So the cells of a step lie within those of the step before, and a sum over a cell is that of the cells that it is cut
into: all sums together say no more than the sums over the last cells, each of which has rows and sites enough. Steps of
k-means do not have that property: two of them differ by the few rows that changed cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.federation.steps import Block, Columns, FitContext, PreparedRows, Step, StepFit, SumKind
from fedgeom.geometry.hyperbolic.landmark_map import MapSettings, embed_landmarks, place
from fedgeom.memo import memoize
from fedgeom.preparation.pca import FIRST_COMPONENT, PCA
from fedgeom.preparation.quantiles import DEEP, as_dense, column_sums, from_deep, square_sums, to_deep
from fedgeom.protocols.fixed_point import from_fixed, to_fixed

FIRST_CUTS = 4
"""Along so many columns all rows are cut at first: into sixteen cells."""
CUTS = 2
"""Along so many columns a cell is cut later: into four."""
BESIDE_MEAN = 1e-6
"""Cells are cut this share of a deviation above their mean: rounding decides nothing of rows that are equal to it."""
CAPS = 4
"""So many numbers say how a part's rows are spread over sites: each site's up to some, half as many, a quarter…"""
LEAST_COLUMNS = 5
ROWS_PER_COLUMN = 200
"""Where policies have floors and ``n_columns`` is given, one column for so many rows: fewer let cells be smaller."""
MAPPED = 20
"""Of so many principal components landmarks are means, by themselves."""
AUTO = 200
"""How many landmarks "auto" makes at most."""


def map_steps(prepare: tuple[Step, ...], step: LandmarkMap) -> tuple[Step, ...]:
    """Return the steps that put rows on a map: where they are prepared, by themselves by their principal components."""
    if step.n_columns != "auto" or not prepare or prepare[-1].name == PCA.name:
        return (step,)
    return (PCA(n_components=MAPPED), step)


@dataclass(frozen=True)
class LandmarkMap(Step):
    """Put rows on a joint Poincaré map, between the landmarks that they are near.

    Landmarks are means of cells of all sites' rows; every site embeds them in the ball, by the same numbers, and puts
    its own rows there. For methods on points of the disc, such as `Hulls`, and for `PoincareMap`.
    """

    name: ClassVar[str] = "landmark-map"
    makes_reals: ClassVar[bool] = True

    n_landmarks: Annotated[int, Between(2, 1024)] | Literal["auto"] = "auto"
    """How many landmarks there are at most; "auto": 200. Fewer where cells would have too few rows or sites."""
    n_components: Annotated[int, Between(2, 10)] = 2
    """The dimension of the ball."""
    n_columns: Annotated[int, Between(1, 4096)] | Literal["auto"] | None = "auto"
    """Of how many of the first columns landmarks are means; None: of all. "auto": of 20 principal components, and of
    all other columns. Where policies have floors, of one for 200 rows at most, five at least: the fewer, the smaller
    cells may be; that is for columns in order, not for all."""
    n_neighbors: Annotated[int, Between(1, 100)] = 8
    """How many nearest landmarks each is tied to in their graph."""
    gamma: Annotated[float, POSITIVE] = 4.0
    """γ: how far random walks on the graph go."""
    sigma: Annotated[float, POSITIVE] = 1.0
    """σ: the unit of distances on the map."""
    n_nearest: Annotated[int, Between(1, 100)] = 5
    """Between how many nearest landmarks a row is put."""
    min_cell: Annotated[int, Between(1, 10**6)] = 5
    """A cell with fewer rows at all sites together becomes no landmark. Where policies have floors, a cell has at least
    ``min_rows`` rows and one more for each column."""
    curvature: Annotated[float, POSITIVE] = 1.0
    """k: the ball has curvature -k."""

    def bounded(self) -> None:
        """Refuse privacy: cells follow from means that have no noise."""
        raise InputError(
            f"privacy with the step {self.name!r} given; it learns cells from exact means, step by step: leave one out"
        )

    @property
    def most(self) -> int:
        """How many landmarks there may be."""
        return self.n_landmarks if isinstance(self.n_landmarks, int) else AUTO

    @property
    def _levels(self) -> int:
        """How often cells are cut."""
        return 1 + max(0, math.ceil((math.log2(self.most) - FIRST_CUTS) / CUTS))

    def sums(self) -> tuple[SumKind, ...]:
        """Return the moments of columns; then in turn sizes of parts, and sums over cells."""
        cutting: tuple[SumKind, ...] = ("cell-sizes", "cell-sums") * self._levels
        return ("moments", *cutting)

    def _width(self, ground: FitContext, fit: StepFit) -> int:
        """Return of how many columns landmarks are means: when the rows are counted, that is settled."""
        if fit.arrays:
            return int(fit.get("landmarks").shape[1])
        return min(self._first(ground) or ground.columns.width, ground.columns.width)

    def _first(self, ground: FitContext) -> int | None:
        """Return of how many columns landmarks are means, where these are in order; else None: of all."""
        if self.n_columns != "auto":
            return self.n_columns
        return MAPPED if ground.columns.names[:1] == (FIRST_COMPONENT,) else None

    def _settled_width(self, ground: FitContext, width: int, n: float) -> int:
        """Return of how many of the columns that were summed landmarks are means."""
        if self._first(ground) is None or ground.floors == (1, 1):
            return width
        return min(width, max(LEAST_COLUMNS, int(n) // ROWS_PER_COLUMN))

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has; 0 where no cell can be cut any more."""
        width = self._width(ground, fit)
        if fit.taken == 0:
            return DEEP * (1 + 2 * width)
        if "points" in fit.arrays:
            return 0
        if fit.taken % 2:
            cuts = fit.get("cuts")
            return _parts(cuts) + len(self._caps(ground, fit)) * len(_unions(cuts))
        return width * len(fit.get("sizes"))

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Add up columns and squares; count rows in parts of cells; add up rows in cells."""
        width = self._width(ground, fit)
        if fit.taken == 0:
            sums = np.zeros(width)
            squares = np.zeros(width)
            for block in rows.blocks():
                sums = sums + column_sums(block[:, :width])
                squares = squares + square_sums(block[:, :width])
            return to_deep(np.concatenate([[len(rows)], sums, squares]), sites=ground.sites)
        counting = fit.taken % 2 == 1
        count = _parts(fit.get("cuts")) if counting else len(fit.get("sizes"))
        sizes = np.zeros(count, np.int64)
        total = np.zeros((count, width))
        for block in rows.blocks():
            some = as_dense(block)[:, :width].astype(np.float64)
            cells = _deal(some, fit)
            sizes += np.bincount(cells, minlength=count)
            if not counting:
                order = np.argsort(cells, kind="stable")
                begins = np.flatnonzero(np.diff(cells[order], prepend=-1))
                if len(begins):
                    total[cells[order][begins]] += np.add.reduceat(some[order], begins, axis=0)
        if counting:
            together = np.array([sizes[some].sum() for some in _unions(fit.get("cuts"))], np.int64)
            return np.concatenate([sizes, *(np.minimum(together, cap) for cap in self._caps(ground, fit))])
        return to_fixed(total.ravel(), fraction_bits=int(fit.get("bits")[0]), sites=ground.sites)

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take the moments, which parts of cells are large enough, or the cells' means."""
        width = self._width(ground, fit)
        if fit.taken == 0:
            values = from_deep(total)
            n = max(float(np.rint(values[0])), 1.0)
            mean, squares = values[1:].reshape(2, width)[:, : self._settled_width(ground, width, n)] / n
            variance = np.maximum(squares - mean**2, 0.0)
            variance = np.where(variance > 1e-12 * np.maximum(squares, 1e-300), variance, 0.0)
            largest = n * np.sqrt(max(float(squares.max()), 2.0**-60)) * ground.sites
            bits = int(np.clip(60 - np.ceil(np.log2(largest)), 8, 48))
            none = np.zeros(0, np.int64)
            fit.put(
                landmarks=mean[None], sizes=[n], variance=variance, bits=[bits], level=[0], into=none, begins=none
            )
            self._cut(ground, fit)
        elif fit.taken % 2:
            counts = total.view(np.int64)
            parts = _parts(fit.get("cuts"))
            capped = counts[parts:].reshape(-1, len(_unions(fit.get("cuts"))))
            beyond = self._beyond(ground, fit, capped)
            into, sizes = _large_enough(fit, counts[:parts], beyond, self._floors(ground, fit))
            if len(sizes) == len(fit.get("sizes")):  # no cell could be cut
                self._embed(fit)
                return
            level = int(fit.get("level")[0])
            named: dict[str, Ints] = {f"into {level}": into, "sizes": sizes}
            fit.put(**named)
        else:
            level = int(fit.get("level")[0])
            sums = from_fixed(total, fraction_bits=int(fit.get("bits")[0])).reshape(-1, width)
            kept = {f"cuts {level}": fit.get("cuts"), f"means {level}": fit.get("landmarks")}
            fit.put(landmarks=sums / fit.get("sizes")[:, None], level=[level + 1], **kept)
            self._cut(ground, fit)

    def _floors(self, ground: FitContext, fit: StepFit) -> tuple[int, int]:
        """Return how many rows a cell must have beyond its largest sites, and how many in all.

        With d columns, d sums are known of a cell's rows. Weights for these can be chosen so that any d rows drop out:
        ``min_rows`` must still be left, and rows of ``min_sites`` sites.
        """
        sites, rows = ground.floors
        width = self._width(ground, fit)
        return width + 1 if sites > 1 else 0, max(self.min_cell, rows + width if rows > 1 else 1)

    def _caps(self, ground: FitContext, fit: StepFit) -> tuple[int, ...]:
        """Return up to how many a site's rows in some parts are counted, beside all of them; none without floors."""
        if ground.floors[0] <= 1:
            return ()
        needed = self._width(ground, fit) + 1
        return tuple(dict.fromkeys(-(-needed // 2**at) for at in range(CAPS)))

    def _beyond(self, ground: FitContext, fit: StepFit, capped: Ints) -> Ints:
        """Return how many rows parts have at least at all but their largest ``min_sites`` - 1 sites, (unions,).

        Where a site counts for no more than c rows, all sites but so many have together the sum less so many times c.
        capped (caps, unions), see `_unions`; none where policies have no floors.
        """
        if not len(capped):
            return np.zeros(len(_unions(fit.get("cuts"))), np.int64)
        caps = np.array(self._caps(ground, fit), np.int64)[:, None]
        found: Ints = (capped - (ground.floors[0] - 1) * caps).max(axis=0, initial=0)
        return found

    def _cut(self, ground: FitContext, fit: StepFit) -> None:
        """Decide which cells are cut next, along which columns; embed the landmarks where none can be."""
        means = fit.get("landmarks")
        sizes = fit.get("sizes")
        n = sizes.sum()
        centre = sizes @ means / n
        within = np.maximum(fit.get("variance") - sizes @ (means - centre) ** 2 / n, 0.0)
        # Columns on one scale vary alike, up to rounding, which is not to choose between them.
        within = np.round(within / max(float(within.max()), 1e-300), 6)
        columns = np.argsort(-within, kind="stable")
        columns = columns[within[columns] > 0]
        at_once = FIRST_CUTS if len(sizes) == 1 else CUTS
        least = self._floors(ground, fit)[1]
        cuts = np.full((len(sizes), at_once), -1, np.int64)
        room = self.most - len(sizes)
        finished = int(fit.get("level")[0]) == self._levels
        for cell in [] if finished else np.argsort(-sizes, kind="stable").tolist():
            parts = int(min(sizes[cell] // least, room + 1))
            many = min(at_once, len(columns), max(parts, 1).bit_length() - 1)
            cuts[cell, :many] = columns[:many]
            room -= 2**many - 1
        if (cuts < 0).all():
            self._embed(fit)
            return
        fit.put(cuts=cuts, within=within)

    def _embed(self, fit: StepFit) -> None:
        """Make the map of the landmarks, and forget what was needed on the way."""
        landmarks = fit.get("landmarks")
        if len(landmarks) < 2:
            raise InputError(
                "all rows are in one cell: there are too few of them for landmarks, no column varies, or where "
                "policies have floors, rows of several sites are nowhere near each other; give more rows, or fewer "
                "columns (n_columns), as each makes cells larger"
            )
        how = MapSettings(self.n_components, self.n_neighbors, self.gamma, self.sigma)
        sizes = np.asarray(fit.get("sizes"), np.int64)
        points, divergence = _embedded(landmarks.tobytes(), landmarks.shape, tuple(sizes.tolist()), how)
        fit.drop(*fit.arrays)
        fit.put(landmarks=landmarks, sizes=sizes, points=points, divergence=[divergence])

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block's points of the ball, (rows, dimension), f8."""
        rows = as_dense(block)[:, : self._width(ground, fit)].astype(np.float64)
        found = place(rows, fit.get("landmarks"), fit.get("points"), self.n_nearest)
        return found / math.sqrt(self.curvature)

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the coordinates."""
        return Columns(width=self.n_components, names=tuple(f"map {at + 1}" for at in range(self.n_components)))

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return the size of the points."""
        return 8 * rows * self.n_components


@memoize(2)  # the same for all sites of a process
def _embedded(
    landmarks: bytes, shape: tuple[int, int], sizes: tuple[int, ...], how: MapSettings
) -> tuple[Floats, float]:
    return embed_landmarks(np.frombuffer(landmarks).reshape(shape), sizes, how)


def _parts(cuts: Ints) -> int:
    """Return into how many parts cells are cut, those that are not cut being one."""
    return int((2 ** (cuts >= 0).sum(axis=1)).sum())


def _part_of(rows: Floats, cells: Ints, cuts: Ints, means: Floats, shift: Floats) -> Ints:
    """Return the part of each row, (rows,), given its cell: a bit for each column, of whether it is above the mean."""
    found = np.zeros(len(rows), np.int64)
    for bit in range(cuts.shape[1]):
        column = cuts[cells, bit]
        place_of = np.maximum(column, 0)
        above = rows[np.arange(len(rows)), place_of] > means[cells, place_of] + shift[place_of]
        found += (above & (column >= 0)).astype(np.int64) << bit
    return _begins(cuts)[cells] + found


def _unions(cuts: Ints) -> list[slice]:
    """Return the parts that are counted together: of each cell single ones, then pairs, fours…, but not all of them.

    A pair differs in the column that varies least, along which a cell is cut last; a four in the last two.
    """
    found = []
    for first, many in zip(_begins(cuts).tolist(), (cuts >= 0).sum(axis=1).tolist(), strict=True):
        for step in range(max(many, 1)):
            apart = 2 ** (many - step)
            found += [slice(first + at, first + 2**many, apart) for at in range(apart)]
    return found


def _begins(cuts: Ints) -> Ints:
    """Return the number of each cell's first part."""
    many = 2 ** (cuts >= 0).sum(axis=1)
    return np.asarray(np.cumsum(many) - many, np.int64)


def _deal(rows: Floats, fit: StepFit) -> Ints:
    """Return the cell of each row, or while parts are counted, its part."""
    shift = BESIDE_MEAN * np.sqrt(fit.get("variance"))
    level = int(fit.get("level")[0])
    cells = np.zeros(len(rows), np.int64)
    for done in range(level):
        part = _part_of(rows, cells, fit.get(f"cuts {done}"), fit.get(f"means {done}"), shift)
        cells = fit.get(f"into {done}")[part]
    part = _part_of(rows, cells, fit.get("cuts"), fit.get("landmarks"), shift)
    return fit.get(f"into {level}")[part] if fit.taken % 2 == 0 else part


def _large_enough(fit: StepFit, rows: Ints, beyond: Ints, floors: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return the new cell of each part, and the new cells' sizes.

    Of a cell's parts those that have too few rows or sites join the nearest other one: that which fewest cuts, along
    columns that vary least, tell from it. rows (parts,): in all; beyond (unions,): at all but the largest sites.
    """
    cuts = fit.get("cuts")
    within = fit.get("within")
    begins = _begins(cuts)
    into = np.zeros(len(rows), np.int64)
    sizes: list[int] = []
    numbers = np.arange(len(rows))
    known = {
        tuple(numbers[some].tolist()): spread for some, spread in zip(_unions(cuts), beyond.tolist(), strict=True)
    }
    for cell, first in enumerate(begins.tolist()):
        columns = cuts[cell][cuts[cell] >= 0]
        bits = np.arange(2 ** len(columns))[:, None] >> np.arange(len(columns)) & 1
        groups = [[part] for part in range(len(bits))]
        held = [[int(rows[first + part]), known[(first + part,)]] for part in range(len(bits))]
        while len(groups) > 1:
            small = [at for at, (n, spread) in enumerate(held) if n < floors[1] or spread < floors[0]]
            if not small:
                break
            least = min(small, key=lambda at: held[at][0])
            own = bits[groups[least]].mean(axis=0)
            away = [float(((bits[group].mean(axis=0) - own) ** 2) @ within[columns]) for group in groups]
            away[least] = np.inf
            other = int(np.argmin(away))
            groups[other] += groups[least]
            # How both together are spread over sites is known where they were counted so; else no less than either.
            both = tuple(first + part for part in sorted(groups[other]))
            spread = known.get(both, max(held[other][1], held[least][1]))
            held[other] = [held[other][0] + held[least][0], spread]
            del groups[least], held[least]
        for group, (n, _) in zip(groups, held, strict=True):
            into[first + np.array(group)] = len(sizes)
            sizes.append(n)
    return into, np.array(sizes, np.int64)
