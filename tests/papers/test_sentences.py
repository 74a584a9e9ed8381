"""What papers/README.md says in numbers is what the result files have: each number of a sentence is accounted for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from papers.common import figure
from papers.contents import HERE, read

pytestmark = pytest.mark.full

FOUND = {(paper, one["entry"]): one["found"] for paper, entries in read().items() for one in entries}
COMMANDS = {(paper, one["entry"]): one["command"] for paper, entries in read().items() for one in entries}
CHECKS: dict[tuple[str, str], Callable[[], Iterable[str]]] = {}
GIVEN = {
    ("hulls", "Figure 2"): ["(p = 7: 5 = 4 + 1)"],
    ("hulls", "Algorithm 3"): ["ζ in (0, 1]", "2πζ"],
    ("hulls", "Figure 4"): ["2πζ"],
    ("hulls", "Theorem 5.2"): ["beyond 10⁸"],
    ("ptopofl", "Figure 3"): ["95 % of its final AUC", "round 5"],
    ("ptopofl", "Theorem 7"): ["the bound is 0", "tells 1/(2n) nats", "not O(1/n²)"],
    ("hulls", "Lemma E.1"): ["As D.1"],
    ("xclp", "Algorithm 1"): ["distance L and 0 are one"],
    ("ptopofl", "Lemma 12"): ["from w* = 0", "the bound is 0"],
    ("xclp", "Section 3.2"): ["steps 3 and 4"],
    ("xclp", "Section 3.3"): ["who knows 200 points"],
    ("xclp", "Table 6"): ["in the paper 34 to 52", "where the paper gains 3 to 4"],
}
"""What a sentence quotes from the paper, or derives, and does not measure."""
NAMES = re.compile(
    r"""(Tables?|Figures?|Eqs?\.|Sections?|Theorems?|Algorithms?|Appendi(x|ces)|Definition|Lemma|Scenarios?)\s
    [\dA-Z][\d.]*((,|\sand|\sto)\s\d[\d.]*)*(’s)?
    |CIFAR-\d+|Fed-ISIC2019""",
    re.VERBOSE,
)


def results(file: str) -> Any:
    return json.loads((HERE / file).read_text(encoding="utf-8"))


def says(paper: str, entry: str) -> Callable[[Callable[[], Iterable[str]]], Callable[[], Iterable[str]]]:
    """Register what the sentence of an entry has to say by the results."""

    def keep(check: Callable[[], Iterable[str]]) -> Callable[[], Iterable[str]]:
        CHECKS[paper, entry] = check
        return check

    return keep


def means(row: dict[str, Any]) -> dict[str, float]:
    return {name: one["mean"] for name, one in row.items()}


@pytest.mark.parametrize(("paper", "entry"), FOUND, ids=lambda one: one)
def test_every_number_of_a_sentence_is_in_the_results(paper: str, entry: str) -> None:
    said = FOUND[paper, entry]
    for fragment in (*CHECKS.get((paper, entry), tuple)(), *GIVEN.get((paper, entry), ())):
        assert fragment in said, f"{fragment!r} is not in {FOUND[paper, entry]!r}"
    left = said
    for fragment in (*CHECKS.get((paper, entry), tuple)(), *GIVEN.get((paper, entry), ())):
        left = left.replace(fragment, "")
    numbers = re.findall(r"\d(?:[\d.,]*\d)?", NAMES.sub("", left))
    tests = [word for word in COMMANDS[paper, entry].split() if word.startswith("tests/") and word.endswith(".py")]
    source = "".join((HERE.parent / file).read_text(encoding="utf-8") for file in tests).replace("_", "")
    numbers = [one for one in numbers if not re.search(rf"\b{re.escape(one.replace(',', ''))}\b", source)]
    assert not numbers, f"nothing checks {numbers} in: {said}"


@says("hulls", "Table 1")
def _splits() -> Iterable[str]:
    many = results("hulls/results/table1.json")["olsson-100"]
    ahead = max(many, key=lambda name: many[name]["mean"])
    assert ahead == "Moments gaussian"
    yield f"over {many[ahead]['n']} splits class moments are ahead"


@says("hulls", "Table 2")
def _hulls_alone() -> Iterable[str]:
    olsson = means(results("hulls/results/table1.json")["olsson"])
    yield f"({olsson['CH-CP']:.2f}, {olsson['CH-CE']:.2f})"
    sets = [means(one["pooled"]) for name, one in results("hulls/results/bins.json").items() if name != "olsson"]
    less = [one[kind] - one[f"CH-{kind}"] for one in sets for kind in ("CP", "CE")]
    yield f"by {min(less):.0f} to {max(less):.0f} points"


@says("hulls", "Table 3")
def _bins_sites() -> Iterable[str]:
    sets = results("hulls/results/bins.json").values()
    sites = {tuple(sorted({point["sites"] for point in one["points"]})) for one in sets}
    assert len(sites) == 1
    yield "L = " + " and ".join(map(str, sites.pop()))


@says("hulls", "Figure 7")
def _accuracy_by_bins() -> Iterable[str]:
    sets = results("hulls/results/bins.json")
    curves = [[point for point in one["points"] if point["sites"] == 3] for one in sets.values()]
    lost = [points[0]["FLP"]["mean"] - points[-1]["FLP"]["mean"] for points in curves]
    assert all(points[0]["corners"]["mean"] > points[-1]["corners"]["mean"] for points in curves)
    assert {(points[0]["epsilon"], points[-1]["epsilon"]) for points in curves} == {(0.01, 4.0)}
    yield f"by {min(lost):.0f} to {max(lost):.0f} points from ε = 0.01 to 4"
    images = [sets[name]["points"][0]["share"]["mean"] for name in ("fashion-mnist", "cifar10")]
    cells = [sets[name]["points"][0]["share"]["mean"] for name in ("paul15", "olsson")]
    yield f"At ε = 0.01 {images[1]:.0f} to {images[0]:.0f} % of a class travels"
    yield f"(images), {cells[0]:.0f} to {cells[1]:.0f} % of small ones"


@says("hulls", "Figure 9")
def _more_sites() -> Iterable[str]:
    for one in results("hulls/results/bins.json").values():
        shares = {n: [p["share"]["mean"] for p in one["points"] if p["sites"] == n] for n in (3, 5)}
        assert all(a < b for a, b in zip(shares[3], shares[5], strict=True))
    yield "at L = 5 a larger share of the rows travels"


@says("hulls", "Theorem 5.2")
def _exponents() -> Iterable[str]:
    curves = results("hulls/results/complexity.json")["curves"]
    sent = [one["sent_exponent"] for one in curves]
    yield f"N^{min(sent):.2f} to N^{max(sent):.2f}"
    slow = [one["c"] for one in curves if one["exponent"] > one["bound"] + 0.1]
    assert slow == [0.3]
    yield f"for c = {slow[0]:g}"


def few() -> list[dict[str, float]]:
    rows = results("xclp/results/tables.json").values()
    return [means(row) for row in rows if "per-client LP code" in row]


def left_out(title: str = "", *, balanced: bool, centred: bool | None = None) -> list[dict[str, float]]:
    found = []
    for name, row in results("xclp/results/tables.json").items():
        if " without " not in name or name.endswith(", balanced") != balanced or not name.startswith(title):
            continue
        if centred is None or (" centred" in name) == centred:
            found.append(means(row))
    return found


PUBLISHED, OURS = "XCLP (labelled + unlabelled)", "XCLP ours"


@says("xclp", "Table 1")
def _against_alone() -> Iterable[str]:
    alone = [max(value for name, value in row.items() if name.startswith("per-client LP")) for row in few()]
    ours = sum(row[OURS] > other for row, other in zip(few(), alone, strict=True))
    assert ours == len(alone)
    yield f"in all {ours} rows with our setting"
    published = sum(row[PUBLISHED] > row["per-client LP paper"] for row in few())
    yield f"in {published} with Algorithm 1's"


@says("xclp", "Table 2")
def _left_out() -> Iterable[str]:
    rows = left_out(balanced=False)
    yield f"in {sum(row['FedAvg'] > row[OURS] for row in rows)} of {len(rows)} rows"
    for title, centred in (("hipc", None), ("lung", False), ("lung", True)):
        some = left_out(title, balanced=True, centred=centred)
        ours, other = (sum(row[name] for row in some) / len(some) for name in (OURS, "FedAvg"))
        yield f"{ours:.1f} against {other:.1f}"


@says("xclp", "Table 3")
def _few_labels() -> Iterable[str]:
    ours, published = (sum(row[name] > row["FedAvg"] for row in few()) for name in (OURS, PUBLISHED))
    yield f"ahead of FedAvg in {ours} of {len(few())} rows"
    yield f"Algorithm 1 in {published}."


@says("xclp", "Table 6")
def _writers() -> Iterable[str]:
    rows = {name: means(row) for name, row in results("xclp/results/tables.json").items()}
    alone = [rows[f"mnist by writer pixels {share} %"]["per-client LP paper"] for share in (10, 50, 100)]
    yield f"has {min(alone):.0f} to {max(alone):.0f},"
    found = results("xclp/results/features.json")

    def mean(kind: str, share: int, column: str) -> float:
        values = found[f"writers {share} %, {kind}"][column]
        return float(sum(values) / len(values))

    linear, identity = (
        [mean(kind, n, "per-client LP paper") for n in (10, 50)] for kind in ("linear", "identity")
    )
    yield f"({linear[0]:.0f} and {linear[1]:.0f} at 10 and 50 % of labels,"
    yield f" from {identity[0]:.0f} and {identity[1]:.0f})"
    names = ("XCLP paper", "XCLP code", OURS)
    lost = [mean("identity", n, name) - mean("linear", n, name) for n in (10, 50) for name in names]
    yield f"cost XCLP {min(lost):.0f} to {max(lost):.0f} points"


@says("xclp", "Table 4")
def _semi() -> Iterable[str]:
    from papers.xclp.semi import SETS

    rounds = {one["n_rounds"] if isinstance(one, dict) else one.rounds for n, one in SETS.items() if "cifar" in n}
    assert len(rounds) == 1
    yield f"in {rounds.pop()} rounds"


@says("xclp", "Section 3.3")
def _analysis() -> Iterable[str]:
    bits = results("xclp/results/sweeps.json")["bits"].values()
    pairs = [(one["paper, 4096"]["mean"], one["paper, exact"]["mean"]) for one in bits]
    assert len(pairs) == 2
    yield "L = 4096 is as good as exact cosines ({} on two sets)".format(
        " and ".join(f"{hashed:.1f} against {exact:.1f}" for hashed, exact in pairs)
    )
    digits, mnist = (one["all pairs, L = 4096"]["rebuilt"] for one in results("xclp/results/attack.json").values())
    yield f"a cosine of {digits:.3f} (digits) and {mnist:.3f} (MNIST)"


@says("ptopofl", "Section 3.2")
def _columns() -> Iterable[str]:
    gap = results("ptopofl/results/ablation.json")["no added columns (Section 3.2)"]["less than all parts"]
    low, high = gap["ci95"]
    yield f"the AUC is {-gap['mean']:.4f} higher [{-high:+.4f}, {-low:+.4f}]"


@says("ptopofl", "Section 4.8")
def _overhead() -> Iterable[str]:
    found = results("ptopofl/results/overhead.json")
    small, large = (
        100 * (found[name]["pTopoFL, published"]["bytes"] / found[name]["FedAvg, in the open"]["bytes"] - 1)
        for name in ("logistic", "network")
    )
    yield f"{small:.0f} % more than FedAvg with 21 parameters, {large:.1f} % more with a network"


@says("ptopofl", "Table 1")
def _advantage() -> Iterable[str]:
    found = results("ptopofl/results/table1.json")
    a, b = (
        found[name]["rows"]["pTopoFL"]["auc"]["mean"] - found[name]["rows"]["FedAvg"]["auc"]["mean"]
        for name in "AB"
    )
    assert b < 0
    yield f"is {a:.3f} in A and none in B ({found['A']['seeds']} seeds"
    from papers.ptopofl.table1 import PAPER

    public = {name: found[f"{name}, public program"] for name in "AB"}
    yield f"public program ({public['A']['seeds']} seeds)"
    auc = {name: [one["rows"][row]["auc"]["mean"] for row in PAPER[name]] for name, one in public.items()}
    yield f"an AUC of {min(auc['A']):.3f} to {max(auc['A']):.3f} in A and {min(auc['B']):.3f} in B"
    printed = [value for name in "AB" for value, _ in PAPER[name].values()]
    yield f"the published {min(printed):.3f} to {max(printed):.3f} do not come from it"


@says("ptopofl", "Table 2")
def _networks() -> Iterable[str]:
    found = results("ptopofl/results/table2.json")

    def three(row: str) -> str:
        columns = [[seed[row] for seed in found[name].values() if row in seed] for name in found]
        return " / ".join(f"{figure(one)['mean']:.1f}" for one in columns)

    yield f"with Eqs. 6 and 8 has {three('pTopoFL, as published')} in the three columns, FedAvg {three('FedAvg')}"
    yield f"pFedMe {three('pFedMe')}, local training {three('local only')}"
    ours = "pTopoFL, as published"
    ahead = [seed[ours] - seed["FedAvg"] for name in found.values() for seed in name.values() if ours in seed]
    assert min(ahead) > 0
    yield f"ahead of FedAvg by {min(ahead):.1f} to {max(ahead):.1f} points in each of {len(ahead)} runs"


@says("ptopofl", "Figure 2")
def _rounds() -> Iterable[str]:
    found = results("ptopofl/results/curves.json")
    for name in "AB":
        curves = found[name]["curves"]
        ours, other = curves["pTopoFL"], curves["FedAvg"]
        assert all(a <= b + 5e-4 for a, b in zip(ours, other, strict=True)), name
        yield f"{ours[0]:.3f} to {ours[-1]:.3f} against {other[0]:.3f} to {other[-1]:.3f}"
    yield f"has {found['A']['curves']['pTopoFL, refitted'][0]:.3f} from the first"
    yield f"refitted {found['B']['curves']['pTopoFL, refitted'][0]:.3f}"


@says("ptopofl", "Figure 4")
def _flips() -> Iterable[str]:
    found = results("ptopofl/results/robustness.json")
    paper = [
        rates[name]["auc"] for rates in found["detection"].values() for name in rates if "(the paper's)" in name
    ]
    yield f"({min(paper):.2f} to {max(paper):.2f})"
    attacks = results("ptopofl/results/attacks.json")
    poisoned, honest = attacks["features"]["flagged"]["pTopoFL, published"]["1.8"]
    yield "({} of {} flagged at τ = 1.8, and {} of {} honest)".format(
        poisoned, attacks["features"]["sites"][0], honest, attacks["features"]["sites"][1]
    )
    auc = attacks["models"]["auc"]
    yield f"(AUC {auc['pTopoFL, published'][0]:.2f}; coordinate median {auc['coordinate median'][0]:.2f})"
    all_turned = found["auc_over_honest_sites"]["1.0"]
    for number, word in ((1, "one of eight"), (2, "two"), (3, "three"), (4, "four")):
        ours, other = (all_turned[name][number] for name in ("pTopoFL, published", "FedAvg"))
        yield f"{ours:.3f} and {other:.3f} with {word}"
    last = {name: curve[-1] for name, curve in results("ptopofl/results/curves.json")["attack"]["curves"].items()}
    for number, word in ((2, "two"), (4, "four")):
        ours, other = (last[f"{name}, {number} of 8 poisoned"] for name in ("pTopoFL", "FedAvg"))
        yield f"{ours:.2f} and {other:.2f} with {word}"


@says("ptopofl", "Figure 5")
def _signatures() -> Iterable[str]:
    drift = results("ptopofl/results/continual.json")["signatures"]["drift"]
    yield "the paper's .55"
    yield f"near {drift['the same, a number' + chr(39) + 's share']['mean']:.2f}".replace("0.", ".")
    yield f"first descriptor: {drift['over the norm of the first']['mean']:.2f}".replace("0.", ".")


@says("ptopofl", "Figure 6")
def _bits() -> Iterable[str]:
    from fedgeom.geometry.topology.descriptors import NAMES as NUMBERS

    model, numbers, share = 21, len(NUMBERS), 0.1  # Scenario A has 20 columns and an intercept; α_c of Eq. 10
    kept, sent, whole, both = (math.log2(1 + n) for n in (share * numbers, model, numbers, numbers + model))
    yield f"α_c = {share} ({kept:.1f} bits against {sent:.1f}, as published)"
    yield f"more than the model ({whole:.1f}), and both are sent ({both:.1f})"


@says("ptopofl", "Figure 7")
def _ablation() -> Iterable[str]:
    found = results("ptopofl/results/ablation.json")
    clusters = found["one cluster (M = 1)"]["less than all parts"]
    low, high = clusters["ci95"]
    yield f"{clusters['mean']:.4f} [{low:+.4f}, {high:+.4f}] where the paper has {0.841 - 0.790:.3f}"
    sure = [name for name, one in found.items() if one["less than all parts"]["ci95"][0] > 0]
    assert sure == ["no blending (β = 0)"]
    yield f"({found[sure[0]]['less than all parts']['mean']:.4f})"


@says("ptopofl", "Theorem 3")
def _stability() -> Iterable[str]:
    found = results("ptopofl/results/theorems.json")["stability"]
    assert found["clusters before"] != found["clusters after"]
    yield "{} with noise {:g}".format(", ".join(f"{one:g}" for one in found["points"]), max(found["noise"]))


@says("ptopofl", "Theorem 5")
def _suppression() -> Iterable[str]:
    found = results("ptopofl/results/theorems.json")["suppression"]["scenario A"].values()
    held = sorted({one["assumption holds"].split(" of ")[0] for one in found})
    yield f"({' or '.join(held)} of 20 draws)"


@says("ptopofl", "Theorem 7")
def _information() -> Iterable[str]:
    yield f"({results('ptopofl/results/bounds.json')['information']['3']['descriptor']:.2f} nats of one of three rows)"


@says("ptopofl", "Theorem 9")
def _floors() -> Iterable[str]:
    found = results("ptopofl/results/bounds.json")["convergence"]
    a, b = found["A"], found["B"]
    yield f"{a['Eq. 6']:.2f} and {b['Eq. 6']:.2f} from w* with"
    yield f"{a['Eq. 12']:.2f} and {b['Eq. 12']:.2f} with"
    assert f"{a['FedAvg']:.2f}" == f"{b['FedAvg']:.2f}"
    yield f"{a['FedAvg']:.2f} with weights by rows"
    yield f"is {a['bound, FedAvg']:.0f} and {b['bound, FedAvg']:.0f}"


@says("ptopofl", "Proposition 11")
def _spread() -> Iterable[str]:
    found = results("ptopofl/results/theorems.json")["variance"]["scenarios"]
    above = [sum(ratio > 1 for ratio in one["ratios"]) for name, one in found.items() if "by rows" not in name]
    yield f"exceeds 1 in {min(above)} to {max(above)} of {len(next(iter(found.values()))['ratios'])} draws"


@says("ptopofl", "Lemma 12")
def _a_step() -> Iterable[str]:
    first = results("ptopofl/results/bounds.json")["lemma"][0]
    yield f"moves by {math.sqrt(first['left']):.1f}"


@says("hyperfed", "Table 1")
def _joint() -> Iterable[str]:
    images, sites = 6000, 20  # papers/hyperfed/split.py; a quarter is held out, batch 128, 5 epochs, 15 rounds
    yield f"about {15 * 5 * math.ceil(images * 3 / 4 / sites / 128)} steps"
    cifar = results("hyperfed/results/table-paper-settings.json")["cifar-10 5"]
    ours = cifar["HyperFed"]["global"]["mean"]
    assert ours > max(cifar[name]["global"]["mean"] for name in ("MOON", "FedDyn"))
    yield f"has {ours:.1f} at α = 5"
    low = {
        kind: results(f"hyperfed/results/{kind}.json")["cifar-10 0.1"]["HyperFed"]["global"]["mean"]
        for kind in KINDS
    }
    assert max(low.values()) <= 15, "near chance"
    yield "near chance at α = 0.1"
    tuned = results("hyperfed/results/table.json")
    for alpha in ("0.1", "0.5", "5"):
        row = tuned[f"fashion-mnist {alpha}"]
        assert row["HyperFed"]["global"]["mean"] <= row["SphereFed"]["global"]["mean"]


KINDS = ("table", "table-paper-settings")


@says("hyperfed", "Table 2")
def _personal() -> Iterable[str]:
    tuned = results("hyperfed/results/table.json")

    def best(alpha: str, but: tuple[str, ...] = ("Ridge", "pooled")) -> list[tuple[str, float]]:
        rows = {n: one["personal"]["mean"] for n, one in tuned[f"fashion-mnist {alpha}"].items() if n not in but}
        return sorted(rows.items(), key=lambda one: -one[1])

    first = dict(best("0.1")[:4])
    assert list(first)[:2] == ["HyperFed-Averaged", "APPLE"]
    assert set(first) == {"HyperFed-Averaged", "APPLE", "FedPer", "FedBABU"}
    two = f"HyperFed-Averaged ({first['HyperFed-Averaged']:.1f}), APPLE ({first['APPLE']:.1f})"
    yield f"at α = 0.1 {two}, FedPer and FedBABU ({first['FedPer']:.1f})"
    second = dict(best("0.5")[:2])
    assert set(second) == {"FedDyn", "FedBABU"}
    yield f"at 0.5 FedDyn and FedBABU ({second['FedDyn']:.1f})"
    assert "momentum" in best("5")[0][0]
    yield "at 5 rows with momentum"


@says("hyperfed", "Figure 5")
def _slope() -> Iterable[str]:
    for curve in results("hyperfed/results/sensitivity.json")["slope"].values():
        values = [one["global"] for one in curve.values()]
        assert max(values) - min(values) < 1
        assert abs(curve["1"]["global"] - curve["0.9"]["global"]) < 1
    yield "not even at s = 1"


@says("hyperfed", "Figure 6")
def _margin() -> Iterable[str]:
    found = results("hyperfed/results/sensitivity.json")["margin"]["HyperFed"]
    top = sorted(found, key=lambda margin: -found[margin]["global"])[:2]
    assert set(top) == {"2", "2.5"}
    yield "its top at 2 to 2.5 instead of 3"


@says("hyperfed", "Figure 7")
def _sites() -> Iterable[str]:
    found = results("hyperfed/results/sensitivity.json")["sites"]
    lost = {
        name: one[min(one, key=int)]["global"] - one[max(one, key=int)]["global"] for name, one in found.items()
    }
    ours = found["HyperFed"]
    assert {(min(one, key=int), max(one, key=int)) for one in found.values()} == {("5", "100")}
    yield f"100 sites instead of 5 with as many images cost {min(lost.values()):.0f} to {max(lost.values()):.0f} points"
    yield f"HyperFed has {ours['5']['global'] - ours['50']['global']:.1f} less with 50"


def test_what_is_registered_is_about_entries_that_there_are() -> None:
    assert set(CHECKS) <= set(FOUND)
    assert set(GIVEN) <= set(FOUND)
