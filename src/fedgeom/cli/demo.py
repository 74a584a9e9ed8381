"""``fedgeom demo``: hospitals that name their classes differently learn one classifier."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Choice(StrEnum):
    """The sets that have sites with words of their own."""

    AUTO = "auto"
    HIPC = "hipc"
    BREAST_CANCER = "breast-cancer"
    OLSSON = "olsson"
    DIGITS = "digits"


TITLES = {
    "hipc": "T cells of five hospitals: seven markers, ten cell types, five vocabularies.",
    "breast-cancer": "Breast tumours at four hospitals: thirty measurements, two diagnoses, four vocabularies.",
    "olsson": "Blood cells at three laboratories: points of the disc, eight cell types, three vocabularies.",
    "digits": "Handwritten digits at four offices: ten digits, four languages.",
}


SHARE = 0.3
"""The share of its rows on which each site tests the model."""


def demo(
    sites_data: Annotated[
        Choice, typer.Option(help="The data; auto is the hospitals' if it is found, else breast-cancer.")
    ] = Choice.AUTO,
    out: Annotated[
        Path, typer.Option(help="Where to keep the run: OUT-1, OUT-2, …, the first that is free.")
    ] = Path("runs/demo"),
    seed: Annotated[
        int, typer.Option(help="The seed of sampling and learning; keys and masks are always new.")
    ] = 0,
) -> None:
    """Show the whole thing on real data: hospitals, each with label names of its own, learn one classifier."""
    from fedgeom.cli.outcome import kept, new_folder, show
    from fedgeom.cli.screen import Questions, console
    from fedgeom.data.sets import SETS, available, load_set
    from fedgeom.data.vocabularies import in_own_words
    from fedgeom.engines.run import run
    from fedgeom.evaluation.figures import FILE
    from fedgeom.evaluation.rivals import beside_pooled, pooled_tally
    from fedgeom.methods.hulls.method import Hulls
    from fedgeom.storage import write_json

    screen = console()
    name = sites_data.value
    if name == "auto":
        name = "hipc" if "hipc" in available() else "breast-cancer"
    data, truth = in_own_words(load_set(name, seed=seed, test_share=0.0))
    screen.print(f"[bold]{TITLES[name]}[/bold]")
    if sites_data is Choice.AUTO and name != "hipc":
        screen.print(
            f"[dim]The five hospitals' cells were not found; to have them, {SETS['hipc'].how_to_get}.[/dim]"
        )
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
        with Questions(screen) as watch:
            finished = run(method, data.train, seed=seed, holdout=SHARE, record=folder, watch=watch)
        screen.print()
        if finished.evaluation is not None:  # only who knows what the words mean can pool the rows
            parts = list(zip(finished.train, finished.test, strict=True))
            pooled = pooled_tally(method, finished.model, parts, finished.local, truth)
            write_json(folder / FILE, beside_pooled(finished.evaluation, pooled, seed), private=True)
        show(finished, screen, truth=truth)
