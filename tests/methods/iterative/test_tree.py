"""Trees: the laws of arithmetic leaf by leaf, and there and back as a vector and on the wire."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedgeom.errors import InputError, ProtocolError
from fedgeom.methods.iterative.messages import Leaves
from fedgeom.methods.iterative.tree import Tree, from_wire, grow, to_wire

whole = st.integers(-(2**20), 2**20)
eighths = whole.map(lambda number: number / 8)
"""Their sums and products with small numbers are exact, in float32 as well."""
shapes = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
leaves = st.one_of(
    eighths,
    whole,
    arrays(np.float64, shapes, elements=eighths),
    arrays(np.float32, shapes, elements=st.integers(-64, 64).map(lambda number: number / 8)),
    arrays(np.int64, shapes, elements=whole),
)
names = st.text("abcxyz.0 ", min_size=1, max_size=4)
trees = st.recursive(
    st.dictionaries(names, leaves, max_size=4).map(Tree),
    lambda inner: st.dictionaries(names, st.one_of(leaves, inner), max_size=3).map(Tree),
    max_leaves=3,
)


def same(one: Tree, other: Tree) -> bool:
    """Whether two trees are alike in paths, shapes, dtypes and numbers."""
    mine, theirs = one.leaves(), other.leaves()
    return one.fits(other) and one.same_dtypes(other) and all(np.array_equal(mine[p], theirs[p]) for p in mine)


@given(trees)
def test_arithmetic(tree):
    assert same(tree + tree, 2 * tree)
    assert same(tree + 1, 1 + tree)
    assert same(tree - tree, tree.zeros())
    assert same(3 * tree - tree, tree * 2)
    assert same(-tree, 0 - tree)
    assert same(tree * tree, tree**2)
    assert same(tree + tree.zeros(), tree)
    assert same((tree + tree) / 2, tree / 1)


@given(trees)
def test_numpys_numbers_work_from_the_left(tree):
    for number in (np.float64(2), np.float32(2), np.int64(2)):
        for found in (number * tree, number + tree, number - tree):
            assert isinstance(found, Tree)
            assert found.fits(tree)
        assert np.array_equal((number * tree).flat(), 2 * tree.flat())


def test_division_by_hand():
    tree = Tree(a=np.array([1.0, 4.0]), b=Tree(c=0.5))
    assert (2 / tree)["a"].tolist() == [2.0, 0.5]
    assert (tree / tree)["b"]["c"] == 1.0
    assert tree.map(np.sqrt)["a"].tolist() == [1.0, 2.0]


def test_trees_of_other_names_do_not_mix():
    with pytest.raises(InputError, match="a tree with a, z was given; wanted one with a"):
        Tree(a=1.0) + Tree(a=1.0, z=2.0)
    with pytest.raises(InputError, match="a tree with nothing was given; wanted one with c"):
        Tree(b=Tree(c=1.0)) - Tree(b=Tree())


@given(trees)
def test_there_and_back_as_a_vector(tree):
    flat = tree.flat()
    assert flat.shape == (tree.size,)
    assert flat.dtype == np.float64
    back = tree.like(flat)
    assert same(back, tree)
    assert {path: type(leaf) for path, leaf in back.leaves().items()} == {
        path: type(leaf) for path, leaf in tree.leaves().items()
    }


@given(trees, trees)
def test_fits_is_about_paths_and_shapes(one, other):
    alike = {p: np.shape(leaf) for p, leaf in one.leaves().items()} == {
        p: np.shape(leaf) for p, leaf in other.leaves().items()
    }
    assert one.fits(other) == other.fits(one) == alike
    assert one.fits(one.map(lambda leaf: np.asarray(leaf, np.float32)))


@given(trees)
def test_there_and_back_on_the_wire(tree):
    wire = msgspec.msgpack.encode(to_wire(tree))
    back = from_wire(msgspec.msgpack.decode(wire, type=Leaves))
    assert same(back, tree)
    assert list(to_wire(tree)) == sorted(tree.leaves(), key=lambda path: path.split("/"))


def test_the_order_of_the_vector_is_that_of_the_paths():
    tree = Tree(b=np.arange(3.0), a=Tree(z=np.arange(4.0).reshape(2, 2), y=9), c=np.array(7.0))
    assert tree.size == 9
    assert list(tree.leaves()) == ["a/y", "a/z", "b", "c"]
    assert tree.flat().tolist() == [9, 0, 1, 2, 3, 0, 1, 2, 7]
    with pytest.raises(InputError, match=r"a vector of shape \(3,\) was given; this tree has 9 numbers"):
        tree.like(np.zeros(3))


def test_a_vector_is_read_in_the_trees_dtypes():
    tree = Tree(f=np.zeros(1, np.float32), i=np.zeros(2, np.int64), n=0, x=0.0, d=np.zeros(1))
    vector = np.array([0.1, 0.1, 2.9999999, -1.2, 4.9999999, 0.5])
    found = tree.like(vector)
    assert found["f"].dtype == np.float32
    assert found["i"].tolist() == [3, -1]  # a count that went through a mean of real numbers is that count
    assert (found["n"], type(found["n"])) == (5, int)
    assert (found["x"], type(found["x"])) == (0.5, float)
    vector[0] = 7.0
    assert found["d"][0] == 7.0  # a view


def test_numpys_scalars_travel_as_numbers():
    wire = to_wire(Tree(a=np.float64(1.5), b=np.float32(0.5), c=np.int64(3), d=np.array(2.0)))
    assert [wire[name] for name in "abc"] == [1.5, 0.5, 3]
    assert [type(wire[name]) for name in "abc"] == [float, float, int]
    assert wire["d"].shape == ()
    for wrong in (True, "text", None, np.bool_(True)):
        with pytest.raises(TypeError, match="wanted an array, a number, or a tree of these"):
            to_wire(Tree(a=wrong))


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), ("a/b", "a/b/c/d")])
def test_paths_that_are_leaf_and_branch_are_refused(paths):
    """From the wire they may come in any order; none may break the receiver."""
    with pytest.raises(ProtocolError, match="goes through a leaf, or ends in a branch"):
        from_wire(dict.fromkeys(paths, 1.0))


def test_names_do_not_look_like_paths():
    with pytest.raises(InputError, match="the name 'a/b' has a '/' in it"):
        Tree({"a/b": 1.0}).leaves()


def test_branches_are_trees():
    assert isinstance(Tree(model={"w": 1.0})["model"], Tree)
    assert isinstance(grow({"model/deep/w": 1.0})["model"]["deep"], Tree)
    assert isinstance(Tree(a=1) | {"b": 2}, Tree)


def test_copies_share_nothing():
    tree = Tree(a=np.zeros(2), b=Tree(c=np.zeros(2)))
    copy = tree.copy()
    copy["a"][0] = copy["b"]["c"][1] = 1.0
    assert not tree.flat().any()


def test_select_and_zeros():
    tree = Tree(a=np.ones(2, np.float32), b=3, c=2.5)
    assert list(tree.select(["c", "a", "z"])) == ["a", "c"]
    assert same(tree.zeros(), Tree(a=np.zeros(2, np.float32), b=0, c=0.0))
    assert type(tree.zeros()["b"]) is int
