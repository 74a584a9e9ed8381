"""Folders of a small federation, for the tests of this room."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
from typing import Any

import numpy as np
import pytest

from fedgeom.data.split import split
from fedgeom.deploy.coordinator_folder import CoordinatorFolder
from fedgeom.deploy.site_folder import SiteFolder, policy_lines
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy, StrictPolicy
from fedgeom.geometry.hyperbolic.sampling import labelled_disc
from fedgeom.methods.catalogue import method_class

NAMES = ("anna", "bert", "carl")
USUAL = StrictPolicy(max_corner_share=1.0)
"""As strict as the template but for corners: of a few dozen rows out to the rim of the disc, most are some."""


def need_nats() -> None:
    """Skip a test where NATS is not installed: folders hold its keys."""
    for module in ("nats", "nkeys"):
        pytest.importorskip(module, reason="NATS is not installed")


def make_coordinator(path, **options):
    return CoordinatorFolder.create(path, **({"names": ["localhost"], "host": "127.0.0.1"} | options))


def make_sites(root, coordinator, *, insecure=False, names=NAMES, policy=None):
    """Some sites with points of the disc, admitted, with roster and certificate in place."""
    drawn = labelled_disc(80 * len(names), 0.9, 0.1, np.random.default_rng(0), reference_norm=0.3)
    parts = split(drawn.X, np.where(drawn.y > 0, "yes", "no"), len(names), names=names)
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
        loosen(site)
        set_policy(site, policy or USUAL)
        coordinator.admit(site.public_file(part.name))
        sites[part.name] = site
    for site in sites.values():
        shutil.copy(coordinator.roster_file, site.path)
        shutil.copy(coordinator.path / "ca.pem", site.path)
    return sites


def loosen(site):
    """Let a site answer any job, by the policy that simulations have: for tests of other things than stewards."""
    text = site.config_file.read_text(encoding="utf-8")
    assert text.count('approve = "ask" ') == 1
    text = text.replace('approve = "ask" ', 'approve = "any" ')
    strict, loose = policy_lines(StrictPolicy()), policy_lines(Policy())
    assert text.count(strict) == 1
    site.config_file.write_text(text.replace(strict, loose), encoding="utf-8")


def ask_stewards(site):
    """Let a site ask its steward again, after `loosen`."""
    edit(site, 'approve = "any" ', 'approve = "ask" ')


def edit(site, old, new):
    text = site.config_file.read_text()
    assert text.count(old) == 1
    site.config_file.write_text(text.replace(old, new))


def set_policy(site, policy):
    """Write another policy into site.toml, as a steward would."""
    text = site.config_file.read_text()
    site.config_file.write_text(
        text[: text.index("[policy]")]
        + "[policy]                       # as the steward wants it\n"
        + policy_lines(policy)
    )


SMALL: dict[str, dict[str, Any]] = {
    "hulls": {"epsilon": 0.05},
    "ridge": {"features": "linear"},
    "xclp": {
        "hash_bits": 64,
        "hamming": "bfv" if importlib.util.find_spec("seal") else "lattice",
        "hidden_projection": False,  # a hidden one is drawn from the sites' secrets, not from the seed
    },
    "xclp-training": {"warmup_rounds": 1, "labels": {"name": "xclp", "n_anchors": 6, "steps": 1}},
}
"""Settings that make a method quick; training takes two short rounds where a method trains."""


def small(name: str) -> Method:
    """Return a method with settings that make it quick."""
    cls = method_class(name)
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    short = {"n_rounds": 2, "epochs": 1} if {"n_rounds", "epochs"} <= known and name != "shrunk" else {}
    return cls(**short, **SMALL.get(name, {}))


def parameters_of(method: Method) -> str:
    """Return the part of a federation file with the settings of a method that are not the usual ones."""
    usual = type(method)().terms()
    changed = {n: value for n, value in method.terms().items() if value != usual[n] and n != "holdout"}
    return "\n".join(["[parameters]", *(f"{name} = {_toml(value)}" for name, value in changed.items())])


def _toml(value: Any) -> str:
    """Write a value as TOML has it; what is None is left out of tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items() if one is not None) + "}"
    return json.dumps(value)
