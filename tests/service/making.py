"""Folders of a small federation, for the tests of this room."""

from __future__ import annotations

import shutil

import numpy as np

from fedgeom.data.sites import split
from fedgeom.geometry.sampling import labelled_disc
from fedgeom.service.coordinator_folder import CoordinatorFolder
from fedgeom.service.site_folder import SiteFolder

NAMES = ("anna", "bert", "carl")


def make_coordinator(path, **options):
    return CoordinatorFolder.create(path, **({"names": ["localhost"], "host": "127.0.0.1"} | options))


def make_sites(root, coordinator, *, insecure=False):
    """Three sites with points of the disc, admitted, with roster and certificate in place."""
    drawn = labelled_disc(240, 0.9, 0.1, np.random.default_rng(0), reference_norm=0.3)
    parts = split(drawn.X, np.where(drawn.y > 0, "yes", "no"), 3, names=NAMES)
    sites = {}
    for part in parts:
        np.savez(root / f"{part.name}.npz", X=part.X, y=part.y)
        site = SiteFolder.create(
            root / part.name,
            part.name,
            coordinator.address(),
            file=str(root / f"{part.name}.npz"),
            label="y",
            insecure=insecure,
        )
        coordinator.admit(site.public_file(part.name))
        sites[part.name] = site
    for site in sites.values():
        shutil.copy(coordinator.roster_file, site.path)
        shutil.copy(coordinator.path / "ca.pem", site.path)
    return sites


def edit(site, old, new):
    text = site.config_file.read_text()
    assert text.count(old) == 1
    site.config_file.write_text(text.replace(old, new))
