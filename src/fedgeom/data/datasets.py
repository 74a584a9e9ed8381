"""The built-in data sets: what they are, where to get them, and how they fall into sites."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.arrays import Floats, Labels
from fedgeom.data.images import Images, load_images
from fedgeom.data.partition import Partition
from fedgeom.data.sites import SiteData
from fedgeom.data.split import holdout, split
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.sampling import labelled_disc
from fedgeom.registry import did_you_mean

LEAST_PER_CLASS = 20
"""A smaller sample of a site still has this many rows of each class, where the site has them."""


@dataclass(frozen=True)
class DataSet:
    """A set as sites; ``test[i]`` holds the rows of site ``train[i]`` that were kept out of training."""

    name: str
    train: list[SiteData]
    test: list[SiteData]
    classes: tuple[str, ...]
    in_disc: bool
    """Whether rows are points of the Poincaré disc already."""
    shape: tuple[int, ...] | None = None
    """What a row is, (channels, height, width) for images; None: a row of columns."""

    def relabel(self, words: dict[str, dict[str, str]]) -> DataSet:
        """Return the set with each site's labels in the site's own words; ``words`` goes by site name."""
        unknown = [site.name for site in self.train if site.name not in words]
        if unknown:
            raise InputError(f"no words were given for the sites {', '.join(unknown)} of {self.name!r}")
        train, test = ([site.relabel(words[site.name]) for site in part] for part in (self.train, self.test))
        return replace(self, train=train, test=test)

    def rename(self, names: Sequence[str]) -> DataSet:
        """Return the set with its sites called otherwise, in order."""
        if len(names) != len(self.train):
            raise InputError(f"{len(names)} names were given for the {len(self.train)} sites of {self.name!r}")
        train, test = (
            [replace(site, name=title) for site, title in zip(part, names, strict=True)]
            for part in (self.train, self.test)
        )
        return replace(self, train=train, test=test)


def sample(site: SiteData, rows: int | None, seed: int = 0, least: int = LEAST_PER_CLASS) -> SiteData:
    """Return about ``rows`` of a site's rows, each class by its share but with at least ``least`` rows."""
    if rows is None or rows >= len(site):
        return site
    if rows < 1:
        raise InputError(f"rows={rows} given; wanted a positive number of rows per site")
    rng = np.random.default_rng(seed)
    chosen = []
    for label in site.classes:
        members = np.flatnonzero(site.y == label)
        n = min(len(members), max(least, round(rows * len(members) / len(site))))
        chosen.append(rng.permutation(members)[:n])
    return site.take(np.sort(np.concatenate(chosen)))


def _made(name: str, parts: Sequence[tuple[SiteData, SiteData]], *, in_disc: bool) -> DataSet:
    train = [part[0] for part in parts]
    test = [part[1] for part in parts]
    classes = sorted({str(label) for site in train for label in site.classes})
    return DataSet(name, train, test, tuple(classes), in_disc)


def hipc(name: str, file: Path, *, rows: int | None = 4000, test_share: float = 0.3, seed: int = 0) -> DataSet:
    """Five hospitals with 29,000 to 170,000 cells each, of which ``rows`` are kept."""
    z = np.load(file)
    names = z["site_names"]
    columns = tuple(z["feature_names"].tolist())
    labels = z["class_names"][z["y"]]
    X = z["X"]
    owner = z["site"]
    parts = []
    for i, title in enumerate(names.tolist()):
        mine = owner == i
        whole = SiteData(title, X[mine], labels[mine], columns=columns)
        parts.append(holdout(sample(whole, rows, seed), test_share, seed))
    return _made(name, parts, in_disc=False)


def heart(name: str, file: Path, *, test_share: float = 0.3, seed: int = 0) -> DataSet:
    """Four hospitals; gaps are filled by the median of the site's own training rows.

    A column that is empty at some site cannot be filled there and is left out at all of them.
    """
    z = np.load(file)
    X = z["X"].astype(np.float64)
    labels = np.where(z["y"] > 0, "disease", "healthy")
    owner = z["site"]
    names = z["site_names"].tolist()
    pieces = [
        holdout(SiteData(title, X[owner == i], labels[owner == i]), test_share, seed)
        for i, title in enumerate(names)
    ]
    there = np.all([np.isfinite(train.X).any(axis=0) for train, _ in pieces], axis=0)
    columns = tuple(z["feature_names"][there].tolist())
    parts = []
    for train, test in pieces:
        medians = np.nanmedian(train.X[:, there], axis=0)
        filled = [np.where(np.isfinite(part.X[:, there]), part.X[:, there], medians) for part in (train, test)]
        parts.append(
            (replace(train, table=filled[0], columns=columns), replace(test, table=filled[1], columns=columns))
        )
    return _made(name, parts, in_disc=False)


def olsson(name: str, file: Path, *, n_sites: int = 3, seed: int = 0) -> DataSet:
    """The published train and test part, both dealt to the sites."""
    z = np.load(file)
    words = z["emb8_class_names"]
    return _published(
        name,
        (z["emb8_x_train"], words[z["emb8_y_train"]]),
        (z["emb8_x_test"], words[z["emb8_y_test"]]),
        n_sites,
        None,
        seed,
    )


def paul15(name: str, file: Path, *, n_sites: int = 3, test_share: float = 0.3, seed: int = 0) -> DataSet:
    """The Poincaré map, dealt to the sites."""
    z = np.load(file)
    whole = split(z["poincare"], z["class_names"][z["y"]], n_sites, seed=seed)
    return _made(name, [holdout(site, test_share, seed) for site in whole], in_disc=True)


def poincare_cifar10(
    name: str, file: Path, *, n_sites: int = 5, rows: int | None = None, seed: int = 0
) -> DataSet:
    """The published train and test part, both dealt to the sites."""
    words = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    return _image_embedding(name, file, "cifar10", words, n_sites, rows, seed)


def poincare_fashion(
    name: str, file: Path, *, n_sites: int = 5, rows: int | None = None, seed: int = 0
) -> DataSet:
    """The published train and test part, both dealt to the sites."""
    words = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
    return _image_embedding(name, file, "fashion_mnist", words, n_sites, rows, seed)


def _image_embedding(
    name: str, file: Path, key: str, words: list[str], n_sites: int, rows: int | None, seed: int
) -> DataSet:
    z = np.load(file)
    titles = np.array(words)
    train, test = ((z[f"{key}_x_{part}"], titles[z[f"{key}_y_{part}"]]) for part in ("train", "test"))
    return _published(name, train, test, n_sites, rows, seed)


def _published(
    name: str,
    train: tuple[Floats, Labels],
    test: tuple[Floats, Labels],
    n_sites: int,
    rows: int | None,
    seed: int,
) -> DataSet:
    dealt = (split(*part, n_sites, seed=seed) for part in (train, test))
    parts = [(sample(mine, rows, seed), aside) for mine, aside in zip(*dealt, strict=True)]
    return _made(name, parts, in_disc=True)


def image_set(
    name: str,
    *,
    n_sites: int = 10,
    how: str | Partition = "iid",
    rows: int | None = None,
    seed: int = 0,
) -> DataSet:
    """The published training part by any partition, or by its writers; the published test part is dealt evenly.

    Images stay bytes, with (channels, height, width) in a row.
    """
    found = load_images(name, data_folder())
    shape = found.train.shape[1:]
    if how == "natural":
        train = _by_group(name, found, n_sites)
    else:
        train = split(found.train, found.train_labels, n_sites, how, seed)
    test = split(found.test, found.test_labels, len(train), seed=seed, names=[site.name for site in train])
    parts = [(sample(mine, rows, seed, 1), aside) for mine, aside in zip(train, test, strict=True)]
    return replace(_made(name, parts, in_disc=False), shape=shape)


def _by_group(name: str, found: Images, n_sites: int) -> list[SiteData]:
    """Return those sites with the most images, of those whose images they are."""
    if found.groups is None:
        raise InputError(f'how="natural" given; nobody knows whose images those of {name!r} are: name a partition')
    owners, counts = np.unique(found.groups, return_counts=True)
    if not 1 <= n_sites <= len(owners):
        raise InputError(f"n_sites={n_sites} given; {name!r} has {len(owners)} natural sites")
    most = np.sort(owners[np.argsort(-counts, kind="stable")[:n_sites]])
    return [
        SiteData(f"writer-{one}", found.train[found.groups == one], found.train_labels[found.groups == one])
        for one in most.tolist()
    ]


def breast_cancer(name: str, *, n_sites: int = 4, test_share: float = 0.3, seed: int = 0) -> DataSet:
    """Patients of one hospital, dealt to several."""
    from sklearn.datasets import load_breast_cancer  # slow to import

    return _bundled(name, load_breast_cancer(), n_sites, test_share, seed)


def digits(name: str, *, n_sites: int = 4, test_share: float = 0.3, seed: int = 0) -> DataSet:
    """Images of digits, dealt to the sites; pixels that are blank nearly everywhere are left out."""
    from sklearn.datasets import load_digits  # slow to import

    bunch = load_digits()
    inked = (bunch.data > 0).mean(axis=0) > 0.02
    bunch.data, bunch.feature_names = bunch.data[:, inked], np.array(bunch.feature_names)[inked]
    return _bundled(name, bunch, n_sites, test_share, seed)


def wine(name: str, *, n_sites: int = 3, test_share: float = 0.3, seed: int = 0) -> DataSet:
    """Wines, dealt to the sites."""
    from sklearn.datasets import load_wine  # slow to import

    return _bundled(name, load_wine(), n_sites, test_share, seed)


def _bundled(name: str, bunch: Any, n_sites: int, test_share: float, seed: int) -> DataSet:
    labels = np.array([str(title) for title in bunch.target_names])[bunch.target]
    columns = tuple(str(title) for title in bunch.feature_names)
    whole = [replace(site, columns=columns) for site in split(bunch.data, labels, n_sites, seed=seed)]
    return _made(name, [holdout(site, test_share, seed) for site in whole], in_disc=False)


def synthetic(
    name: str,
    *,
    n_sites: int = 3,
    points: int = 3000,
    radius: float = 0.95,
    margin: float = 0.1,
    test_share: float = 0.3,
    seed: int = 0,
) -> DataSet:
    """Points uniform in the disc by hyperbolic area, on two sides of a random geodesic."""
    disc = labelled_disc(points, radius, margin, np.random.default_rng(seed), reference_norm=0.4 * radius)
    whole = split(disc.X, np.where(disc.y > 0, "east", "west"), n_sites, seed=seed)
    return _made(name, [holdout(site, test_share, seed) for site in whole], in_disc=True)


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

    downloads: bool = False
    """Whether torchvision or Hugging Face's datasets get it, where one of them and a network are there."""

    @property
    def how_to_get(self) -> str:
        """Say what to do to have it."""
        if self.downloads:
            put = f"put {self.file} into a folder and set FEDGEOM_DATA to it, or " if self.file else ""
            return f"{put}install torchvision, which gets it when it is first loaded"
        if not self.file:
            return "nothing to do: it comes with the installation"
        return f"put {self.file}, made from {self.source}, into a folder and set FEDGEOM_DATA to it"


SETS: dict[str, SetInfo] = {
    "hipc": SetInfo(
        "T cells of flow cytometry, 7 markers, 10 cell types; the sites are 5 hospitals",
        "the data are public (ImmuneSpace, FlowCAP-III); the files GPL-3",
        "the CytOpT repository's Data folder (Freulon et al.)",
        hipc,
        "hipc_tcell_5hospitals.npz",
    ),
    "heart": SetInfo(
        "heart disease yes or no, 13 clinical columns with gaps; the sites are 4 hospitals",
        "CC BY 4.0",
        "the UCI heart disease files processed.*.data",
        heart,
        "heart_disease_4hospitals.npz",
    ),
    "olsson": SetInfo(
        "blood cells of mice in a 2-D Poincaré embedding, 8 cell types, 319 cells dealt to sites",
        "MIT",
        "olsson_poincare_embedding.npz in the PoincareLinearClassification repository (Chien, Pan et al.)",
        olsson,
        "olsson.npz",
    ),
    "paul15": SetInfo(
        "myeloid progenitors of mice in a 2-D Poincaré map, 19 clusters, 2,730 cells dealt to sites",
        "CC BY-NC 4.0 (the map)",
        "the PoincareMaps repository's results (Klimovskaia et al.)",
        paul15,
        "paul15.npz",
    ),
    "poincare-cifar10": SetInfo(
        "CIFAR-10 images in a 2-D Poincaré embedding, 10 classes, 60,000 points dealt to sites",
        "MIT",
        "the embedding folder of the PoincareLinearClassification repository (Chien, Pan et al.)",
        poincare_cifar10,
        "poincare2d_cifar10_fmnist.npz",
    ),
    "poincare-fashion": SetInfo(
        "Fashion-MNIST images in a 2-D Poincaré embedding, 10 classes, 70,000 points dealt to sites",
        "MIT",
        "the embedding folder of the PoincareLinearClassification repository (Chien, Pan et al.)",
        poincare_fashion,
        "poincare2d_cifar10_fmnist.npz",
    ),
    "mnist": SetInfo(
        'handwritten digits, 70,000 images of 28 × 28; dealt to sites, or by writer (how="natural")',
        "CC BY-SA 3.0",
        "MNIST (LeCun et al.), with QMNIST's writers",
        image_set,
        "mnist_writers.npz",
        True,
    ),
    "fashion-mnist": SetInfo(
        "photos of clothes, 70,000 images of 28 × 28 in 10 classes, dealt to sites",
        "MIT",
        "Zalando Research",
        image_set,
        "fashion_mnist.npz",
        True,
    ),
    "cifar10": SetInfo(
        "photos, 60,000 images of 3 × 32 × 32 in 10 classes, dealt to sites",
        "none is told; cite Krizhevsky 2009",
        "CIFAR-10 (Krizhevsky)",
        image_set,
        "cifar10_train.npz",
        True,
    ),
    "cifar100": SetInfo(
        "photos, 60,000 images of 3 × 32 × 32 in 100 classes, dealt to sites",
        "none is told; cite Krizhevsky 2009",
        "CIFAR-100 (Krizhevsky)",
        image_set,
        "",
        True,
    ),
    "breast-cancer": SetInfo(
        "breast tumours, benign or malignant, 569 patients × 30 columns dealt to 4 sites",
        "CC BY 4.0",
        "scikit-learn",
        breast_cancer,
    ),
    "digits": SetInfo(
        "handwritten digits, 1,797 images of 8 × 8 dealt to 4 sites", "CC BY 4.0", "scikit-learn", digits
    ),
    "wine": SetInfo(
        "wines of three growers, 178 × 13 columns dealt to 3 sites", "CC BY 4.0", "scikit-learn", wine
    ),
    "synthetic": SetInfo(
        "two classes on either side of a random geodesic of the disc, dealt to sites",
        "none needed",
        "drawn at random",
        synthetic,
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
    folder = data_folder()
    file = _info(name).file
    return folder / file if file and folder is not None and (folder / file).is_file() else None


def available() -> list[str]:
    """Return the names of the sets that can be loaded here."""
    return [
        name for name, info in SETS.items() if find_file(name) is not None or not (info.file or info.downloads)
    ]


def load_set(name: str, **options: Any) -> DataSet:
    """Load a built-in set as sites, each with a train and a test part.

    Parameters
    ----------
    name: text
        One of those that ``fedgeom data`` lists.
    options: settings of the set
        All sets take ``seed``. Those that are dealt take ``n_sites``, those without a published test part
        ``test_share``, and the large ones ``rows``, the number kept for each site. Sets of images ("mnist",
        "fashion-mnist", "cifar10", "cifar100") take ``how``, a partition of `fedgeom.partition` or its name; their
        images stay bytes, and ``shape`` says what a row is. They are looked for in FEDGEOM_DATA or ../shared/data, and
        otherwise got by torchvision or Hugging Face's datasets.

    Returns
    -------
    DataSet
    """
    info = _info(name)
    found = find_file(name)
    if info.file and found is None and not info.downloads:
        folder = data_folder()
        looked = (
            f"it was looked for in {folder}" if folder else "FEDGEOM_DATA is not set and there is no shared/data"
        )
        raise InputError(
            f"the set {name!r} needs {info.file}: {looked}. {info.how_to_get[0].upper()}{info.how_to_get[1:]}"
        )
    try:
        own_file = bool(info.file) and not info.downloads
        return info.load(name, found, **options) if own_file else info.load(name, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise InputError(f"the set {name!r} does not take these options: {error}") from error


def _info(name: str) -> SetInfo:
    if name not in SETS:
        raise InputError(f"there is no set {name!r}; there are: {', '.join(SETS)}.{did_you_mean(name, SETS)}")
    return SETS[name]
