"""Play all attacks of tests/attacks against real sites, and write down what the attacker gets.

python benchmarks/attacks.py            # everything; writes docs/attacks.md
python benchmarks/attacks.py --quick    # smaller sizes; writes nothing
python benchmarks/attacks.py --json     # the last line is one JSON object
python benchmarks/attacks.py --only "a zoom to the rim"    # its row of docs/attacks.md anew
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

PAGE = ROOT / "docs" / "attacks.md"
RULE = "|---|---|---|---|"
HEAD = f"""# Attacks

*Made by `python benchmarks/attacks.py`; do not edit by hand.*

[SECURITY.md](../SECURITY.md) says what fedgeom guarantees. Each guarantee is tested by attacks on the sites' real
code: a coordinator, or a site on its side, lies in the way that the name says. [tests/attacks](../tests/attacks) has
their code, and `tests/attacks/test_fences.py` removes single defences and sees the attacks succeed, so that no attack
fails merely because it is badly written.

The third column is the policy of the attacked sites: "strict" is what `fedgeom site init` writes, "simulation" is
`fedgeom.Policy()`, which refuses less. The last column is what the attacker gets: a measured value, or the words with
which the site refuses. Of several methods it is the best result for the attacker. **Bold** attacks succeed;
[SECURITY.md](../SECURITY.md#open-attacks) says what that means for you.

| attack | method | policy | what the attacker gets |
{RULE}
"""


def play(attack: Attack, *, quick: bool) -> list[Outcome]:
    """Play an attack against all methods that it applies to."""
    return [attack.attack(method, quick=quick) for method in attack.methods if installed(method)]


def page(found: dict[str, list[Outcome]]) -> str:
    """Return docs/attacks.md: one line for each attack, with the outcome that is best for the attacker."""
    lines = []
    for name, outcomes in found.items():
        worst = max(outcomes, key=lambda one: one.succeeds)
        methods = "; ".join(one.method for one in outcomes)
        policy = "strict" if worst.policy == "strict" else "simulation"
        gets = f"**{worst.now}** ([open](../SECURITY.md#open-attacks))" if worst.succeeds else worst.now
        cells = (name, methods, policy, gets)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n")
    return HEAD + "".join(lines)


def merged(new: str, old: str) -> str:
    """Return the page with the rows of attacks that were played anew, in the order of `ATTACKS`."""
    rows = {row.split(" | ")[0]: row for one in (old, new) for row in one.split(f"{RULE}\n")[1].splitlines()}
    return HEAD + "".join(f"{rows[f'| {one.name}']}\n" for one in ATTACKS if f"| {one.name}" in rows)


def attack_names(page: str) -> list[str]:
    """Return the names of the attacks in the table of a page."""
    rows = page.split(f"{RULE}\n")[1].splitlines()
    return [row.split(" | ")[0].removeprefix("| ") for row in rows]


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
    if not chosen.quick:
        PAGE.write_text(merged(page(found), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if chosen.json:
        summary = {}
        for name, outcomes in found.items():
            worst = max(outcomes, key=lambda one: one.succeeds)
            summary[name] = {"succeeds": worst.succeeds, "before": worst.before, "now": worst.now}
        print(json.dumps({"attacks": summary}))


if __name__ == "__main__":
    main()
