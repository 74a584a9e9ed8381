"""``fedgeom demo``: hospitals with raw tables, which name their classes differently, learn one classifier."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class DemoSet(StrEnum):
    """The sets that have sites with words of their own."""

    BREAST_CANCER = "breast-cancer"
    HIPC = "hipc"
    OLSSON = "olsson"
    DIGITS = "digits"


TITLES = {
    "hipc": "T cells of five hospitals: seven markers, ten cell types, five vocabularies.",
    "breast-cancer": "Breast tumours at four hospitals: thirty measurements, two diagnoses, four vocabularies.",
    "olsson": "Blood cells at three laboratories: points of the disc, eight cell types, three vocabularies.",
    "digits": "Handwritten digits at four offices: ten digits, four languages.",
}


TABLES = "tables"
"""The folder of the raw files, in that of the run."""
SHARE = 0.3
"""The share of its rows on which each site tests the model."""


def demo(
    sites_data: Annotated[
        DemoSet, typer.Option(help="The data; breast-cancer begins with raw files, the others with clean tables.")
    ] = DemoSet.BREAST_CANCER,
    out: Annotated[
        Path, typer.Option(help="Where to keep the run: OUT-1, OUT-2, …, the first that is free.")
    ] = Path("runs/demo"),
    seed: Annotated[
        int, typer.Option(help="The seed of sampling and learning; keys and masks are always new.")
    ] = 0,
) -> None:
    """Show the whole thing: hospitals with raw files and label names of their own learn one classifier.

    The measurements are real; gaps, words and other columns are put into the files here. In the end the model predicts
    from a raw file.
    """
    from dataclasses import replace

    from fedgeom.cli.outcome import as_seen, kept, new_folder, show
    from fedgeom.cli.screen import Questions, console
    from fedgeom.data.datasets import load_set
    from fedgeom.data.demo_data import in_own_words
    from fedgeom.engines.run import run
    from fedgeom.evaluation.evaluation import FILE, beside_pooled, pooled_tally
    from fedgeom.methods.hulls.method import Hulls
    from fedgeom.storage import write_json

    screen = console()
    name = sites_data.value
    whole = {} if sites_data is DemoSet.OLSSON else {"test_share": 0.0}  # its parts are the published ones
    data, truth = in_own_words(load_set(name, seed=seed, **whole))
    raw = sites_data is DemoSet.BREAST_CANCER
    screen.print(f"[bold]{TITLES[name]}[/bold]")
    for site in data.train:
        words = sorted(truth[site.name], key=lambda word: truth[site.name][word])
        few = ", ".join(words[:3]) + (", …" if len(words) > 3 else "")
        screen.print(
            f"  {site.name:<11}{len(site):>6,} rows  {len(site.classes):>2} classes, such as {few}", markup=False
        )
    screen.print()
    folder = new_folder(out)
    method = Hulls(n_classes=len(data.classes), embedding="none" if data.in_disc else "discriminant")
    with kept(folder, screen):
        sites = list(data.train)
        if raw:
            sites = roughened(sites, folder / TABLES, seed, screen)
            method = replace(method, prepare="table")
        with Questions(screen) as watch:
            finished = run(method, sites, seed=seed, holdout=SHARE, record=folder, watch=watch)
        screen.print()
        if finished.evaluation is not None:  # only who knows what the words mean can pool the rows
            seen = as_seen(finished)
            parts = list(zip(seen.train, seen.test, strict=True))
            pooled = pooled_tally(method, seen.model, parts, finished.local, truth)
            write_json(folder / FILE, beside_pooled(finished.evaluation, pooled, seed), private=True)
        show(finished, screen, truth=truth)
        if raw:
            tell_of_prediction(finished, screen)


def tell_of_prediction(finished: Any, screen: Any) -> None:
    """Say how the first site predicts from its raw file, and how often it then gets its own names."""
    import numpy as np

    from fedgeom.cli.predict import site_model
    from fedgeom.data.demo_data import LABEL
    from fedgeom.methods.catalogue import load_model

    folder = finished.folder
    site = finished.sites[0]
    again = f"fedgeom predict {folder} {folder / TABLES / site.name}.csv --site {site.name} --label {LABEL}"
    right = np.mean(load_model(site_model(folder, site.name)).predict(site) == site.y)
    screen.print(f"\nThe model takes raw files, and speaks {site.name}'s words:", soft_wrap=True)
    screen.print(f"  {again} --out predictions.csv", markup=False, soft_wrap=True)
    screen.print(f"  ({right:.1%} of its {len(site):,} rows, learnt from or not, get their own name)")


def roughened(sites: list[Any], folder: Path, seed: int, screen: Any) -> list[Any]:
    """Write each site's table as a raw file, read it back as its steward would, and say what is in it."""
    import numpy as np

    from fedgeom.data.demo_data import LABEL, write_raw_tables
    from fedgeom.data.readers import read_site

    files = write_raw_tables(sites, folder, seed)
    found = [
        read_site(file, label=LABEL, name=site.name, text=True) for site, file in zip(sites, files, strict=True)
    ]
    gaps = sum(int(np.isnan(site.X).sum()) for site in found)
    screen.print(
        f"Raw files in {folder}: {gaps:,} gaps, columns of words, and in each another order of columns; "
        f"{found[0].name} begins with {', '.join(found[0].columns[:3])}.\n",
        markup=False,
        soft_wrap=True,
    )
    return found
