"""What must not change when the house is rearranged: every method, on several sets, seeds and settings.

A case is a name and a function that gives a method and its sites. Only sets that are always there are used, and only
settings under which nothing that is drawn anew each time (keys, masks, flips) shows in the outcome.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

import fedgeom


@dataclass(frozen=True)
class Case:
    """One run whose outcome is written down."""

    name: str
    make: Callable[[], tuple[Any, list[Any]]]
    seed: int = 0
    needs: str = ""
    """A module without which the case is left out."""

    @property
    def possible(self) -> bool:
        """Whether what the case needs is installed."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None


@cache
def _set(name: str, **options: Any) -> list[Any]:
    return list(fedgeom.load_set(name, **options).train)


def _blobs(sites: int, rows: int, columns: int, classes: int, seed: int) -> list[Any]:
    """Return sites with Gaussian classes; no library's generator of data sets can change them."""
    rng = np.random.default_rng(seed)
    centres = 2.0 * rng.standard_normal((classes, columns))
    y = np.arange(sites * rows) % classes
    X = centres[y] + rng.standard_normal((len(y), columns))
    owner = rng.permutation(np.repeat(np.arange(sites), rows))
    return fedgeom.split(X, np.array([f"c{label}" for label in y]), how="by", by=[f"s{n:02d}" for n in owner])


def _own_words(sites: list[Any]) -> list[Any]:
    """Return the sites with names of their own for the classes."""
    words = {"benign": ("benign", "B", "gutartig", "D24"), "malignant": ("malignant", "M", "boesartig", "C50")}
    return [
        site.relabel({label: words[str(label)][at % 4] for label in site.classes.tolist()})
        for at, site in enumerate(sites)
    ]


def _sparse_labels(sites: list[Any], every: int) -> list[Any]:
    """Return the sites with labels on every so many rows only."""
    found = []
    for site in sites:
        y = site.y.astype(str).astype(object)
        y[np.arange(len(y)) % every != 0] = ""
        found.append(fedgeom.SiteData(site.name, site.X, y.astype(str)))
    return found


def _hulls() -> Iterator[Case]:
    for seed in (0, 7):
        yield Case("hulls synthetic", lambda: (fedgeom.Hulls(epsilon=0.1), _set("synthetic", points=600)), seed)
    yield Case("hulls published", lambda: (fedgeom.Hulls.published(epsilon=0.05), _set("synthetic", points=600)))
    yield Case(
        "hulls settled",
        lambda: (
            fedgeom.Hulls(epsilon=0.2, radius=0.96, capacity=80, n_classes=2, h=3, trim=0.05, C=1.0, n_pairs=1),
            _set("synthetic", points=400, n_sites=4, seed=3),
        ),
    )
    for grouping in ("constrained", "spectral"):
        yield Case(
            f"hulls wine {grouping}",
            lambda grouping=grouping: (
                fedgeom.Hulls(embedding="discriminant", grouping=grouping, n_classes=3),
                _set("wine"),
            ),
        )
    yield Case(
        "hulls own words",
        lambda: (fedgeom.Hulls(embedding="discriminant"), _own_words(_set("breast-cancer"))),
    )


def _ellipses() -> Iterator[Case]:
    yield Case(
        "ellipses own words",
        lambda: (fedgeom.Ellipses(), _own_words(_set("breast-cancer"))),
    )
    yield Case(
        "ellipses shared words, lumps",
        lambda: (fedgeom.Ellipses(names="shared", n_components=2, rule="linear"), _set("wine")),
    )
    yield Case(
        "ellipses depth",
        lambda: (fedgeom.Ellipses(n_classes=3, depth="mixed", scale="site"), _set("wine", seed=1)),
    )


def _moments() -> Iterator[Case]:
    for rule in ("gaussian", "centroid"):
        yield Case(
            f"moments {rule} ball", lambda rule=rule: (fedgeom.Moments(rule=rule), _set("synthetic", points=500))
        )
        yield Case(
            f"moments {rule} table",
            lambda rule=rule: (fedgeom.Moments(rule=rule, space="euclidean", shrinkage=3.0), _set("wine", seed=1)),
        )
    yield Case(
        "moments named classes",
        lambda: (
            fedgeom.Moments(space="euclidean", classes=("c0", "c1", "c2")),
            _blobs(5, 40, 4, 3, 2),
        ),
    )


def _xclp() -> Iterator[Case]:
    def few() -> list[Any]:
        return _sparse_labels(_blobs(4, 24, 6, 3, 5), 4)

    for variant in ("ours", "paper", "code"):
        yield Case(
            f"xclp pairs {variant}",
            lambda variant=variant: (
                fedgeom.XCLP(hash_bits=256, variant=variant, hamming="ot", hidden_projection=False),
                few(),
            ),
        )
    yield Case(
        "xclp pairs bfv code confidence",
        lambda: (
            fedgeom.XCLP(
                hash_bits=128, hidden_projection=False, confidence="code", hide_labelled=True, prior="own"
            ),
            few(),
        ),
        needs="seal",
    )
    for seed in (0, 3):
        yield Case(
            "xclp anchors",
            lambda: (fedgeom.XCLP(graph="anchors", n_anchors=20, n_rounds=4), _sparse_labels(_set("digits"), 5)),
            seed,
        )
    yield Case(
        "xclp anchors code",
        lambda: (
            fedgeom.XCLP(
                graph="anchors",
                n_anchors=12,
                n_rounds=3,
                variant="code",
                confidence="code",
                classes=("c0", "c1", "c2"),
            ),
            few(),
        ),
    )


def _training() -> Iterator[Case]:
    quick: dict[str, Any] = {"n_rounds": 4, "epochs": 2}
    rows = ["FedAvg", "FedProx", "Scaffold", "FedDyn", "FedAdam", "FedYogi", "Ditto", "PFedMe", "FedPer"]
    for name in (*rows, "Interpolated", "LocalOnly"):
        yield Case(f"{name} breast-cancer", lambda name=name: (_row(name, **quick), _set("breast-cancer")))
        yield Case(f"{name} blobs", lambda name=name: (_row(name, **quick), _blobs(6, 30, 5, 4, 1)), 11)
    settings: dict[str, dict[str, Any]] = {
        "open": {"secure": False},
        "64 bits": {"bits": 64},
        "median": {"aggregation": "median"},
        "trimmed": {"aggregation": ("trimmed", {"trim": 0.3})},
        "krum": {"aggregation": ("krum", {"n_byzantine": 1})},
        "geometric": {"aggregation": "geometric"},
        "sampled": {"participation": 0.6},
        "watched": {"validation_fraction": 0.2, "patience": 2, "n_rounds": 8},
        "cosine": {"schedule": "cosine", "batch_size": None},
        "decay": {"schedule": ("decay", {"decay": 0.8}), "steps": 5},
        "own scale": {"scale": "site"},
        "no scale": {"scale": "none", "learning_rate": 0.01},
        "exact": {"solver": "exact", "C": 0.3},
        "finetuned": {"personal": "finetuned"},
        "mixed": {"personal": ("interpolated", {"mix": 0.25})},
        "alike": {"weights": "sites", "classes": ("c0", "c1", "c2", "c3")},
    }
    for title, chosen in settings.items():
        yield Case(
            f"FedAvg {title}",
            lambda chosen=chosen: (_row("FedAvg", **(quick | chosen)), _blobs(6, 30, 5, 4, 4)),
            2,
        )
    yield Case("Scaffold sampled", lambda: (_row("Scaffold", participation=0.5, **quick), _blobs(6, 30, 5, 4, 4)))
    yield Case(
        "FedAvg torch",
        lambda: (_row("FedAvg", learner=_network(), **quick), _blobs(4, 30, 5, 3, 6)),
        needs="torch",
    )
    yield Case(
        "FedPer torch",
        lambda: (_row("FedPer", learner=_network(), **quick), _blobs(4, 30, 5, 3, 6)),
        needs="torch",
    )
    for seed in (0, 5):
        yield Case(
            "Shrunk breast-cancer", lambda: (_row("Shrunk", n_rounds=4, n_folds=3), _set("breast-cancer")), seed
        )
    yield Case(
        "Shrunk own scale", lambda: (_row("Shrunk", n_rounds=3, n_folds=3, scale="site"), _blobs(4, 40, 4, 2, 8))
    )


def _topology() -> Iterator[Case]:
    quick: dict[str, Any] = {"n_rounds": 3, "epochs": 2, "n_points": 30}
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "classes": {"cluster_by": "classes", "trust": "classes"},
        "diagrams": {"cluster_by": "diagrams", "trust": "merges", "secure": False, "n_clusters": 2},
        "updates": {"cluster_by": "updates", "trust": "updates"},
        "tracked": {"track_every": 1, "drift_limit": 0.01, "secure": False},
        "augmented": {"augment": True, "unit_box": True, "size_free": False},
    }
    for title, chosen in settings.items():
        yield Case(
            f"PTopoFL {title}",
            lambda chosen=chosen: (_row("PTopoFL", **(quick | chosen)), _blobs(8, 30, 5, 2, 9)),
            needs="gudhi",
        )
    yield Case(
        "PTopoFL published",
        lambda: (fedgeom.PTopoFL.published(n_rounds=2), _blobs(6, 40, 4, 2, 10)),
        1,
        needs="gudhi",
    )


PARTS = {  # where settings with settings of their own stood in release 0.1
    "trimmed": ("trim",),
    "krum": ("bad",),
    "decay": ("decay",),
    "interpolated": ("mix",),
}


def _row(name: str, **settings: Any) -> Any:
    """Return an algorithm; a pair (name, settings) stands for a choice with settings of its own."""
    cls = getattr(fedgeom, name)
    known = {field.name for field in fields(cls)}
    given: dict[str, Any] = {}
    for key, value in settings.items():
        if not isinstance(value, tuple) or not isinstance(value[-1], dict):
            given[key] = value
        elif "trim" in known:  # release 0.1
            given[key] = value[0]
            given |= dict(zip(PARTS[value[0]], value[1].values(), strict=True))
        else:
            given[key] = {"name": value[0], **value[1]}
    return cls(**given)


@cache
def _network() -> Any:
    import torch

    try:
        from fedgeom.methods.iterative import TorchLearner
    except ImportError:  # release 0.1
        TorchLearner = importlib.import_module("fedgeom." + "training").TorchLearner

    def build(columns: int, classes: int) -> Any:
        body = torch.nn.Sequential(torch.nn.Linear(columns, 6), torch.nn.Tanh())
        return torch.nn.Sequential(body, torch.nn.Linear(6, classes))

    return TorchLearner("unchanged-network", build, head=("1.weight", "1.bias"))


def cases() -> list[Case]:
    """Return all cases that can be run here."""
    every = [*_hulls(), *_ellipses(), *_moments(), *_xclp(), *_training(), *_topology()]
    return [case for case in every if case.possible]
