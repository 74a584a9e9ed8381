"""``fedgeom predict``: use a saved model on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def predict(
    model: Annotated[Path, typer.Argument(help="A model file, or the folder of a run.")],
    file: Annotated[
        Path,
        typer.Argument(help="The rows: .csv, .tsv, .npz, .parquet, .h5ad, or what an installed reader reads."),
    ],
    site: Annotated[
        str | None,
        typer.Option(
            help="Use this site's own model: its words, its scale, its personal model. Needs the folder of a run."
        ),
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

    Columns are found by their names, in whatever order they stand. With --site, they are scaled as that site's are,
    where the method has a scale for each site; without it, by the joint scale. Each row is judged by itself.
    """
    import csv
    import sys

    import numpy as np

    from fedgeom.cli.screen import complain
    from fedgeom.data.columns import in_order
    from fedgeom.data.readers import read_table
    from fedgeom.errors import InputError
    from fedgeom.methods.catalogue import load_model

    chosen = load_model(model) if site is None else load_model(site_model(model, site))
    wanted = columns.split(",") if columns and "," in columns else columns
    table = read_table(file, columns=wanted, label=label)
    if table.columns and not chosen.column_names:
        complain(
            "the model knows no names of columns: those of the file are taken in the order in which they stand"
        )
    X, y = in_order(table.X, chosen.column_names, str(file), table.columns), table.y
    found = chosen.predict(X)
    sure = chosen.predict_proba(X).max(axis=1).tolist() if hasattr(chosen, "predict_proba") else [""] * len(X)
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


def site_model(run: Path, site: str) -> Path:
    """Return where a site's own model is in the folder of a run: in its words, or its personal one."""
    from fedgeom.errors import InputError

    known = site_models(run)
    if site not in known:
        raise InputError(
            f"{run} holds no model of a site {site!r}; it has those of {', '.join(known) or 'none'}. Give the folder "
            "of a run, and the name of one of its sites"
        )
    return known[site]


def site_models(run: Path) -> dict[str, Path]:
    """Return the sites' own models in the folder of a run, by the sites' names as they were given."""
    import msgspec

    found = {}
    for file in sorted((run / "sites").glob("*.safetensors")):
        about = file.with_suffix(".json")
        found[msgspec.json.decode(about.read_bytes())["site"] if about.is_file() else file.stem] = file
    return found
