"""The image sets that several papers use, as rows of bytes."""

from __future__ import annotations

import lzma
from typing import Any

import numpy as np
import numpy.typing as npt

from papers.common import Ints, load_data

Bytes = npt.NDArray[np.uint8]


def fashion_mnist(part: str) -> tuple[Bytes, Ints]:
    """Return the images of "train" or "test", (images, 28, 28, 1), and their classes, (images,)."""
    with load_data("fashion_mnist.npz") as file:
        return file[f"X_{part}"].reshape(-1, 28, 28, 1), file[f"y_{part}"].astype(np.int64)


def cifar10(part: str) -> tuple[Bytes, Ints]:
    """Return the images of "train" or "test", (images, 32, 32, 3) in red, green and blue, and their classes."""
    with load_data(f"cifar10_{part}.npz") as file:
        return _unpack(file), file["y"].astype(np.int64)


def _unpack(file: Any) -> Bytes:
    """Undo how the file packs its planes: green, red less green, blue less green; differences down and across."""
    planes = np.frombuffer(lzma.decompress(file["xz"].tobytes()), np.uint8).reshape(file["shape"])
    green, red, blue = planes.cumsum(-1, dtype=np.uint8).cumsum(-2, dtype=np.uint8)
    return np.stack([red + green, green, blue + green], -1)
