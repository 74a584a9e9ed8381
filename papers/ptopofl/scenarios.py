"""The hospitals of the tables: Scenarios A and B of the paper, two hidden concepts, and three real sets.

Every function takes a seed and returns a `Scenario`, each site with a train and a test part. The paper says
how many sites, columns, informative columns and patients there are, how the outcomes are skewed, and that two
hospitals of Scenario A flip labels. What it leaves open is decided here, once, by the constants below:

- **The population.** As in scikit-learn's ``make_classification``: the informative columns are Gaussian around
  one centre per class, mixed by a random matrix; of the other columns, half are random combinations of the
  informative ones and half are noise. Columns are shuffled.
- **What differs between hospitals**, beside size and outcome rate: every hospital's centres deviate somewhat
  from the common ones (the same disease does not present alike everywhere), and its columns are shifted
  (`SHIFT`: other patients, other machines).
- **How hard it is.** The separation of the classes and the deviation of the hospitals (`HARDNESS`) were set so
  that averaged, purely local and half-and-half models score about what earlier re-runs of the scenarios gave: in
  A .853, .854 and .870 over all sites, .918, .934 and .939 over the honest ones, in B .883, .867 and .878. That a
  site's own rows help in A and hardly in B is therefore put in, not found.
- **Label flips.** An adversarial hospital turns each of its labels around with probability `FLIP`, before it
  splits off its test rows. Its test labels are therefore flipped too, and its figures say little about a
  model: tables should give a column over all and one over the honest sites. Which two are adversarial is drawn.
- **Sizes in B** are not given in the paper; 60 to 250 rows as in A.
- **The test part** is a stratified 30 % of each site.

The authors' public program (github.com/MorillaLab/TopoFederatedL) decides otherwise, and `public_a` and `public_b` do
as it does, in words of our own: the informative columns are independent Gaussians around 1 (deviation 0.5) for those
with the outcome and around 0 (0.3) for the others, the other columns are noise, alike at all hospitals; the two
adversaries shift their informative columns by about 2 and flip 40 % of their labels; all columns are scaled by the rows
of all sites; a model is tested on 400 further rows, which no one flips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedgeom import SiteData
from papers.common import Floats, Ints, load_data

TEST_SHARE = 0.3
COLUMNS = 20
SIZES = (60, 250)
FLIP = 0.3
HARDNESS = {"A": (0.75, 0.5), "B": (0.55, 0.2), "two concepts": (0.75, 0.2)}
"""How far apart the class centres are in each informative direction, and how far a hospital's own distance
deviates from that, both in units of the deviation within a class."""
SHIFT = 0.5
LEAST_TEST_ROWS = 5
"""A real hospital is scored when its test part has this many rows of either class; Switzerland has two healthy
patients to test on, and an AUC of two is noise. Hospitals that are not scored take part in learning."""


@dataclass(frozen=True)
class Scenario:
    """Sites that want to learn together; ``test[i]`` holds the rows that site ``train[i]`` kept out."""

    name: str
    train: tuple[SiteData, ...]
    test: tuple[SiteData, ...]
    adversarial: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    """The true group of each site, where there are any."""
    least: int = 1
    """How many test rows of either class a site needs to be scored."""

    @property
    def scored(self) -> tuple[int, ...]:
        """The sites on which a model can be judged: enough test rows of both classes."""
        counts = [np.bincount(site.y, minlength=2).min() for site in self.test]
        return tuple(i for i, count in enumerate(counts) if count >= self.least)

    @property
    def honest(self) -> tuple[int, ...]:
        """The scored sites that are not adversarial."""
        return tuple(i for i in self.scored if i not in self.adversarial)


@dataclass(frozen=True)
class Population:
    """Two Gaussian classes in the informative directions, seen through redundant and useless columns."""

    centre: Floats
    deviation: float
    mixing: Floats
    combinations: Floats
    order: Ints

    @classmethod
    def draw(cls, informative: int, hardness: tuple[float, float], rng: np.random.Generator) -> Population:
        """Draw a population; its class centres are opposite corners of a cube, as in make_classification."""
        separation, deviation = hardness
        redundant = (COLUMNS - informative) // 2
        return cls(
            rng.choice((-0.5, 0.5), informative) * separation,
            deviation / 2,
            rng.uniform(-1, 1, (informative, informative)),
            rng.uniform(-1, 1, (informative, redundant)),
            rng.permutation(COLUMNS),
        )

    def site(self, name: str, n: int, rate: float, rng: np.random.Generator) -> SiteData:
        """Draw one hospital: ``n`` patients of whom a share ``rate`` has the outcome."""
        y = np.zeros(n, np.int64)
        y[: max(round(rate * n), 4)] = 1
        rng.shuffle(y)
        informative = len(self.centre)
        centre = self.centre + self.deviation * rng.standard_normal(informative)
        latent = rng.standard_normal((n, informative)) + np.where(y[:, None] == 1, centre, -centre)
        seen = latent @ self.mixing
        extra = seen @ self.combinations
        noise = rng.standard_normal((n, COLUMNS - informative - extra.shape[1]))
        # every column of unit deviation within a class, so that no column rules by its scale alone
        spread = np.linalg.norm(self.mixing, axis=0), np.linalg.norm(self.mixing @ self.combinations, axis=0)
        X = np.hstack([seen / spread[0], extra / spread[1], noise])[:, self.order]
        return SiteData(name, X + SHIFT * rng.standard_normal(COLUMNS), y)


def flipped(site: SiteData, share: float, rng: np.random.Generator) -> SiteData:
    """Return the site with each label turned around with probability ``share``."""
    return replace(site, y=np.where(rng.random(len(site)) < share, 1 - site.y, site.y))


def parts(site: SiteData, seed: int, share: float = TEST_SHARE) -> tuple[SiteData, SiteData]:
    """Split a site into train and test, class by class; a class of two rows or more is in both."""
    rng = np.random.default_rng([seed, len(site)])
    aside = np.zeros(len(site), bool)
    for label in (0, 1):
        members = rng.permutation(np.flatnonzero(site.y == label))
        n = round(share * len(members))
        aside[members[: min(max(n, 1), len(members) - 1)]] = True
    return site.take(~aside), site.take(aside)


def _scenario(name: str, sites: list[SiteData], seed: int, **more: Any) -> Scenario:
    pairs = [parts(site, seed) for site in sites]
    return Scenario(name, tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs), **more)


def scenario_a(seed: int, *, adversarial: int = 2, flip: float = FLIP) -> Scenario:
    """Scenario A: 8 hospitals of 60–250 patients, mortality 10–45 %, two of them flipping labels."""
    rng = np.random.default_rng([seed, 1])
    people = Population.draw(10, HARDNESS["A"], rng)
    sizes, rates = rng.integers(SIZES[0], SIZES[1] + 1, 8), rng.uniform(0.10, 0.45, 8)
    sites = [people.site(f"hospital-{i + 1}", int(sizes[i]), float(rates[i]), rng) for i in range(8)]
    chosen = tuple(sorted(rng.permutation(8)[:adversarial].tolist()))
    sites = [flipped(site, flip, rng) if i in chosen else site for i, site in enumerate(sites)]
    return _scenario("A", sites, seed, adversarial=chosen)


def scenario_b(seed: int) -> Scenario:
    """Scenario B: 10 clients, the share of the positive class drawn from U(0.1, 0.9)."""
    rng = np.random.default_rng([seed, 2])
    people = Population.draw(12, HARDNESS["B"], rng)
    sizes, rates = rng.integers(SIZES[0], SIZES[1] + 1, 10), rng.uniform(0.1, 0.9, 10)
    sites = [people.site(f"client-{i + 1:02d}", int(sizes[i]), float(rates[i]), rng) for i in range(10)]
    return _scenario("B", sites, seed)


PUBLIC = {"A": (10, 0.30), "B": (12, 0.50)}
"""Of the authors' public program: informative columns, and the share with the outcome among the rows tested on."""
TESTED = 400


def _public_rows(n: int, rate: float, informative: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Draw rows as the authors' public program does, and who has the outcome."""
    y = rng.permutation((np.arange(n) < max(2, int(n * rate))).astype(np.int64))
    X = rng.standard_normal((n, COLUMNS))
    seen = X[:, :informative]
    X[:, :informative] = np.where(y[:, None] == 1, 1.0 + 0.5 * seen, 0.3 * seen)
    return X, y


def _public(
    name: str, sites: list[tuple[Floats, Ints]], rng: np.random.Generator, adversarial: tuple[int, ...] = ()
) -> Scenario:
    """Scale columns by the rows of all sites, and test every site's model on the same further rows."""
    X_new, y_new = _public_rows(TESTED, PUBLIC[name][1], PUBLIC[name][0], rng)
    every = np.vstack([X for X, _ in sites])
    mean, deviation = every.mean(axis=0), every.std(axis=0)
    titles = [f"hospital-{at + 1:02d}" for at in range(len(sites))]
    train = [SiteData(title, (X - mean) / deviation, y) for title, (X, y) in zip(titles, sites, strict=True)]
    test = [SiteData(title, (X_new - mean) / deviation, y_new) for title in titles]
    return Scenario(f"{name}, public program", tuple(train), tuple(test), adversarial)


def public_a(seed: int) -> Scenario:
    """Scenario A of the authors' public program: rates from 10 to 45 %, two hospitals shifted and flipped."""
    rng = np.random.default_rng([seed, 4])
    rates, sizes = rng.permutation(np.linspace(0.10, 0.45, 8)), rng.integers(SIZES[0], SIZES[1] + 1, 8)
    informative = PUBLIC["A"][0]
    sites = [_public_rows(int(n), float(rate), informative, rng) for n, rate in zip(sizes, rates, strict=True)]
    chosen = tuple(sorted(rng.permutation(8)[:2].tolist()))
    for at in chosen:
        X, y = sites[at]
        X[:, :informative] += 2.0 + 0.5 * rng.standard_normal((len(X), informative))
        turned = rng.permutation(len(y))[: int(0.4 * len(y))]
        y[turned] = 1 - y[turned]
    return _public("A", sites, rng, chosen)


def public_b(seed: int) -> Scenario:
    """Scenario B of the authors' public program: ten clients of 150 rows."""
    rng = np.random.default_rng([seed, 5])
    sites = [_public_rows(150, float(rate), PUBLIC["B"][0], rng) for rate in rng.uniform(0.1, 0.9, 10)]
    return _public("B", sites, rng)


def two_concepts(seed: int) -> Scenario:
    """Eight hospitals in two hidden groups: the same patients, but the outcome follows another rule in each.

    Half of the informative directions point the other way in the second group. X without its labels changes
    in its covariance only, and little at that: what tells the groups apart is how labels depend on rows.
    """
    rng = np.random.default_rng([seed, 3])
    first = Population.draw(10, HARDNESS["two concepts"], rng)
    turned = np.where(np.arange(10) < 5, -1.0, 1.0)
    second = replace(first, centre=first.centre * turned)
    groups = tuple((rng.permutation(8) % 2).tolist())
    sizes, rates = rng.integers(SIZES[0], SIZES[1] + 1, 8), rng.uniform(0.25, 0.75, 8)
    sites = [
        (first, second)[groups[i]].site(f"hospital-{i + 1}", int(sizes[i]), float(rates[i]), rng) for i in range(8)
    ]
    return _scenario("two concepts", sites, seed, groups=groups)


def _hospitals(name: str, X: Floats, y: Ints, owner: Ints, titles: list[str], seed: int) -> Scenario:
    """Make a scenario of real rows; each site fills gaps and scales columns by its own training rows.

    No column is left out because another hospital lacks it: Cleveland measured vessels and thallium scans for
    nearly all its patients, the others for hardly any. Where a site has no value at all, the column is zero.
    """
    pairs = [
        parts(SiteData(title, X[owner == i], y[owner == i]), seed)
        for i, title in enumerate(titles)
        if np.any(owner == i)
    ]
    ready = [_prepared(*pair) for pair in pairs]
    train, test = tuple(pair[0] for pair in ready), tuple(pair[1] for pair in ready)
    return Scenario(name, train, test, least=LEAST_TEST_ROWS)


def _prepared(train: SiteData, test: SiteData) -> tuple[SiteData, SiteData]:
    """Fill gaps by the median, cut tails at the 1st and 99th percentile, scale; all from the training rows."""
    known = np.where(np.isnan(train.X).all(axis=0), 0.0, train.X)
    low, middle, high = np.nanpercentile(known, (1, 50, 99), axis=0)

    def tidy(X: Floats) -> Floats:
        return np.clip(np.where(np.isnan(X), middle, X), low, high)

    mean, deviation = tidy(train.X).mean(axis=0), tidy(train.X).std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    return tuple(replace(part, table=(tidy(part.X) - mean) / scale) for part in (train, test))  # type: ignore[return-value]


def heart(seed: int) -> Scenario:
    """Heart disease yes or no at four hospitals (Cleveland, Budapest, Switzerland, Long Beach)."""
    z = load_data("heart_disease_4hospitals.npz")
    X, y = z["X"].astype(np.float64), (z["y"] > 0).astype(np.int64)
    return _hospitals("heart", X, y, z["site"].astype(np.int64), z["site_names"].tolist(), seed)


def eicu(seed: int) -> Scenario:
    """Death in hospital after intensive care; the sites are the regions, one being the hospitals without any.

    Single hospitals of the demo have at most 40 stays with a handful of deaths. One stay per patient, so that
    no patient is on both sides of a split. The last three columns are APACHE's own scores and are left out.
    """
    z = load_data("eicu_demo_186hospitals.npz")
    first = np.zeros(len(z["y_hosp_mort"]), bool)
    known = np.flatnonzero(z["y_hosp_mort"] >= 0)
    first[known[np.unique(z["patient"][known], return_index=True)[1]]] = True
    X, y = z["X"][first, :-3].astype(np.float64), z["y_hosp_mort"][first].astype(np.int64)
    titles = ["no region" if title == "NA" else title for title in z["region_names"].tolist()]
    return _hospitals("eicu", X, y, z["region"][first].astype(np.int64), titles, seed)


def tcga(seed: int) -> Scenario:
    """Death during follow-up of breast cancer patients; the sites are six regions."""
    z = load_data("tcga_brca_6regions.npz")
    X, y = z["X"].astype(np.float64), z["event"].astype(np.int64)
    return _hospitals("tcga", X, y, z["site"].astype(np.int64), z["site_names"].tolist(), seed)


SCENARIOS: dict[str, Callable[[int], Scenario]] = {
    "A": scenario_a,
    "B": scenario_b,
    "A, public program": public_a,
    "B, public program": public_b,
    "two concepts": two_concepts,
    "heart": heart,
    "eicu": eicu,
    "tcga": tcga,
}
"""All scenarios by name; the last three need files."""
