"""SphereFed: features on the sphere, classes at fixed right angles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.settings import Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.heads.sphere import Orthonormal
from fedgeom.methods.iterative.losses.softmax import SquaredError
from fedgeom.methods.iterative.network_settings import HeadOrName, LossOrName, NetworkOrName
from fedgeom.methods.iterative.rule import Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree
from fedgeom.protocols.packed import Packing

HEAD = "head.weight"


@dataclass(frozen=True, kw_only=True)
class SphereFed(Algorithm):
    """FedAvg of the body under a fixed orthonormal head, with the squared error of cosines (Dong et al. 2022).

    With ``calibration`` the last round trains nothing: sites add products of their features up, ZᵀZ and ZᵀY of
    normalised Z, and the head becomes the one of least squares over all rows, (ZᵀZ + λ·tr(ZᵀZ)/d·I)⁻¹ZᵀY. Sums
    are then at 64 bits.
    """

    name: ClassVar[str] = "spherefed"

    network: NetworkOrName | None = "mlp"
    """A network with at least as many features as there are classes."""
    head: HeadOrName = Orthonormal.name
    """The fixed head."""
    loss: LossOrName = SquaredError.name
    """½·‖cosines − one-hot‖²."""
    calibration: bool = False
    """Whether the last round fits the head in closed form: the paper's fast calibration."""
    ridge: Annotated[float, Between(0, 10)] = 1e-4
    """λ of the closed form, in units of the mean square of a feature."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.calibration:
            return
        if not isinstance(self.head, Orthonormal) or self.network is None:
            raise InputError('calibration=True fits the head "orthonormal" of a network; another was given')
        if self.rounds < 2:
            raise InputError("calibration=True takes the last round; give rounds=2 or more")
        object.__setattr__(self, "head", replace(self.head, fitted=True))

    @property
    def packing(self) -> Packing | None:
        """How parameters are packed into words: not at all with products of features, which need all digits."""
        return None if self.calibration else super().packing

    def sent_like(self, model: Tree) -> State:
        """Return the model, and with a calibration two matrices of products."""
        if not self.calibration:
            return super().sent_like(model)
        weight = np.asarray(model[HEAD])
        return Tree(model=model, gram=np.zeros((weight.shape[1],) * 2), cross=np.zeros(weight.shape))

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the body; in the last round, where the head is calibrated, add products of features up instead."""
        if not self.calibration:
            return super().local(task, given, own)
        w = given["model"]
        blank = self.sent_like(w)
        if task.round < self.rounds - 1:
            return blank | {"model": task.fit(w, frozen=(HEAD,))}
        Z = unit_rows(task.features(w))
        # A site counts by its rows already where weights are rows; then it sends means.
        share = 1.0 / task.rows if self.weights == "rows" else 1.0
        return blank | {"gram": share * Z.T @ Z, "cross": share * np.eye(task.classes)[task.y].T @ Z}

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Take the mean of the bodies, or after the last round solve for the head."""
        if not self.calibration or round.number < self.rounds - 1:
            return super().combine(state, mean, round)
        gram, cross = np.asarray(mean["gram"], np.float64), np.asarray(mean["cross"], np.float64)
        size = len(gram)
        penalty = self.ridge * np.trace(gram) / size * np.eye(size)
        head = np.linalg.lstsq(gram + penalty, cross.T, rcond=None)[0].T
        return Tree(model=state["model"] | {HEAD: head.astype(np.asarray(state["model"][HEAD]).dtype)})


def unit_rows(Z: Floats) -> Floats:
    """Return features with rows of norm 1, as the head takes them, (rows, d)."""
    Z = np.asarray(Z, np.float64)
    return np.asarray(Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12))
