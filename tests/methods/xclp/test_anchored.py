"""Anchors by secure sums: the twin's anchors and scores, whoever has the rows."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import XCLP, SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.geometry.graphs.anchors import anchor_scores, codes, fit_anchors, unit_rows
from fedgeom.methods.xclp.anchors import SumAnchorCells, summed_rows
from fedgeom.methods.xclp.core import shared_seed
from tests.methods.coordinators import RUN, hold, overhear
from tests.methods.xclp.making import cones

METHOD = XCLP(graph="anchors", n_anchors=10, n_rounds=4, min_cell=3)
SITES = cones(4, rows=25, labelled=0.4)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_anchors_are_the_twins(seed: int) -> None:
    model = hold(METHOD, SITES, seed=seed).model
    wanted = fit_anchors([site.X for site in SITES], 10, shared_seed(seed), rounds=4, least=3)
    np.testing.assert_allclose(model.anchors, wanted, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(model.anchors, axis=1), 1.0)


def test_their_scores_solve_the_pooled_equations() -> None:
    model = hold(METHOD, SITES).model
    Z = codes(np.vstack([site.X for site in SITES]), model.anchors, 3)
    y = np.concatenate([site.y for site in SITES])
    Y = np.where(y[:, None] >= 0, np.eye(3)[y], 0.0)
    wanted = anchor_scores((Z.T @ Z).toarray(), Z.T @ Y, METHOD.setting.alpha)
    np.testing.assert_allclose(model.anchor_scores, wanted, atol=1e-5)
    assert model.counts.tolist() == Y.sum(axis=0).tolist()


def test_the_same_rows_at_other_sites_make_the_same_model() -> None:
    """Only sums enter, so who has which rows does not."""
    X, y = np.vstack([site.X for site in SITES]), np.concatenate([site.y for site in SITES])
    dealt = [SiteData(f"other-{at}", X[at::3], y[at::3]) for at in range(3)]
    one, other = hold(METHOD, SITES).model, hold(METHOD, dealt).model
    np.testing.assert_allclose(one.anchors, other.anchors, atol=1e-6)
    np.testing.assert_allclose(one.anchor_scores, other.anchor_scores, atol=1e-5)


def summed_cells(method: XCLP, sites: list[SiteData], policy: Policy | None = None) -> list[np.ndarray]:
    """Return, for each question that sums cells, how many rows each site has in each of them: (sites, cells)."""
    heard, engine = overhear(method, sites, policy=policy)
    found = []
    for one in heard:
        if isinstance(one.question, SumAnchorCells) and one.name == "site-1":
            part = engine.runners["site-1"].restore(RUN, one.memory).anchors
            cells = [part.memory.fit.deal(site.X, part.plan) for site in sites]
            count = part.memory.fit.sums()
            found.append(np.array([np.bincount(c[c >= 0], minlength=count) for c in cells]))
    return found


def test_no_cell_with_too_few_rows_is_ever_summed() -> None:
    found = summed_cells(XCLP(graph="anchors", n_anchors=10, n_rounds=4, min_cell=8), SITES)
    assert len(found) == 4
    # Rows of anchors that were left out fall to others, so cells only grow.
    assert all(rows.sum(axis=0).min() >= 8 for rows in found)


def test_where_policies_ask_for_it_no_cell_of_too_few_sites_is_summed() -> None:
    columns = SITES[0].X.shape[1] + 1
    alone = np.random.default_rng(3).normal(9.0 * np.eye(columns)[-1], 0.1, (30, columns))
    rng = np.random.default_rng(4)  # a column that is 0 at all other sites would be left out
    little = [0.01 * rng.standard_normal(len(site)) for site in SITES]
    sites = [
        SiteData(site.name, np.column_stack([site.X, some]), site.y)
        for site, some in zip(SITES, little, strict=True)
    ]
    sites[0] = SiteData(sites[0].name, np.vstack([sites[0].X, alone]), np.append(sites[0].y, np.full(30, -1)))
    method = XCLP(graph="anchors", n_anchors=10, n_rounds=4, min_cell=3)
    fewest = [
        min(int((rows > 0).sum(axis=0).min()) for rows in summed_cells(method, sites, policy))
        for policy in (None, Policy(single_site_classes=False, min_rows=1))
    ]
    assert fewest[0] == 1  # one cluster is the first site's own
    assert fewest[1] == 3


def test_where_policies_have_floors_groups_of_rows_change_cells_together() -> None:
    rows, columns, policy = 120, 4, StrictPolicy()
    rng = np.random.default_rng(0)
    sites = [SiteData(f"site-{at}", rng.normal(size=(rows, columns)), np.arange(rows) % 2) for at in range(5)]
    method = XCLP(graph="anchors", n_anchors=50, n_rounds=5)
    heard, engine = overhear(method, sites, policy=policy)
    (asked, *_) = [one for one in heard if isinstance(one.question, SumAnchorCells) and one.name == "site-1"]
    part = engine.runners["site-1"].restore(RUN, asked.memory).anchors
    summed = summed_rows(part.rows, policy.min_rows)
    units = unit_rows(part.rows)
    for at, (total, size) in enumerate(zip(summed.totals, summed.sizes, strict=True)):
        assert size >= policy.min_rows
        np.testing.assert_allclose(total, units[summed.groups == at].sum(axis=0), atol=1e-12)
    found = hold(method, sites, policy=policy).model.anchors
    assert 2 <= len(found) <= 5 * rows // (2 * policy.min_rows * policy.min_sites)
    few = [SiteData(site.name, site.X[: policy.min_rows], site.y[: policy.min_rows]) for site in sites]
    assert len(hold(method, few, policy=policy).model.anchors) == 1


def test_nothing_to_spread_is_said() -> None:
    silent = [SiteData(site.name, site.X, np.full(len(site), -1)) for site in SITES]
    with pytest.raises(InputError, match="no site has a labelled row"):
        hold(XCLP(graph="anchors", n_anchors=5, classes=("0", "1")), silent)
