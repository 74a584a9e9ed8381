"""Handing out: the joint model goes back to every site, which keeps it.

Whether a site takes a model depends on the model alone, never on how it does on the site's rows: a refusal that
depended on them would tell of them.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import msgspec
import numpy as np

from fedgeom.errors import FedgeomError, ProtocolError
from fedgeom.federation import model as model_file
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.model import Model
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.cohort import Cohort


class ModelTaken(Message, frozen=True, kw_only=True):
    """A site has the model."""

    kind: ClassVar[str] = "model.taken"
    reveals: ClassVar[str] = "nothing: a receipt"
    harmless: ClassVar[bool] = True


class TakeModel(Question, frozen=True, kw_only=True):
    """Give the sites the joint model."""

    kind: ClassVar[str] = "model.take"
    answer: ClassVar[type[Message]] = ModelTaken
    model: bytes
    """The model file."""


M = TypeVar("M", bound=Model)

UNUSABLE = (FedgeomError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError)
"""What reading or trying a model file may raise that says other things than it should."""
ROWS_TRIED = 32
"""Enough for every model; some take the scale of the columns from the rows they see."""


def hand_out(cohort: Cohort, model: M) -> M:
    """Give every site that is left the joint model, and return it."""
    told = cohort.sites.ask(TakeModel(model=model.to_bytes()), of=cohort.left, expect=ModelTaken)
    told.need(1, "that they have the model")
    return model


class HandedMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: the model file that it was given."""

    model: bytes = b""


class HandedModel(Part[HandedMemory], Generic[M]):
    """Keeps the joint model."""

    name: ClassVar[str] = "handed"

    @answers(TakeModel)
    def take(self, ask: TakeModel) -> ModelTaken:
        """Keep the model, if it is one of this method and fits the number of columns."""
        self.keep(ask.model)
        return ModelTaken()

    def keep(self, data: bytes) -> M:
        """Keep a model file that came and return the model; raise `ProtocolError` when it does not fit the columns.

        It is tried on rows of zeros, not on the site's.
        """
        model = self.read(data)
        blank = np.zeros((ROWS_TRIED, self.site.data.X.shape[1]))
        try:
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
        method = self.site.method_type
        try:
            _, arrays, facts = model_file.from_bytes(data)
            found: M = method.model_type.from_tensors(arrays, facts)  # type: ignore[attr-defined]
        except UNUSABLE as error:
            raise ProtocolError("the model that came cannot be used") from error
        return found

    @property
    def model(self) -> M | None:
        """The model that was handed out; None before."""
        return self.read(self.memory.model) if self.memory.model else None
