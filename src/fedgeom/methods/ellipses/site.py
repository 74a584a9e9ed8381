"""Ellipses where the data is: counts, sums and products of each class, in the slots of a hidden block."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, check_ball, check_known_labels, check_table, fault
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.model import Model
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.ellipses import core
from fedgeom.methods.ellipses.core import EllipseLayout, check_width, vectors, write_classes
from fedgeom.methods.ellipses.matching import settle
from fedgeom.methods.ellipses.messages import (
    EllipseModelTaken,
    HowMany,
    SumCovers,
    SumEllipseScales,
    SumGaussians,
    TakeEllipseModel,
    TakeTree,
)
from fedgeom.methods.ellipses.model import EllipseModel
from fedgeom.methods.ellipses.settings import EllipseSettings
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import MOST_CLASSES
from fedgeom.methods.hulls.matching import MatchEvidence, check_grouping
from fedgeom.protocols.fixed_point import write_levels
from fedgeom.protocols.model_delivery import DeliveredModel
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumResult
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite


class EllipseMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys: its slots, and in the end the model."""

    scales: bytes = b""
    """The joint scale, (2, columns), f8, where the terms have one."""
    slots: dict[str, int] = {}
    """For each of the site's words that take part, which slot of its block stands for it."""
    classes: int = 0
    groups: dict[str, int] = {}
    """For each of these words the joint class; -1: it stands for several."""
    evidence: dict[str, MatchEvidence] = {}
    """For each of these words how near its class and the next best one are."""
    covers: dict[str, list[int]] = {}
    """For each of these words the joint classes that it stands for, where words may be at different depth."""
    tree: tuple[tuple[int, ...], ...] = ()
    names: NamesMemory = msgspec.field(default_factory=NamesMemory)


class EllipseSite(SummingSite[EllipseMemory]):
    """Answers the questions of `Ellipses`."""

    memory_type: ClassVar[type[Memory]] = EllipseMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)
    takes_models: ClassVar[bool] = False
    handed: DeliveredModel[EllipseModel]
    names: LabelNames

    def check(self, settings: EllipseSettings) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults = Collector(self.name)
        labels = [str(name) for name in self.data.classes.tolist()]
        with faults.take():
            check_table(self.data, min_rows=1)
        if settings.shared:
            with faults.take():
                check_known_labels(self.name, labels, settings.classes)
        floor = self._floor(settings)
        counts = {name: int((self.data.y.astype(str) == name).sum()) for name in labels}
        part = [name for name, count in counts.items() if count >= floor]
        if not part:
            shown = f"has no class of {floor} rows or more; smaller ones stay at home"
            remedy = (
                "merge classes, or let less stay at home (min_rows in the settings, min_rows_per_class in policy)"
            )
            faults.found.append(fault(shown, remedy, site=self.name, topic="classes"))
        most = settings.given_classes
        if most is not None and len(part) > most:
            shown = f"has {len(part)} classes, {', '.join(part[:8])}, but n_classes={most}"
            faults.found.append(fault(shown, site=self.name, topic="classes"))
        if settings.c is not None:
            with faults.take():
                check_ball(self.data, settings.c, 'for a table of ordinary columns say space="euclidean"')
        with faults.take():
            columns = self.data.shape[1]
            limit = min(self.policy.max_message_bytes, LARGEST_MESSAGE)
            check_width(
                columns, EllipseLayout(columns, 2, most or max(2, len(part)), settings.n_components), limit
            )
        faults.raise_all()

    def _floor(self, settings: EllipseSettings) -> int:
        """Return how many rows a class must have here to leave home in any form; with privacy noise hides the few."""
        if privacy_of(settings) is not None:
            return 1
        return max(settings.min_rows, self.policy.min_rows_per_class)

    def _rows(self) -> SiteData:
        """Return the rows that take part: all but those whose words are too rare, here or at all sites together."""
        if self.settings.shared and not self.names.agreed:  # rows of rare words would take part before
            raise ProtocolError("the sites agreed on no words")
        y = self.data.y.astype(str)
        rare = set(self.memory.names.rare)
        floor = self._floor(self.settings)
        few = {word for word in np.unique(y).tolist() if (y == word).sum() < floor}
        self.memory.names.rare = tuple(sorted(few | rare))
        left = self.data.take(~np.isin(y, self.memory.names.rare))
        if not len(left):
            raise InputError("all labels of the site are too rare to take part")
        return left

    @answers(SumEllipseScales)
    def scale(self, ask: SumEllipseScales) -> Contribution:
        """Add this site's column means and deviations to the secure sum."""
        self.check_size(joint_map.scale_length(self.data.shape[1]))
        return self.contribute(ask, joint_map.site_scale(self._rows().X))

    def _take_scales(self, result: SumResult | None) -> None:
        """Keep the joint scale that follows from the sum, if the terms have one; it comes with one question."""
        columns = self.data.shape[1]
        memory = self.memory
        if not self.settings.joint_scale:
            if result is not None:
                raise ProtocolError("a joint scale came where the terms have none")
            return
        if result is None:
            if not memory.scales:
                raise ProtocolError("the joint scale did not come with the first question that needs it")
            return
        if result.total.shape != (joint_map.scale_length(columns),):
            raise ProtocolError("the joint scale does not fit the columns")
        self.sums.check_result(result, SumEllipseScales)
        scales = joint_map.joint_scales(result.reals(SumEllipseScales), columns)
        if scales is None or (memory.scales and memory.scales != scales.tobytes()):
            raise ProtocolError("a column varies too little for a joint scale, or another one came before")
        memory.scales = scales.tobytes()

    def _scales(self, rows: SiteData) -> Floats | None:
        """Return the means and deviations by which the site's rows are standardised, (2, columns); None: by none."""
        if self.settings.site_scale:
            return joint_map.column_scales(rows.X)
        return np.frombuffer(self.memory.scales).reshape(2, -1) if self.settings.joint_scale else None

    @answers(HowMany)
    def how_many(self, ask: HowMany) -> Contribution:
        """Say, masked, how many classes there are here."""
        self._take_scales(ask.scales)
        words = np.unique(self._rows().y.astype(str))
        key = fingerprint(b"levels", self.joining.memory.private, str(ask.ticket.round).encode())
        return self.contribute(ask, write_levels([(min(len(words), MOST_CLASSES), MOST_CLASSES)], key))

    @answers(SumGaussians)
    def gaussians(self, ask: SumGaussians) -> Contribution:
        """Add the counts, sums and products of this site's classes, in the slots of its hidden block."""
        settings: EllipseSettings = self.settings
        if settings.given_classes is not None:
            self.joining.keep_to_terms(n_classes=ask.classes)
        if settings.shared and ask.classes != len(self.names.agreed):
            raise ProtocolError("Gaussians of other classes are asked for than the sites agreed on")
        if settings.asks_how_many and ask.classes > MOST_CLASSES:
            raise ProtocolError(f"{ask.classes} classes are asked for; sites agree on {MOST_CLASSES} at most")
        layout = self._layout(ask.classes)
        self.check_size(layout.length if privacy_of(settings) is None else core.bounds(layout)["numbers"])
        self._take_scales(ask.scales)
        rows = self._rows()
        V = vectors(rows.X, settings, self._scales(rows))
        y = rows.y.astype(str)
        self._choose_slots(np.unique(y).tolist(), ask.classes)
        first = ask.classes * self.joining.block if settings.apart else 0
        places = {word: (first + slot) * layout.components for word, slot in self.memory.slots.items()}
        if privacy_of(settings) is not None:
            whole = core.bounded_gaussians(V, y, places, layout, settings)
            most = core.bounds(layout)
            return self.contribute_noisy(ask, whole, sensitivity=most["sensitivity"])
        full = max(settings.rows_per_column, self.policy.min_rows_per_feature) * layout.columns
        return self.contribute(ask, write_classes(V, y, places, layout, settings, full))

    def _layout(self, classes: int) -> EllipseLayout:
        blocks = len(self.joining.memory.order) if self.settings.apart else 1
        return EllipseLayout(self.data.shape[1], blocks, classes, self.settings.n_components)

    def _choose_slots(self, words: list[str], classes: int) -> None:
        """Give the site's words slots: those of the agreed words, or shuffled, so that their order tells nothing."""
        if self.settings.shared:
            self.memory.slots = {word: self.names.agreed.index(word) for word in words}
        else:
            if len(words) > classes:
                raise InputError(f"{len(words)} classes at the site, {classes} in the question")
            key = self.joining.memory.private
            order = sorted(range(classes), key=lambda slot: fingerprint(b"slot", key, str(slot).encode()))
            self.memory.slots = dict(zip(words, order, strict=False))
        self.memory.classes = classes

    @answers(TakeEllipseModel)
    def learn(self, ask: TakeEllipseModel) -> EllipseModelTaken:
        """Keep the model, and find out which joint class each of the site's words means."""
        memory = self.memory
        if not memory.classes:
            raise ProtocolError("a result came before the site sent its Gaussians")
        if self.settings.shared:
            self._learn_words(ask)
            return EllipseModelTaken()
        wanted = memory.classes * len(self.joining.memory.order)
        # Whether an answer is refused must not depend on the hidden order, or refusals would tell it.
        check_grouping(ask.groups, ask.evidence, wanted, memory.classes)
        if self.handed.read(ask.model).classes != memory.classes:
            raise ProtocolError("the model has another number of classes than there are slots")
        self.handed.keep(ask.model)
        first = memory.classes * self.joining.block
        memory.groups = {word: ask.groups[first + slot] for word, slot in memory.slots.items()}
        memory.evidence = {word: ask.evidence[first + slot] for word, slot in memory.slots.items()}
        return EllipseModelTaken()

    def _learn_words(self, ask: TakeEllipseModel) -> None:
        """Keep a model of the agreed words; some may be lost with the sites that alone had them."""
        if ask.groups or ask.evidence:
            raise ProtocolError("a result that matches names came where the terms have shared ones")
        words = self.handed.read(ask.model).names
        memory = self.memory
        if len(words) < 2 or words != tuple(word for word in self.names.agreed if word in words):
            raise ProtocolError("the model has other classes than the words that the sites agreed on")
        self.handed.keep(ask.model)
        memory.groups = {word: words.index(word) if word in words else -1 for word in memory.slots}

    @answers(SumCovers)
    def tick(self, ask: SumCovers) -> Contribution:
        """Settle what the site's words cover, from its own rows and the joint model, and tick it in its block."""
        memory = self.memory
        joint = self.handed.model
        if joint is None:
            raise ProtocolError("what words cover was asked before the site had the model")
        rows = self._rows()
        number = memory.classes
        scales = self._scales(rows) if self.settings.site_scale else None
        model = joint.for_site({"names": {}, "scales": scales})
        called = model.class_scores(rows.X).argmax(axis=1)
        known = {word: group for word, group in memory.groups.items() if group >= 0}
        memory.covers = settle(called, list(memory.slots), rows.y.astype(str).tolist(), known, number)
        ticks = np.zeros((len(self.joining.memory.order), number, number), np.int64)
        self.check_size(ticks.size)
        for word, groups in memory.covers.items():
            ticks[self.joining.block, memory.slots[word], groups] = 1
        return self.contribute(ask, ticks.ravel())

    @answers(TakeTree)
    def take_tree(self, ask: TakeTree) -> EllipseModelTaken:
        """Keep the joint tree of classes."""
        number = self.memory.classes
        if not self.settings.mixed or not number or not self.memory.handed.model:
            raise ProtocolError("a tree came where the terms have none, or before the model")
        if len(ask.tree) > number or not all(
            1 < len(one) <= number and set(one) <= set(range(number)) for one in ask.tree
        ):
            raise ProtocolError("the tree that came is none of the joint classes")
        self.memory.tree = ask.tree
        return EllipseModelTaken()

    def result(self) -> dict[str, Any]:
        """Return which joint class or classes each of the site's words means, and how well the model fits its rows."""
        joint = self.handed.model
        memory = self.memory
        if joint is None:
            return {}
        names = {word: group for word, group in memory.groups.items() if group >= 0}
        covers = memory.covers if self.settings.mixed else {word: [group] for word, group in names.items()}
        found: dict[str, Any] = {"names": names, "unknown": sorted(set(memory.groups) - set(covers))}
        if not self.settings.shared:
            found["evidence"] = {word: memory.evidence[word].told() for word in names}
        if self.settings.mixed:
            found |= {"covers": covers, "tree": [list(one) for one in memory.tree]}
        rows = self._rows()
        if self.settings.site_scale:
            found["scales"] = joint_map.column_scales(rows.X).tolist()
        right = np.mean(joint.for_site(found).predict(self.data.X) == self.data.y.astype(str))
        return found | {"fits": float(right), "rows": len(self.data), **self.names.left_out()}

    def model_file(self) -> bytes:
        """Return the joint model in the site's own words, with the scale of its columns."""
        joint = self.handed.model
        return b"" if joint is None else joint.for_site(self.result()).to_bytes()

    def class_numbers(self, model: Model) -> dict[str, int]:
        """Return the joint class of each of the site's words that stands for one."""
        return model.answer_numbers()
