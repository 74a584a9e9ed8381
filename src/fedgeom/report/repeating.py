"""How to repeat a run, look at it again, and use its model: commands that can be copied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedgeom.errors import FedgeomError
from fedgeom.methods.catalogue import method_class
from fedgeom.report import markup
from fedgeom.report.run_folder import RunFiles
from fedgeom.storage import as_plain

OTHERS = ("holdout",)
"""Settings that a federation file has above its [parameters]."""


def repeating(run: RunFiles) -> str:
    """Return the section on how to repeat a run."""
    name = run.path.name
    if run.home:
        return _at_site(run)
    commands = [
        ("again, with the file below", "fedgeom run federation.toml"),
        ("what left each site", f"fedgeom ledger {name}"),
        ("the model on new rows", f"fedgeom predict {name} new.csv"),
        ("this page", f"fedgeom report {name}"),
    ]
    lines = "\n".join(f"{command:<36} # {what}" for what, command in commands)
    versions = ", ".join(f"{key} {value}" for key, value in run.versions.items())
    return markup.section(
        "repeat",
        "How to repeat it",
        markup.code(lines),
        markup.details("federation.toml", markup.code(federation_toml(run))),
        markup.details("All settings", markup.code(json.dumps(run.parameters, indent=2, ensure_ascii=False))),
        markup.paragraph(f"seed {run.config['seed']}; {versions}. Keys and masks are new in every run.", "dim"),
    )


def _at_site(run: RunFiles) -> str:
    """Return the section of a site's own page: what it can do with what it has."""
    name = f"{run.path.parent.name}/{run.path.name}"
    commands = [
        ("the site's model on new rows", f"fedgeom predict {name} new.csv"),
        ("all that left the site", "fedgeom site ledger"),
        ("what it has spent of its privacy", "fedgeom site budget"),
        ("this page", f"fedgeom report {name}"),
    ]
    lines = "\n".join(f"{command:<44} # {what}" for what, command in commands)
    settings = json.dumps(run.parameters, indent=2, ensure_ascii=False, default=as_plain)
    return markup.section(
        "repeat",
        "What to do with it",
        markup.paragraph("In the site's folder:", "dim"),
        markup.code(lines),
        markup.details("The terms that were approved", markup.code(settings)) if run.parameters else "",
    )


def changed_settings(run: RunFiles) -> dict[str, Any]:
    """Return the settings that are not the method's own defaults; all where the method is not installed here."""
    try:
        plain = json.loads(json.dumps(method_class(run.method)().terms(), default=as_plain))
    except (FedgeomError, TypeError, AttributeError):
        plain = {}
    return {
        key: value
        for key, value in run.parameters.items()
        if value is not None and plain.get(key, object()) != value
    }


def federation_toml(run: RunFiles) -> str:
    """Write the federation file that would repeat the run, with the sites' files to be filled in."""
    settings = changed_settings(run)
    holdout = settings.pop("holdout", None)
    lines = [f'method = "{run.method}"', f"seed = {run.config['seed']}"]
    if isinstance(holdout, Mapping):
        lines.append(f"holdout = {holdout.get('share')}")
    lines.append('label = "the column with the classes"')
    if settings:
        lines += ["", "[parameters]", *(f"{key} = {as_toml(value)}" for key, value in settings.items())]
    for site in list(run.sites)[:3]:
        lines += ["", "[[sites]]", f"name = {json.dumps(site, ensure_ascii=False)}", 'file = "its file"']
    if len(run.sites) > 3:
        lines += ["", f"# and {len(run.sites) - 3} more sites"]
    return "\n".join(lines)


def as_toml(value: Any) -> str:
    """Write a setting as a federation file has it.

    >>> as_toml({"name": "sgd", "momentum": 0.9, "rate": None}), as_toml([True, 2])
    ('{ name = "sgd", momentum = 0.9 }', '[true, 2]')
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {as_toml(one)}" for key, one in value.items() if one is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
