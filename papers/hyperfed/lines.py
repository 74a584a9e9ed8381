"""Results that grow by a line: one JSON object for each finished cell, so that an interrupted script goes on."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Lines:
    """A file of finished cells by name; a line that was cut off when the machine stopped counts as not finished."""

    def __init__(self, path: Path | None):
        """Read what is there; without a path nothing is written."""
        self.path = path
        self.lines: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self.take(path)

    def take(self, path: Path) -> None:
        """Add the cells of a file; of two lines about one cell the later counts."""
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            self.lines[found["cell"]] = found

    def add(self, key: str, found: Mapping[str, Any]) -> None:
        """Keep a cell."""
        self.lines[key] = {"cell": key} | dict(found)
        shown = {name: value for name, value in found.items() if name not in ("curve", "cell")}
        print(f"{key}: {shown}", file=sys.stderr, flush=True)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * _cut_off(self.path) + json.dumps(self.lines[key], ensure_ascii=False) + "\n")

    def go_on(self, wanted: Mapping[str, Callable[[], Mapping[str, Any] | None]], until: float = 1e12) -> None:
        """Compute the wanted cells that are not there yet, as long as there is time; what gives None has to wait."""
        for key, compute in wanted.items():
            if time.time() > until:
                return
            found = None if key in self.lines else compute()
            if found is not None:
                self.add(key, found)


def _cut_off(path: Path) -> int:
    """Return 1 where a file's last line has no end."""
    if not path.exists() or not path.stat().st_size:
        return 0
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return int(file.read() != b"\n")
