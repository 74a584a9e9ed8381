"""Reading goes on after a fault, and every fault is told."""

from __future__ import annotations

from fedgeom.data.tables import TextColumnsError
from fedgeom.data.validation import Collector
from fedgeom.deploy.federation_check import attempt, read_numbers
from fedgeom.errors import InputError


def failing(error):
    def fail(*_):
        raise error

    return fail


def test_whatever_is_raised_is_told_of_the_site():
    collector = Collector("ulm")
    assert attempt(collector, lambda: 3) == 3
    for error in (InputError("bad"), MemoryError("12 GB"), OSError("gone")):
        assert attempt(collector, failing(error)) is None
    assert [str(one).partition(";")[0] for one in collector.found] == [
        "site 'ulm': bad",
        "site 'ulm': the table does not fit into memory (12 GB)",
        "site 'ulm': it cannot be read: OSError: gone",
    ]


def test_columns_of_numbers_are_read_where_others_hold_text():
    asked = []

    def read(columns):
        asked.append(columns)
        if columns is None:
            raise TextColumnsError("'sex' holds text", ("sex",), ("age", "bmi"))
        return columns

    collector = Collector("ulm")
    assert read_numbers(collector, read) == (["age", "bmi"], ("sex",))
    assert asked == [None, ["age", "bmi"]]
    assert [one.what for one in collector.found] == ["'sex' holds text"]
    assert read_numbers(collector, lambda columns: 7) == (7, ())
    assert read_numbers(collector, failing(TextColumnsError("all", ("a",), ()))) == (None, ("a",))
    assert read_numbers(collector, failing(InputError("no"))) == (None, ())
