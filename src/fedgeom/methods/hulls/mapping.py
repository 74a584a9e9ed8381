"""The site's half of the joint map: it adds scale and scatter to secure sums, and takes only the map that follows."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.site import answers
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.messages import EncodeCorners, EncodeHulls, Reach, SumScales, SumScatter
from fedgeom.protocols.secure_sum.messages import SumResult
from fedgeom.protocols.site import Contribution, SummingPart

LONGEST = 2.0
"""How many times longer than the joint average a site's rows may be in the tangent space."""
LONGEST_JOINT = 4.0
"""The same where all sites have one scale: one that has far classes only is long by itself."""
LARGEST_ENTRY = 1e6
"""Rows are standardised, so that an honest map has entries of a few units."""
SAME_MAP = 1e-4
"""How far a map may be from the site's own, as a share of its largest entry: machines differ in the last digits."""


class MapMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the map."""

    told: bytes = b""
    """A hash of the joint map, of which there is one."""
    scales: bytes = b""
    """The joint scale, (2, columns), f8, where the terms have one."""


class JointMap(SummingPart[MapMemory]):
    """Takes the site's rows to the disc; the site says which rows take part (``rows``)."""

    name: ClassVar[str] = "map"

    @property
    def _rows(self) -> SiteData:
        found: SiteData = self.site.rows  # type: ignore[attr-defined]
        return found

    @answers(SumScales)
    def scale(self, ask: SumScales) -> Contribution:
        """Add this site's column means and deviations to the secure sum."""
        self.site.check_size(joint_map.scale_length(self.site.data.shape[1]))
        return self.contribute(ask, joint_map.site_scale(self._rows.X))

    @answers(SumScatter)
    def scatter(self, ask: SumScatter) -> Contribution:
        """Add this site's scatter matrices to the secure sum."""
        columns = self.site.data.shape[1]
        self.site.check_size(joint_map.scatter_length(columns))
        if (ask.scales is not None) != self.settings.joint_scale:
            raise ProtocolError("a joint scale came where the terms have none, or none where they have one")
        scales = None
        if ask.scales is not None:
            if ask.scales.total.shape != (joint_map.scale_length(columns),):
                raise ProtocolError("the joint scale does not fit the columns")
            self.site.sums.check_result(ask.scales, SumScales)
            scales = joint_map.joint_scales(ask.scales.reals(SumScales), columns)
            if scales is None:  # it depends on the sum alone, which is the same for all sites
                raise ProtocolError("a column varies too little for a joint scale")
            self.memory.scales = scales.tobytes()
        rows = self._rows
        return self.contribute(ask, joint_map.site_scatter(rows.X, rows.y.astype(str), scales))

    def _scales(self) -> Floats:
        """Return the means and deviations by which the site's rows are standardised, (2, columns), f8."""
        columns = self.site.data.shape[1]
        if not self.settings.joint_scale:
            return joint_map.column_scales(self._rows.X)
        if len(self.memory.scales) != 2 * 8 * columns:
            raise ProtocolError("a joint map came before the joint scale")
        return np.frombuffer(self.memory.scales).reshape(2, columns)

    def points(self, ask: Reach | EncodeHulls | EncodeCorners, c: float) -> Floats:
        """Return the site's rows as points of the disc, (rows, 2), f8; a map must be the one that the sums say."""
        X, matrix = self._rows.X, ask.embedding
        if (matrix is not None) != self.settings.maps:
            raise ProtocolError("a joint map came where the terms have none, or none where they have one")
        if matrix is None:
            return X
        P, scales, memory = matrix.numpy(), self._scales(), self.memory
        if P.dtype != np.float64 or P.shape != (X.shape[1], 2) or not (np.abs(P) < LARGEST_ENTRY).all():
            raise ProtocolError(f"a joint map of shape {P.shape} came; wanted moderate numbers, ({X.shape[1]}, 2)")
        told = fingerprint(b"map", matrix.data)
        if memory.told and memory.told != told:
            raise ProtocolError("another joint map came before; one run has one map")
        if not memory.told:
            self._check_map(P, ask.scatter)
        memory.told = told
        length = joint_map.tangent_length(X, P, scales)
        longest = LONGEST_JOINT if self.settings.joint_scale else LONGEST
        if length > longest * joint_map.SPREAD:
            # With a zoom all rows lie at the rim, where each is a corner. It depends on the rows, so the site leaves.
            raise InputError(
                f"the joint map makes the rows {length:.3g} long on average; wanted {longest} at most"
            )
        return joint_map.embed(X, P, scales, c=c)

    def _check_map(self, P: Floats, scatter: SumResult | None) -> None:
        """Refuse a map that does not follow from the sites' sums: a coordinator could look at columns of its choice."""
        columns = self.site.data.shape[1]
        if scatter is None or scatter.total.shape != (joint_map.scatter_length(columns),):
            raise ProtocolError("a joint map came without the sums that it follows from")
        self.site.sums.check_result(scatter, SumScatter)
        try:  # it depends on the sums alone, which are the same for all sites
            own = joint_map.projection(scatter.reals(SumScatter), columns)
        except (InputError, ValueError) as error:
            raise ProtocolError(f"no joint map follows from the sites' sums: {error}") from error
        if not np.allclose(P, own, rtol=0, atol=SAME_MAP * float(np.abs(own).max())):
            raise ProtocolError("the joint map that came does not follow from the sites' sums")
