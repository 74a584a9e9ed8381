"""From raw tables to features: each step fitted over all sites by secure sums, equal to the fit on pooled rows.

>>> import fedgeom
>>> from fedgeom.preparation import Impute, OneHot, Scale
>>> fedgeom.Pipeline(OneHot(), Impute(), Scale(), fedgeom.Ridge()).prepare == fedgeom.Ridge(prepare="table").prepare
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.preparation import fit_plain as fit_plain
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.steps import Step, read_steps
from fedgeom.preparation.impute import Impute as Impute
from fedgeom.preparation.landmark_map import LandmarkMap as LandmarkMap
from fedgeom.preparation.log_counts import LogCounts as LogCounts
from fedgeom.preparation.one_hot import OneHot as OneHot
from fedgeom.preparation.pca import PCA as PCA
from fedgeom.preparation.scale import Clip as Clip
from fedgeom.preparation.scale import Scale as Scale
from fedgeom.preparation.select_variable import SelectVariable as SelectVariable
from fedgeom.preparation.to_disc import ToDisc as ToDisc


def Pipeline(*parts: Step | Method) -> Method:  # noqa: N802  # as everybody calls it
    """Return a method that prepares raw rows first.

    ``Pipeline(LogCounts(), SelectVariable(2000), Scale(), PCA(50), Ridge())`` is the same as ``Ridge(prepare=[…])``:
    preparation is a setting of every method, part of its terms and of its model, which takes raw rows.

    Parameters
    ----------
    parts: steps, and a method
        The steps in their order, and the method at the end.

    Returns
    -------
    Method
    """
    *steps, method = parts or (None,)
    if not isinstance(method, Method):
        raise InputError(f"the last part of a Pipeline is {method!r}; wanted a method, such as fedgeom.Ridge()")
    steps = list(read_steps(steps))
    known = [step for step in steps if isinstance(step, Step)]
    strange = [step for step in steps if not isinstance(step, Step)]
    if strange:
        raise InputError(
            f"{strange[0]!r} is no step; wanted steps of fedgeom.preparation, and a method at the end"
        )
    return replace(method, prepare=(*known, *(method.prepare or ())))


@dataclass(frozen=True)
class PreparedMethod:
    """A method without its steps, and the sites as it sees them."""

    method: Method
    sites: list[SiteData]
    preparation: Preparation


def prepared_method(
    method: Method, sites: Sequence[SiteData], seed: int = 0, floors: tuple[int, int] = (1, 1)
) -> PreparedMethod:
    """Return a method without the steps that were asked for, and the sites with their rows prepared by these.

    Steps that the method puts between these and its own go with them.
    """
    bare = replace(method, prepare=())
    given = method.preparing[: len(method.preparing) - len(bare.preparing)]
    found = fit_plain(given, sites, seed, floors, private=privacy_of(method) is not None)
    return PreparedMethod(bare, [found.transform(site) for site in sites], found)
