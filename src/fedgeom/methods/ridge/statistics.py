"""What a run of Ridge can be updated from later: the features, the sums, and a number that stands for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import InputError
from fedgeom.federation.preparation import Preparation
from fedgeom.methods.ridge.learning import Fit

GRAM, MADE = "ridge_gram", "ridge_made"
"""How the arrays are called among a run's artifacts."""


class Made(msgspec.Struct, kw_only=True):
    """What features are made from, what the run was seeded with, and how probabilities are calibrated."""

    fit: Fit
    seed: int
    temperature: float
    prepared: bytes = b""
    """How raw rows were prepared before (`Preparation.to_bytes`); empty: they were taken as they are."""

    def preparation(self) -> Preparation | None:
        """Return what takes raw rows to those that the features are made from; None: they are the same."""
        return Preparation.from_bytes(self.prepared) if self.prepared else None


def made_by(fit: Fit, seed: int, temperature: float, preparation: Preparation | None) -> Made:
    """Return what a run made its features from."""
    prepared = b"" if preparation is None else preparation.to_bytes()
    return Made(fit=fit, seed=seed, temperature=temperature, prepared=prepared)


@dataclass(frozen=True, eq=False)
class Statistics:
    """The sums of a run, in parts, and what their features are made from."""

    made: Made
    parts: tuple[Floats, ...]
    """Each part of the sum, f8."""

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """A hash of each part."""
        return tuple(hash_part(part) for part in self.parts)

    @property
    def stands_for(self) -> str:
        """What stands for them in the terms of an update."""
        return stands_for(msgspec.msgpack.encode(self.made), self.hashes)

    def artifacts(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a run keeps of them."""
        made = np.frombuffer(msgspec.msgpack.encode(self.made), np.uint8)
        return {GRAM: np.concatenate(self.parts), MADE: made}

    @classmethod
    def of(cls, artifacts: Mapping[str, npt.NDArray[Any]], lengths: Sequence[int]) -> Statistics:
        """Return the statistics that a run kept; refuse a run that kept none."""
        if GRAM not in artifacts or MADE not in artifacts:
            raise InputError("the run kept no sums to update; wanted one with Ridge(updatable=True)")
        whole = np.asarray(artifacts[GRAM], np.float64)
        if len(whole) != sum(lengths):
            raise InputError(f"the run kept sums of {len(whole):,} numbers; wanted {sum(lengths):,}")
        made = msgspec.msgpack.decode(artifacts[MADE].tobytes(), type=Made)
        return cls(made, tuple(np.split(whole, np.cumsum(lengths)[:-1])))


def hash_part(part: Floats) -> bytes:
    """Hash a part of a sum, (numbers,), f8."""
    return fingerprint(b"ridge part", np.ascontiguousarray(part, "<f8").tobytes())


def stands_for(made: bytes, hashes: Sequence[bytes]) -> str:
    """Return what stands for statistics in the terms of a run that updates them: a hash, in hexadecimal digits."""
    return fingerprint(b"ridge statistics", made, *hashes).hex()
