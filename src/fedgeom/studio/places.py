"""What lies in the studio's folder, and names that lead nowhere else: all the studio knows is in files."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from fedgeom.data.readers import READERS
from fedgeom.errors import InputError
from fedgeom.storage import make_private_folder

NAME = re.compile(r"\w[\w. ()+,=@-]{0,119}")
"""Names of files, studies and runs, in any alphabet and as browsers number them, "cells (1).h5ad": no slash, and no dot
in front."""


@dataclass(frozen=True)
class Place:
    """The folder that the studio works in."""

    path: Path

    @property
    def shown(self) -> str:
        """Where it is, as people write it: from their own folder on."""
        with contextlib.suppress(ValueError, RuntimeError):  # it lies elsewhere, or nobody knows whose it is
            return str("~" / self.path.relative_to(Path.home()))
        return str(self.path)

    @property
    def is_site(self) -> bool:
        """Whether it is a site's folder."""
        return (self.path / "site.toml").is_file()

    @property
    def is_coordinator(self) -> bool:
        """Whether it is a coordinator's folder."""
        return (self.path / "coordinator.toml").is_file()

    @property
    def files(self) -> Path:
        """Where tables are kept that were dropped on the page."""
        return self.path / "files"

    @property
    def studies(self) -> Path:
        """Where federation files are kept that were made on the page."""
        return self.path / "studies"

    @property
    def runs(self) -> Path:
        """Where runs are recorded."""
        return self.path / "runs"

    @property
    def launches(self) -> Path:
        """What the studio knows of the processes that it started."""
        return self.path / "runs" / ".studio"

    def make(self, folder: Path) -> Path:
        """Make one of the folders, closed to others."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        return make_private_folder(folder)

    def table(self, name: str) -> Path:
        """Return a kept table by its name."""
        return _in(self.files, name, "file")

    def study(self, name: str) -> Path:
        """Return a study's federation file by its name."""
        return _in(self.studies, f"{plain(name)}.toml", "study")

    def run(self, name: str) -> Path:
        """Return a run's folder by its name."""
        return _in(self.runs, name, "run")

    def table_names(self) -> list[str]:
        """Return the kept tables that can be read."""
        return [one.name for one in _listed(self.files) if one.is_file() and can_be_read(one.name)]

    def study_names(self) -> list[str]:
        """Return the studies, the newest first."""
        found = [one for one in _listed(self.studies) if one.suffix == ".toml"]
        return [one.stem for one in sorted(found, key=lambda one: -one.stat().st_mtime)]


def plain(name: str) -> str:
    """Return a name if it is one; refuse what leads elsewhere."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} given; wanted a name of letters, digits, dots, spaces, dashes and brackets, without a slash"
        )
    return name


def can_be_read(name: str) -> bool:
    """Say whether there is a reader for files of this name."""
    bare = name.lower().removesuffix(".gz")
    return any(bare.endswith(ending) for ending in READERS)


def _in(folder: Path, name: str, what: str) -> Path:
    found = folder / plain(name)
    if not found.exists():
        raise InputError(f"there is no {what} {name!r} here; it may have been removed or renamed")
    return found


def _listed(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted((one for one in folder.iterdir() if NAME.fullmatch(one.name)), key=lambda one: one.name.lower())
