"""The errors: whose turn it is to act, and what a caller may catch."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom import errors

KINDS = [errors.InputError, errors.DecodeError, errors.ProtocolError, errors.TooFewSitesError]


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_ours_have_one_ancestor(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.FedgeomError)
    assert kind.__doc__


def test_callers_who_know_python_only_catch_them_too() -> None:
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.DecodeError, ValueError)
    assert issubclass(errors.ProtocolError, RuntimeError)


def test_what_the_data_cause_is_told_apart_from_what_others_cause() -> None:
    """A site leaves the run after an `InputError`, whose text it keeps to itself; other refusals it explains."""
    for kind in (errors.DecodeError, errors.ProtocolError, errors.TooFewSitesError):
        assert not issubclass(kind, errors.InputError)
    assert issubclass(errors.TooFewSitesError, errors.ProtocolError)


def test_they_are_at_the_front_door() -> None:
    assert fedgeom.InputError is errors.InputError
    assert fedgeom.TooFewSitesError is errors.TooFewSitesError


def test_control_characters_are_written_out() -> None:
    assert errors.printable("plain: ä, 細胞\nnext line", lines=True) == "plain: ä, 細胞\nnext line"
    assert errors.printable("x\n12:00 run 1 answered\r\u2028\x85") == "x\\n12:00 run 1 answered\\r\\u2028\\x85"
    for turning in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f":
        assert errors.printable(turning) == f"\\u{ord(turning):x}"
    assert errors.printable("a\x1b[2J\x07\x7f\u202e") == "a\\x1b[2J\\x07\\x7f\\u202e"
