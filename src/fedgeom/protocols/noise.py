"""Noise inside a secure sum: both halves work out how much, and a site adds its share to what it contributes.

How much follows from the terms, and from what the policies of those that joined ask for: all sites add the same. The
noise's key is made from randomness that a site drew from its operating system when it joined and tells nobody. The same
question has the same noise, so that nothing is gained by asking again; another question has other noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Ints, Words
from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.masks import NoiseStream
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import roomy_words
from fedgeom.federation.privacy import parts_of, privacy_of, smallest_sum
from fedgeom.federation.site import Part
from fedgeom.privacy.accounting import rho_for
from fedgeom.privacy.bounded_sums import BoundedVector
from fedgeom.privacy.mechanism import SumNoise, honest_sites
from fedgeom.protocols.join.messages import PublicKeys
from fedgeom.protocols.secure_sum.messages import SumQuestion

LARGEST_SUM = 2**62


def smallest_cohort(settings: Any, cohort: Mapping[str, PublicKeys]) -> int:
    """Return over how many sites a sum of a run with privacy is at least: as terms and the strictest policy say."""
    return smallest_sum(settings, max((keys.min_cohort for keys in cohort.values()), default=0))


def sum_noise(
    settings: Any,
    cohort: Mapping[str, PublicKeys],
    *,
    sensitivity: float,
    numbers: int,
    releases: int = 1,
    apart: bool = False,
    rho: float = 0.0,
) -> SumNoise:
    """Return the noise of one of ``releases`` sums over the same rows; one row (or site) moves it by ``sensitivity``.

    Steps of preparation and the method have equal parts of what the run may cost (`parts_of`); ``apart``: of rows from
    which nothing else is learnt, such as a test's. ``rho``: what the whole run may cost, where that is known already.
    """
    privacy = privacy_of(settings)
    assert privacy is not None
    whole = rho or rho_for(privacy.epsilon, privacy.delta)
    honest = honest_sites(smallest_cohort(settings, cohort), privacy.colluders)
    parts = 1 if apart else parts_of(settings)
    return SumNoise(sensitivity, whole / (parts * releases), honest, numbers)


class NoiseMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: what the run may cost."""

    rho: float = 0.0


class NoisePart(Part[NoiseMemory]):
    """Adds a site's share of noise."""

    name: ClassVar[str] = "noising"

    def noise(self, *, sensitivity: float, numbers: int, releases: int = 1, apart: bool = False) -> SumNoise:
        """Return the noise of a sum (`sum_noise`); what the accountant says is remembered, as asking it takes time."""
        site: Any = self.site
        settings = site.settings
        memory = self.memory
        privacy = privacy_of(settings)
        if privacy is None:
            raise ProtocolError("the terms of this run have no privacy")
        memory.rho = memory.rho or rho_for(privacy.epsilon, privacy.delta)
        return sum_noise(
            settings,
            site.joining.memory.cohort,
            sensitivity=sensitivity,
            numbers=numbers,
            releases=releases,
            apart=apart,
            rho=memory.rho,
        )

    def noisy(
        self,
        ask: SumQuestion,
        whole: Ints | BoundedVector,
        *,
        sensitivity: float,
        releases: int = 1,
        apart: bool = False,
    ) -> Words:
        """Return whole numbers, of which one row moves all together by ``sensitivity`` (L2), with noise, as words."""
        bounded = isinstance(whole, BoundedVector)
        values: Any = whole if bounded else np.asarray(whole, np.int64).ravel()
        numbers = values.shape[0]
        noise = self.noise(sensitivity=sensitivity, numbers=numbers, releases=releases, apart=apart)
        room = LARGEST_SUM // (len(ask.ticket.participants) * 2 ** max(-noise.shift, 0))
        largest = values.length if bounded else max(int(values.max()), -int(values.min())) if numbers else 0
        if largest >= room:
            raise InputError(
                "the sums of this site are too large for the ring with this noise: rescale the columns"
            )
        joined: Any = self.site.joining.memory  # type: ignore[attr-defined]
        key = fingerprint(b"noise", joined.private, str(ask.ticket.round).encode(), ask.ticket.question_hash)
        words = roomy_words(numbers)
        noise.add(values, NoiseStream(key), words.view(np.int64))
        return words
