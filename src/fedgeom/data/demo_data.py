"""Tables as hospitals would have them, made from clean ones for demonstrations."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.datasets import DataSet
from fedgeom.data.sites import SiteData
from fedgeom.storage import make_private_folder, write_text

HIPC: dict[str, dict[str, str]] = {
    "Stanford": {
        "CD4 Naive": "CD4+ naive",
        "CD4 Central Memory": "CD4+ Tcm",
        "CD4 Effector Memory": "CD4+ Tem",
        "CD4 Effector": "CD4+ Temra",
        "CD4 Activated": "CD4+ HLA-DR+CD38+",
        "CD8 Naive": "CD8+ naive",
        "CD8 Central Memory": "CD8+ Tcm",
        "CD8 Effector Memory": "CD8+ Tem",
        "CD8 Effector": "CD8+ Temra",
        "CD8 Activated": "CD8+ HLA-DR+CD38+",
    },
    "Yale": {
        "CD4 Naive": "Th naive",
        "CD4 Central Memory": "Th central mem.",
        "CD4 Effector Memory": "Th effector mem.",
        "CD4 Effector": "Th terminal eff.",
        "CD4 Activated": "Th activated",
        "CD8 Naive": "Tc naive",
        "CD8 Central Memory": "Tc central mem.",
        "CD8 Effector Memory": "Tc effector mem.",
        "CD8 Effector": "Tc terminal eff.",
        "CD8 Activated": "Tc activated",
    },
    "Miami": {
        "CD4 Naive": "T4 virgen",
        "CD4 Central Memory": "T4 mem. central",
        "CD4 Effector Memory": "T4 mem. efectora",
        "CD4 Effector": "T4 efectora",
        "CD4 Activated": "T4 activada",
        "CD8 Naive": "T8 virgen",
        "CD8 Central Memory": "T8 mem. central",
        "CD8 Effector Memory": "T8 mem. efectora",
        "CD8 Effector": "T8 efectora",
        "CD8 Activated": "T8 activada",
    },
    "UCLA": {
        "CD4 Naive": "4:RA+R7+",
        "CD4 Central Memory": "4:RA-R7+",
        "CD4 Effector Memory": "4:RA-R7-",
        "CD4 Effector": "4:RA+R7-",
        "CD4 Activated": "4:DR+38+",
        "CD8 Naive": "8:RA+R7+",
        "CD8 Central Memory": "8:RA-R7+",
        "CD8 Effector Memory": "8:RA-R7-",
        "CD8 Effector": "8:RA+R7-",
        "CD8 Activated": "8:DR+38+",
    },
    "NHLBI": {
        "CD4 Naive": "P-401",
        "CD4 Central Memory": "P-402",
        "CD4 Effector Memory": "P-403",
        "CD4 Effector": "P-404",
        "CD4 Activated": "P-405",
        "CD8 Naive": "P-801",
        "CD8 Central Memory": "P-802",
        "CD8 Effector Memory": "P-803",
        "CD8 Effector": "P-804",
        "CD8 Activated": "P-805",
    },
}

BREAST_CANCER: dict[str, dict[str, str]] = {
    "North": {"benign": "benign", "malignant": "malignant"},
    "South": {"benign": "B", "malignant": "M"},
    "East": {"benign": "gutartig", "malignant": "bösartig"},
    "West": {"benign": "D24 (ICD-10)", "malignant": "C50 (ICD-10)"},
}

OLSSON: dict[str, dict[str, str]] = {
    "Cincinnati": {
        "Eryth": "erythrocytic",
        "Gran": "granulocytic",
        "HSPC-1": "stem/progenitor",
        "MDP": "mono-dendritic prog.",
        "Meg": "megakaryocytic",
        "Mono": "monocytic",
        "Multi-Lin": "multi-lineage",
        "Myelocyte": "myelocytic",
    },
    "Lyon": {
        "Eryth": "érythroïde",
        "Gran": "granulocytaire",
        "HSPC-1": "souche",
        "MDP": "prog. mono-dendritique",
        "Meg": "mégacaryocytaire",
        "Mono": "monocytaire",
        "Multi-Lin": "multipotente",
        "Myelocyte": "myélocyte",
    },
    "Kyoto": {
        "Eryth": "K1",
        "Gran": "K2",
        "HSPC-1": "K3",
        "MDP": "K4",
        "Meg": "K5",
        "Mono": "K6",
        "Multi-Lin": "K7",
        "Myelocyte": "K8",
    },
}

_NUMERALS = {
    "London": "zero one two three four five six seven eight nine",
    "Madrid": "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "Berlin": "null eins zwei drei vier fünf sechs sieben acht neun",
    "Rome": "nulla I II III IV V VI VII VIII IX",
}
DIGITS = {
    site: {str(digit): word for digit, word in enumerate(words.split())} for site, words in _NUMERALS.items()
}

WORDS = {"hipc": HIPC, "breast-cancer": BREAST_CANCER, "olsson": OLSSON, "digits": DIGITS}
"""For each set that has them: site, common name, the site's own name."""


def in_own_words(data: DataSet) -> tuple[DataSet, dict[str, dict[str, str]]]:
    """Return the set in its sites' own words, and the truth: site, the site's name, the common name.

    Sites that were dealt from one table are renamed to those that have words.
    """
    words = WORDS[data.name]
    named = data
    if not {site.name for site in data.train} <= set(words):
        named = data.rename(list(words)[: len(data.train)])
    truth = {site.name: {own: common for common, own in words[site.name].items()} for site in named.train}
    return named.relabel(words), truth


GAPS = 0.06
"""The share of cells that are taken away."""
LEVELS = ("low", "middle", "high")
LABEL = "diagnosis"
EXTRA = "clerk"


def cuts_of(sites: Sequence[SiteData], columns: int = 2) -> dict[int, Floats]:
    """Return where the first columns are cut into low, middle and high, the same at all sites."""
    X = np.vstack([site.X for site in sites])
    return {at: np.quantile(X[:, at], [1 / 3, 2 / 3]) for at in range(min(columns, X.shape[1] - 1))}


def as_raw_text(site: SiteData, cuts: dict[int, Floats], rng: np.random.Generator, *, extra: bool = False) -> str:
    """Return a clean table as the text of a raw CSV file."""
    names = site.columns or tuple(f"measurement {at + 1}" for at in range(site.shape[1]))
    cells = np.array([[f"{value:.4g}" for value in row] for row in site.X.tolist()], object)
    for at, edges in cuts.items():
        cells[:, at] = np.array(LEVELS, object)[np.searchsorted(edges, site.X[:, at])]
    cells[rng.random(cells.shape) < GAPS] = ""
    order = rng.permutation(len(names))
    header = [names[at] for at in order]
    found = [[*row, str(label)] for row, label in zip(cells[:, order].tolist(), site.y.tolist(), strict=True)]
    if extra:
        header = [EXTRA, *header]
        found = [[f"clerk {at % 2 + 1}", *row] for at, row in enumerate(found)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([[*header, LABEL], *found])
    return text.getvalue()


def write_raw_tables(sites: Sequence[SiteData], folder: Path, seed: int = 0, prefix: str = "") -> list[Path]:
    """Write each site's clean table as a raw file of its steward, and return the files, named by the sites."""
    make_private_folder(folder)
    rng = np.random.default_rng(seed)
    cuts = cuts_of(sites)
    written = []
    for at, site in enumerate(sites):
        file = folder / f"{prefix}{site.name}.csv"
        written.append(write_text(file, as_raw_text(site, cuts, rng, extra=at == 0), private=True))
    return written
