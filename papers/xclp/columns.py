"""The columns of tables.py: every way to label test rows from the labels that are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedgeom.methods.xclp.core import Labelled
from papers.common import Floats, Ints
from papers.xclp.plain import per_client, plain
from papers.xclp.tasks import Task, fedavg, fedavg_twice, spread

Sites = list[tuple[Floats, Ints]]
Method = Callable[[Task, Any, int], Ints]


def _joint(**options: Any) -> Callable[[list[int], int], Callable[[Sites], Sequence[Labelled]]]:
    return lambda classes, seed: lambda sites: plain(sites, classes=classes, seed=seed, **options).sites


def _xclp(**options: Any) -> Method:
    """Propagate over all rows."""
    return lambda task, shown, seed: spread(task, shown, task.all, _joint(**options)(task.classes, seed))


METHODS: dict[str, Method] = {
    "per-client LP paper": lambda task, shown, seed: spread(
        task, shown, task.all, lambda sites: per_client(sites, variant="paper", classes=task.classes)
    ),
    "per-client LP code": lambda task, shown, seed: spread(
        task, shown, task.all, lambda sites: per_client(sites, variant="code", classes=task.classes)
    ),
    "per-client LP ours": lambda task, shown, seed: spread(
        task, shown, task.all, lambda sites: per_client(sites, classes=task.classes)
    ),
    "FedAvg": fedavg,
    "FedAvg + own labels": fedavg_twice,
    "XCLP (labelled)": lambda task, shown, seed: spread(
        task, shown, shown | task.test, _joint(variant="paper")(task.classes, seed)
    ),
    "XCLP (labelled + unlabelled)": _xclp(variant="paper"),
    "XCLP code": _xclp(variant="code"),
    "XCLP ours, no prior": _xclp(prior="none"),
    "XCLP ours": _xclp(),
    "XCLP ours, anchors": _xclp(graph="anchors"),
}
UNCHECKED: dict[str, Method] = {"XCLP ours, unchecked prior": _xclp(prior="em-unchecked")}
LOO = (
    "FedAvg",
    "FedAvg + own labels",
    "XCLP (labelled + unlabelled)",
    "XCLP code",
    "XCLP ours",
    "XCLP ours, anchors",
    *UNCHECKED,
)
