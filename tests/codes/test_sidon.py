"""Sidon labels: every sum of at most h names its terms, everything else is refused."""

import subprocess
import sys
from itertools import combinations_with_replacement, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.codes.fields import ExtensionField, factor_order, logarithms_of_linear
from fedgeom.codes.sidon import bose_chowla
from fedgeom.errors import DecodeError, InputError
from tests.tiers import examples


def sums_of_at_most(labels: tuple[int, ...], h: int) -> list[int]:
    """List the sums of every multiset of at most h labels, the slow way."""
    return [sum(terms) for k in range(h + 1) for terms in combinations_with_replacement(labels, k)]


def is_sidon(labels: tuple[int, ...], h: int) -> bool:
    sums = sums_of_at_most(labels, h)
    return len(sums) == len(set(sums))


def test_the_oracle_knows_the_papers_example():
    assert is_sidon((1, 3, 7, 12, 20, 30, 44), 2) is True
    assert is_sidon((1, 2, 3), 2) is False


def test_differences_to_the_first_are_a_sidon_set_and_consecutive_ones_are_not():
    """p = 7, h = 2: Section 5.4 is right, the last line of Appendix G is not."""
    factors = factor_order(7, 2)
    logs = sorted(logarithms_of_linear(ExtensionField(7, 2, list(factors)), factors))
    from_first = tuple(a - logs[0] for a in logs[1:])
    consecutive = tuple(b - a for a, b in pairwise(logs))
    assert is_sidon(from_first, 2)
    assert not is_sidon(consecutive, 2)
    assert not is_sidon((1, 4, 5), 2)  # the counterexample of the review: 5 = 4 + 1


SMALL = [(1, 2), (1, 7), (2, 2), (4, 2), (6, 2), (13, 2), (30, 2), (2, 3), (6, 3), (12, 3), (4, 4), (8, 4), (3, 6)]


@pytest.mark.parametrize(("count", "h"), SMALL)
def test_labels_are_a_sidon_set_by_brute_force(count: int, h: int):
    labels = bose_chowla(count, h).labels
    assert len(labels) == count
    assert labels[0] > 0
    assert list(labels) == sorted(set(labels))
    assert is_sidon(labels, h)


@pytest.mark.parametrize(("count", "h"), [(1, 1), (5, 1), *SMALL])
def test_every_total_decodes_to_its_terms_or_not_at_all(count: int, h: int):
    sidon = bose_chowla(count, h)
    by_sum = {
        sum(sidon.labels[i] for i in terms): terms
        for k in range(h + 1)
        for terms in combinations_with_replacement(range(count), k)
    }
    totals = range(-3, h * sidon.labels[-1] + 5)
    assert sidon.attempt_many(totals) == [by_sum.get(t) for t in totals]


def test_undecodable_totals_raise_and_name_the_total():
    sidon = bose_chowla(5, 2)
    bad = next(t for t in range(1, 100) if t not in sums_of_at_most(sidon.labels, 2))
    with pytest.raises(DecodeError, match=f"^{bad} is not a sum of at most h = 2 of the 5 labels"):
        sidon.decode_many([sidon.labels[0], bad])
    with pytest.raises(DecodeError):
        sidon.decode(-1)
    with pytest.raises(DecodeError):
        sidon.decode(10**30)
    with pytest.raises(TypeError):
        sidon.decode(1.0)  # type: ignore[arg-type]


def test_sums_that_agree_only_modulo_the_group_order_are_refused():
    sidon = bose_chowla(6, 2)
    order = 7**2 - 1
    valid = set(sums_of_at_most(sidon.labels, 2))
    for total in valid:
        for alias in (total + order, total + 2 * order):
            if alias not in valid:
                with pytest.raises(DecodeError):
                    sidon.decode(alias)


def test_no_totals_decode_to_no_answers():
    assert bose_chowla(5, 1).decode_many([]) == []
    assert bose_chowla(5, 3).decode_many([]) == []
    assert bose_chowla(5, 3).decode(0) == ()


@examples(60)
@given(st.data())
def test_round_trip_for_any_count_and_h(data: st.DataObject):
    h = data.draw(st.integers(1, 10), label="h")
    count = data.draw(st.integers(1, 40), label="count")
    sidon = bose_chowla(count, h)
    terms = data.draw(st.lists(st.integers(0, count - 1), max_size=h), label="terms")
    assert sidon.decode(sum(sidon.labels[i] for i in terms)) == tuple(sorted(terms))


@examples(30)
@given(data=st.data(), size=st.sampled_from([(400, 8), (400, 3), (2000, 2), (1200, 4)]))
def test_round_trip_with_many_labels(data: st.DataObject, size: tuple[int, int]):
    count, h = size
    sidon = bose_chowla(count, h)
    sets = data.draw(st.lists(st.lists(st.integers(0, count - 1), max_size=h), max_size=20))
    totals = [sum(sidon.labels[i] for i in terms) for terms in sets]
    assert sidon.decode_many(totals) == [tuple(sorted(terms)) for terms in sets]


@pytest.mark.parametrize("h", range(1, 11))
def test_labels_are_nearly_as_small_as_counting_allows(h: int):
    sidon = bose_chowla(60, h)
    assert len(sidon.labels) == 60
    assert sidon.labels[-1] < 100**h  # p**h, with p not far above 61


def test_bad_parameters_are_refused():
    for count, h in [(0, 2), (-1, 2), (3, 0)]:
        with pytest.raises(InputError, match=f"count={count}, h={h}"):
            bose_chowla(count, h)
    with pytest.raises(InputError, match="lower h"):
        bose_chowla(3, 61)


def test_every_process_builds_the_same_labels():
    sizes = [(9, 3), (50, 4), (30, 9)]
    here = str([bose_chowla(*size).labels for size in sizes])
    program = (
        f"from fedgeom.codes.sidon import bose_chowla\nprint([bose_chowla(*size).labels for size in {sizes}])"
    )
    for _ in range(2):
        there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert there.stdout.strip() == here


def test_labels_are_fixed_for_good():
    """Sites and coordinators of different releases have to agree: these labels must never change."""
    assert bose_chowla(3, 1).labels == (1, 2, 3)
    assert bose_chowla(4, 2).labels == (4, 5, 7, 15)
    assert bose_chowla(6, 3).labels == (4, 85, 134, 197, 209, 239)
    assert bose_chowla(400, 8).labels[-1] == 657823914013099263247


@pytest.mark.parametrize(("count", "h", "most"), [(1, 1, 5), (3, 1, 5), (3, 2, 6), (5, 2, 5), (4, 3, 6)])
def test_counted_labels_never_decode_wrongly(count: int, h: int, most: int):
    """Every multiset of up to M labels is decoded rightly or refused, by exhaustion."""
    counted = bose_chowla(count, h).counted(most)
    sets = [terms for k in range(most + 1) for terms in combinations_with_replacement(range(count), k)]
    totals = [counted.encode(terms) for terms in sets]
    assert counted.attempt_many(totals) == [terms if len(terms) <= h else None for terms in sets]
    assert max(totals) == counted.largest_total


def test_plain_labels_do_decode_wrongly_when_there_are_too_many():
    """Why counted labels exist: three labels may look like two others."""
    sidon = bose_chowla(5, 2)
    valid = set(sums_of_at_most(sidon.labels, 2))
    wrong = [t for t in combinations_with_replacement(range(5), 3) if sum(sidon.labels[i] for i in t) in valid]
    assert wrong
    for terms in wrong:
        with pytest.raises(DecodeError, match="too many labels: count > h"):
            sidon.counted(6).decode(sidon.counted(6).encode(terms))


def test_every_total_of_counted_labels_is_right_or_refused():
    counted = bose_chowla(3, 2).counted(4)
    by_sum = {counted.encode(t): t for k in range(3) for t in combinations_with_replacement(range(3), k)}
    totals = range(-3, counted.largest_total + 10)
    assert counted.attempt_many(totals) == [by_sum.get(t) for t in totals]


def test_counted_labels_say_what_is_wrong():
    counted = bose_chowla(3, 2).counted(4)
    with pytest.raises(DecodeError, match="claims 2 labels"):
        counted.decode(2)
    with pytest.raises(DecodeError):
        counted.decode(-4)
    with pytest.raises(InputError, match="at most 4"):
        counted.encode([0] * 5)
    with pytest.raises(InputError, match=r"each in \[0, 3\)"):
        counted.encode([3])
    with pytest.raises(InputError, match="max_terms"):
        bose_chowla(3, 2).counted(0)
    assert counted.h == 2
    assert counted.decode_many([]) == []


@examples(40)
@given(st.data())
def test_counted_labels_of_many_sites(data: st.DataObject):
    """Twelve sites with five classes, h = 4: sums of any sites' labels are right or refused."""
    counted = bose_chowla(60, 4).counted(60)
    terms = data.draw(st.lists(st.integers(0, 59), max_size=9))
    total = counted.encode(terms)
    if len(terms) <= 4:
        assert counted.decode(total) == tuple(sorted(terms))
    else:
        with pytest.raises(DecodeError, match=f"{len(terms)} labels met"):
            counted.decode(total)
