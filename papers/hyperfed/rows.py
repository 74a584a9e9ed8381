"""The rows of the table: which method each is, with the settings of the paper or those that were tuned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fedgeom
from fedgeom.methods.iterative import MLP, Algorithm, Contrastive, FineTuned, LeNet, Network
from papers.hyperfed.split import SITES

Options = dict[str, Any]
EMBEDDING, STEPS, BATCH, EPOCHS = 20, 5, 128, 5
GENTLE = 0.03
"""The rate of the five steps in the end, where rates are tuned: of 0.03, 0.1 and 0.3 the best for FedAvg and FedBABU at
every α, with the seed that is not reported; a head that no round has trained overshoots at 0.3."""
NETWORKS: dict[str, Network] = {
    "mlp": MLP(hidden=128, features=64, embedding_dim=EMBEDDING),
    "lenet": LeNet(norm="group", embedding_dim=EMBEDDING),
    "lenet16": LeNet(norm="group", embedding_dim=EMBEDDING),
    "long": MLP(hidden=128, features=64, embedding_dim=EMBEDDING),
}
ROUNDS = {"mlp": 30, "lenet": 15, "lenet16": 15, "long": 100}
COARSE = {"mlp": True, "lenet": False, "lenet16": True, "long": True}
"""Whether every 2 × 2 pixels are made one first, so that a cell costs seconds."""
GRID, PAPER = (0.03, 0.1, 0.3), 0.3
"""The rates that are tried for every row, and the paper's own."""
CALIBRATED = "SphereFed, calibrated"
CHANGED, MOMENTUM = "HyperFed, our changes", "HyperFed, our changes and momentum"
SPHERE, RIDGE, LOCAL, POOLED = "SphereFed with momentum", "Ridge", "local only", "pooled"


def network(name: str) -> Callable[..., Algorithm]:
    """Return a method by its name in fedgeom."""
    return lambda **options: getattr(fedgeom, name)(**options)


def pfedme(**options: Any) -> Algorithm:
    """Return pFedMe with the paper's λ = 1, k = 5, β = 1, and about as many steps as the others take in a round."""
    own: Options = {"lam": 1.0, "inner_steps": 5, "beta": 1.0, "local_rounds": 2, "outer_learning_rate": 1.0}
    return fedgeom.PFedMe(inner_learning_rate=options["learning_rate"], **(own | options))


def apple(**options: Any) -> Algorithm:
    """Return APPLE with the paper's μ and L; a core model's step counts K times: at p = 1/K it is a plain one."""
    own: Options = {"mu": 0.001, "settling": 0.2, "learning_rate": SITES * options["learning_rate"]}
    return fedgeom.Apple(**(options | own))


def hyperfed(paper: bool = False, **options: Any) -> Algorithm:
    """Return HyperFed: by the printed equations with the paper's settings, else with Eqs. 5 and 10 solved exactly."""
    return fedgeom.HyperFed.published(**options) if paper else fedgeom.HyperFed(**options)


def momentum(head: str = "linear", loss: str = "cross-entropy") -> Callable[..., Algorithm]:
    """Return averaging with momentum at the coordinator, for a head and a loss."""
    own: Options = {"head": head, "loss": loss, "server_momentum": 0.6}
    return lambda **options: fedgeom.FedAvgM(**(own | options))


def with_(make: Callable[..., Algorithm], **more: Any) -> Callable[..., Algorithm]:
    """Return a maker with some settings fixed."""
    return lambda **options: make(**(options | more))


MAKERS: dict[str, Callable[..., Algorithm]] = {
    "FedAvg": network("FedAvg"),
    "FedProx": with_(network("FedProx"), mu=0.01),
    "SCAFFOLD": network("Scaffold"),
    "FedDyn": with_(network("FedDyn"), alpha=0.1),
    "MOON": with_(network("Moon"), loss=Contrastive(mu=1.0, temperature=0.5)),
    "FedRoD": network("FedRoD"),
    "FedBABU": network("FedBABU"),
    "SphereFed": network("SphereFed"),
    CALIBRATED: with_(network("SphereFed"), calibration=True),
    "HyperFed": hyperfed,
    "HyperFed-Geodesic": with_(hyperfed, loss="geodesic"),
    "HyperFed-Fixed": with_(hyperfed, prototypes="fixed"),
    "HyperFed-Shared": with_(hyperfed, prototypes="shared"),
    "HyperFed-Averaged": with_(hyperfed, aggregation="mean"),
    CHANGED: lambda **options: fedgeom.HyperFed.measured(**options),
    MOMENTUM: momentum("poincare", "geodesic-softmax"),
    "FedPer": network("FedPer"),
    "pFedMe": pfedme,
    "Ditto": with_(network("Ditto"), lam=1.0),
    "FedMTL": network("FedMTL"),
    "APPLE": apple,
    "FedAvgM": momentum(),
    SPHERE: momentum("orthonormal", "squared"),
    "FedNova": network("FedNova"),
    "FedLC": network("FedLC"),
    "FedRep": network("FedRep"),
    "FedProto": network("FedProto"),
    LOCAL: network("LocalOnly"),
    POOLED: network("FedAvg"),
}
"""Rivals have the settings of the paper's Appendix B."""
CORE = ("FedAvg", "FedProx", "SCAFFOLD", "SphereFed", "HyperFed", CHANGED, MOMENTUM, "FedAvgM")
TABLE_1 = ("FedDyn", "MOON", "FedRoD", "FedBABU", "HyperFed-Averaged", "HyperFed-Geodesic", "HyperFed-Shared")
PERSONAL = ("FedMTL", "APPLE")
"""Rows whose joint model is the mean of what sites made for themselves: nobody predicts by it."""
TABLE_2 = ("HyperFed-Fixed", "FedPer", "Ditto", "pFedMe", *PERSONAL)
FAIR = (SPHERE, LOCAL, CALIBRATED)
OTHERS = (POOLED, "FedNova", "FedLC", "FedRep", "FedProto")
NINE = ("FedAvg", "FedProx", "SCAFFOLD", "SphereFed", "HyperFed", CHANGED, "FedDyn", "FedRoD", "FedBABU", "MOON")
"""Rows by how much depends on them; the last are those of Table 1 without ablations."""


OWN_WAY = ("FedRoD", "FedPer", "FedRep", "FedProto", "pFedMe", "Ditto", *PERSONAL, LOCAL)
"""Rows with a way of their own to personal models; all others take five more steps at the site."""


def printed(row: str) -> bool:
    """Say whether a row has equations of the paper that can be taken as printed or solved exactly."""
    return row.startswith("HyperFed") and row not in (CHANGED, MOMENTUM)


def method(row: str, kind: str, shape: tuple[int, int, int], effort: Options, *, paper: bool = False) -> Algorithm:
    """Return a row's method for a network and images of a shape; ``effort`` has rounds, epochs, batch and rate."""
    options: Options = {"network": NETWORKS[kind], "shape": shape, "scale": "joint"} | effort
    if row not in OWN_WAY:
        options = {"personal": FineTuned(STEPS, None if paper else GENTLE)} | options
    return MAKERS[row](**options, **({"paper": True} if paper and printed(row) else {}))


def effort(kind: str, rate: float, rounds: int | None = None) -> Options:
    """Return how much sites train."""
    return {"n_rounds": rounds or ROUNDS[kind], "epochs": EPOCHS, "batch_size": BATCH, "learning_rate": rate}
