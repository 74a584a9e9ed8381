"""Reading Flower's log: who came and went, in order, and no half lines."""

from __future__ import annotations

from fedgeom.engines.flower.commands import Visit, read_visits

LOG = (
    b"INFO :      [Fleet.ActivateNode] Activated node_id=11\nnothing\n"
    b"INFO :      [Fleet.DeactivateNode] Deactivated node_id=11\n"
)


def test_who_came_and_went():
    assert read_visits(LOG) == ([Visit("11", True), Visit("11", False)], len(LOG))
    assert read_visits(b"") == ([], 0)


def test_a_line_that_is_being_written_is_read_later():
    for cut in range(len(LOG)):
        first, size = read_visits(LOG[:cut])
        assert [*first, *read_visits(LOG[size:])[0]] == read_visits(LOG)[0]


def test_bytes_that_are_no_text_are_passed_over():
    visits, size = read_visits(b"\xff\xfe\n" + LOG)
    assert (len(visits), size) == (2, len(LOG) + 3)
