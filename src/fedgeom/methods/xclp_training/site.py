"""The site's side of training with pseudo-labels: embed, take part in the propagation, train on what came of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Key, Message, Question
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.iterative.effort import Effort
from fedgeom.methods.iterative.messages import Leaves, RoundNumber
from fedgeom.methods.iterative.site import LAST, TrainingMemory, TrainingSite, generator, set_aside
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.training import Figures
from fedgeom.methods.iterative.tree import State, Tree, from_wire
from fedgeom.methods.xclp.anchors import Anchors, AnchorsMemory, CountCells, SumAnchorCells, SumCodes, SumUnitRows
from fedgeom.methods.xclp.core import check_sparse_labels, label_numbers, own_label_counts, without_labels
from fedgeom.methods.xclp.distances import RowComparison, RowComparisonMemory
from fedgeom.methods.xclp.labels import LabelReader, LabelsMemory
from fedgeom.methods.xclp.messages import CountClasses, CountLabels, Spread
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.methods.xclp.site import SpreadMemory, SpreadPart
from fedgeom.methods.xclp_training.pseudo import Pseudo, capped
from fedgeom.methods.xclp_training.settings import XclpTrainingSettings
from fedgeom.protocols.model_delivery import read_model
from fedgeom.protocols.row_sums import RowSums, RowSumsMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HalvedEffort(Effort):
    """An effort whose steps look at as many labelled rows as pseudo-labelled ones.

    |B_L| = min(half a batch, labelled rows), |B_U| = |B_L|. An epoch is a pass over the pseudo-labelled rows; the
    labelled ones come round as often as they are needed. Where all rows are of one kind, where batches hold all rows,
    or where so small a step is against the site's policy, batches are those of any training.
    """

    labelled: npt.NDArray[np.bool_] | None = None
    """(rows,): which rows have a label of their own."""

    def _halves(self, rows: int) -> tuple[Rows, Rows, int] | None:
        """Return the labelled rows, the others, and how many of each are in a step; None where nothing is halved."""
        mask = self.labelled
        batch = self.batch_size
        usual = mask is None or batch is None or self.only is not None or self.sampling != "shuffled"
        if usual or mask is None or batch is None or len(mask) != rows:  # a part of the rows is a task of its own
            return None
        known = np.flatnonzero(mask)
        others = np.flatnonzero(~mask)
        half = min(max(batch // 2, 1), len(known), len(others))
        return None if not half or 2 * half < self.least else (known, others, half)

    def per_epoch(self, rows: int) -> int:
        """Return how many steps make a pass over the pseudo-labelled rows; the last one takes what is left over."""
        halves = self._halves(rows)
        return super().per_epoch(rows) if halves is None else max(len(halves[1]) // halves[2], 1)

    def batches(self, rows: int, rng: np.random.Generator, labels: Rows | None = None) -> Iterator[Rows]:
        """Yield the rows of each step, labelled ones first."""
        halves = self._halves(rows)
        if halves is None:
            yield from super().batches(rows, rng, labels)
            return
        known, others, half = halves
        per_epoch = self.per_epoch(rows)
        waiting = np.empty(0, np.int64)
        for at in range(self.count(rows)):
            place = at % per_epoch
            if place == 0:
                order = rng.permutation(others)
            end = len(others) if place == per_epoch - 1 else (place + 1) * half
            if len(waiting) < half:
                waiting = np.concatenate([waiting, rng.permutation(known)])
            first = waiting[:half]
            waiting = waiting[half:]
            yield np.concatenate([first, order[place * half : end]])


class Embedded(Message, kind="semi.embedded", harmless=True):
    """A site has the model and knows its rows' features."""

    reveals: ClassVar[str] = "nothing: a receipt"


class Embed(Question, kind="semi.embed", answer=Embedded):
    """Give a site the model of a round, whose features of its rows are compared (line 6 of Algorithm 2)."""

    round: RoundNumber
    given: Leaves
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`Agreed.hash`)."""

    def stamp(self) -> bytes:
        """Hash all that features follow from: sites that were told otherwise are in no sum with the others."""
        return fingerprint(b"features", str(self.round).encode(), hash_given(self.given), self.agreed)


def hash_given(given: Leaves) -> bytes:
    """Hash a model as it travels."""
    return fingerprint(b"given", msgspec.msgpack.encode(given, order="sorted"))


SPREADING = (SumUnitRows, CountCells, SumAnchorCells, SumCodes, CountClasses, Spread, CountLabels)
"""The sums of a propagation."""


class CurrentPropagation(msgspec.Struct, kw_only=True):
    """The propagation that is under way, or was the last: its round and its model."""

    round: int = -1
    stamp: bytes = b""
    """A hash of all that features follow from (`Embed.stamp`)."""
    given: Leaves = {}


class XclpTrainingMemory(TrainingMemory, kw_only=True):
    """What a site remembers, part by part."""

    under_way: CurrentPropagation = msgspec.field(default_factory=CurrentPropagation)
    comparing: RowComparisonMemory = msgspec.field(default_factory=RowComparisonMemory)
    row_sums: RowSumsMemory = msgspec.field(default_factory=RowSumsMemory)
    spreading: SpreadMemory = msgspec.field(default_factory=SpreadMemory)
    anchors: AnchorsMemory = msgspec.field(default_factory=AnchorsMemory)
    labels: LabelsMemory = msgspec.field(default_factory=LabelsMemory)
    codes: Array | None = None
    """(rows,), i8: pseudo-labels that the site found by itself, -1 where there is none."""
    weights: Array | None = None
    """(rows,), f8: how much they count."""


class XclpTrainingSite(TrainingSite):
    """Answers all questions of `XCLPTraining`."""

    memory_type: ClassVar[type[Memory]] = XclpTrainingMemory
    memory: XclpTrainingMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (RowComparison, RowSums, SpreadPart, Anchors, LabelReader)
    labels: LabelReader

    def check(self, settings: Any) -> None:
        """Refuse data that the method cannot use, naming the site."""
        check_sparse_labels(self.data, settings.classes, self.policy)

    def expected_participants(self, question: SumQuestion) -> Collection[str] | None:
        """Return the sites that are drawn for a round: they spread labels, and they train."""
        if not isinstance(question, SPREADING):
            return super().expected_participants(question)
        return self.semi.drawn(tuple(self.joining.memory.cohort), self.seed, self.spreading_round)

    @property
    def semi(self) -> XclpTrainingSettings:
        """The settings on which the site joined."""
        settings: XclpTrainingSettings = self.settings
        return settings

    # What the parts of XCLP ask of a site.

    @property
    def xclp(self) -> XclpSettings:
        """How labels spread."""
        found = self.semi.xclp
        if found is None:
            raise ProtocolError("by the terms of this run no labels spread from site to site")
        return found

    @property
    def spreading_round(self) -> int:
        """The round in which labels spread."""
        if self.memory.under_way.round < 0:
            raise ProtocolError("labels were to spread before the site was given a model")
        return self.memory.under_way.round

    @property
    def features_hash(self) -> bytes:
        """A hash of what features follow from."""
        return self.memory.under_way.stamp

    @property
    def rows(self) -> Floats:
        """The features of the site's rows, (rows, d), f8, by the model of this round."""
        key = "features", self.memory.under_way.stamp
        if key not in self.scratch:
            for old in [one for one in self.scratch if isinstance(one, tuple) and one[0] == "features"]:
                del self.scratch[old]
            self.scratch[key] = self._features(*self._model(self.memory.under_way.given))
        found: Floats = self.scratch[key]
        return found

    def keep_anchors(self, data: bytes) -> XclpModel:
        """Read the anchors and their scores; nothing of them is kept but the labels that follow."""
        model = read_model(XclpModel, data)
        arrays, _ = model.tensors()
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ProtocolError("the anchors or their scores that came are not all finite")
        return model

    @cached_property
    def table(self) -> SiteData:
        """The site's rows; those whose label was found too rare, or that watch the loss, have none."""
        y = without_labels(self.data.y, self.memory.names.rare)
        return replace(self.data, y=np.where(self.rows_aside(), "", y))

    def label_counts(self) -> dict[str, int]:
        """Return how many rows have each of the site's own label names, unlabelled rows aside."""
        return own_label_counts(self.data.y)

    # Embedding.

    @answers(Embed)
    def embed(self, ask: Embed) -> Embedded:
        """Take the model of a round; what is left of the last propagation is forgotten."""
        rule = self.semi
        memory = self.memory
        joined = self.joining.memory
        self.agreement.check_agreed(ask.agreed)
        if not rule.spreads_in(ask.round):
            raise ProtocolError(f"by the terms no labels spread in round {ask.round + 1}")
        if self.name not in rule.drawn(tuple(joined.cohort), self.seed, ask.round):
            raise ProtocolError(f"this site is not drawn for round {ask.round + 1}")
        last = max([memory.under_way.round, *memory.trained])
        if ask.round < last:
            raise ProtocolError(f"round {ask.round + 1} is over")
        if ask.round == memory.under_way.round:  # the same question again: another one is refused
            return Embedded()
        self._model(ask.given)  # refuses what does not fit
        memory.under_way = CurrentPropagation(round=ask.round, stamp=ask.stamp(), given=ask.given)
        memory.comparing, memory.row_sums, memory.spreading = (
            RowComparisonMemory(),
            RowSumsMemory(),
            SpreadMemory(),
        )
        memory.anchors = AnchorsMemory()
        memory.labels = LabelsMemory()
        return Embedded()

    def _model(self, given: Leaves) -> tuple[Task, Tree]:
        """Return a task of all rows, and the whole model of what was given."""
        task = self._all_rows()
        return task, self.rule.whole(task, self.given_state(given, task)["model"], from_wire(self.memory.own))

    def _all_rows(self) -> Task:
        rule = self.semi
        classes = self.memory.agreement.classes
        learner = self.rule.build_learner()
        X = self.features(self.agreement.scaled(learner.dtype))
        first = learner.start(X.shape[1], len(classes), np.random.default_rng([self.seed % 2**63, 0]))
        y = np.zeros(len(X), np.int64)
        rng = generator(self.seed, LAST, self.name)
        return Task(learner, X, y, rule.effort(), rng, len(classes), Tree(first), rule.loss_of_rows)

    def _features(self, task: Task, model: Tree) -> Floats:
        found = np.asarray(task.features(model), np.float64)
        if not np.isfinite(found).all():  # it depends on the rows, so the site leaves
            raise InputError("the model makes features of this site's rows that are no finite numbers")
        return found

    # Training.

    def known(self) -> Ints:
        """Return the class of each row that has a label, -1 elsewhere, (rows,)."""
        y = without_labels(self.data.y, self.memory.names.rare)
        return label_numbers(y, self.memory.agreement.classes)

    def rows_aside(self) -> npt.NDArray[np.bool_]:
        """Mark the rows that watch the loss: some of those with a label, whose labels then spread nowhere."""
        labelled = np.flatnonzero(without_labels(self.data.y, self.memory.names.rare) != "")
        aside = np.zeros(len(self.data), bool)
        aside[labelled[set_aside(len(labelled), self.rule.validation_fraction, self.seed, self.name)]] = True
        return aside

    def train(self, asked: bytes, round: int, given: Leaves, rate: float) -> tuple[State, float, Figures]:
        """Label the rows, where the site does that by itself, and train."""
        under_way = self.memory.under_way
        rule = self.semi
        memory = self.memory
        if under_way.round == round and hash_given(under_way.given) != hash_given(given):
            raise ProtocolError("the model to train is not the one whose features were compared in this round")
        if rule.labels_in(round) and not rule.source.jointly and not (rule.source.lasting and memory.codes):
            task, model = self._model(given)
            found = rule.source.at_site(task, model, np.where(self.rows_aside(), -1, self.known()))
            if found is not None:
                memory.codes = Array.of(found.codes)
                memory.weights = Array.of(found.weights)
        return super().train(asked, round, given, rate)

    def pseudo(self) -> Pseudo:
        """Return the pseudo-labels that the site has."""
        memory = self.memory
        blank = Pseudo(np.full(len(self.data), -1), np.zeros(len(self.data)))
        if not self.semi.source.jointly:
            codes = memory.codes
            weights = memory.weights
        else:
            codes = memory.labels.labels
            weights = memory.labels.confidences
        if codes is None or weights is None:
            return blank
        labels = codes.numpy()
        if len(labels) != len(self.data):
            raise InputError(
                f"the pseudo-labels of this run are of {len(labels)} rows, and the site has {len(self.data)} now: the "
                "table changed while it was used"
            )
        return Pseudo(labels, capped(weights.numpy()))

    def task(self, round: int, rate: float, rows: npt.NDArray[np.bool_] | None = None) -> Task:
        """Return the rows with a label, which count 1, and after the warm start those with a pseudo-label."""
        rule = self.semi
        task = self._all_rows()
        known = self.known()
        inside = np.ones(len(known), bool) if rows is None else rows
        found = self.pseudo()
        own = known >= 0
        likely = (found.codes >= 0) & ~own & (found.weights > 0) & (round >= rule.first_spread)
        use = inside & (own | likely)
        weights = np.where(own, 1.0, np.where(likely, found.weights, 0.0))[use]
        effort = rule.effort(rate, 1 if round == LAST else self.policy.min_batch_size)
        if rule.half_labelled:
            effort = HalvedEffort(**vars(effort) | {"labelled": own[use]})
        return replace(
            task,
            X=task.X[use],
            y=np.where(own, known, found.codes)[use],
            effort=effort,
            rng=generator(self.seed, round, self.name),
            round=round,
            row_weights=weights if likely.any() else None,
        )
