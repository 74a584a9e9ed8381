"""A tiny method whose sites agree on their label names and take a model, without any sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Plan, Shape
from fedgeom.federation.site import Memory, Part, Site
from fedgeom.protocols.cohort import join
from fedgeom.protocols.model_delivery import HandOut, hand_out
from fedgeom.protocols.names import AgreeOnNames, LabelNames, NamesMemory, agree_on_names
from fedgeom.protocols.site import SecureMemory, SummingSite
from tests.unlisted import unlisted


class NamingMemory(SecureMemory, kw_only=True):
    names: NamesMemory = msgspec.field(default_factory=NamesMemory)


class NamingSite(SummingSite[NamingMemory]):
    memory_type: ClassVar[type[Memory]] = NamingMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)

    def result(self) -> dict[str, Any]:
        model = self.handed.model
        return {} if model is None else {"names": list(model.names)}


@dataclass(frozen=True, repr=False)
class NamesModel(Model):
    """Predicts the name with the largest of a few linear scores."""

    names: tuple[str, ...]
    weights: npt.NDArray[np.float64]
    """(columns, names)"""
    method: str = field(default="naming", init=False)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        named: npt.NDArray[Any] = np.array(self.names)[(np.asarray(X) @ self.weights).argmax(axis=1)]
        return named

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        return {"weights": self.weights}, {"names": list(self.names)}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> NamesModel:
        return cls(tuple(facts["names"]), arrays["weights"])


@unlisted
@dataclass(frozen=True, kw_only=True)
class Naming(Method):
    name: ClassVar[str] = "naming"
    site: ClassVar[type[Site[Any]]] = NamingSite
    model_type: ClassVar[type[Model]] = NamesModel

    min_sites: int = 2

    def plan(self, shape: Shape) -> Plan:
        yield AgreeOnNames()
        yield HandOut()

    def conduct(self, sites: Coordinator) -> NamesModel:
        cohort = join(sites, self)
        names = agree_on_names(cohort)
        sites.metrics |= {"names": len(names), "per site": dict.fromkeys(cohort.left, 1)}
        return hand_out(cohort, NamesModel(names, np.eye(cohort.columns, len(names))))


def named_sites(n: int = 4) -> list[SiteData]:
    """Return sites that have one label in common and one of their own."""
    return [
        SiteData(f"s{i:04d}", np.array([[1.0, 0.0], [0.0, 1.0]]), np.array(["common", f"only at s{i:04d}"]))
        for i in range(n)
    ]
