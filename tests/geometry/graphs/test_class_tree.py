"""Class trees by hand: distances, whole branches, careful predictions, errors."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ROOT, ClassTree, depth_accuracy, softened, tree_error

PARENTS = {
    "naive": "CD4",
    "memory": "CD4",
    "killer": "CD8",
    "CD4": "T",
    "CD8": "T",
    "T": "blood",
    "B": "blood",
}
CLASSES = ["B", "killer", "memory", "naive"]
# By hand: B-T-CD8-killer: B to killer goes up 1 and down 3.
APART = [[0, 4, 4, 4], [4, 0, 4, 4], [4, 4, 0, 2], [4, 4, 2, 0]]


def tree():
    return ClassTree.read(PARENTS)


def test_distances_are_counted_by_hand():
    found = tree()
    assert found.nodes[0] == "blood"
    assert [found.nodes[n] for n in found.classes] == CLASSES
    np.testing.assert_array_equal(found.distances(), APART)
    by_name = dict(zip(found.nodes, found.depths.tolist(), strict=True))
    assert by_name == {"blood": 0, "B": 1, "T": 1, "CD4": 2, "CD8": 2, "killer": 3, "memory": 3, "naive": 3}


def test_nested_tables_and_paths_mean_the_same():
    nested = ClassTree.read({"blood": {"T": {"CD4": ["memory", "naive"], "CD8": {"killer": {}}}, "B": None}})
    paths = ClassTree.from_paths(
        [
            ("B", "blood"),
            ("killer", "CD8", "T", "blood"),
            ("memory", "CD4", "T", "blood"),
            ("naive", "CD4", "T", "blood"),
        ]
    )
    for other in (nested, paths):
        assert other.nodes == tree().nodes
        np.testing.assert_array_equal(other.distances(), APART)


def test_the_order_of_the_classes_is_kept_and_branches_without_one_fall_away():
    found = ClassTree.read(PARENTS, ["naive", "B", "memory"])
    np.testing.assert_array_equal(found.distances(), [[0, 4, 2], [4, 0, 4], [2, 4, 0]])
    assert "CD8" not in found.nodes
    # Only CD4 is left: what is above the first parting says nothing.
    assert ClassTree.read(PARENTS, ["naive", "memory"]).nodes == ("CD4", "memory", "naive")


def test_several_roots_get_one_above_them_and_flat_paths_are_a_star():
    found = ClassTree.read({"a": "x", "b": "x", "c": "y"})
    assert found.nodes[0] == ROOT
    np.testing.assert_array_equal(found.distances(), [[0, 2, 4], [2, 0, 4], [4, 4, 0]])
    star = ClassTree.from_paths([("a",), ("b",), ("c",)])
    np.testing.assert_array_equal(star.distances(), 2 * (1 - np.eye(3, dtype=int)))


def test_a_class_may_be_an_inner_node():
    found = ClassTree.from_paths([("T", "T", "blood"), ("CD4", "T", "blood"), ("B", "B", "blood")])
    np.testing.assert_array_equal(found.distances(), [[0, 1, 2], [1, 0, 3], [2, 3, 0]])
    chances = found.roll_up([[0.5, 0.3, 0.2]])[0]
    assert chances[found.nodes.index("T")] == pytest.approx(0.8)
    assert chances[found.nodes.index("CD4")] == pytest.approx(0.3)


def test_an_ontology_keeps_the_most_special_parent_and_only_nodes_that_join():
    edges = [
        ("naive", "CD4"),
        ("naive", "cell"),  # the shallower parent is dropped
        ("memory", "CD4"),
        ("CD4", "T"),
        ("T", "lymphocyte"),
        ("B", "lymphocyte"),
        ("lymphocyte", "cell"),
        ("cell", "thing"),
    ]
    found = ClassTree.from_ontology(edges, ["naive", "memory", "B", "new"])
    assert set(found.nodes) == {ROOT, "new", "lymphocyte", "B", "CD4", "memory", "naive"}  # T joins nothing
    np.testing.assert_array_equal(found.distances(), [[0, 2, 3, 4], [2, 0, 3, 4], [3, 3, 0, 3], [4, 4, 3, 0]])
    with pytest.raises(InputError, match="circles"):
        ClassTree.from_ontology([("a", "b"), ("b", "a")], ["a"])


def test_probabilities_add_up_the_tree():
    found = tree()
    chances = found.roll_up([[0.1, 0.2, 0.3, 0.4]])[0]
    by_name = dict(zip(found.nodes, chances.tolist(), strict=True))
    assert by_name == pytest.approx(
        {"blood": 1.0, "B": 0.1, "T": 0.9, "CD4": 0.7, "CD8": 0.2, "killer": 0.2, "memory": 0.3, "naive": 0.4}
    )


@pytest.mark.parametrize(
    ("confidence", "name", "chance"),
    [(1.0, "blood", 1.0), (0.95, "blood", 1.0), (0.8, "T", 0.9), (0.6, "CD4", 0.7), (0.4, "naive", 0.4)],
)
def test_a_prediction_goes_as_deep_as_confidence_allows(confidence, name, chance):
    found = tree()
    node, likely = found.confident([[0.1, 0.2, 0.3, 0.4]], confidence)
    assert found.nodes[int(node[0])] == name
    assert likely[0] == pytest.approx(chance)


def test_confidence_is_per_row_and_zero_goes_to_the_leaves():
    found = tree()
    rows = [[0.97, 0.01, 0.01, 0.01], [0.0, 0.9, 0.05, 0.05], [0.3, 0.3, 0.2, 0.2]]
    names = [found.nodes[n] for n in found.confident(rows, 0.85)[0]]
    assert names == ["B", "killer", "blood"]
    assert [found.nodes[n] for n in found.confident(rows, 0.0)[0]] == ["B", "killer", "memory"]
    assert len(found.confident(np.zeros((0, 4)), 0.5)[0]) == 0


def test_the_least_confidence_keeps_a_risk_however_wrong_probabilities_are():
    found = tree()
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.full(4, 0.3), size=400)
    true = found.classes[
        [rng.choice(4, p=(row**0.3) / (row**0.3).sum()) for row in chances]
    ]  # less sure than said

    def wrong(confidence):
        nodes, _ = found.confident(chances, confidence)
        return int((~found.above[true, nodes]).sum())

    for risk in (0.02, 0.1, 0.3):
        least = found.confidence_for(chances, true, risk)
        assert (wrong(least) + 1) / 401 <= risk
        assert (wrong(np.nextafter(least, 0)) + 1) / 401 > risk
    assert found.confidence_for([[1.0, 0, 0, 0]] * 99, [found.classes[0]] * 99, 0.05) == 0.0
    assert wrong(0.95) / 400 > 0.08  # which is what probabilities alone would promise to be 0.05


def test_rows_that_are_not_in_the_tree_are_right_at_its_root_only():
    found = tree()
    least = found.confidence_for([[0.9, 0.1, 0, 0]] * 39, [-1] * 39, 0.05)
    assert least > 0.9
    assert found.confident([[0.9, 0.1, 0, 0]], least)[0].tolist() == [0]


def test_the_likeliest_branch_at_a_depth_sums_its_classes():
    found = tree()
    row = [[0.4, 0.3, 0.2, 0.1]]  # B is the likeliest class, T the likelier branch
    assert [found.nodes[found.likeliest_at_depth(row, d)[0]] for d in (0, 1, 2, 3)] == ["blood", "T", "B", "B"]
    assert found.nodes[found.at_depth([found.nodes.index("naive")], 1)[0]] == "T"


def test_the_nearest_class_minds_whole_branches():
    found = tree()
    # B is the likeliest, but memory and naive share more: B is expected 4·0.6 away, naive 4·0.4 + 2·0.29.
    assert [CLASSES[at] for at in found.nearest([[0.4, 0.0, 0.29, 0.31], [0.9, 0.0, 0.0, 0.1]])] == ["naive", "B"]
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(4, 0.5), size=200)
    expected = rows @ np.array(APART)
    np.testing.assert_array_equal(expected[np.arange(200), found.nearest(rows)], expected.min(axis=1))


def test_tree_error_weighs_mistakes_by_their_distance():
    confusion = np.diag([10, 10, 10, 10])
    assert tree_error(confusion, APART) == (0.0, 0.0)
    confusion[3, 2], confusion[0, 3] = 6, 4  # six naive taken for memory (2 apart), four B for naive (4 apart)
    error, per_mistake = tree_error(confusion, APART)
    assert error == pytest.approx((6 * 2 + 4 * 4) / 50)
    assert per_mistake == pytest.approx(2.8)
    assert depth_accuracy(tree(), confusion) == pytest.approx([46 / 50, 46 / 50, 40 / 50])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: ClassTree.read(PARENTS, ["naive", "unheard of"]), "unheard of"),
        (lambda: ClassTree.read({"a": "b", "b": "a", "c": "a"}), "circle"),
        (lambda: ClassTree.read({}), "some"),
        (lambda: ClassTree.read({"x": {"a": None}, "y": {"a": None}}), "twice"),
        (lambda: ClassTree.read({"x": 3}), "wanted a table"),
        (lambda: ClassTree.from_paths([("a", "x"), ("a", "y")]), "'x' and under 'y'"),
        (lambda: tree().roll_up([[1.0]]), "wanted \\(rows, 4\\)"),
        (lambda: tree().confident([[1.0, 0, 0, 0]], 2.0), "confidence"),
        (lambda: tree().confidence_for([[1.0, 0, 0, 0]] * 18, [0] * 18, 0.05), "wants 19 or more"),
        (lambda: tree().confidence_for([[1.0, 0, 0, 0]] * 40, [-1] * 40, 0.05), "no confidence keeps"),
        (lambda: tree().confidence_for([[1.0, 0, 0, 0]] * 40, [0] * 40, 1.5), "risk=1.5"),
        (lambda: tree_error(np.zeros((2, 2)), np.ones((2, 2))), "some rows"),
    ],
)
def test_what_cannot_be_is_refused(made, says):
    with pytest.raises(InputError, match=says):
        made()


def test_no_rule_beats_the_nearest_node_where_probabilities_are_right():
    """Over all nodes by hand; and on drawn labels its mean tree distance is below that of classes, as it must be."""
    found, rng = tree(), np.random.default_rng(0)
    chances = rng.dirichlet(np.full(4, 0.4), 4000)
    apart = found.node_distances()[found.classes]  # (classes, nodes)
    said = found.nearest_node(chances)
    costs = np.array(
        [[sum(p * d for p, d in zip(row, apart[:, n], strict=True)) for n in range(8)] for row in chances[:50]]
    )
    np.testing.assert_allclose(costs[np.arange(50), said[:50]], costs.min(axis=1), atol=1e-9)
    true = np.array([rng.choice(4, p=row) for row in chances])
    node, nearest, likeliest = (
        apart[true, at].mean()
        for at in (said, found.classes[found.nearest(chances)], found.classes[chances.argmax(axis=1)])
    )
    assert node < nearest < likeliest
    assert found.nodes[found.nearest_node([[0, 0, 0.5, 0.5]])[0]] in ("memory", "naive")  # a tie goes deep
    assert found.nodes[found.nearest_node([[0.0, 0.34, 0.33, 0.33]])[0]] in ("CD4", "T")


def test_softened_probabilities_keep_their_order_and_sum():
    chances = np.random.default_rng(0).dirichlet(np.ones(5), 20)
    for temperature in (0.5, 1.0, 3.0):
        found = softened(chances, temperature)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        np.testing.assert_array_equal(found.argsort(axis=1), chances.argsort(axis=1))
    np.testing.assert_allclose(softened(chances, 1.0), chances)
    assert softened([[0.0, 1.0]], 2.0).tolist() == [[0.0, 1.0]]
    with pytest.raises(InputError, match="temperature=0"):
        softened(chances, 0)
