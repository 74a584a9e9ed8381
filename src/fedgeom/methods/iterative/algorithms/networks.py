"""Algorithms for networks: MOON, FedNTD, FedSAM, FedRoD, FedLC, SphereFed and FedProto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.federation.settings import POSITIVE, Between, Choice, shown
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.algorithms.personal import with_own_head
from fedgeom.methods.iterative.heads import PERSONAL, Linear, Orthonormal, TwoHeadSum
from fedgeom.methods.iterative.losses import (
    Batch,
    Calibrated,
    Contrastive,
    Decoupled,
    NotTrue,
    SquaredError,
    TowardsPrototypes,
)
from fedgeom.methods.iterative.networks import Network
from fedgeom.methods.iterative.settings import HeadOrName, LossOrName, NetworkOrName, Round
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree
from fedgeom.protocols.fixed_point import Packing
from fedgeom.registry import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Moon(Algorithm):
    """For networks at sites whose patients differ: features are kept near the joint model's.

    FedAvg whose sites keep features near the joint model's and away from those of their own before.
    Li, He and Song 2021. Each site keeps its last model for that.
    """

    name: ClassVar[str] = "moon"

    network: NetworkOrName | None = "mlp"
    """A network: features are what is compared."""
    loss: LossOrName = Contrastive.name
    """Contrastive(mu=1.0, temperature=0.5)."""


@dataclass(frozen=True, kw_only=True)
class FedNTD(Algorithm):
    """For networks at sites that lack some classes: what is known of them is kept (Lee et al. 2022).

    FedAvg whose sites keep the joint model's proportions among the classes that a row is not of.
    """

    name: ClassVar[str] = "fedntd"

    network: NetworkOrName | None = "mlp"
    """A network; losses other than cross-entropy are for networks."""
    loss: LossOrName = NotTrue.name
    """NotTrue(beta=1.0, tau=1.0)."""


@dataclass(frozen=True, kw_only=True)
class FedSAM(Algorithm):
    """For networks at sites whose patients differ: sites look for flat minima (Qu et al. 2022).

    Foret et al. 2021: a step goes along ∇F_k(w + ρ·∇F_k(w)/‖∇F_k(w)‖): the gradient at the steepest point nearby.
    """

    name: ClassVar[str] = "fedsam"

    network: NetworkOrName | None = "mlp"
    """A network."""
    rho: Annotated[float, POSITIVE] = 0.05
    """ρ: how far away that point is."""

    def local_step(self, model: Any, batch: Batch, state: dict[str, Any]) -> None:
        """Leave the gradient of the steepest point nearby."""
        import torch  # optional

        batch.loss().backward()  # type: ignore[no-untyped-call]
        weights = [weight for weight in model.parameters() if weight.grad is not None]
        with torch.no_grad():
            length = torch.cat([weight.grad.flatten() for weight in weights]).norm() + 1e-12
            before = [weight.clone() for weight in weights]
            for weight in weights:
                weight.add_(self.rho * weight.grad / length)
        model.zero_grad()
        batch.fresh().loss().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)


@dataclass(frozen=True, kw_only=True)
class FedRoD(Algorithm):
    """For networks with two uses: one answer for patients of any site, one for those of each site.

    Body and generic head learn from a balanced loss and are averaged; a personal head on top learns the site's own.
    Chen and Chao 2022, with a linear personal head. The joint model predicts by the generic head, a site's by both.
    """

    name: ClassVar[str] = "fedrod"
    own_head: ClassVar[bool] = True
    predicts_jointly: ClassVar[bool] = True

    network: NetworkOrName | None = "mlp"
    """A network, which gets two heads."""
    head: HeadOrName = TwoHeadSum.name
    """The generic and the personal head."""
    loss: LossOrName = Decoupled.name
    """Balanced softmax for everybody's part, cross-entropy for the site's."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.head, TwoHeadSum):
            raise InputError(f'FedRoD has a generic and a personal head; leave head="two", not {self.head!r}')

    def shared(self, model: Tree) -> Tree:
        """Return all but the personal head."""
        return model.select(set(model) - set(PERSONAL))

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's personal head on the joint model."""
        return with_own_head(task, model, own, PERSONAL)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train all, keep the personal head."""
        trained = task.fit(self.whole(task, given["model"], own))
        own["head"] = trained.select(PERSONAL)
        return Tree(model=self.shared(trained))


@dataclass(frozen=True, kw_only=True)
class FedLC(Algorithm):
    """For networks at sites with few rows of some classes: these get larger margins (Zhang et al. 2022)."""

    name: ClassVar[str] = "fedlc"

    network: NetworkOrName | None = "mlp"
    """A network; losses other than cross-entropy are for networks."""
    loss: LossOrName = Calibrated.name
    """Calibrated(tau=1.0)."""


HEAD = "head.weight"


@dataclass(frozen=True, kw_only=True)
class SphereFed(Algorithm):
    """For networks at sites that lack some classes: the last layer is fixed (Dong et al. 2022).

    FedAvg of the body under a fixed orthonormal head, with the squared error of cosines.
    With ``calibration`` the last round trains nothing: sites add products of their features up, ZᵀZ and ZᵀY of
    normalised Z, and the head becomes the one of least squares over all rows, (ZᵀZ + λ·tr(ZᵀZ)/d·I)⁻¹ZᵀY. Sums
    are then at 64 bits.
    """

    name: ClassVar[str] = "spherefed"
    own_head: ClassVar[bool] = True

    network: NetworkOrName | None = "mlp"
    """The network."""
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
        if self.n_rounds < 2:
            raise InputError("calibration=True takes the last round; give n_rounds=2 or more")
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
        if task.round < self.n_rounds - 1:
            return blank | {"model": task.fit(w, frozen=(HEAD,))}
        Z = unit_rows(task.features(w))
        # A site counts by its rows already where weights are rows; then it sends means.
        share = 1.0 / task.rows if self.weights == "rows" else 1.0
        return blank | {"gram": share * Z.T @ Z, "cross": share * np.eye(task.classes)[task.y].T @ Z}

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Take the mean of the bodies, or after the last round solve for the head."""
        if not self.calibration or round.number < self.n_rounds - 1:
            return super().combine(state, mean, round)
        gram = np.asarray(mean["gram"], np.float64)
        cross = np.asarray(mean["cross"], np.float64)
        size = len(gram)
        penalty = self.ridge * np.trace(gram) / size * np.eye(size)
        head = np.linalg.lstsq(gram + penalty, cross.T, rcond=None)[0].T
        return Tree(model=state["model"] | {HEAD: head.astype(np.asarray(state["model"][HEAD]).dtype)})


def unit_rows(Z: Floats) -> Floats:
    """Return features with rows of norm 1, as the head takes them, (rows, d)."""
    Z = np.asarray(Z, np.float64)
    return np.asarray(Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12))


PARTS = ("prototypes", "counts")


@dataclass(frozen=True)
class SiteNetwork(Choice):
    """The network of one site."""

    kind: ClassVar[str] = "site_network"
    wanted: ClassVar[str] = "networks by the names of sites"

    site: str
    """The site's name."""
    network: Network
    """Its network."""

    @classmethod
    def read(cls, value: Any, setting: str) -> SiteNetwork:
        """Return it from a table with the site, and the network's name and settings."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping) or not isinstance(value.get("site"), str):
            raise InputError(
                f'{setting}={shown(value)} given; wanted networks by the names of sites, {{"north": MLP(hidden=256)}}'
            )
        return cls(value["site"], Network.read({key: one for key, one in value.items() if key != "site"}, setting))

    def plain(self) -> dict[str, Any]:
        """Return it as it travels."""
        plain = self.network.plain()
        return {"site": self.site} | ({"name": plain} if isinstance(plain, str) else plain)


if TYPE_CHECKING:
    SiteNetworks = tuple[SiteNetwork, ...] | Mapping[str, str | Network]
else:
    SiteNetworks = tuple[SiteNetwork, ...]


@dataclass(frozen=True, kw_only=True)
class FedProto(Algorithm):
    """For sites that keep their networks to themselves: only the mean feature of each class is shared.

    A class's prototype is the mean feature of all its rows; each site's network is pulled towards the prototypes.
    Tan et al. 2022: C_c = Σ_k Σ_{rows of c} z / Σ_k n_kc, by one secure sum. Networks stay at the sites: the joint one
    is untrained, use ``run.model.for_site(run.local[site])``.
    """

    name: ClassVar[str] = "fedproto"
    own_head: ClassVar[bool] = True
    sums_rows_up: ClassVar[bool] = True

    weights: Literal["rows", "sites"] = "sites"
    """The sums themselves count rows."""
    network: NetworkOrName | None = "mlp"
    """A network; its features are what is averaged."""
    loss: LossOrName = TowardsPrototypes.name
    """TowardsPrototypes(lam=1.0)."""
    networks: SiteNetworks = ()
    """Networks of single sites by their names, {"north": MLP(hidden=256)}, with as many features; all others have
    ``network``."""

    def __post_init__(self) -> None:
        if isinstance(self.networks, Mapping):
            listed = tuple(SiteNetwork(site, Network.read(one, "networks")) for site, one in self.networks.items())
            object.__setattr__(self, "networks", listed)
        super().__post_init__()
        if not isinstance(self.network, Network) or not isinstance(self.head, Linear) or self.weights != "sites":
            raise InputError('FedProto wants a network, head="linear" and weights="sites"')
        width = self.network.width
        for site, network in self._by_site().items():
            if network.width != width:
                raise InputError(
                    f"networks: that of {site!r} makes {network.width} features, network={self.network.name!r} "
                    f"{width}; prototypes are means of features, so wanted as many everywhere, such as by "
                    f"embedding_dim={width}"
                )

    def _by_site(self) -> dict[str, Network]:
        return {one.site: one.network for one in self.networks if isinstance(one, SiteNetwork)}

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse networks of sites that there are not."""
        super().check_limits(sites, policy)
        names = [site.name for site in sites]
        unknown = next((site for site in self._by_site() if site not in names), None)
        if unknown is not None:
            hint = did_you_mean(unknown, names)
            raise InputError(f"networks names a site {unknown!r}; there are {', '.join(names)}.{hint}")

    def network_at(self, site: str) -> Network | None:
        """Return the site's own network, where it has one."""
        return self._by_site().get(site) or super().network_at(site)

    def shared(self, model: Tree) -> Tree:
        """Return the prototypes, (classes, d), and how many rows each is the mean of, (classes,): none at first."""
        if set(PARTS) <= set(model):
            return model.select(PARTS)
        weight = np.zeros_like(model["head.weight"])
        return Tree(prototypes=weight, counts=np.zeros_like(weight[:, 0]))

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Return the site's own network."""
        return Tree(own.get("network", task.first))

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the site's network; send its sums of features."""
        own["network"] = self._trained(task, given, own)
        Z = task.features(own["network"])
        sums = np.zeros_like(given["model"]["prototypes"])
        np.add.at(sums, task.y, Z)
        return Tree(model=Tree(prototypes=sums, counts=task.counts.astype(sums.dtype)))

    def _trained(self, task: Task, given: State, own: State) -> Tree:
        return task.fit(self.whole(task, given["model"], own), given=given["model"])

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Divide the sums by the counts; a class that nobody had in this round keeps its prototype."""
        sums = mean["model"]["prototypes"]
        counts = mean["model"]["counts"]
        before = state["model"]
        there = counts > 0
        means = sums / np.where(there, counts, 1)[:, None]
        prototypes = np.where(there[:, None], means, before["prototypes"])
        return Tree(model=Tree(prototypes=prototypes, counts=np.where(there, counts, before["counts"])))

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the site's network, with the last prototypes beside it; one that never trained trains now."""
        network = own["network"] if "network" in own else self._trained(task, given, own)
        return Tree(network | given["model"])
