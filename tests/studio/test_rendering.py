"""Pages, and sentences for what went wrong."""

from __future__ import annotations

import errno

import pytest

from fedgeom.errors import InputError
from fedgeom.studio.pages import Pages, sentence


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("wanted a table"), 400, "wanted a table"),
        (OSError(errno.ENOSPC, "No space left on device"), 507, "The disk is full: nothing was lost"),
        (PermissionError(errno.EACCES, "Permission denied"), 500, "Permission denied"),
        (ZeroDivisionError("x/0 in /secret/place.py"), 500, "Something went wrong inside the studio"),
    ],
)
def test_errors_become_sentences(place, error, code, said):
    answer = Pages(place, "t").sorry(error)
    assert answer.status_code == code == sentence(error)[1]
    page = answer.body.decode()
    assert said in page
    assert "Traceback" not in page
    assert "/secret/" not in page


def test_texts_are_escaped(place):
    page = Pages(place, "t").text("sorry.html", said="<script>\x1b[2J</script>")
    assert "<script>\\x1b" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page


def test_files_are_named_as_they_lie_in_the_folder(place):
    wrong = InputError(f"{place.path}/studies/../files/a.csv has no rows; {place.path} is said where it is meant")
    page = Pages(place, "t").sorry(wrong).body.decode()
    assert f">files/a.csv has no rows; {place.path} is said" in page
