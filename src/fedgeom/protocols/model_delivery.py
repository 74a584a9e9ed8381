"""Handing out: the joint model goes back to every site, which keeps it.

Where the model follows from one sum that sites can check, they are given the sum and make the model themselves.

Whether a site takes a model depends on the model alone, never on how it does on the site's rows: a refusal that
depended on them would tell of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import msgspec
import numpy as np

from fedgeom.errors import FedgeomError, ProtocolError
from fedgeom.federation import model as model_file
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Steps
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.secure_sum.messages import SumResult


class ModelTaken(Message, kind="model.taken", harmless=True):
    """A site has the model."""

    reveals: ClassVar[str] = "nothing: a receipt"


class TakeModel(Question, kind="model.take", answer=ModelTaken):
    """Give the sites the joint model."""

    model: bytes
    """The model file."""


class TakeResult(Question, kind="model.result", answer=ModelTaken):
    """Give the sites the sum that the joint model follows from; each checks it and makes the model itself."""

    result: SumResult


M = TypeVar("M", bound=Model)

UNUSABLE = (FedgeomError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""What reading or trying a model file may raise that says other things than it should."""
ROWS_TRIED = 32
"""On how many rows of zeros a model is tried before it is kept."""


@dataclass(frozen=True)
class HandOut(Steps):
    """The plan of `hand_out`: a model as large as the joint one will be, or the sum from which it follows."""

    model: Model | None = None
    result: SumResult | None = None
    work: float = 0.0
    bound: str = ""

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield the one question."""
        if self.result is not None:
            yield Ask(TakeResult(result=self.result), ModelTaken(), work=self.work, bound=self.bound)
            return
        model = b"" if self.model is None else self.model.to_bytes()
        bound = self.bound or ("how large the model is" if self.model is None else "")
        yield Ask(TakeModel(model=model), ModelTaken(), work=self.work, bound=bound)


def hand_out(cohort: Cohort, model: M, result: SumResult | None = None) -> M:
    """Give every site that is left the joint model, or the sum from which it follows, and return the model."""
    given = TakeModel(model=model.to_bytes()) if result is None else TakeResult(result=result)
    told = cohort.sites.ask(given, of=cohort.left, expect=ModelTaken)
    told.need(1, "that they have the model")
    return model


def read_model(kind: type[M], data: bytes) -> M:
    """Read a model file that came; raise `ProtocolError` when it is none of a kind."""
    try:
        _, arrays, facts = model_file.from_bytes(data)
        found: M = kind.from_file(arrays, facts)
    except UNUSABLE as error:
        raise ProtocolError("the model that came cannot be used") from error
    return found


class DeliveryMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: the model file that it was given."""

    model: bytes = b""


class DeliveredModel(Part[DeliveryMemory], Generic[M]):
    """Keeps the joint model."""

    name: ClassVar[str] = "handed"

    @answers(TakeModel)
    def take(self, ask: TakeModel) -> ModelTaken:
        """Keep the model, if it is one of this method and fits the number of columns."""
        if not self.site.takes_models or hasattr(self.site, "model_from"):  # type: ignore[attr-defined]
            raise ProtocolError("sites of this method do not take a model on the coordinator's word")
        self.keep(ask.model)
        return ModelTaken()

    @answers(TakeResult)
    def make(self, ask: TakeResult) -> ModelTaken:
        """Make the model from the sum, if that is the one that the sites added up (``model_from`` of the site)."""
        build = getattr(self.site, "model_from", None)
        if build is None:
            raise ProtocolError("this method's model does not follow from one sum")
        try:
            model: M = build(ask.result)
        except ProtocolError:
            raise
        except UNUSABLE as error:  # it depends on the sum alone, which is the same for all sites
            raise ProtocolError("no model can be made from the sum that came") from error
        self.keep(model.to_bytes())
        return ModelTaken()

    def keep(self, data: bytes) -> M:
        """Keep a model file that came and return the model; raise `ProtocolError` when it does not fit the columns.

        It is tried on rows of zeros, not on the site's.
        """
        model = self.read(data)
        blank = np.zeros((ROWS_TRIED, self.site.data.shape[1]))
        try:
            if model.width not in (None, blank.shape[1]):
                raise ProtocolError("the model that came does not fit this site's columns")
            arrays, _ = model.tensors()
            usable = all(np.isfinite(array).all() for array in arrays.values())
            with np.errstate(all="ignore"):
                usable = usable and (not model.everywhere or len(model.predict(blank)) == ROWS_TRIED)
        except UNUSABLE as error:
            raise ProtocolError("the model that came does not fit this site's columns") from error
        if not usable:
            raise ProtocolError("the model that came has numbers that are not finite, or predicts nothing")
        self.memory.model = data
        return model

    def read(self, data: bytes) -> M:
        """Read a model file that came; raise `ProtocolError` when it is none of this method's."""
        kind: type[M] = self.site.method_type.model_type  # type: ignore[attr-defined]
        return read_model(kind, data)

    @property
    def model(self) -> M | None:
        """The model that was handed out; None before."""
        return self.read(self.memory.model) if self.memory.model else None
