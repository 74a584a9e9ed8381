"""The contract every federated method keeps: parameters, a site class, a conversation, a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.federation.conversation import Sites
from fedgeom.federation.site import Site


class Model(Protocol):
    """What a run yields: something that predicts and can be saved without pickles."""

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return a global class for each row."""

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and the plain facts that make up the model file."""


class Method:
    """The base of all methods; a subclass is a frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    site: ClassVar[type[Site[Any]]]

    def conduct(self, sites: Sites) -> Model:
        """Hold the conversation with the sites and return the model."""
        raise NotImplementedError(f"{type(self).__name__} does not conduct")

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Raise `InputError` when data that one process can see together does not fit together."""

    def understood(self, site: SiteData) -> SiteData:
        """Return a site's table as the method reads it, for splitting it: what counts as no label is "" there."""
        return site

    def parameters(self) -> dict[str, Any]:
        """Return the parameters, for the run record."""
        return dataclasses.asdict(self) if dataclasses.is_dataclass(self) else {}
