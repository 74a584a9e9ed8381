"""The coordinator's half: relay sealed lists, have names counted where a policy asks for it, hear the vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.conversation import Answers
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.names.messages import (
    CountNames,
    HoldNames,
    KeepNames,
    NamesHeld,
    OpenNames,
    SealedNames,
    SealNames,
    Vocabulary,
    hash_lists,
    hash_names,
    slots_for,
)


def agree_on_names(cohort: Cohort, given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the classes of a run: those given in its terms or else the union of the sites' names.

    Where a policy asks for it they are counted, and the rare ones left out. Sites that fail to answer are left out of
    the cohort.
    """
    if cohort.class_floors == (1, 1):
        return tuple(given) if given else _union(cohort)
    if given:
        lists, slots = hash_names(given), slots_for(given)
    else:
        sealed = _seal(cohort)
        held = cohort.sites.ask(HoldNames(sealed=sealed), of=sealed, expect=NamesHeld)
        held.need(cohort.min_sites, "that they have the label names")
        cohort.lost_since(held)
        lists, slots = hash_lists(sealed), max(answer.slots for answer in held.values())
    result = cohort.sum_checked(CountNames(lists=lists, slots=slots), length=2 * slots)
    kept = cohort.sites.ask(KeepNames(result=result), of=cohort.left, expect=Vocabulary)
    names = _same(cohort, kept)
    if len(names) < 2:
        sites, rows = cohort.class_floors
        raise InputError(
            f"{len(names)} labels are left: policies ask for at least {sites} sites and {rows} rows in all for each; a "
            "classifier needs two. Merge labels, admit more sites, or let stewards loosen min_sites, min_rows or "
            "single_site_classes"
        )
    return names


def _union(cohort: Cohort) -> tuple[str, ...]:
    sealed = _seal(cohort)
    return _same(cohort, cohort.sites.ask(OpenNames(sealed=sealed), of=sealed, expect=Vocabulary))


def _seal(cohort: Cohort) -> dict[str, bytes]:
    questions = {
        name: SealNames(participants=cohort.names, letters=dict(cohort.mail[name])) for name in cohort.left
    }
    given = cohort.sites.ask(questions, expect=SealedNames)
    cohort.joined.delivered(given)
    given.need(cohort.min_sites, "with their label names")
    return {name: answer.names for name, answer in given.items()}


def _same(cohort: Cohort, opened: Answers[Vocabulary]) -> tuple[str, ...]:
    """Return what all sites report, and leave out those that report nothing."""
    opened.need(cohort.min_sites, "with the joint vocabulary")
    counted = Counter(answer.names for answer in opened.values())
    if len(counted) > 1:
        raise ProtocolError("the sites do not report the same vocabulary: one of them is at fault; run again")
    cohort.lost_since(opened)
    return next(iter(counted))
