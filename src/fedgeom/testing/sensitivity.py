"""The check that one hostile row moves what a site adds to each sum by no more than the noise is made for.

Noise hides a change of the length Δ that the site declares. If a row could move a contribution by more, the run would
promise an ε that it does not keep, and nothing else would show it. So every question of an honest run is put to a site
again, with the same memory, with and without one row that somebody chose to do harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import SkipTest, mock

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import Refusal, unpack
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.results import LEAVES
from fedgeom.federation.runner import SiteRunner
from fedgeom.privacy.bounded_sums import BoundedVector
from fedgeom.protocols.noise import NoisePart
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.testing.rehearsal import HOLDOUT, Cases, CheckContext, RecordedExchange, Rehearsal, refused

ROUNDING = 1e-9
"""What a change may be longer than is declared, as a share: the numbers are whole, their length is a double."""
HUGE = (1e308, 1e160, 1e16)
"""Squares of the first two are no numbers; to the last, a one that is added is lost."""


@dataclass(frozen=True)
class NoisySum:
    """What a site adds to a sum before noise, and by how much it says one row, or one site, moves it at most."""

    whole: npt.NDArray[np.int64]
    sensitivity: float


def hostile_rows(site: SiteData, seed: int = 0) -> Iterator[tuple[str, Floats]]:
    """Yield rows that somebody might add to a site to move its sums as far as possible, by name, (columns,), f8.

    Cells of columns of words have a word; those of the row of gaps have none.
    """
    rng = np.random.default_rng(seed)
    width = site.shape[1]
    signs = np.where(np.arange(width) % 2, -1.0, 1.0)
    axis = np.eye(width)[-1]
    way = rng.standard_normal(width)
    far = int(np.abs(site.X).max(axis=1, initial=0.0).argmax()) if np.isfinite(site.X).all() else 0
    shapes = {f"{size:g} everywhere": np.full(width, size) for size in HUGE}
    shapes |= {
        "1e308 of both signs": 1e308 * signs,
        "1e308 in the last column": 1e308 * axis,
        "-1e308 and tiny": -1e308 * axis + 5e-324,
        "tiny": np.full(width, 5e-324),
        "nothing": np.zeros(width),
        "far away": 1e3 * way,
        "at the rim of the unit ball": 0.999 * way / np.linalg.norm(way),
        "a row again": site.X[0],
        "the farthest row, the other way": -site.X[far],
        "gaps": np.full(width, np.nan),
    }
    words = [at for at, name in enumerate(site.columns) if name in site.categories]
    for name, row in shapes.items():
        found = np.array(row, np.float64)
        if name != "gaps":
            found[words] = 0.0
        yield name, found


def with_row(site: SiteData, row: Floats, label: Any) -> SiteData:
    """Return a site with one row more."""
    longer = site.take(np.append(np.arange(len(site)), 0))
    index = None if longer.index is None else np.append(longer.index[:-1], "one more")
    return replace(longer, table=np.vstack([site.X, row]), y=np.append(site.y, label), index=index)


def _neighbours(site: SiteData, labels: Sequence[Any], unit: str, seed: int) -> Iterator[tuple[str, SiteData]]:
    """Yield tables that differ from a site's by one row more, or where a whole site is protected, in all rows."""
    for name, row in hostile_rows(site, seed):
        for label in labels:
            if unit == "row":
                yield f"a row of {label!r}: {name}", with_row(site, row, label)
            else:
                changed = replace(site, table=np.tile(row, (len(site), 1)), y=np.full(len(site), label))
                yield f"all rows of {label!r}: {name}", changed


def sensitivity_holds(context: CheckContext) -> Cases:
    """With privacy, one hostile row moves what a site adds to a sum by no more than the declared sensitivity.

    With a whole site as the unit, all its rows are exchanged. Answers that are no part of a sum must not change at all.
    The largest share of the declared sensitivity that was seen, and the rows that sites do not take, are in the
    result's reason. It is skipped for a method without privacy.
    """
    privacy = privacy_of(context.method)
    if privacy is None:
        raise SkipTest("the method has no privacy: give it one, privacy=DP(…), to have its noise checked")
    held = _rehearsal(context)
    labels = list(dict.fromkeys(label for site in context.sites for label in site.y.tolist()))
    tried = 0
    largest: dict[str, float] = {}
    left: dict[str, None] = {}
    for site in context.sites if context.level == "full" else context.sites[1:2]:
        asked = [one for one in held.exchanges if one.site == site.name and not refused(one.reply)]
        usual = SensitivityReplay(held, site)
        before = [usual.ask(one) for one in asked]
        for name, other in _neighbours(site, labels, privacy.unit, context.seed):
            twin = SensitivityReplay(held, other)
            for one, (own, reply) in zip(asked, before, strict=True):
                found, said = twin.ask(one)
                tried += 1
                kind = one.frame.kind
                if _left(said):
                    left[name] = None
                    break
                if own is None:
                    # An answer with fresh keys differs from one time to the next; others follow from the memory.
                    assert reply != one.reply or said == reply, f"{kind!r} is answered otherwise after {name}"
                    continue
                assert found is not None, f"whether {kind!r} is answered depends on {name}: {refused(said)}"
                share = _moved(own, found) / own.sensitivity
                assert share <= 1 + ROUNDING, (
                    f"{name}: it moves what the site adds to {kind!r} by {share:.4g} times the declared sensitivity "
                    f"of {own.sensitivity:.6g}, for which its noise is made"
                )
                largest[kind] = max(largest.get(kind, 0.0), share)
    gone = ", ".join(left)
    assert largest, f"sites answered no question for a sum with one row more; they leave over {gone}"
    shares = ", ".join(f"{share:.3f} in {kind!r}" for kind, share in largest.items())
    return Cases(
        tried, f"of the declared sensitivity at most {shares}" + (f"; sites leave over {gone}" * bool(left))
    )


def _rehearsal(context: CheckContext) -> Rehearsal:
    """Return an undisturbed run, with a test on rows held out where the method takes one with its privacy."""
    try:
        replace(context.method, holdout=HOLDOUT)
    except InputError:
        return context.rehearsal
    return context.rehearsal_with_holdout


def _moved(own: NoisySum, other: NoisySum) -> float:
    """Return by how much the numbers differ (L2): exactly, however large they are."""
    assert own.sensitivity == other.sensitivity, "the declared sensitivity depends on the rows"
    assert own.whole.shape == other.whole.shape, "how many numbers are summed depends on the rows"
    return float(np.linalg.norm((own.whole - other.whole).astype(np.float64)))


def _left(reply: bytes) -> bool:
    return unpack(reply).kind == Refusal.kind and refused(reply) == LEAVES


class SensitivityReplay:
    """Puts questions of a recorded run to a site again that has other rows and the same memory."""

    def __init__(self, held: Rehearsal, site: SiteData):
        own = held.runner(site.name)
        self._held = held
        self._runner = SiteRunner(own.site, own.method, own.identity, lambda: site)

    def ask(self, exchange: RecordedExchange) -> tuple[NoisySum | None, bytes]:
        """Return what the site adds before noise, None where no sum is asked for or it refuses, and its answer."""
        seen: list[NoisySum] = []
        noisy = NoisePart.noisy

        def noted(part: NoisePart, ask: SumQuestion, whole: Any, *, sensitivity: float, **more: Any) -> Any:
            values = whole.whole() if isinstance(whole, BoundedVector) else np.array(whole, np.int64).ravel()
            seen.append(NoisySum(values, sensitivity))
            return noisy(part, ask, whole, sensitivity=sensitivity, **more)

        # Numbers that overflow are what is tried; what a site makes of them shows in what it adds.
        with mock.patch.object(NoisePart, "noisy", noted), np.errstate(all="ignore"):
            reply, _ = self._runner.answer(exchange.request, exchange.before)
        assert len(seen) < 2, f"{exchange.frame.kind!r} adds noise twice"
        return (seen[0] if seen else None), bytes(reply)
