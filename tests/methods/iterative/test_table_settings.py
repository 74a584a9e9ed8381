"""The settings of all training on tables: what each may be, said in the error."""

from __future__ import annotations

import pytest

from fedgeom import FedAvg, PTopoFL, Shrunk
from fedgeom.errors import InputError
from fedgeom.methods.iterative.settings import TableSettings

REFUSED = [
    ({"scale": "unit"}, "scale='unit' given; wanted one of 'joint', 'site', 'none'"),
    ({"scale": None}, "scale=None given; wanted one of 'joint', 'site', 'none'"),
    (
        {"classes": ("a",)},
        "classes=.*given; wanted a list of texts that are one line each and all different, 2 of",
    ),
    ({"classes": ("a", "a")}, "all different, 2 of them or more or None"),
    ({"classes": ("a", "b\nc")}, "one line each"),
    ({"classes": ("a", "")}, "one line each"),
    ({"classes": "ab"}, "classes='ab' given; wanted a list of texts"),
    ({"classes": (1, 2)}, r"classes=\(1, 2\) given; wanted a list of texts"),
    ({"min_rows": -1}, "min_rows=-1 given; wanted a whole number of at least 0"),
    ({"min_rows": 1.5}, "min_rows=1.5 given; wanted a whole number"),
    ({"min_sites": 0}, "min_sites=0 given; wanted a whole number of at least 1"),
    ({"min_sites": True}, "min_sites=True given; wanted a whole number"),
]


@pytest.mark.parametrize("method", [FedAvg, Shrunk, PTopoFL])
@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_refusals(method, options, message):
    assert issubclass(method, TableSettings)
    with pytest.raises(InputError, match=message):
        method(**options)


def test_classes_become_a_tuple():
    assert FedAvg(classes=["b", "a"]).classes == ("b", "a")
    assert FedAvg().classes is None


def test_many_long_names_can_be_agreed_on():
    names = tuple(f"a rather long name {i}" for i in range(60))
    assert FedAvg(classes=names).terms()["classes"] == names
