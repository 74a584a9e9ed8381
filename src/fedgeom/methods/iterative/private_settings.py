"""The setting ``privacy`` of training, and what it does not go with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedgeom.errors import InputError
from fedgeom.federation.privacy import PrivacyOrTable, privacy_of
from fedgeom.methods.iterative.losses.softmax import CrossEntropy


@dataclass(frozen=True, kw_only=True)
class PrivateTraining:
    """A rule that needs of a round nothing but the mean of the sites' models can do with noise in it."""

    private_units: ClassVar[tuple[str, ...]] = ("row", "site")

    privacy: PrivacyOrTable = None
    """DP(epsilon=…, delta=…, clip=…): differential privacy over all rounds. With unit="row" a round is one step along
    the sum of all rows' gradients, each no longer than ``clip`` (steps=1, batch=None); with unit="site" sites
    train as they like and send changes no longer than ``clip``, all of which count alike (weights="sites"). Needs
    ``classes``, and scale="none" or "pixels"."""

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]
        privacy, rule = privacy_of(self), _any(self)
        if privacy is None:
            return
        kind = type(self).__name__
        if rule.scale not in ("none", "pixels"):
            why = "are summed without noise" if rule.scale == "joint" else "let one row move all others"
            raise InputError(
                f'{kind} with privacy and scale="{rule.scale}" given; means and deviations of columns {why}: wanted '
                'scale="none", on columns in an agreed unit, or "pixels"'
            )
        wrong = {
            "validation": (rule.validation, 0.0),
            "share": (rule.share, 1.0),
            "personal": (rule.personal.name, "none"),
            "secure": (rule.masked, True),
        }
        if privacy.unit == "row":
            wrong |= {"steps": (rule.steps, 1), "batch": (rule.batch, None), "solver": (rule.solver, "sgd")}
        else:
            wrong |= {"weights": (rule.weights, "sites")}
        found = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
        if found:
            given = ", ".join(f"{name}={pair[0]!r}" for name, pair in found.items())
            wanted = ", ".join(f"{name}={pair[1]!r}" for name, pair in found.items())
            raise InputError(f"{kind} with privacy per {privacy.unit} and {given} given; wanted {wanted}")
        if privacy.unit == "row" and not isinstance(rule.loss_of_rows, CrossEntropy):
            raise InputError(f"{kind} with privacy per row knows the gradients of cross-entropy alone")

    @property
    def needs_rows(self) -> bool:
        """Whether sites must know how many rows all have: not with privacy, where nobody is told."""
        return privacy_of(self) is None and bool(super().needs_rows)  # type: ignore[misc]


def _any(rule: Any) -> Any:
    return rule
