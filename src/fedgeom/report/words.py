"""The questions of a run in plain words, for the terminal, the report and the studio."""

from __future__ import annotations

WORDS = {
    "join.hello": "invite the sites, collect signed keys",
    "join.draw": "draw who masks with whom, and who is in which group",
    "join.meet": "exchange secrets for every pair of sites",
    "join.share": "exchange sealed shares of keys",
    "ellipses.scales": "masked means and deviations of the columns, for a joint scale",
    "ellipses.classes": "masked numbers of classes",
    "ellipses.sum": "masked counts, means and covariances of each class",
    "ellipses.take-model": "give every site the model",
    "ellipses.covers": "masked ticks: what each word covers",
    "ellipses.tree": "give every site the joint tree",
    "prepare.seal": "sealed names of columns and categories",
    "prepare.hold": "everybody's sealed columns",
    "prepare.categories": "masked numbers of sites and rows of each category",
    "prepare.keep": "the joint columns, and categories that enough have",
    "prepare.cells": "masked numbers of cells with a value",
    "prepare.floors": "masked numbers of rows and sites that set columns apart",
    "prepare.bins": "masked numbers of values in bins, for a quantile",
    "prepare.moments": "masked sums of columns, or of squares",
    "prepare.products": "masked products of columns, for components",
    "prepare.directions": "masked covariance times directions, for components",
    "prepare.ranks": "masked choices of columns",
    "prepare.cell-sizes": "masked numbers of rows in parts of cells",
    "prepare.cell-sums": "masked sums of rows in cells, whose means are landmarks",
    "poincare-map.classes": "masked numbers of rows of each class near each landmark",
    "prepare.class-bins": "masked numbers of values in bins, for quantiles of each class",
    "prepare.summaries": "masked sums of columns, squares and gaps of each class",
    "prepare.rows": "show every site the last sum; it prepares its rows",
    "describe.gaps": "each site's gaps, column by column",
    "describe.take": "the sites make the description from the sums that they checked",
    "hulls.scales": "masked means and deviations of the columns, for a joint scale",
    "hulls.scatter": "masked scatter, for a joint map",
    "hulls.extent": "masked sizes",
    "hulls.encode": "masked hulls",
    "hulls.corners": "masked corners of each class",
    "hulls.take-model": "give every site the model",
    "hyperfed.compare": "train; begin to compare the changes",
    "hyperfed.relay": "compare the changes of two sites",
    "names.seal": "sealed label names",
    "names.open": "the union of the label names",
    "names.hold": "everybody's sealed label names",
    "names.count": "masked numbers of sites and rows of each label name",
    "names.keep": "the label names that enough sites and rows have",
    "train.columns": "masked sums of the columns",
    "train.rows": "masked numbers of rows",
    "train.begin": "tell the sites classes and scale",
    "train.group-columns": "masked sums of the columns, in each group",
    "train.group-rows": "masked numbers of rows, in each group",
    "train.begin-groups": "tell the sites classes and scale, by the groups' sums",
    "train.group": "train; masked models, in each group",
    "train.masked": "train; masked models",
    "train.among-all": "train; each site's model, to all sites",
    "train.open": "train; each site's model",
    "train.finish": "give every site the model",
    "model.take": "give every site the model",
    "model.result": "give every site the sum; it checks it and makes the model",
    "moments.group": "masked counts, sums and squares of each class, in each group",
    "moments.groups": "give every site the groups' sums; it checks them and makes the model",
    "moments.sum": "masked counts, sums and squares of each class",
    "regression.columns": "masked sums of the outcome and of columns",
    "regression.scores": "masked slope and curvature of the likelihood",
    "regression.squares": "masked products of rows' slopes",
    "regression.sites": "masked spread of the sites' coefficients",
    "ridge.columns": "masked counts of classes, sums and squares of columns",
    "ridge.patches": "masked sums and squares of patches",
    "ridge.patch-counts": "masked sizes of clusters of patches",
    "ridge.clusters": "masked clusters of patches, the next filters",
    "ridge.cells": "masked numbers of rows in bins of features",
    "ridge.gram": "masked products of features",
    "ridge.bounded": "masked counts, sums and products, with noise",
    "ridge.solution": "give every site the solution",
    "ridge.check": "show every site the sum; it checks the solution",
    "ridge.calibration": "masked fit of probabilities",
    "semi.embed": "give the sites the model whose features are compared",
    "ridge.evidence": "masked evidence on personal models",
    "ridge.take-evidence": "each site makes its own model",
    "ridge-update.base": "give every site the features and sums from before",
    "ridge-update.counts": "masked numbers of changed rows",
    "ridge-update.gram": "masked change of the products of features",
    "ridge-update.check": "show every site the sums; it checks the solution",
    "survival.bins": "masked counts of times in bins of quantiles",
    "survival.cells": "masked counts of events in each interval, to put small ones together",
    "survival.columns": "masked sums of columns, and of events in each interval",
    "survival.curves": "masked counts of events in each interval, by group",
    "survival.risk-sets": "masked sums of hazards over the rows at risk",
    "survival.curvature": "masked curvature of the likelihood",
    "survival.strata": "masked slope and curvature of the sites' likelihoods",
    "topo.describe": "the shape of each site's rows",
    "topo.describe.activations": "give every site the model; the shape of what it makes of the rows",
    "topo.describe.private": "the shape of each site's rows, with noise",
    "shrunk.terms": "masked losses and their derivatives",
    "shrunk.evidence": "masked scores of the candidates",
    "shrunk.take-evidence": "give every site the joint models; it makes its own",
    "xclp.ask-rows": "how many rows, and which have a label",
    "xclp.begin": "hash the rows, begin to compare them",
    "xclp.relay": "compare rows of two sites",
    "xclp.count": "masked numbers of labelled rows",
    "xclp.spread": "masked labels, spread along the graph",
    "xclp.collect": "give every site the labels of its rows",
    "xclp.mean": "masked mean direction",
    "xclp.cell-counts": "masked sizes of clusters",
    "xclp.cell-sums": "masked centres of clusters",
    "xclp.codes": "masked ties between clusters",
    "xclp.read-model": "give every site anchors and their scores",
    "xclp.label-counts": "masked numbers of labels found",
    "xclp.weigh": "give every site the scale of confidences",
    "model.doubts": "masked: at how many sites the model does worse than their rows allow",
    "evaluation.sum": "test the model; masked counts",
    "sum.confirm": "  agree on who is in the sum",
    "sum.witness": "  let the others sign it too",
    "sum.unmask": "  unmask the sum, and only the sum",
}
"""Questions in plain words; others are shown by their kind."""

STAGES = {
    "join": "Getting together",
    "prepare": "Preparing the rows",
    "names": "Agreeing on names",
    "evaluation": "Testing the model",
}
"""What a question is for, by the first part of its kind; all others are the learning itself."""
LEARNING = "Learning"

SUMS = ("sum.confirm", "sum.witness", "sum.unmask")
"""The questions that belong to the sum before them."""


def in_words(kind: str) -> str:
    """Return a question in plain words, or its kind where nobody wrote any.

    >>> in_words("hulls.encode"), in_words("mine.ask")
    ('masked hulls', 'mine.ask')
    """
    return WORDS.get(kind, kind).strip()


def stage_of(kind: str) -> str:
    """Return what a question is for.

    >>> stage_of("prepare.bins"), stage_of("hulls.encode")
    ('Preparing the rows', 'Learning')
    """
    return STAGES.get(kind.partition(".")[0], LEARNING)
