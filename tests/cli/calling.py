"""Calling a command in this process, and files for it to work on."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fedgeom.cli import app
from fedgeom.data.sites import SiteData


def call(*words: Any, code: int = 0, only_results: bool = False) -> str:
    """Run a command, expect its exit code, and return what it printed."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.stdout if only_results else result.output


def write_csv(file: Path, site: SiteData, label: str, order: Sequence[int] | None = None) -> Path:
    """Write a site's table, its columns in the order given; without names they are c0, c1, …"""
    names = site.columns or tuple(f"c{i}" for i in range(site.X.shape[1]))
    chosen = list(range(len(names))) if order is None else list(order)
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow([*(names[i] for i in chosen), label])
        writer.writerows([*row[chosen], y] for row, y in zip(site.X, site.y, strict=True))
    return file


def write_raw(folder: Path, settings: str) -> Path:
    """Write three sites' raw tables, with gaps and a column of text, and a federation file ``raw.toml`` over them."""
    blocks = ""
    for at in range(3):
        lines = ["age,ward,crp,diagnosis"]
        for row in range(40):
            ill = row % 2
            crp = "" if row % 7 == at else f"{10 + 20 * ill + row % 5 + at}"
            lines.append(f"{40 + row + 10 * ill},{('east', 'west', '')[row % 3]},{crp},{('well', 'ill')[ill]}")
        (folder / f"raw{at}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        blocks += f'[[sites]]\nfile = "raw{at}.csv"\n'
    file = folder / "raw.toml"
    file.write_text(f'label = "diagnosis"\nprepare = "table"\n{settings}{blocks}', encoding="utf-8")
    return file
