"""The site's half of testing: count what models say of the rows that were kept aside."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.errors import ProtocolError
from fedgeom.federation.holdout import by_group
from fedgeom.federation.messages import Array
from fedgeom.federation.model import Model
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.evaluation.baseline import train_baseline
from fedgeom.protocols.evaluation.counts import (
    MODELS,
    Counts,
    Tally,
    class_numbers,
    counts_length,
    private_counts,
    tally,
)
from fedgeom.protocols.evaluation.messages import SumEvaluation


class EvaluationMemory(msgspec.Struct, kw_only=True):
    """What a site remembers: what it counted, which it sends again when it is asked again."""

    counts: Array | None = None
    """(numbers,), i8 (`Counts.flat`)."""
    classes: int = 0


class Evaluating(Part[EvaluationMemory]):
    """Counts how often models are right on the rows kept aside."""

    name: ClassVar[str] = "evaluation"

    @answers(SumEvaluation)
    def count(self, ask: SumEvaluation) -> Any:
        """Add this site's counts to the secure sum."""
        site, memory = self.site, self.memory
        file = site.model_file()
        if not file:
            raise ProtocolError("the model was to be tested before the site had one")
        own = site.handed.read(file)  # type: ignore[attr-defined]
        if own.joint_classes != ask.classes:
            raise ProtocolError(f"a model of {ask.classes} classes was to be tested; the site's has others")
        site.check_size(counts_length(ask.classes, grouped=self._grouped))
        if memory.counts is None:
            memory.classes, memory.counts = ask.classes, Array.of(self._counts(own).flat())
        if privacy_of(site.settings) is not None:  # type: ignore[attr-defined]
            counts = Counts.read(memory.counts.numpy(), ask.classes)
            return site.contribute_noisy(ask, private_counts(counts), sensitivity=1.0, apart=True)  # type: ignore[attr-defined]
        return site.contribute(ask, memory.counts.numpy())  # type: ignore[attr-defined]

    def _counts(self, own: Model) -> Counts:
        site: Any = self.site
        file = site.joint_file()
        joint = site.handed.read(file) if file else None
        train, aside = self._labelled(site.data), self._labelled(site.aside)
        return count_rows(train, aside, own, joint, site.class_numbers(own), grouped=self._grouped)

    @property
    def _grouped(self) -> bool:
        """Whether the terms keep rows aside by group, so that intervals heed groups."""
        return by_group(self.site.settings)  # type: ignore[attr-defined]

    def _labelled(self, part: SiteData) -> SiteData:
        """Return the rows of a part that have a label, in the site's words, those of rare classes aside."""
        read: SiteData = self.site.settings.normalise_labels(part)  # type: ignore[attr-defined]
        names = getattr(self.site.memory, "names", None)
        known = read.has_label & ~np.isin(read.y.astype(str), names.rare if names is not None else ())
        return read.take(known)

    def result(self) -> dict[str, Any]:
        """Return, for the site's own result, what it counted."""
        memory = self.memory
        if memory.counts is None:
            return {}
        return {"evaluation": {"classes": memory.classes, "counts": memory.counts.numpy().tolist()}}


def count_rows(
    train: SiteData,
    aside: SiteData,
    own: Model,
    joint: Model | None,
    numbers: dict[str, int],
    *,
    grouped: bool = False,
) -> Counts:
    """Count what models say of a site's rows: its own, the joint one, and one trained on the site's rows alone.

    ``train`` and ``aside`` have labels in the site's words only; ``numbers`` gives the joint class of each.
    """
    classes, words = own.joint_classes, aside.y.astype(str)
    here = class_numbers(train.y.astype(str), numbers, classes)
    trained = np.bincount(here, minlength=classes + 1).astype(np.int64)
    models = {name: Tally.blank(classes, grouped=grouped) for name in MODELS}
    groups = aside.groups if grouped else None
    if len(aside):
        true = class_numbers(words, numbers, classes)
        models["own"] = _said_by(own, aside, words, true, groups)
        if joint is not None:
            models["joint"] = _said_by(joint, aside, words, true, groups)
        if len(train):
            models["local"] = _said_alone(train, aside, words, true, numbers, classes, groups)
    return Counts(int(len(aside) > 0), trained, models)


def _said_by(
    model: Model, aside: SiteData, words: npt.NDArray[np.str_], true: Ints, groups: npt.NDArray[Any] | None
) -> Tally:
    classes, said = model.joint_classes, model.predict(aside.X).astype(str)
    given = class_numbers(said, model.answer_numbers(), classes)
    chances: Floats | None = None
    if classes == 2 == len(model.classes_) and hasattr(model, "predict_proba"):
        chances = model.predict_proba(aside.X)
    return tally(said, words, given, true, classes, chances, groups)


def _said_alone(
    train: SiteData,
    aside: SiteData,
    words: npt.NDArray[np.str_],
    true: Ints,
    numbers: dict[str, int],
    classes: int,
    groups: npt.NDArray[Any] | None,
) -> Tally:
    alone = train_baseline(train.X, train.y.astype(str))
    chances, said = alone.predict_proba(aside.X), alone.predict(aside.X)
    by_class = np.zeros((len(aside), classes + 1))
    np.add.at(by_class.T, class_numbers(np.array(alone.names, np.str_), numbers, classes), chances.T)
    given = class_numbers(said, numbers, classes)
    return tally(said, words, given, true, classes, by_class[:, :2] if classes == 2 else None, groups)
