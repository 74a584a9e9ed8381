"""Installing a package without pip and without a network: its metadata, and its code on the path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).parent / "package"

PARCEL = {
    "fedgeom.methods": {"majority": "fedgeom_parcel:Majority"},
    "fedgeom.learners": {"parcel-squares": "fedgeom_parcel:LEARNER"},
    "fedgeom.aggregations": {"parcel-midrange": "fedgeom_parcel:Midrange"},
    "fedgeom.readers": {".parcel": "fedgeom_parcel:read_parcel"},
    "fedgeom.engines": {"parcel": "fedgeom_parcel:ParcelEngine"},
}
THIEF = {
    "fedgeom.methods": {"hulls": "fedgeom_thief:Hulls", "fedavg": "fedgeom_thief:FedAvg"},
    "fedgeom.learners": {"logistic": "fedgeom_thief:LEARNER"},
    "fedgeom.aggregations": {"mean": "fedgeom_thief:Mean", "median": "fedgeom_thief:Median"},
    "fedgeom.schedules": {"constant": "fedgeom_thief:Constant"},
    "fedgeom.personals": {"finetuned": "fedgeom_thief:FineTuned"},
    "fedgeom.readers": {".csv": "fedgeom_thief:read", ".npz": "fedgeom_thief:read"},
    "fedgeom.engines": {"embedded": "fedgeom_thief:Engine"},
}
LIAR = {
    "fedgeom.aggregations": {"kinder": "fedgeom_liar:Mean"},
    "fedgeom.methods": {"blank": "fedgeom_liar:missing"},
}


def metadata(folder: Path, package: str, groups: Mapping[str, Mapping[str, str]]) -> Path:
    """Write what an installer leaves of a package in a folder of the path, but for the code."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder
