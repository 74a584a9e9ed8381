"""Rare classes, names, and labels that a coordinator may not see."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import FedgeomError
from fedgeom.federation.messages import Array
from fedgeom.federation.policy import Policy
from fedgeom.geometry.gaussians import class_moments, length
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.methods.xclp.anchors import AnchorCoordinator
from fedgeom.methods.xclp.messages import CountClasses, Spread
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.fixed_point import from_fixed
from fedgeom.protocols.names import (
    HoldNames,
    NamesHeld,
    OpenNames,
    SealedNames,
    SealNames,
    Vocabulary,
    agree_on_names,
)
from fedgeom.protocols.secure_sum.messages import MaskedVector, Ticket
from tests.attacks.playing import Attack, Floats, Learnt, Liar, patients, rounds_of, rows_read, same, stamped

RARE = "rare"


def with_rare_class(rows: int, at: int = 1, total: int = 24) -> list[SiteData]:
    """Return sites of which the first ``at`` have a class that no other has, with so many rows each."""
    sites = patients(4, total, 2)
    found = []
    for number, site in enumerate(sites):
        y = site.y.astype("<U8")
        if number < at:
            y[:rows] = RARE
        found.append(SiteData(site.name, site.X, y))
    return found


def two_rows(moments: Floats, columns: int) -> list[Floats]:
    """Return the two rows that have these sums: count, Σx, and the upper triangle of Σxxᵀ."""
    mean = moments[1 : 1 + columns] / 2
    square = np.zeros((columns, columns))
    pairs = columns * (columns + 1) // 2
    square[np.triu_indices(columns)] = moments[1 + columns : 1 + columns + pairs]
    square = square + np.triu(square, 1).T - 2 * np.outer(mean, mean)  # = 2·d·dᵀ for rows mean ± d
    values, vectors = np.linalg.eigh(square)
    half = vectors[:, -1] * np.sqrt(max(values[-1], 0.0) / 2)
    return [mean + half, mean - half]


def _class_sum(policy: Policy, ask_for: tuple[str, ...] | None, *, in_terms: bool = False) -> Learnt:
    """Sum the moments of all classes; see whether those of the class that one site has are in the sum.

    With two rows the sum shows both; with more, which a strict site gives, it is that site's own mean and covariance.
    """
    found = []
    for few in (2, 6):
        way = fedgeom.Moments(space="euclidean", classes=ask_for if in_terms else None)
        liar = Liar(way, with_rare_class(few), policy)
        try:
            cohort = liar.join()
            agreed = agree_on_names(cohort, ask_for if in_terms else None)
            classes = ask_for or agreed or ()
            cohort.classes = None  # a liar holds to no plan
            total = cohort.sum_reals(
                SumClassMoments(classes=classes, curvature=None), length=length(len(classes), 2)
            )
        except FedgeomError as error:
            found.append(liar.refusal(error))
            continue
        if RARE not in classes:
            found.append(Learnt("nothing: the class is in no sum", False))
            continue
        own, site = total.reshape(len(classes), -1)[classes.index(RARE)], liar.data["s000"]
        truth = class_moments(site.X, site.y, (RARE,), c=None)
        if not same(own, truth):
            found.append(Learnt("zeros: the class is in no sum", False))
            continue
        read = rows_read(two_rows(own, 2), site.X[:2]) if few == 2 else 0
        words = f"{read} of 2 rows" if few == 2 else "the site's own mean and covariance of the class"
        found.append(Learnt(words, True))
    return max(found, key=lambda one: one.succeeds)


def class_of_one_site(method: str, policy: Policy, quick: bool) -> Learnt:
    """Hold an honest run over sites of which one has a class with a few rows that nobody else has."""
    return _class_sum(policy, None)


def class_named_by_the_attacker(method: str, policy: Policy, quick: bool) -> Learnt:
    """The same where the coordinator asks for the rare class itself, whatever was agreed."""
    return _class_sum(policy, ("no", RARE, "yes"))


def class_in_the_terms(method: str, policy: Policy, quick: bool) -> Learnt:
    """The same where the terms name the classes, so that nobody agrees on any."""
    return _class_sum(policy, ("no", RARE, "yes"), in_terms=True)


def count_of_one_site(method: str, policy: Policy, quick: bool) -> Learnt:
    """Count the labels of a class that one site has alone: the count is that site's own."""
    pairs = method == "xclp"
    way = (
        fedgeom.XCLP(hash_bits=64, hamming="ot")
        if pairs
        else fedgeom.XCLP(graph="anchors", n_anchors=4, n_rounds=1)
    )
    liar = Liar(way, with_rare_class(6), policy)
    try:
        cohort = liar.join()
        classes = agree_on_names(cohort)
        if pairs:
            counts = cohort.sum_counts(CountClasses(classes=classes), length=len(classes)).astype(float)
        else:
            talk = AnchorCoordinator(way, cohort)
            _, counts = talk.scores(talk.fit(), classes)
    except FedgeomError as error:
        return liar.refusal(error)
    if RARE not in classes:
        return Learnt("nothing: the class is in no sum", False)
    told = round(float(counts[classes.index(RARE)]))
    return Learnt(f"how many rows of it the one site has: {told}", told == 6)


def compared_unions(method: str, policy: Policy, quick: bool) -> Learnt:
    """Let different sites open different lists of names, and compare the unions: who has which name?"""
    way: Any = fedgeom.Moments(space="euclidean") if method == "moments" else fedgeom.FedAvg(n_rounds=1)
    sites = [
        SiteData(site.name, site.X, np.char.add(site.y.astype("<U8"), "" if at else " (children)"))
        for at, site in enumerate(patients(5))
    ]
    liar = Liar(way, sites, policy)
    try:
        cohort = liar.join()
        unions = _unions(liar, cohort)
    except (FedgeomError, AttributeError, KeyError) as error:
        return liar.refusal(error)
    with_it = {name for one, names in unions.items() for name in names if "s000" in one}
    without = {name for one, names in unions.items() for name in names if "s000" not in one}
    own = {str(name) for name in np.unique(sites[0].y)}
    found = with_it - without if without else set()
    if not unions:
        said = {answer.slots for _, _, answer in liar.heard if isinstance(answer, NamesHeld)}
        return Learnt(
            f"no union: the sites say {sorted(said)}, a multiple of 256" if said else liar.refusal().now, False
        )
    return Learnt(f"{len(found & own)} of {len(own)} names are known to be the victim's", bool(found & own))


def _unions(liar: Liar, cohort: Cohort) -> dict[frozenset[str], tuple[str, ...]]:
    """Show each site the lists of three others of the attacker's choice; return the unions by whose lists they are."""
    names, sealed = cohort.names, {}
    for name in names:
        ask = SealNames(participants=names, letters=dict(cohort.mail[name]))
        answer = liar.ask(name, ask)
        if isinstance(answer, SealedNames):
            sealed[name] = answer.names
    found = {}
    for name in names:
        others = [one for one in names if one not in (name, "s000")]
        shown = frozenset((name, "s000", *others[:2]) if name == "s001" or name == "s000" else (name, *others[:3]))
        lists = {one: sealed[one] for one in shown}
        kind = OpenNames if cohort.class_floors == (1, 1) else HoldNames
        answer = liar.ask(name, kind(sealed=lists))
        if isinstance(answer, Vocabulary):
            found[shown] = answer.names
    return found


def chosen_columns(method: str, policy: Policy, quick: bool) -> Learnt:
    """With one site on its side: give the victim columns that write its labels into that site's rows, others zeros."""
    way = fedgeom.XCLP(hash_bits=64, hamming="ot", hide_labelled=True, classes=("no", "yes"))
    liar = Liar(way, patients(6, 10), policy)
    names, rows, spy, victim = liar.names, 10, "s005", "s000"
    number = rounds_of(way, Spread)[0]
    try:
        cohort = liar.join()
        layout = {name: (rows * at, rows * (at + 1)) for at, name in enumerate(names)}
        masked, tickets = {}, {}
        for name in names:
            columns = np.zeros((rows * len(names), rows), np.float32)
            if name == victim:
                columns[layout[spy][0] : layout[spy][1]] = np.eye(rows)
            ticket = Ticket(
                round=number,
                modulus=str(2**64),
                members=names,
                participants=names,
                letters=dict(cohort.mail[name]),
            )
            ask = Spread(ticket=ticket, classes=("no", "yes"), layout=layout, columns=Array.of(columns))
            answer = liar.ask(name, stamped(ask))
            if not isinstance(answer, MaskedVector):
                return liar.refusal()
            masked[name], tickets[name] = answer.vector.numpy().reshape(-1, 2), stamped(ask).ticket
    except FedgeomError as error:
        return liar.refusal(error)
    begin, end = layout[spy]
    block = np.zeros((rows, 2), np.uint64)
    for name, part in masked.items():
        if name != spy:
            own = layout[name]
            whole = np.insert(part, [own[0]] * rows, 0, axis=0)
            block = block + whole[begin:end]
    found = liar.as_site(spy).row_sums.unmask(tickets[spy], block.ravel())
    labels = np.array(["no", "yes"])[
        from_fixed(found, fraction_bits=Spread.fraction_bits).reshape(-1, 2).argmax(axis=1)
    ]
    right = int((labels == liar.data[victim].y).sum())
    return Learnt(f"{right} of {rows} labels", right == rows)


ATTACKS = (
    Attack(
        "a class that one site has",
        ("moments",),
        "an honest run with a class that one site holds with two rows shows both rows",
        class_of_one_site,
    ),
    Attack("a class that the attacker names", ("moments",), "both rows", class_named_by_the_attacker),
    Attack("a class that the terms name", ("moments",), "both rows", class_in_the_terms),
    Attack(
        "the count of a class that one site has",
        ("xclp", "xclp through anchors"),
        "the site's own count",
        count_of_one_site,
    ),
    Attack(
        "unions of names, compared",
        ("moments", "fedavg"),
        "which name is whose, documented as not protected",
        compared_unions,
    ),
    Attack(
        "chosen columns, with one site colluding",
        ("xclp",),
        "all of the victim's labels",
        chosen_columns,
        "permissive",
    ),
)
