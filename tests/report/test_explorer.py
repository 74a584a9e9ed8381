"""The picture with its switches."""

from __future__ import annotations

from fedgeom.report.explorer import MANY, Outline, Scene, explorer


def scene(sites):
    shapes = [Outline(at % 2, name, "M1 1L2 2z", f"{name}: <b>") for at, name in enumerate(sites)]
    return Scene("The disc", "note", True, {0: "a<", 1: "b"}, sites, shapes, [(0, "M0 0z")], [(0, 1.0, 2.0)], [])


def test_every_site_and_class_has_a_switch_and_a_line_in_the_table():
    made = explorer(scene(["Ulm", "Bern"]))
    assert made.count("data-class-switch") == 2
    assert made.count("data-site-switch") == 2
    assert made.count('data-layer="sent"') == 2
    assert "rows (they stayed)" not in made
    assert "Ulm: &lt;b&gt;" in made
    assert "a&lt;" in made
    assert 'role="img"' in made
    assert made.count("<tr>") == 3


def test_two_hundred_sites_are_switched_on_demand():
    few, many = explorer(scene(["s"] * 1)), explorer(scene([f"site {at}" for at in range(200)]))
    assert "200 sites</summary>" in many
    assert few.count("<details") == 1
    assert many.count("<details") == 2
    assert many.count("data-site-switch") == 200 > MANY
