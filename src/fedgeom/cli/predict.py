"""``fedgeom predict``: use a saved model on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def predict(
    model: Annotated[Path, typer.Argument(help="A model file, or the folder of a run.")],
    file: Annotated[Path, typer.Argument(help="The rows: .csv, .tsv, .npz, .parquet or .h5ad.")],
    site: Annotated[
        str | None, typer.Option(help="Answer in this site's words (needs the folder of a run as MODEL).")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="The features, with commas between; all but the label if not given.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="A column to leave out of the features; with --site also the accuracy is told."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file to write to instead of the screen.")] = None,
) -> None:
    """Give every row of a file its class, as CSV.

    A model with a joint map scales columns by the rows of the file, so these should all be of one site.
    """
    import csv
    import sys

    import numpy as np

    from fedgeom.cli.screen import complain
    from fedgeom.data.files import read_rows
    from fedgeom.errors import InputError
    from fedgeom.methods import load_model

    joint = load_model(model / "model.safetensors" if model.is_dir() else model)
    wanted = columns.split(",") if columns and "," in columns else columns
    X, y = read_rows(file, columns=wanted, label=label)
    if site is not None:
        joint = joint.named(_names(model, site))
    found = joint.predict(X)
    sure = joint.predict_proba(X).max(axis=1).tolist() if hasattr(joint, "predict_proba") else [""] * len(X)
    if out is not None and out.exists():
        raise InputError(f"{out} exists; choose another file or remove it")
    target = sys.stdout if out is None else out.open("w", newline="", encoding="utf-8")
    try:
        writer = csv.writer(target)
        writer.writerow(["row", "class", "probability"])
        for i, (name, p) in enumerate(zip(found.tolist(), sure, strict=True)):
            writer.writerow([i, name, f"{p:.4f}" if p else p])
    finally:
        target.flush() if out is None else target.close()
    if y is not None and site is not None:
        complain(f"{np.mean(found == y):.3f} of {len(y)} rows agree with {label!r}", style="green")


def _names(run: Path, site: str) -> dict[str, int]:
    """Return what a site's names mean, from the run's folder."""
    import msgspec

    from fedgeom.errors import InputError

    known: dict[str, dict[str, int]] = {}
    for path in sorted((run / "sites").glob("*.json")) if run.is_dir() else []:
        content = msgspec.json.decode(path.read_bytes())
        known[content["site"]] = content.get("names", {})
    if not known.get(site):
        raise InputError(f"{run} knows no names of a site {site!r}; it has those of {', '.join(known) or 'none'}")
    return known[site]
