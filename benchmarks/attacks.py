"""All attacks of tests/attacks, played against real sites: what release 0.1 gave away, and what they get now.

python benchmarks/attacks.py            # everything; writes the table in SECURITY.md
python benchmarks/attacks.py --quick    # smaller sizes; writes nothing
python benchmarks/attacks.py --json     # the last line is one JSON object
python benchmarks/attacks.py --only "a zoom to the rim"
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the attacks live beside the tests

from tests.attacks.everything import ATTACKS, OPEN, installed  # noqa: E402
from tests.attacks.playing import Attack, Outcome  # noqa: E402

PAGE = ROOT / "SECURITY.md"
BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"


def play(attack: Attack, *, quick: bool) -> list[Outcome]:
    """Play an attack against all methods that it applies to."""
    return [attack.attack(method, quick=quick) for method in attack.methods if installed(method)]


def table(found: dict[str, list[Outcome]]) -> str:
    """Return the table of SECURITY.md: one line for each attack, with the outcome that was best for the attacker."""
    lines = ["| attack | method | what 0.1 gave away | what it gets now |", "|---|---|---|---|"]
    for name, outcomes in found.items():
        worst = max(outcomes, key=lambda one: one.succeeds)
        now = f"**{worst.now}** (open, see below)" if worst.succeeds else worst.now
        cells = (name, ", ".join(one.method for one in outcomes), worst.before, now)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines)


def attack_names(page: str) -> list[str]:
    """Return the names of the attacks in the table of a page."""
    rows = page.split(BEGIN)[1].split(END)[0].strip().splitlines()[2:]
    return [row.split(" | ")[0].removeprefix("| ") for row in rows]


def write(page: Path, text: str) -> None:
    """Put the table between its markers."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Play all attacks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes; write nothing")
    parser.add_argument("--json", action="store_true", help="end with one JSON object on a line")
    parser.add_argument("--only", help="play the attack of this name")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)  # sites say in their logs why they refuse
    warnings.simplefilter("ignore")
    found: dict[str, list[Outcome]] = {}
    for attack in ATTACKS:
        if chosen.only not in (None, attack.name):
            continue
        began = time.perf_counter()
        found[attack.name] = play(attack, quick=chosen.quick)
        for one in found[attack.name]:
            mark = "open" if one.succeeds and attack.name in OPEN else "SUCCEEDS" if one.succeeds else "fails"
            print(f"{mark:>8}  {one.key}, {one.policy} policy: {one.now}")
        print(f"          {time.perf_counter() - began:.1f} s", flush=True)
    broken = [name for name, all_ in found.items() if any(one.succeeds for one in all_)]
    print(f"\n{len(found)} attacks, of which {len(broken)} work: {', '.join(broken) or 'none'}")
    if not chosen.quick and chosen.only is None:
        write(PAGE, table(found))
    if chosen.json:
        summary = {}
        for name, outcomes in found.items():
            worst = max(outcomes, key=lambda one: one.succeeds)
            summary[name] = {"succeeds": worst.succeeds, "before": worst.before, "now": worst.now}
        print(json.dumps({"attacks": summary}))


if __name__ == "__main__":
    main()
