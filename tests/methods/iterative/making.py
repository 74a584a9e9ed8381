"""Small federations, and a learner whose training can be done with pencil and paper."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.methods.iterative import Learner, Tree, register

ALGORITHMS = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "Scaffold",
    "feddyn": "FedDyn",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "ditto": "Ditto",
    "pfedme": "PFedMe",
    "fedper": "FedPer",
    "local": "LocalOnly",
    "interpolated": "Interpolated",
    "fedavgm": "FedAvgM",
    "fednova": "FedNova",
    "fedrep": "FedRep",
    "fedbabu": "FedBABU",
    "fedexp": "FedExP",
    "feddc": "FedDC",
    "fedala": "FedALA",
    "fedmtl": "FedMTL",
    "apple": "Apple",
}
"""All algorithms for any learner, by the name that a federation file uses."""
DEEP = {
    "moon": "Moon",
    "fedntd": "FedNTD",
    "fedsam": "FedSAM",
    "fedrod": "FedRoD",
    "fedlc": "FedLC",
    "spherefed": "SphereFed",
    "fedproto": "FedProto",
}
"""Those for networks, which need torch."""
if find_spec("torch"):
    ALGORITHMS |= DEEP


def algorithm_class(name: str):
    return getattr(fedgeom, ALGORITHMS[name])


class Bowl(Learner):
    """A row (a, h) is a bowl ½·h·(w − a)²; the model is the one number w, and labels do not matter."""

    name = "bowl"

    def start(self, columns, classes, rng):
        return Tree(w=np.zeros(1))

    def loss(self, parameters, X, y):
        return float(np.mean(0.5 * X[:, 1] * (parameters["w"][0] - X[:, 0]) ** 2))

    def gradient(self, parameters, X, y):
        return Tree(w=np.array([np.mean(X[:, 1] * (parameters["w"][0] - X[:, 0]))]))

    def predict_proba(self, parameters, X):
        return np.full((len(X), 2), 0.5)


register(Bowl())
BOWLS = {"learner": "bowl", "scale": "none", "batch_size": None, "epochs": 1}


def bowls(*pairs: tuple[float, float], copies: tuple[int, ...] = ()) -> list[SiteData]:
    """One site for each (a, h), with one row or as many copies of it as said."""
    counts = copies or (1,) * len(pairs)
    return [
        SiteData(f"s{at}", np.tile([a, h], (count, 1)), [("no", "yes")[(at + i) % 2] for i in range(count)])
        for at, ((a, h), count) in enumerate(zip(pairs, counts, strict=True))
    ]


def unlike(n_sites: int = 4, rows: int = 12, columns: int = 2, classes: int = 2, seed: int = 0) -> list[SiteData]:
    """Sites whose rows lie at different places and whose labels follow different rules."""
    rng = np.random.default_rng(seed)
    sites = []
    for at in range(n_sites):
        X = rng.normal(size=(rows + 3 * at, columns)) + rng.normal(size=columns)
        scores = X @ rng.normal(size=(columns, classes)) + 0.3 * rng.normal(size=(len(X), classes))
        y = scores.argmax(axis=1)
        y[:classes] = np.arange(classes)
        sites.append(SiteData(f"s{at}", X, np.array([f"class {label}" for label in y])))
    return sites


def whole(model) -> np.ndarray:
    """All parameters of a model as one vector."""
    return model.parameters.flat()


def own(found, site: str) -> np.ndarray:
    """All parameters of a site's own model, from a run or a plain run."""
    return whole(found.model.for_site(found.local[site]))


def losing(times: dict[str, set[int]], kind: bytes = b"train."):
    """Return an ``interfere`` that loses a site in its n-th questions of a kind (counted from 0)."""
    seen: dict[str, int] = {}

    def interfere(site: str, request: bytes) -> str | None:
        if kind not in request:
            return None
        at = seen[site] = seen.get(site, -1) + 1
        return "lost on purpose" if at in times.get(site, ()) else None

    return interfere
