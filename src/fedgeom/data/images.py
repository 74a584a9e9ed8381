"""Image sets that everybody compares on, found in the data folder or got by the downloaders that others maintain; and
rows of sets that are read example by example, such as those of torch."""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.data.tables import is_small
from fedgeom.errors import InputError
from fedgeom.memo import memoize
from fedgeom.storage import replacing

Bytes = npt.NDArray[np.uint8]
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")


@dataclass(frozen=True)
class Images:
    """A set as it was published."""

    train: Bytes
    """(images, channels, height, width), u1"""
    train_labels: npt.NDArray[Any]
    """(images,)"""
    test: Bytes
    test_labels: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None = None
    """(images,): whose each training image is, such as its writer, where that is known."""


@dataclass(frozen=True)
class ImageSource:
    """Where a set is found."""

    files: tuple[str, ...]
    """In the data folder; none: only by a downloader."""
    torchvision: str
    """The class of ``torchvision.datasets``."""
    hugging_face: tuple[str, str, str]
    """The repository, and what its images and labels are called there."""
    classes: tuple[str, ...] = ()
    """The classes' names; none: the numbers, or what the downloader says."""
    groups: str = ""
    """What of the file says whose each image is."""

    def paths(self, folder: Path | None) -> list[Path]:
        """Return the files of the data folder; none where one is missing."""
        found = [] if folder is None else [folder / name for name in self.files]
        return found if all(path.is_file() for path in found) else []


SOURCES = {
    "mnist": ImageSource(
        ("mnist_writers.npz",), "MNIST", ("ylecun/mnist", "image", "label"), groups="writer_train"
    ),
    "fashion-mnist": ImageSource(
        ("fashion_mnist.npz",), "FashionMNIST", ("zalando-datasets/fashion_mnist", "image", "label"), FASHION
    ),
    "cifar10": ImageSource(
        ("cifar10_train.npz", "cifar10_test.npz"), "CIFAR10", ("uoft-cs/cifar10", "img", "label"), CIFAR10
    ),
    "cifar100": ImageSource((), "CIFAR100", ("uoft-cs/cifar100", "img", "fine_label")),
}
"""The sets by name."""


@memoize(2)  # unpacking takes seconds
def load_images(name: str, folder: Path | None) -> Images:
    """Return a set from the data folder, or by a downloader; say what to do where neither has it."""
    source = SOURCES[name]
    paths = source.paths(folder)
    if paths:
        return _from_files(source, paths)
    tried = []
    for road, package in ((_torchvision, "torchvision"), (_hugging_face, "datasets")):
        try:
            return road(source)
        except ImportError:
            tried.append(f"{package} is not installed")
        except Exception as error:  # each downloader says in its own ways that there is no network
            tried.append(f"{package} says: {' '.join(str(error).split())[:160] or type(error).__name__}")
    put = f"put {' and '.join(source.files)} into {folder or 'a folder and set FEDGEOM_DATA to it'}, or " * bool(
        source.files
    )
    raise InputError(
        f"the set {name!r} is not here and could not be had: {'; '.join(tried)}. To have it, {put}install torchvision "
        "or datasets and load it once with a network; what was downloaded is kept"
    )


def _from_files(source: ImageSource, paths: list[Path]) -> Images:
    parts: list[tuple[Bytes, npt.NDArray[Any]]] = []
    groups = None
    for at, part in enumerate(("train", "test")):
        with np.load(paths[min(at, len(paths) - 1)]) as file:
            if "xz" in file:
                images, numbers = unpacked(file), file["y"]
            else:
                images, numbers = file[f"X_{part}"], file[f"y_{part}"]
            if at == 0 and source.groups:
                groups = file[source.groups]
        parts.append((channels_first(images), _named(numbers, source.classes)))
    return Images(*parts[0], *parts[1], groups)


def unpacked(file: Any) -> Bytes:
    """Return the images of a packed file, (images, 32, 32, 3), in red, green and blue.

    It holds planes: green, red less green, blue less green, as differences down and across.
    """
    planes = np.frombuffer(lzma.decompress(file["xz"].tobytes()), np.uint8).reshape(file["shape"])
    green, red, blue = planes.cumsum(-1, dtype=np.uint8).cumsum(-2, dtype=np.uint8)
    return np.stack([red + green, green, blue + green], -1)


def channels_first(images: npt.NDArray[Any]) -> Bytes:
    """Return images as torch takes them, (images, channels, height, width), from (images, height, width, …)."""
    whole = images[..., None] if images.ndim == 3 else images
    return np.ascontiguousarray(np.moveaxis(whole, -1, 1), np.uint8)


def _named(numbers: npt.NDArray[Any], classes: tuple[str, ...]) -> npt.NDArray[Any]:
    found = np.asarray(numbers, np.int64)
    return np.array(classes)[found] if classes else found


def download_folder() -> Path:
    """Return where downloads are kept: FEDGEOM_DATA where one may write there, else the user's cache."""
    named = os.environ.get("FEDGEOM_DATA")
    if named and os.access(named, os.W_OK):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedgeom"


def _torchvision(source: ImageSource) -> Images:
    from torchvision import datasets  # optional

    kind: Callable[..., Any] = getattr(datasets, source.torchvision)
    parts = []
    for train in (True, False):
        found = kind(str(download_folder()), train=train, download=True)
        names = source.classes or tuple(getattr(found, "classes", ())) * (source.torchvision != "MNIST")
        parts += [channels_first(np.asarray(found.data)), _named(np.asarray(found.targets), names)]
    return Images(*parts)


def _hugging_face(source: ImageSource) -> Images:
    from datasets import load_dataset  # optional

    place, image, label = source.hugging_face
    parts = []
    for part in ("train", "test"):
        found = load_dataset(place, split=part)
        names = source.classes or tuple(getattr(found.features[label], "names", ())) * ("mnist" not in place)
        images = np.stack([np.asarray(one) for one in found[image]])
        parts += [channels_first(images), _named(np.asarray(found[label]), names)]
    return Images(*parts)


class FromDataset:
    """The way in which a `SiteData` is made from a set that is read example by example."""

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        *,
        name: str = "site",
        file: str | Path | None = None,
        row: int | str = 0,
        label: int | str = 1,
    ) -> Any:
        """Return the examples of a torch ``Dataset``, or of one of Hugging Face's, as a site.

        Rows keep their type where it is small, such as bytes of images; pictures become (channels, height, width).

        Parameters
        ----------
        dataset: a set with a length, and an example for each number
            A torch ``Dataset`` that gives pairs of a row and a label, or one that gives dictionaries.
        name: text; "site" if not given
            What the site is called.
        file: a path or None; None if not given
            Where rows are written to, for sets that are larger than memory: an .npy file, which is mapped into memory.
        row: a number or text; 0 if not given
            What the row is called in an example.
        label: a number or text; 1 if not given
            What the label is called in an example.
        """
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or not len(dataset):
            raise InputError(
                f"site {name!r}: a {type(dataset).__name__} was given; wanted a set with a length of 1 or more, whose "
                "examples have numbers, such as a torch Dataset"
            )
        first = _row_of(_part_of(dataset[0], row, name))
        kind = first.dtype if is_small(first.dtype) else np.dtype(np.float64)
        shape = (len(dataset), *first.shape)
        labels = []

        def read(into: npt.NDArray[Any]) -> None:
            for at in range(len(dataset)):
                example = dataset[at]
                cells = _row_of(_part_of(example, row, name))
                if cells.shape != first.shape:
                    raise InputError(
                        f"site {name!r}: example {at} has the shape {cells.shape}, the first one {first.shape}; wanted "
                        "one shape for all: let the set's transform make them alike"
                    )
                into[at] = cells
                said = _part_of(example, label, name)
                labels.append(said.item() if hasattr(said, "item") else said)

        if file is None:
            rows = np.empty(shape, kind)
            read(rows)
        else:
            with replacing(file) as draft:
                mapped = np.lib.format.open_memmap(draft, "w+", kind, shape)
                read(mapped)
                mapped.flush()
            rows = np.load(file, mmap_mode="r")
        return cls(name, rows, labels)  # type: ignore[call-arg]


def _part_of(example: Any, key: int | str, name: str) -> Any:
    try:
        return example[key]
    except (KeyError, IndexError, TypeError) as error:
        there = ", ".join(map(repr, example)) if isinstance(example, dict) else type(example).__name__
        raise InputError(
            f"site {name!r}: an example has no {key!r}; there is: {there}. Say what the row and the label are called: "
            'row="image", label="label"'
        ) from error


def _row_of(value: Any) -> npt.NDArray[Any]:
    """Return a row as an array; of a picture, channels come first."""
    cells = np.asarray(value)
    if hasattr(value, "getbands") and cells.ndim > 1:
        cells = channels_first(cells[None])[0]
    if cells.dtype.kind not in "biuf":
        raise InputError(f"a row is a {type(value).__name__}; wanted an array of numbers, a tensor or a picture")
    return cells
