"""Hulls: maps and plans that make more rows corners than the terms say."""

from __future__ import annotations

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Array
from fedgeom.federation.policy import Policy
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.encoding import decode_hulls
from fedgeom.methods.hulls.messages import EncodeHulls, HullExtent, SumScatter
from tests.attacks.playing import Attack, Floats, Learnt, Liar, replace


def discs(sites: int = 3, rows: int = 60, columns: int = 2, *, scale: float = 1.0) -> list[SiteData]:
    """Return sites with two classes each that overlap."""
    rng = np.random.default_rng(0)
    found = []
    for at in range(sites):
        y = np.repeat(["no", "yes"], rows // 2)
        X = scale * (rng.normal(size=(rows, columns)) + np.where(y == "no", -0.5, 0.5)[:, None])
        found.append(SiteData(f"s{at:03d}", X, y))
    return found


def corners(
    liar: Liar, *, zoom: float, bend: Floats | None = None, epsilon: float | None = None
) -> tuple[int, int]:
    """Run Hulls with a map of the attacker's choice; return the rows read and all rows."""
    method, cohort = liar.method, liar.join()
    assert isinstance(method, fedgeom.Hulls)
    matrix: Floats | None = None
    scatter = None
    if method.maps:
        scatter = cohort.sum_checked(SumScatter(), length=joint_map.scatter_length(cohort.columns))
        matrix = zoom * joint_map.projection(scatter.reals(SumScatter), cohort.columns)
    if bend is not None:
        matrix = zoom * bend
    given = None if matrix is None else Array.of(matrix)
    reach = method._reach(cohort, HullExtent(embedding=given, scatter=scatter))
    plan = method._plan(reach, len(cohort.names))
    plan = plan if epsilon is None else replace(plan, epsilon=epsilon)
    word = cohort.sum_elements(
        EncodeHulls(plan=plan, embedding=given), modulus=plan.code.modulus, length=plan.code.length
    )
    hulls, _ = decode_hulls(plan, word)
    found = plan.grid.center(np.unique(np.concatenate([np.array(hull.bins) for hull in hulls])))
    read = rows = 0
    for site in liar.data.values():
        points = (
            site.X if matrix is None else joint_map.embed(site.X, matrix, joint_map.column_scales(site.X), c=1.0)
        )
        at = plan.grid.center(plan.grid.bin(points))
        read += int((np.abs(at[:, None] - found[None]).max(axis=2) < 1e-12).any(axis=1).sum())
        rows += len(site.X)
    return read, rows


def zoom(method: str, policy: Policy, quick: bool) -> Learnt:
    """Send a joint map that pushes all rows to the rim of the disc, where each is a corner."""
    found: dict[float, tuple[int, int]] = {}
    last = Learnt("refused", False)
    for factor in (1.0, 1.3, 1.6, 1.99, 3.0, 4.0):
        way = fedgeom.Hulls(embedding="discriminant", trim=0.0, epsilon=0.001)
        liar = Liar(way, discs(rows=200), policy)
        try:
            found[factor] = corners(liar, zoom=factor)
        except FedgeomError as error:
            last = liar.refusal(error)
    if 1.0 not in found:
        return last
    (honest, rows), best = found[1.0], max(read for read, _ in found.values())
    return Learnt(f"{best} of {rows} rows are corners, where an honest map shows {honest}", best / rows > 0.5)


def map_without_terms(method: str, policy: Policy, quick: bool) -> Learnt:
    """Send a map although the terms have none."""
    liar = Liar(fedgeom.Hulls(trim=0.0, epsilon=0.001), discs(scale=0.15), policy)
    try:
        read, rows = corners(liar, zoom=3.0, bend=np.eye(2))
    except FedgeomError as error:
        return liar.refusal(error)
    return Learnt(f"{read} of {rows} rows are corners", read / rows > 0.5)


def finer_plan(method: str, policy: Policy, quick: bool) -> Learnt:
    """Ask for a finer grid than the terms say."""
    liar = Liar(fedgeom.Hulls(trim=0.0, epsilon=0.3), discs(scale=0.15), policy)
    try:
        corners(liar, zoom=1.0, epsilon=0.001)
    except FedgeomError as error:
        return liar.refusal(error)
    return Learnt("hulls on a grid 300 times finer than agreed", True)


def chosen_columns(method: str, policy: Policy, quick: bool) -> Learnt:
    """Send a map that shows two columns of the attacker's choice instead of the joint one, within all bounds."""
    sites = discs(rows=200, columns=4)
    liar = Liar(fedgeom.Hulls(embedding="discriminant", epsilon=0.001), sites, policy)
    bend = np.zeros((4, 2))
    bend[2, 0] = bend[3, 1] = 0.7  # standardised columns have length 1, so that rows are as long as they should be
    try:
        read, rows = corners(liar, zoom=1.0, bend=bend)
    except FedgeomError as error:
        return liar.refusal(error)
    return Learnt(f"the outermost rows in two columns of its choice: {read} of {rows} rows", read > 0)


def small_classes(method: str, policy: Policy, quick: bool) -> Learnt:
    """Run with classes so small that the hull is all of the data, honestly."""
    sites = discs(rows=8)
    liar = Liar(fedgeom.Hulls(trim=0.0, epsilon=0.001, embedding="discriminant"), sites, policy)
    try:
        read, rows = corners(liar, zoom=1.0)
    except FedgeomError as error:
        return liar.refusal(error)
    return Learnt(f"{read} of {rows} rows are corners", read / rows > 0.5)


ATTACKS = (
    Attack(
        "a zoom to the rim",
        ("hulls",),
        "171 to 180 of 180 rows read to 0.0002-0.0014 standard deviations (honest: 38-42 corners)",
        zoom,
    ),
    Attack(
        "a map where the terms have none",
        ("hulls",),
        "a matrix was accepted with entries up to 1e6: 171 to 180 of 180 rows",
        map_without_terms,
        "permissive",
    ),
    Attack("a map of the attacker's choice", ("hulls",), "not tried", chosen_columns),
    Attack("a finer grid than agreed", ("hulls",), "held", finer_plan, "permissive"),
    Attack("classes so small that the hull is the data", ("hulls",), "shown as the ledger says", small_classes),
)
