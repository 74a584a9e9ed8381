"""Networks that come along, as learners: a body, a head, and the shape of a row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from fedgeom.errors import InputError
from fedgeom.methods.iterative.heads.base import Head
from fedgeom.methods.iterative.learners.torch_module import TorchLearner
from fedgeom.methods.iterative.networks.base import Network

NAME = "network"
"""The learner's name, whatever the network."""


class NetworkLearner(TorchLearner):
    """A body and a head. Its arrays are called "body.…" and "head.…"."""

    def __init__(self, network: Network, head: Head, shape: tuple[int, ...] | None = None):
        self.network, self.head_choice, self.shape = network, head, shape
        self._prepare(NAME, self._whole)

    @cached_property
    def head(self) -> tuple[str, ...]:  # type: ignore[override]
        """The head's trained arrays; none where the head is fixed."""
        with self._seeded(0):
            names = self.head_choice.trained_arrays(self.network.width)
        return tuple(f"head.{name}" for name in names)

    def _whole(self, columns: int, classes: int) -> Any:
        shape = self.shape or (columns,)
        if math.prod(shape) != columns:
            raise InputError(
                f"shape={shape} given, {math.prod(shape):,} numbers a row; the tables have {columns:,} columns"
            )
        from fedgeom.methods.iterative.networks.layers import Whole  # needs torch, which is optional

        return Whole(self.network.build(shape), self.head_choice.build(self.network.width, classes))


def network_learner(options: Mapping[str, Any]) -> NetworkLearner:
    """Return the learner with these options, as they travel; the same ones give the same learner."""
    return _known(json.dumps(options, sort_keys=True))


@lru_cache(maxsize=16)
def _known(options: str) -> NetworkLearner:
    found = json.loads(options)
    shape = None if found.get("shape") is None else tuple(found["shape"])
    return NetworkLearner(Network.read(found["network"], "network"), Head.read(found["head"], "head"), shape)
