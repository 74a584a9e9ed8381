"""Things that are found by name: ours, those of this process, those of other packages."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fedgeom.errors import InputError
from fedgeom.registry import Registry


class Thing:
    """Something to be found."""


class Point:
    """An entry point that counts how often it is loaded."""

    def __init__(self, name, thing, package="parcel"):
        self.name, self.value, self._thing = name, f"{package}:{name}", thing
        self.dist = SimpleNamespace(name=package)
        self.loaded = 0

    def load(self):
        self.loaded += 1
        if isinstance(self._thing, Exception):
            raise self._thing
        return self._thing


@pytest.fixture
def offered(monkeypatch):
    """What other packages offer in the group "fedgeom.toys"."""
    points = []
    monkeypatch.setattr("fedgeom.registry.entry_points", lambda group: points if group == "fedgeom.toys" else [])
    return points


@pytest.fixture
def toys(offered):
    registry = Registry("toy", "fedgeom.toys")
    registry.add("ball", Thing)
    return registry


def test_a_mapping_in_the_order_in_which_things_came(toys, offered):
    offered.append(Point("kite", 7))
    toys.add("doll", len)
    assert list(toys) == ["ball", "doll", "kite"]
    assert (len(toys), str(toys)) == (3, "ball, doll, kite")
    assert "kite" in toys
    assert "car" not in toys
    assert toys["ball"] is Thing
    assert toys.get("car") is None
    with pytest.raises(KeyError):
        toys["car"]
    assert dict(toys) == {"ball": Thing, "doll": len, "kite": 7}


def test_what_is_offered_is_loaded_when_it_is_used_and_once(toys, offered):
    kite = Point("kite", Thing())
    offered.append(kite)
    assert "kite" in str(toys)
    assert kite.loaded == 0
    assert toys.find("kite") is toys.find("kite")
    assert kite.loaded == 1


def test_a_name_is_taken_once(toys):
    with pytest.raises(InputError, match=r"there is a toy 'ball' already \(tests\.test_registry:Thing\)"):
        toys.add("ball", Point)
    again = type("Thing", (), {"__module__": Thing.__module__, "__qualname__": "Thing"})
    toys.add("ball", again)  # the same definition once more, as notebooks do
    assert toys["ball"] is again


def test_another_package_does_not_replace_what_is_there(toys, offered):
    thief = Point("ball", Point)
    offered.append(thief)
    assert toys["ball"] is Thing
    assert list(toys) == ["ball"]
    assert thief.loaded == 0


def test_of_two_packages_the_first_on_the_path_counts(toys, offered):
    offered.extend([Point("kite", 1, "a"), Point("kite", 2, "b")])
    assert toys["kite"] == 1
    assert len(toys) == 2


def test_unknown_names_are_told_what_there_is(toys, offered):
    offered.append(Point("kite", 1))
    with pytest.raises(InputError, match="there is no toy 'car'; there are: ball, kite"):
        toys.find("car")
    with pytest.raises(InputError, match="present='car' is unknown; there are: ball, kite"):
        toys.find("car", what="present")


def test_a_thing_must_bear_the_name_it_is_offered_under(toys, offered):
    offered.append(Point("kite", SimpleNamespace(name="dragon")))
    with pytest.raises(InputError, match="parcel:kite calls itself 'dragon', but was installed as the toy 'kite'"):
        toys.find("kite")


@pytest.mark.parametrize("wrong", [ImportError("no wind"), AttributeError("no string"), RuntimeError("torn")])
def test_a_package_that_does_not_load_is_named(toys, offered, wrong):
    offered.append(Point("kite", wrong))
    with pytest.raises(InputError, match=f"the toy 'kite' of the package 'parcel' cannot be loaded: {wrong}"):
        toys.find("kite")
    assert toys["ball"] is Thing


def test_a_thing_that_registers_itself_when_it_is_loaded(toys, offered):
    class Self(Point):
        def load(self):
            toys.add("kite", Thing)
            return super().load()

    offered.append(Self("kite", Thing))
    assert toys["kite"] is Thing


def test_what_needs_a_package_is_there_only_with_it(toys):
    toys.offer("top", f"{__name__}:Thing", needs="msgspec")
    toys.offer("drone", f"{__name__}:Thing", needs="no_such_package")
    assert toys["top"] is Thing
    assert list(toys) == ["ball", "top"]
    assert "drone" not in toys
    with pytest.raises(InputError, match="the toy 'drone' needs 'no_such_package', which is not installed"):
        toys.find("drone")


def test_what_is_ours_where_a_package_is_there_is_taken_where_it_is_not(toys, offered):
    toys.offer("drone", "fedgeom.nowhere:Drone", needs="no_such_package")
    with pytest.raises(InputError, match=r"there is a toy 'drone' already \(fedgeom\.nowhere:Drone\)"):
        toys.add("drone", Thing)
    offered.append(Point("drone", Thing))
    assert "drone" not in toys
    with pytest.raises(InputError, match="needs 'no_such_package'"):
        toys.find("drone")
