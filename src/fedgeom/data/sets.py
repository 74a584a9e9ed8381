"""The built-in sets: what they are, where to get them, and how they fall into sites.

Files of real data are looked for in the folder that ``FEDGEOM_DATA`` names, and without it in ``shared/data``
beside the working directory or one of its parents. Three sets ship with scikit-learn and one is drawn at
random; these always work.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgeom.data import builtin_sets as loading
from fedgeom.data.builtin_sets import DataSet
from fedgeom.errors import InputError

__all__ = ["SETS", "DataSet", "SetInfo", "available", "data_folder", "find_file", "load_set"]


@dataclass(frozen=True)
class SetInfo:
    """What there is to know about a set before one has it."""

    description: str
    licence: str
    source: str
    load: Callable[..., DataSet]
    file: str = ""
    """The file that is looked for; empty when nothing has to be found."""

    @property
    def how_to_get(self) -> str:
        """Say what to do to have it."""
        if not self.file:
            return "nothing to do: it comes with the installation"
        return f"put {self.file}, made from {self.source}, into a folder and set FEDGEOM_DATA to it"


SETS: dict[str, SetInfo] = {
    "hipc": SetInfo(
        "T cells of flow cytometry, 7 markers, 10 cell types; the sites are 5 hospitals",
        "the data are public (ImmuneSpace, FlowCAP-III); the files GPL-3",
        "the CytOpT repository's Data folder (Freulon et al.)",
        loading.hipc,
        "hipc_tcell_5hospitals.npz",
    ),
    "heart": SetInfo(
        "heart disease yes or no, 13 clinical columns with gaps; the sites are 4 hospitals",
        "CC BY 4.0",
        "the UCI heart disease files processed.*.data",
        loading.heart,
        "heart_disease_4hospitals.npz",
    ),
    "olsson": SetInfo(
        "blood cells of mice in a 2-D Poincaré embedding, 8 cell types, 319 cells dealt to sites",
        "MIT",
        "olsson_poincare_embedding.npz in the PoincareLinearClassification repository (Chien, Pan et al.)",
        loading.olsson,
        "olsson.npz",
    ),
    "paul15": SetInfo(
        "myeloid progenitors of mice in a 2-D Poincaré map, 19 clusters, 2,730 cells dealt to sites",
        "CC BY-NC 4.0 (the map)",
        "the PoincareMaps repository's results (Klimovskaia et al.)",
        loading.paul15,
        "paul15.npz",
    ),
    "poincare-cifar10": SetInfo(
        "CIFAR-10 images in a 2-D Poincaré embedding, 10 classes, 60,000 points dealt to sites",
        "MIT",
        "the embedding folder of the PoincareLinearClassification repository (Chien, Pan et al.)",
        loading.poincare_cifar10,
        "poincare2d_cifar10_fmnist.npz",
    ),
    "poincare-fashion": SetInfo(
        "Fashion-MNIST images in a 2-D Poincaré embedding, 10 classes, 70,000 points dealt to sites",
        "MIT",
        "the embedding folder of the PoincareLinearClassification repository (Chien, Pan et al.)",
        loading.poincare_fashion,
        "poincare2d_cifar10_fmnist.npz",
    ),
    "breast-cancer": SetInfo(
        "breast tumours, benign or malignant, 569 patients × 30 columns dealt to 4 sites",
        "CC BY 4.0",
        "scikit-learn",
        loading.breast_cancer,
    ),
    "digits": SetInfo(
        "handwritten digits, 1,797 images of 8 × 8 dealt to 4 sites", "CC BY 4.0", "scikit-learn", loading.digits
    ),
    "wine": SetInfo(
        "wines of three growers, 178 × 13 columns dealt to 3 sites", "CC BY 4.0", "scikit-learn", loading.wine
    ),
    "synthetic": SetInfo(
        "two classes on either side of a random geodesic of the disc, dealt to sites",
        "none needed",
        "drawn at random",
        loading.synthetic,
    ),
}
"""All built-in sets by name."""


def data_folder() -> Path | None:
    """Return the folder with the sets' files, or None when there is none."""
    named = os.environ.get("FEDGEOM_DATA")
    if named:
        return Path(named)
    here = Path.cwd()
    places = [parent / "shared" / "data" for parent in (here, *here.parents)]
    return next((place for place in places if place.is_dir()), None)


def find_file(name: str) -> Path | None:
    """Return the file of a set, or None when it is not there (or none is needed)."""
    folder, file = data_folder(), _info(name).file
    return folder / file if file and folder is not None and (folder / file).is_file() else None


def available() -> list[str]:
    """Return the names of the sets that can be loaded here."""
    return [name for name, info in SETS.items() if not info.file or find_file(name) is not None]


def load_set(name: str, **options: Any) -> DataSet:
    """Load a built-in set as sites, each with a train and a test part.

    ``name`` is one of those that ``fedgeom data`` lists. Its ``options``: all take ``seed``; those that are dealt take
    ``n_sites``; those without a published test part take ``test_share``; the large ones take ``rows``, the number kept
    per site.
    """
    info = _info(name)
    found = find_file(name)
    if info.file and found is None:
        folder = data_folder()
        looked = (
            f"it was looked for in {folder}" if folder else "FEDGEOM_DATA is not set and there is no shared/data"
        )
        raise InputError(
            f"the set {name!r} needs {info.file}: {looked}. {info.how_to_get[0].upper()}{info.how_to_get[1:]}"
        )
    try:
        return info.load(name, found, **options) if info.file else info.load(name, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise InputError(f"the set {name!r} does not take these options: {error}") from error


def _info(name: str) -> SetInfo:
    if name not in SETS:
        raise InputError(f"there is no set {name!r}; there are: {', '.join(SETS)}")
    return SETS[name]
