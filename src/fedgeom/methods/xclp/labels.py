"""Labels and confidences at a site: read off its own rows of Z, kept there, and rescaled as the reference code does."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import answers
from fedgeom.methods.xclp.core import (
    GRID,
    at_site,
    code_confidence,
    confidence_level,
    keep_known,
    label_numbers,
    labels_and_confidence,
    one_hot,
    setting_for,
)
from fedgeom.methods.xclp.messages import CountLabels, Reading, ResultKept, Weigh
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.protocols.fixed_point import write_levels
from fedgeom.protocols.secure_sum.rules import draw_of, own_group
from fedgeom.protocols.site import Contribution, SummingPart

PartMem = TypeVar("PartMem", bound=msgspec.Struct)


class XclpPart(SummingPart[PartMem]):
    """A part of a site that spreads labels: in `XCLP` once, in training with pseudo-labels in many rounds."""

    @property
    def xclp(self) -> XclpSettings:
        """How labels spread, by the terms on which the site joined."""
        found: XclpSettings = self.site.xclp  # type: ignore[attr-defined]
        return found

    @property
    def rows(self) -> Floats:
        """The rows that are compared, dealt to cells and labelled, (rows, columns)."""
        found: Floats = self.site.rows  # type: ignore[attr-defined]
        return found

    @property
    def round(self) -> int:
        """The round in which labels spread; `XCLP` has one, 0."""
        found: int = self.site.spreading_round  # type: ignore[attr-defined]
        return found

    @property
    def features_hash(self) -> bytes:
        """A hash of what the compared rows are made with; empty where they are the table's own."""
        found: bytes = self.site.features_hash  # type: ignore[attr-defined]
        return found

    def check_round(self, round: int) -> None:
        """Refuse a question of another round than the one in which labels spread."""
        if round != self.round:
            raise ProtocolError(f"labels were to spread in round {round + 1}, which is not under way here")

    def check_group(self, group: int) -> None:
        """Refuse a sum that is said to be over another group of sites than the one this site is drawn into."""
        wanted = own_group(self.site) if draw_of(self.site.settings) is not None else 0
        if group != wanted:
            raise ProtocolError(f"group {group + 1} was to be summed; this site is in group {wanted + 1}")

    def keep_to(self, **said: object) -> None:
        """Refuse a question that departs from how labels spread by the terms; what these leave open may be said."""
        for name, value in said.items():
            agreed = getattr(self.xclp, name)
            if agreed is not None and agreed != value:
                raise ProtocolError(f"{name}={value} is asked for; the site joined on {name}={agreed}")


def are_counts(values: npt.NDArray[Any]) -> bool:
    """Say whether numbers can be counts of rows: 0, or from 1 up to 2^53, so that no arithmetic with them overflows."""
    return bool(((values == 0) | ((values >= 1) & (values <= 2**53))).all())


class LabelsMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of its labels."""

    classes: tuple[str, ...] = ()
    labels: Array | None = None
    """(rows,), i8: the class of each row, -1 where no label reaches."""
    confidences: Array | None = None
    """(rows,), f8. With ``confidence="code"`` none until the joint numbers came: before, they are in no unit of the
    others'."""
    scores: Array | None = None
    """(rows, classes), f8."""
    reading: Reading | None = None
    """How the labels were read."""
    stamp: bytes = b""
    """A hash of all that the site was told to read its labels with."""
    counted: bool = False
    """Whether the site's labels were counted in the joint sum."""


class LabelReader(XclpPart[LabelsMemory]):
    """Reads a site's labels; nothing of them leaves but, where that was agreed, counts inside a secure sum."""

    name: ClassVar[str] = "labels"

    def read(self, Z: Floats, classes: tuple[str, ...], reading: Reading, model: bytes = b"") -> None:
        """Turn this site's rows of Z, (rows, classes), into its labels and confidences (lines 15 and 16)."""
        self.keep_to(variant=reading.variant, prior=reading.prior)
        counts = reading.counts.numpy()
        if counts.shape != (len(classes),) or not are_counts(counts):
            raise ProtocolError("the class counts do not fit the classes")
        setting = setting_for(reading.variant, None, None)
        known = label_numbers(self.site.table.y, classes)
        found = at_site(Z, known, setting, counts, reading.prior)
        memory = self.memory
        later = self.xclp.confidence == "code"
        codes = Array.of(keep_known(found.codes, known) if later else found.codes)
        again = memory.reading == reading and memory.labels == codes  # asked twice: what came since stays
        if not (later and again):
            memory.confidences = None if later else Array.of(found.confidence)
        memory.labels = codes
        memory.classes = classes
        memory.scores = Array.of(found.scores)
        memory.reading = reading
        memory.stamp = reading.stamp(model)

    @answers(CountLabels)
    def count_labels(self, ask: CountLabels) -> Contribution:
        """Add how many rows got each label to the secure sum, and the level of the surest of them."""
        self.keep_to(confidence="code")
        self.check_round(ask.round)
        memory = self.memory
        if memory.scores is None or memory.stamp != ask.stamp or ask.classes != memory.classes:
            raise ProtocolError("labels were to be counted that this site did not read, or read otherwise")
        self.check_group(ask.group)
        level, sizes = self._own_labels(memory.scores)
        key = fingerprint(b"levels", self.joining.memory.private, str(ask.ticket.round).encode())
        memory.counted = True
        return self.contribute(ask, np.concatenate([write_levels([(level, GRID)], key), sizes.astype(np.uint64)]))

    @answers(Weigh)
    def weigh(self, ask: Weigh) -> ResultKept:
        """Scale this site's confidences as the reference code does."""
        self.keep_to(confidence="code")
        self.check_round(ask.round)
        memory = self.memory
        if memory.scores is None or not memory.counted:
            raise ProtocolError("joint numbers came of labels that this site did not count")
        level, own = self._own_labels(memory.scores)
        sizes = ask.sizes.numpy()
        if sizes.shape != own.shape or not are_counts(sizes):
            raise ProtocolError(f"the joint numbers of labels are not {len(own)} counts")
        if not (sizes >= own).all() or ask.level < level:
            raise InputError("the joint numbers of labels are smaller than this site's own")
        known = label_numbers(self.site.table.y, memory.classes)
        memory.confidences = Array.of(code_confidence(memory.scores.numpy(), ask.level, sizes, known))
        return ResultKept()

    def _own_labels(self, scores: Array) -> tuple[int, Floats]:
        """Return the level of this site's largest confidence, and how many of its rows have each label."""
        classes = self.memory.classes
        labels, confidence = labels_and_confidence(scores.numpy())
        kept = keep_known(labels, label_numbers(self.site.table.y, classes))
        return confidence_level(confidence), one_hot(kept, len(classes)).sum(axis=0)

    def result(self) -> dict[str, Any]:
        """Return the site's labels and confidences, in the agreed names; "" where no label reached a row."""
        memory = self.memory
        if memory.labels is None or memory.scores is None:
            return {}
        names = [*memory.classes, ""]
        sure = memory.confidences
        return {  # plain lists: a site keeps its result as JSON
            "labels": [names[code] for code in memory.labels.numpy().tolist()],
            **({} if sure is None else {"confidences": sure.numpy().tolist()}),
            "scores": memory.scores.numpy().tolist(),
        }
