"""One secure sum of per-class moments: the simple rival of the hulls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np

from fedgeom.data.checks import check_table
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError, InputError, ProtocolError
from fedgeom.federation import modelfile
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Message, Names, Question
from fedgeom.federation.method import Method
from fedgeom.federation.site import Memory, Site, answers
from fedgeom.geometry.gaussians.class_sums import ClassSums, class_moments, length
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.protocols.cohort import SecureMemory, check_columns, join
from fedgeom.protocols.fixed_point import from_fixed, to_fixed
from fedgeom.protocols.secure_sum import MaskedVector, Ticket, secure_sum
from fedgeom.protocols.vocabulary import NamingSite, agree_on_names

FRACTION_BITS = 24


class GiveMoments(Question, frozen=True, kw_only=True):
    """Ask for a site's masked class moments."""

    kind: ClassVar[str] = "moments.give"
    answer: ClassVar[type[Message]] = MaskedVector
    answer_reveals: ClassVar[str] = "masked; with all others: counts, means and covariances of each class, pooled"
    ticket: Ticket
    classes: Names
    curvature: Annotated[float, msgspec.Meta(gt=0)] | None


class Received(Message, frozen=True, kw_only=True):
    """A site has the model."""

    kind: ClassVar[str] = "moments.received"
    reveals: ClassVar[str] = "nothing: a receipt"


class Receive(Question, frozen=True, kw_only=True):
    """Give the sites the model."""

    kind: ClassVar[str] = "moments.receive"
    answer: ClassVar[type[Message]] = Received
    model: bytes


class MomentsMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys: in the end the model."""

    model: bytes = b""


class MomentsSite(NamingSite[MomentsMemory]):
    """Answers the questions of `Moments`."""

    memory_type: ClassVar[type[Memory]] = MomentsMemory

    def check(self, terms: Mapping[str, Any]) -> None:
        """Refuse data that the method cannot use, naming the site."""
        names, me = check_table(self.data, least_points=terms["least_points"]), self.badge.name
        wanted = terms["classes"]
        unknown = sorted(set(names) - set(wanted.split("\n"))) if wanted else []
        if unknown:
            raise InputError(f"site {me!r}: labels outside the agreed classes: {', '.join(unknown[:8])}")
        if terms["space"] == "ball":
            from fedgeom.geometry.hyperbolic.poincare import check_points

            try:
                check_points(self.data.X, c=float(terms["curvature"]), name="X")
            except InputError as error:
                raise InputError(f"site {me!r}: {error}") from error

    @classmethod
    def sums(cls, terms: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the one secure sum of this method: no other is answered."""
        return (GiveMoments.kind,)

    @answers(GiveMoments)
    def give(self, ask: GiveMoments) -> MaskedVector:
        """Add this site's moments to the secure sum."""
        flat = self.memory.terms.get("space") != "ball"
        if flat != (ask.curvature is None):
            raise ProtocolError("the moments are asked for in another space than the one the site joined on")
        self.keep_to_terms(classes="\n".join(ask.classes), **({} if flat else {"curvature": ask.curvature}))
        self.admit(ask.ticket)
        values = class_moments(self.data.X, self.data.y, ask.classes, c=ask.curvature)
        sites = len(ask.ticket.participants)
        return self.mask(ask.ticket, to_fixed(values, fraction_bits=FRACTION_BITS, sites=sites))

    @answers(Receive)
    def receive(self, ask: Receive) -> Received:
        """Keep the model; it speaks the agreed names."""
        try:
            with np.errstate(all="ignore"):
                usable = bool(np.isfinite(self._model(ask.model).decision_function(self.data.X)).all())
        except (FedgeomError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise ProtocolError("the model that came cannot be used") from error
        if not usable:
            raise ProtocolError("the model that came gives no finite scores")
        self.memory.model = ask.model
        return Received()

    def result(self) -> dict[str, Any]:
        """Return how well the model fits the site's rows."""
        if not self.memory.model:
            return {}
        right = np.mean(self._model(self.memory.model).predict(self.data.X) == self.data.y.astype(str))
        return {"fits": float(right), "rows": len(self.data)}

    @staticmethod
    def _model(data: bytes) -> MomentsModel:
        _, arrays, facts = modelfile.from_bytes(data)
        return MomentsModel.from_tensors(arrays, facts)


@dataclass(frozen=True, kw_only=True)
class Moments(Method):
    """Sites add up per-class counts, sums and squares; a Gaussian or a centroid per class classifies.

    Needs the same label names everywhere (see `Hulls` when sites use their own). Works in any dimension.
    """

    name: ClassVar[str] = "moments"
    site: ClassVar[type[Site[Any]]] = MomentsSite

    rule: Literal["gaussian", "centroid"] = "gaussian"
    """"gaussian": a Gaussian per class in the tangent space at the origin; "centroid": the nearest centroid."""
    space: Literal["ball", "euclidean"] = "ball"
    """"ball": rows are points of the Poincaré ball; "euclidean": rows are ordinary vectors."""
    curvature: float = 1.0
    """k: the ball has curvature -k."""
    classes: tuple[str, ...] | None = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    shrinkage: float | None = None
    """Rows' worth of pull towards the pooled covariance. None: one more than the number of columns."""
    least_points: int = 2
    """Sites refuse to contribute a class with fewer rows."""
    smallest: int = 2
    """The fewest sites that make a result."""

    def __post_init__(self) -> None:
        if self.rule not in ("gaussian", "centroid"):
            raise InputError(f'rule={self.rule!r} is unknown; wanted "gaussian" or "centroid"')
        if self.space not in ("ball", "euclidean"):
            raise InputError(f'space={self.space!r} is unknown; wanted "ball" or "euclidean"')
        if not (self.curvature > 0 and math.isfinite(self.curvature)):
            raise InputError(f"curvature={self.curvature} given; wanted a positive number")
        if self.classes is not None and (len(set(self.classes)) < 2 or any("\n" in n for n in self.classes)):
            raise InputError(f"classes={self.classes} given; wanted at least two different one-line names")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain values; class names are joined by line ends."""
        values = super().parameters()
        return values | {"classes": None if self.classes is None else "\n".join(self.classes)}

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.X.shape[1] for site in sites})
        present = {str(name) for site in sites for name in site.classes.tolist()}
        absent = sorted(set(self.classes or ()) - present)
        if absent:
            raise InputError(f"labels missing everywhere: {', '.join(absent)}; leave them out of `classes`")
        if len(present) < 2:
            raise InputError(f"all sites together have one class, {', '.join(present)}; a classifier needs two")

    def conduct(self, sites: Sites) -> MomentsModel:
        """Hold the conversation: join, agree on names, sum, tell."""
        cohort = join(sites, rounds=1, terms=self.parameters(), smallest=self.smallest)
        among, classes = cohort.names, self.classes
        if classes is None:
            classes, among = agree_on_names(cohort, smallest=self.smallest)
        columns = cohort.keys[among[0]].columns
        c = self.curvature if self.space == "ball" else None
        total = secure_sum(
            cohort,
            0,
            lambda ticket: GiveMoments(ticket=ticket, classes=classes, curvature=c),
            modulus=2**64,
            length=length(len(classes), columns),
            among=among,
            smallest=self.smallest,
        )
        model = self.model(from_fixed(total.vector, fraction_bits=FRACTION_BITS), classes, columns)
        sites.ask(Receive(model=model.to_bytes()), of=total.sites, expect=Received)
        sites.metrics |= {"sites": len(total.sites), "classes": len(classes), "numbers": len(total.vector)}
        return model

    def model(self, total: Any, classes: Sequence[str], columns: int) -> MomentsModel:
        """Turn the sum into a classifier."""
        c = self.curvature if self.space == "ball" else None
        sums = ClassSums(np.asarray(total), classes, columns, least=self.least_points)
        priors, means, covariances = sums.gaussians(
            self.shrinkage if self.shrinkage is not None else columns + 1.0
        )
        return MomentsModel(tuple(classes), self.rule, priors, means, covariances, sums.centroids(c=c), c)


def plain(method: Moments, sites: Sequence[SiteData]) -> MomentsModel:
    """Compute the same on pooled data: the twin without cryptography."""
    classes = method.classes or tuple(sorted({str(n) for site in sites for n in site.classes.tolist()}))
    X = np.vstack([site.X for site in sites])
    y = np.concatenate([site.y.astype(str) for site in sites])
    c = method.curvature if method.space == "ball" else None
    return method.model(class_moments(X, y, classes, c=c), classes, X.shape[1])
