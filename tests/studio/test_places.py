"""Names that lead nowhere else."""

from __future__ import annotations

import pytest

from fedgeom.errors import InputError
from fedgeom.studio.places import can_be_read, plain


@pytest.mark.parametrize(
    "name", ["..", ".", "", "../x", "a/b", "/etc", "a\\b/..", ".hidden", "a\0", "x" * 200, "a\nb"]
)
def test_names_that_lead_elsewhere_are_refused(place, name):
    for find in (place.table, place.study, place.run, plain):
        with pytest.raises(InputError):
            find(name)


@pytest.mark.parametrize("name", ["cells (1).h5ad", "Blutwerte März.csv", "a=b@c,d+e.tsv"])
def test_names_as_people_and_browsers_write_them_are_taken(place, name):
    (place.make(place.files) / name).write_text("x")
    assert place.table(name).name == name
    assert place.table_names() == [name]


def test_a_folder_in_one_s_own_is_shown_from_there(place, monkeypatch):
    monkeypatch.setattr("pathlib.Path.home", lambda: place.path.parent)
    assert place.shown == f"~/{place.path.name}"
    monkeypatch.setattr("pathlib.Path.home", lambda: place.path / "elsewhere")
    assert place.shown == str(place.path)


def test_what_is_not_here_is_said(place):
    with pytest.raises(InputError, match="there is no run 'x' here"):
        place.run("x")


def test_what_is_here_is_listed(place):
    place.make(place.files)
    for name in ("b.csv", "a.h5ad", "notes.txt", ".a.csv.part-1"):
        (place.files / name).write_text("x")
    assert place.table_names() == ["a.h5ad", "b.csv"]
    assert place.study_names() == []
    assert not place.is_site
    assert not place.is_coordinator
    assert can_be_read("x.CSV.gz")
    assert not can_be_read("x.exe")
