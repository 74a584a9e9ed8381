"""The settings of HyperFed: what follows from them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedgeom import HyperFed
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.methods.iterative import SGD, Consistent, LeNet, Mean, Poincare, PublicTriplet, Triplet

TREE = {"CD4": "T", "CD8": "T", "T": "blood", "B": "blood"}


def test_the_default_is_the_papers_row_with_its_aggregation_mended():
    method = HyperFed()
    assert method.loss == Triplet(margin=3.0)
    assert method.head == Poincare(slope=0.9)
    assert method.combine_rule == Consistent(deviations="unit", min_effective_sites=3.0, solver="exact")
    assert (method.network.embedding_dim, method.weights, method.compares, method.masked) == (
        20,
        "sites",
        True,
        True,
    )


def test_published_as_the_authors_coded_it_and_measured():
    paper = HyperFed.published(n_rounds=3)
    assert (paper.learning_rate, paper.batch_size, paper.epochs, paper.n_rounds) == (0.3, 128, 5, 3)
    printed = Consistent(deviations="raw", solver="printed", start="rows", min_effective_sites=1.0)
    assert paper.combine_rule == printed
    assert (paper.weights, HyperFed.published(secure=False).weights) == ("sites", "rows")
    assert paper.head.placing == "published"
    coded = HyperFed.authors_code()
    assert coded.loss == PublicTriplet(margin=1.0, mixed_weight=2.0)
    assert coded.optimizer == SGD(momentum=0.9, kept=True)
    assert coded.combine_rule == replace(printed, deviations="unit")
    assert HyperFed.from_terms(coded.terms()) == coded
    best = HyperFed.measured()
    assert best.combine_rule == Mean()
    assert best.weights == "rows"
    assert not best.compares
    assert best.shows_one_site() == ""


def test_what_the_coordinator_is_shown_is_said():
    assert "cosine" in HyperFed().shows_one_site()
    assert "trained parameters" in HyperFed(secure=False).shows_one_site()
    assert not HyperFed(secure=False).compares
    assert not HyperFed(secure=False).weighs_sites
    assert HyperFed().regroups_in(7)
    assert not HyperFed(aggregation="mean").regroups_in(7)


def test_an_embedding_that_was_given_stays():
    assert HyperFed(network=LeNet(embedding_dim=5), shape=(1, 28, 28)).network.embedding_dim == 5
    assert HyperFed(network=None, head="linear", loss="cross-entropy").network is None


def test_a_class_tree_gives_the_classes_and_goes_to_the_head():
    for tree in (TREE, {"blood": {"T": ["CD4", "CD8"], "B": {}}}):
        method = HyperFed(class_tree=tree)
        assert method.classes == ("B", "CD4", "CD8")
        assert method.head.classes == method.classes
        assert set(method.head.tree) == {"CD4 < T", "CD8 < T", "T < blood", "B < blood"}
        assert HyperFed.from_terms(method.terms()) == method
    inner = HyperFed(class_tree=TREE, classes=("B", "CD4", "T"))
    assert inner.head.classes == ("B", "CD4", "T")


@pytest.mark.parametrize(("kept", "how"), [("shared", "trained"), ("fixed", "own"), ("fixed and shared", "fixed")])
def test_where_the_prototypes_are_kept(kept, how):
    assert HyperFed(prototypes=kept).head.prototypes == how


def test_losses_by_name_and_table():
    assert HyperFed(loss="public-triplet").loss == PublicTriplet()
    assert HyperFed(loss={"name": "triplet", "margin": 1, "negatives": "all"}).loss == Triplet(1.0, "all")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"head": "linear", "prototypes": "shared"}, "another was given"),
        ({"head": "linear", "class_tree": TREE}, "another was given"),
        ({"class_tree": TREE, "classes": ("B", "stranger")}, "stranger"),
        ({"class_tree": ("no tree",)}, "wanted"),
        ({"prototypes": "loose"}, "prototypes"),
        ({"loss": "tripled"}, "triplet"),
        ({"aggregation": {"name": "consistent", "min_effective_sites": 0.5}}, "min_effective_sites"),
    ],
)
def test_what_cannot_be_is_refused(changes, says):
    with pytest.raises(InputError, match=says):
        HyperFed(**changes)


def test_a_tree_may_be_one_from_an_ontology():
    edges = [("CD4", "T"), ("CD8", "T"), ("T", "lymphocyte"), ("T", "blood"), ("lymphocyte", "blood")]
    edges += [("B", "lymphocyte")]
    tree = ClassTree.from_ontology(edges, ["B", "CD8", "T"])  # CD4 is no class here, and T is one above another
    assert tree.distances().tolist() == [[0, 3, 2], [3, 0, 1], [2, 1, 0]]
    method = HyperFed(class_tree=tree)
    assert method.classes == ("B", "CD8", "T")
    assert method.head.class_tree().distances().tolist() == tree.distances().tolist()
    assert HyperFed(class_tree=method.class_tree, classes=method.classes) == method
