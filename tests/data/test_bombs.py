"""Small files that unpack to far too much are refused before they take the memory: by readers and by the studio."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedgeom.data.csv import LEAST_TEXT
from fedgeom.data.readers import read_site
from fedgeom.errors import InputError
from fedgeom.storage import LEAST_UNPACKED, MOST_UNPACKED, check_archive, check_unpacked

MOST_MEMORY = 40 * 2**20
"""A bomb may cost so many bytes: all are refused before they are unpacked."""
READ = """
import resource, sys
from pathlib import Path
from fedgeom.data.readers import read_site
from fedgeom.errors import InputError
small, large = Path(sys.argv[1]), Path(sys.argv[2])
def used(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
def read(file):
    if sys.argv[3] == "studio":
        from fedgeom.studio.studies import file_facts
        return file_facts(file)
    return read_site(file, label="y", columns=sys.argv[4] or None)
try: read(small)
except InputError: pass
before = used()
try: read(large)
except InputError as error: print(used() - before, error)
"""


def zipped_text(file: Path, *, large: bool = False) -> None:
    """Write a .csv.gz of 128 kB, or large enough for Arrow to read it, that unzips to 1,000 times as much."""
    part = gzip.compress(b"0,0\n" * (2 * LEAST_TEXT // 4))
    file.write_bytes(gzip.compress(b"x,y\n") + part * (40 if large else 4))


def one_line(file: Path) -> None:
    """Write a .csv.gz whose header never ends."""
    file.write_bytes(gzip.compress(bytes(2 * LEAST_TEXT).replace(b"\0", b"x")) * 40)


def archive(file: Path) -> None:
    """Write an .npz of zeros."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made, made.open("X.npy", "w") as out:
        rows = (LEAST_UNPACKED + 2**24) // 80
        head = {"descr": "<f8", "fortran_order": False, "shape": (rows, 10)}
        np.lib.format.write_array_header_1_0(out, head)
        for _ in range(10):
            out.write(bytes(8 * rows))


def cells(file: Path) -> None:
    """Write an .h5ad with a matrix that was never written: it is not in the file, and all zeros when it is read."""
    with pytest.importorskip("h5py").File(file, "w") as made:
        made.create_dataset("X", shape=(10**5, 10**4), dtype="f8", chunks=(100, 100), compression="gzip")


def table(file: Path) -> None:
    """Write a Parquet file in which one row is repeated."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    part = arrow.table({"x": np.zeros(2**20), "y": np.zeros(2**20)})
    with parquet.ParquetWriter(file, part.schema) as out:
        for _ in range(20):
            out.write_table(part)


BOMBS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "text": ("a.csv.gz", zipped_text),
    "large text": ("b.csv.gz", lambda file: zipped_text(file, large=True)),
    "one line": ("c.csv.gz", one_line),
    "archive": ("a.npz", archive),
    "cells": ("a.h5ad", cells),
    "table": ("a.parquet", table),
}


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
@pytest.mark.parametrize("reader", ["reader", "studio"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_and_costs_little_memory(bomb: str, reader: str, tmp_path: Path) -> None:
    if reader == "studio":
        pytest.importorskip("starlette", reason="needs the studio extra")
    name, make = BOMBS[bomb]
    make(tmp_path / name)
    (tmp_path / "small").mkdir()
    small = tmp_path / "small" / name  # whatever is in it, reading it imports what reading imports
    small.write_bytes((tmp_path / name).read_bytes()[:1000])
    words = [sys.executable, "-c", READ, str(small), str(tmp_path / name), reader, ""]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    used, _, why = said.partition(" ")
    assert "unpacks to" in why
    assert int(used) < MOST_MEMORY


def test_zipped_tables_of_measurements_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["x,z,y", *(f"{a:.6f},0,{label}" for label, a in enumerate(rng.standard_normal(200_000)))]
    for count, name in ((2000, "small"), (len(lines), "large")):
        file = tmp_path / f"{name}.csv.gz"
        file.write_bytes(gzip.compress("\n".join(lines[:count]).encode()))
        assert len(read_site(file, label="y")) == count - 1


def test_a_file_may_unpack_to_a_hundred_times_its_size(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    file.write_bytes(bytes(1000))
    check_unpacked(file, MOST_UNPACKED * 1000, least=0)
    check_unpacked(file, LEAST_UNPACKED)
    for size, least in ((MOST_UNPACKED * 1000 + 1, 0), (LEAST_UNPACKED + 1, LEAST_UNPACKED)):
        with pytest.raises(InputError, match="save it unpacked"):
            check_unpacked(file, size, least=least)


@pytest.mark.parametrize("cut", [50, 200, -30, -5])
def test_a_damaged_archive_or_zipped_table_is_refused_in_words(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "a.npz"
    np.savez_compressed(file, X=np.arange(600.0).reshape(200, 3), y=np.arange(200) % 2)
    data = bytearray(file.read_bytes())
    data[cut] ^= 0xFF
    file.write_bytes(bytes(data[:cut]))
    with pytest.raises(InputError, match="cannot be read"):
        check_archive(file)
    text = tmp_path / "a.csv.gz"
    whole = bytearray(gzip.compress(b"x,y\n" + b"".join(b"%d,%d\n" % (at * 7919, at % 2) for at in range(999))))
    whole[len(whole) // 2] ^= 0xFF
    text.write_bytes(bytes(whole))
    with pytest.raises(InputError, match="cannot be unzipped"):
        read_site(text, label="y")


def test_an_archive_that_promises_a_huge_array_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    with zipfile.ZipFile(file, "w") as made, made.open("X.npy", "w") as out:
        head = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**4)}
        np.lib.format.write_array_header_1_0(out, head)
    with pytest.raises(InputError, match=r"cannot be read as an \.npz archive|no key"):
        read_site(file, label="X")
