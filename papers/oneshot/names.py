"""Words at different depth: which of a hospital's words stand above which of the others', found from Gaussians alone.

    python papers/oneshot/names.py                     # all sets, 10 splits each; writes results/names.{json,md}
    python papers/oneshot/names.py --only tcells       # some sets; what is in the results is not computed again
    python papers/oneshot/names.py --quick --json      # one split each, half a minute; writes nothing

Each site has words of its own, drawn anew with each split: "fine", everybody has the finest ones; "coarse sites", two
of the sites have the coarsest ones for everything; "mixed", each site draws for each branch of the tree how deep its
words go, so that no site need have all of the finest. A joint class of which a site has enough rows is *placed* right
if the site's model answers with the site's word for it; a word is right if all its classes are, no others. Beside
it stands flat matching (``depth="same"``), which takes every word for one class. All runs are secure ones;
nobody tells a word. Splits 0 to 9 were used to choose a threshold; those reported begin with 100.

Two sets say what the lung's figures are due to: "lung-shared" has only the types of which two donors or more have
enough cells, "lung-dealt" the same cells as "lung", dealt anew to donors of the same sizes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, Row, bold, figure, parser, plus_minus, print_json, print_rows, table
from papers.oneshot.tables import Cells, with_components

RESULTS = Results(Path(__file__).parent / "results")
SETS = ("tcells", "kang", "lung", "lung-shared", "lung-dealt")
SCENES = ("fine", "coarse sites", "mixed")
FIRST, SPLITS = 100, 10
FEWEST = {"tcells": 10, "kang": 10, "lung": 8, "lung-shared": 8, "lung-dealt": 8}
"""The fewest rows of a word at a site with which it takes part."""
TITLES = {"lung-shared": "lung, types of two donors or more,", "lung-dealt": "lung, cells dealt anew,"}
WHY = (
    "Why the lung is weak: of its 20 types with enough cells 13 are at one donor only, and donors are of two atlases. "
    "With the types that two donors or more have all fine words are right, and with the same few cells dealt anew to "
    "donors those of two coarse donors, too: rarity is not at fault. Which type a donor alone has does not follow from "
    "the number of classes: such a type is put to a neighbour of another donor (naive CD8 to NK cells, CD4 to CD4 "
    "memory), and a large class (macrophages) falls into one for each atlas instead."
)
"""What the two other sets of the lung show."""
COARSE = 2
WAYS = {"mixed": "words in a tree", "same": "flat matching"}

Words = dict[str, dict[str, str]]
"""For each site, the word for each of the finest classes; common words, which the sites spell in their own way."""


def deal_words(cells: Cells, scene: str, rng: np.random.Generator) -> Words:
    """Draw how deep each site's words go."""
    sites, leaves = [site.name for site in cells.train], sorted(cells.tree)
    coarse = set(rng.choice(sites, COARSE, replace=False).tolist()) if scene == "coarse sites" else set()
    found: Words = {}
    for site in sites:
        depth: dict[str, int] = {}
        for leaf in leaves:
            branch = (leaf, *cells.tree[leaf])[-1]
            depth.setdefault(branch, int(rng.integers(0, 3)) if scene == "mixed" else 9 if site in coarse else 0)
        found[site] = {}
        for leaf in leaves:
            path = (leaf, *cells.tree[leaf])
            found[site][leaf] = path[min(depth[path[-1]], len(path) - 1)]
    return found


def spelt(site: fedgeom.SiteData, words: Mapping[str, str], fewest: int) -> fedgeom.SiteData:
    """Return a site in its own words, without those of few rows."""
    y = np.array([f"{words[leaf]} [{site.name}]" for leaf in site.y.astype(str).tolist()])
    names, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, names[counts >= fewest])
    return fedgeom.SiteData(site.name, site.X[kept], y[kept])


def finest(train: list[fedgeom.SiteData], tree: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the joint classes that can be told apart: words in use under which no other word in use stands."""
    used = {str(word).partition(" [")[0] for site in train for word in site.classes.tolist()}
    above = {name for leaf, path in tree.items() for at, name in enumerate(path) if {leaf, *path[:at]} & used}
    return sorted(used - above)


def under(name: str, word: str, tree: Mapping[str, tuple[str, ...]]) -> bool:
    """Say whether a name is a word, or stands under it."""
    paths = [(leaf, *path) for leaf, path in tree.items()]
    return any(name in path and word in path[path.index(name) :] for path in paths)


def titles(run: fedgeom.Run, number: int, names: list[str]) -> list[str]:
    """Name the joint classes by what most of the words that mean one class say, each name once."""
    from scipy.optimize import linear_sum_assignment  # as everywhere in the scripts: where it is used

    votes = np.zeros((number, len(names)))
    for local in run.local.values():
        for word, group in local["names"].items():
            name = word.partition(" [")[0]
            if name in names:
                votes[group, names.index(name)] += 1
    rows, columns = linear_sum_assignment(votes, maximize=True)
    found = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return [names[found[group]] if group in found else "" for group in range(number)]


def level(name: str, depth: int, tree: Mapping[str, tuple[str, ...]]) -> str:
    """Return the ancestor of a name that is so many steps under the top; the name itself if it is not that deep."""
    for leaf, path in tree.items():
        whole = (leaf, *path)
        if name in whole:
            chain = whole[whole.index(name) :]
            return chain[max(len(chain) - 1 - depth, 0)]
    return name


def score(
    method: fedgeom.Ellipses, train: Any, test: Any, cells: Cells, names: list[str], fewest: int, seed: int
) -> dict[str, float]:
    """Hold a run and return the percentages of what is right."""
    run = fedgeom.run(method, train, seed=seed)
    if run.lost:
        raise SystemExit(f"sites were lost: {run.lost}")
    title = titles(run, run.model.classes, names)
    words = placed = wanted = total = 0
    called, true, joint = [], [], []
    for site, rows, leaves in zip(train, test, cells.train, strict=True):
        here = leaves.y.astype(str).tolist()
        local = run.local[site.name]
        covers = local.get("covers") or {word: [group] for word, group in local["names"].items()}
        mine = {str(word): str(word).partition(" [")[0] for word in site.classes.tolist()}
        by_group = {group: word for word, groups in covers.items() for group in groups}
        for word, name in mine.items():
            below = {g for g, one in enumerate(title) if one and under(one, name, cells.tree)}
            right = {g for g in below if sum(under(leaf, title[g], cells.tree) for leaf in here) >= fewest}
            total += 1
            words += bool(covers.get(word)) and right <= set(covers[word]) <= below
            wanted += len(right)
            placed += sum(by_group.get(group) == word for group in right)
        model = run.model.for_site(local)
        called.append(model.predict(rows.X) == rows.y)
        joint.append(np.array(title)[model.class_scores(rows.X).argmax(axis=1)])
        true.append(np.array([str(word).partition(" [")[0] for word in rows.y.tolist()]))
    said, meant = np.concatenate(joint), np.concatenate(true)
    found = {
        "classes placed": 100 * placed / max(wanted, 1),
        "words right": 100 * words / total,
        "accuracy in own words": 100 * float(np.concatenate(called).mean()),
    }
    return found | _by_depth(said, meant, cells.tree)


def _by_depth(said: Any, meant: Any, tree: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """Return the accuracy of the joint classes at each depth, over the rows whose site's word goes that deep."""
    found, deepest = {}, max(len(path) for path in tree.values())
    known = {
        name: max(len(p) - p.index(name) for p in ((leaf, *path) for leaf, path in tree.items()) if name in p)
        for name in {*tree, *(one for path in tree.values() for one in path)}
    }
    for depth in range(deepest + 1):
        rows = [at for at, name in enumerate(meant.tolist()) if known[name] > depth]
        right = [level(said[at], depth, tree) == level(meant[at], depth, tree) for at in rows]
        if rows:
            found[f"accuracy at depth {depth + 1}"] = 100 * float(np.mean(right))
    return found


def prepared(name: str, seed: int) -> Cells:
    """Return a set, prepared; of the lung, only types that two donors have, or all cells dealt anew."""
    cells = with_components(name.partition("-")[0], seed)
    if name == "lung-shared":
        counts = [Counter(site.y.astype(str).tolist()) for site in cells.train]
        kept = [leaf for leaf in cells.tree if sum(one[leaf] >= FEWEST[name] for one in counts) > 1]
        parts = [[site.take(np.isin(site.y, kept)) for site in some] for some in (cells.train, cells.test)]
        return replace(cells, train=parts[0], test=parts[1])
    if name == "lung-dealt":
        rng = np.random.default_rng([seed, 8])
        return replace(cells, train=_dealt_anew(cells.train, rng), test=_dealt_anew(cells.test, rng))
    return cells


def _dealt_anew(sites: list[fedgeom.SiteData], rng: np.random.Generator) -> list[fedgeom.SiteData]:
    """Return sites of the same names and sizes with all rows in another order."""
    X, y = np.concatenate([site.X for site in sites]), np.concatenate([site.y for site in sites])
    rows = np.split(rng.permutation(len(y)), np.cumsum([len(site) for site in sites])[:-1])
    return [fedgeom.SiteData(site.name, X[at], y[at]) for site, at in zip(sites, rows, strict=True)]


Values = dict[str, dict[str, float]]
"""What one split of a set gives: by scene and way of matching, and by figure."""


def split(name: str, seed: int) -> Values:
    """Return the figures of one split of a set."""
    found: Values = {}
    cells = prepared(name, seed)
    for scene in SCENES:
        words = deal_words(cells, scene, np.random.default_rng([seed, 7]))
        train = [spelt(site, words[site.name], FEWEST[name]) for site in cells.train]
        test = [_known(spelt(site, words[site.name], 1), own) for site, own in zip(cells.test, train, strict=True)]
        names = finest(train, cells.tree)
        for depth in ("mixed", "same"):
            if depth == "same" and scene == "fine":
                continue  # nothing to tell apart
            method = fedgeom.Ellipses(n_classes=max(len(names), *(len(s.classes) for s in train)), depth=depth)
            title = f"{TITLES.get(name, name)} {scene}: {WAYS[depth]}"
            found[title] = score(method, train, test, cells, names, FEWEST[name], seed)
    return found


def _known(test: fedgeom.SiteData, train: fedgeom.SiteData) -> fedgeom.SiteData:
    """Return the test rows whose words the site learnt from."""
    return test.take(np.isin(test.y, train.classes))


def summed(splits: Mapping[str, Values]) -> dict[str, Row]:
    """Return the means over splits; a figure that some splits lack is of the others."""
    titles = dict.fromkeys(title for one in splits.values() for title in one)
    found: dict[str, Row] = {}
    for title in titles:
        rows = [one[title] for one in splits.values() if title in one]
        keys = dict.fromkeys(key for row in rows for key in row)
        found[title] = {key: figure([row[key] for row in rows if key in row]) for key in keys}
    return found


def page(content: dict[str, dict[str, Values]]) -> str:
    """Write the table."""
    rows = {title: row for splits in content.values() for title, row in summed(splits).items()}
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    lines = []
    for title, row in rows.items():
        cells = [plus_minus(row[key], 1) if key in row else "" for key in keys]
        lines.append([title, *(bold(cell, WAYS["mixed"] in title and at == 0) for at, cell in enumerate(cells))])
    head = ["words", *(f"{key}, %" for key in keys)]
    counts = ", ".join(f"{len(splits)} of {name}" for name, splits in content.items())
    note = f"`python papers/oneshot/names.py`; splits from {FIRST} on: {counts}; means and 95 % intervals; secure runs."
    if {"lung", *TITLES} <= set(content):
        note += " " + WHY
    return "# Words at different depth\n\n" + note + "\n\n" + "\n".join(table(head, lines)) + "\n"


def main() -> None:
    """Compute, print and write; splits that are in the results are not computed again."""
    options = parser(__doc__, SETS).parse_args()
    content: dict[str, dict[str, Values]] = {} if options.quick else RESULTS.read("names")
    for name in options.only:
        done = content.setdefault(name, {})
        for seed in range(FIRST, FIRST + (1 if options.quick else SPLITS)):
            if str(seed) not in done:
                done[str(seed)] = split(name, seed)
                if not options.quick:
                    RESULTS.write("names", content, page)
        print_rows(summed(done))
    print_json(options, {title: row for splits in content.values() for title, row in summed(splits).items()})


if __name__ == "__main__":
    main()
