"""A job: one federation file that was submitted, the run it belongs to, and its run folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.federation_file import FederationFile, build_method, read_federation, site_names, terms_of
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.policy import JobTerms
from fedgeom.federation.writers import check_writers
from fedgeom.storage import make_private_folder, write_file

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,80}")


class JobFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept beside the federation file: the run's number, by which sites know it."""

    run: str
    sites: list[str]


@dataclass(frozen=True)
class Job:
    """A submitted job."""

    folder: Path
    """The job's own folder."""
    run_folder: Path
    file: FederationFile
    run: bytes
    names: tuple[str, ...]
    """The sites that may take part."""

    @property
    def name(self) -> str:
        """The job's name, also that of its run folder."""
        return self.folder.name

    def method(self) -> Method:
        """Return the method with the file's parameters."""
        return build_method(self.folder / "federation.toml", self.file)

    def terms(self) -> JobTerms:
        """Return the terms that the sites' stewards have to approve."""
        return terms_of(self.folder / "federation.toml", self.file, self.names)


def create_job(folder: CoordinatorFolder, federation: Path) -> Job:
    """Copy a federation file into a new job, after checking all that can be checked without the sites."""
    file = read_federation(federation)
    build_method(federation, file)
    check_writers(file.writers)
    roster = folder.roster()
    names = site_names(file) or list(roster)
    strangers = sorted(set(names) - set(roster))
    if strangers:
        raise InputError(
            f"{federation}: not admitted: {', '.join(strangers)}; admitted are {', '.join(roster) or 'none'} "
            "(fedgeom coordinator admit NAME.pub)"
        )
    if len(set(names)) < len(names):
        raise InputError(f"{federation}: a site is named twice under [[sites]]: {', '.join(sorted(names))}")
    if len(names) < max(file.min_sites, 2):
        raise InputError(
            f"{federation}: {len(names)} sites may take part ({', '.join(names) or 'none'}), but "
            f"{max(file.min_sites, 2)} are needed; admit more (fedgeom coordinator admit NAME.pub) or lower `min_sites`"
        )
    path = _new_folder(folder, federation.stem)
    write_file(path / "federation.toml", federation.read_bytes(), private=True)
    kept = JobFile(os.urandom(32).hex(), sorted(names))
    write_file(path / "job.json", msgspec.json.encode(kept), private=True)
    return load_job(folder, path.name)


def load_job(folder: CoordinatorFolder, name: str) -> Job:
    """Read a job of the coordinator's folder; a name that is no plain name is refused."""
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the name of a job")
    path = folder.path / "jobs" / name
    if not (path / "job.json").is_file():
        raise InputError(f"there is no job {name!r} in {folder.path / 'jobs'}")
    kept = msgspec.json.decode((path / "job.json").read_bytes(), type=JobFile)
    return Job(
        folder=path,
        run_folder=folder.path / "runs" / name,
        file=read_federation(path / "federation.toml"),
        run=bytes.fromhex(kept.run),
        names=tuple(kept.sites),
    )


def _new_folder(folder: CoordinatorFolder, stem: str) -> Path:
    plain = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "job"
    number = 1
    while True:
        path = folder.path / "jobs" / f"{plain[:60]}-{number}"
        try:
            path.mkdir(parents=True)  # refused when it is there
        except FileExistsError:
            number += 1
            continue
        return make_private_folder(path)
