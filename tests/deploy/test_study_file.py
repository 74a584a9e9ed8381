"""Which methods a file wants compared, which settings it wants tried, and whether all rows get the same effort."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedgeom.deploy.federation_file import read_federation
from fedgeom.deploy.study_file import Study, holdout_of, read_comparison, read_sweep
from fedgeom.errors import InputError
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.method import METHODS
from fedgeom.testing.rehearsal import example_sites

SITES = example_sites()
TWO = '[sweep]\nmethods = ["fedavg", "fedprox"]\n'


def study(tmp_path, text: str) -> Study:
    file = tmp_path / "study.toml"
    file.write_text(text)
    return read_sweep(file, read_federation(file), SITES)


def test_every_combination_for_every_row(tmp_path):
    found = study(
        tmp_path,
        "seed = 7\n[parameters]\nn_rounds = 2\nmu = 0.5\n"
        + TWO
        + "[sweep.grid]\nlearning_rate = [0.1, 0.2]\nepochs = [1, 2]\n",
    )
    assert found.seeds == [7, 8, 9]
    assert found.by == "balanced_accuracy"
    for row in ("fedavg", "fedprox"):
        assert [(one.learning_rate, one.epochs, one.n_rounds) for one in found.rows[row]] == [
            (learning_rate, epochs, 2) for learning_rate in (0.1, 0.2) for epochs in (1, 2)
        ]
    assert {one.mu for one in found.rows["fedprox"]} == {0.5}
    assert found.settings["fedavg"][1] == {"learning_rate": 0.1, "epochs": 2}


def test_rows_of_their_own_lists_and_draws(tmp_path):
    text = """[sweep]
seeds = [5, 1]
tries = 2
by = "accuracy"
settings = [{learning_rate = 0.1}, {learning_rate = 0.2, max_grad_norm = 1.0}, {learning_rate = 0.3}]
[sweep.rows.plain]
method = "fedavg"
[sweep.rows.strong]
method = "fedprox"
parameters = {batch_size = 8}
settings = [{mu = 1.0}]
grid.learning_rate = [0.1, 0.5]
"""
    found = study(tmp_path, text)
    assert (found.seeds, found.by) == ([5, 1], "accuracy")
    assert [(one.mu, one.learning_rate, one.batch_size) for one in found.rows["strong"]] == [
        (1.0, 0.1, 8),
        (1.0, 0.5, 8),
    ]
    assert len(found.rows["plain"]) == 2
    assert found.settings == study(tmp_path, text).settings  # the same draw
    alone = study(tmp_path, 'method = "fedavg"\n[sweep]\n[sweep.grid]\nlearning_rate = [0.1, 0.2]\n')
    assert [one.learning_rate for one in alone.rows["fedavg"]] == [0.1, 0.2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"there is no \[sweep\]"),
        ("[sweep]\nseeds = 2\n", "names no rows"),
        ("[sweep]\nmethdos = []\n", "Did you mean 'methods'"),
        ('[sweep]\nmethods = ["fedavgg"]\n', "Did you mean 'fedavg'"),
        ("[sweep.rows.a]\nmetod = 'fedavg'\n", "Did you mean 'method'"),
        (TWO + "[sweep.grid]\nmu = [0.1]\n", "'fedavg' of .* unknown key 'mu'"),
        (TWO + "[sweep.grid]\nlearning_rate = []\n", "learning_rate"),
        (TWO + "[sweep.grid]\nlearning_rate = [-1]\n", "row 'fedavg' .*learning_rate=-1"),
        (TWO + "[sweep.rows.fedprox.grid]\nmu = [0.1, 1.0]\n", r"\(fedavg 1, fedprox 2\).*tries = 1"),
        (TWO + "tries = 3\n[sweep.grid]\nlearning_rate = [0.1]\n", "has only 1 settings"),
        (TWO + "seeds = 0\n", "seeds"),
        ("[parameters]\nrunds = 1\n" + TWO, r"\[parameters\] has the unknown key 'runds'"),
        (TWO + "[sweep.rows.fedprox.parameters]\nn_rounds = 99\n", r"fedprox trains .*\(99, 5, None\)"),
    ],
)
def test_what_is_refused(text, said, tmp_path):
    with pytest.raises(InputError, match=said):
        study(tmp_path, text)


def test_unequal_effort_may_be_wanted(tmp_path):
    text = TWO + 'effort = "any"\n[sweep.rows.fedprox]\nparameters.n_rounds = 99\ngrid.mu = [0.1, 1.0]\n'
    assert [len(one) for one in study(tmp_path, text).rows.values()] == [1, 2]
    mixed = '[sweep]\nmethods = ["moments", "fedavg"]\n'  # what has no rounds trains in none
    assert set(study(tmp_path, mixed).rows) == {"moments", "fedavg"}


DISC = example_sites(rows=40)
TABLE = [replace(site, X=10 * site.X) for site in DISC]


def wanted(tmp_path, text, names, sites=DISC):
    file = tmp_path / "f.toml"
    file.write_text(text)
    return read_comparison(file, read_federation(file), sites, names)


def methods(study: Study):
    """Return the methods of a comparison: each row has one."""
    assert study.settings == {name: [{}] for name in study.rows}
    return {name: method for name, (method,) in study.rows.items()}


def test_all_are_all(tmp_path):
    found = wanted(tmp_path, "", "all")
    beside = {name for name in found.rows if name.startswith(("pooled rows, ", "each site alone, "))}
    assert (set(found.rows) - beside) | set(found.failed) == set(METHODS)
    assert beside  # the same networks without a federation
    assert {"hulls", "moments", "fedavg"} <= set(found.rows)


def test_tables_say_what_they_need_and_the_file_says_otherwise(tmp_path):
    disc = methods(wanted(tmp_path, "", "hulls, moments"))
    assert (disc["hulls"].embedding, disc["moments"].space) == ("none", "ball")
    many = [replace(site, X=site.X.repeat(5, 0), y=site.y.repeat(5)) for site in TABLE]
    table = methods(wanted(tmp_path, "", "hulls,moments,xclp", many))
    assert (table["hulls"].embedding, table["moments"].space) == ("discriminant", "euclidean")
    assert table["xclp"].graph == "anchors"
    own = methods(wanted(tmp_path, '[compare.moments]\nspace = "ball"\n', "moments", TABLE))
    assert own["moments"].space == "ball"


def test_parameters_go_where_they_fit(tmp_path):
    text = "[parameters]\nn_rounds = 40\nepsilon = 0.05\n[compare.ditto]\nn_rounds = 3\n"
    found = methods(wanted(tmp_path, text, "fedavg,ditto,hulls,moments,xclp"))
    assert (found["fedavg"].n_rounds, found["ditto"].n_rounds, found["hulls"].epsilon) == (40, 3, 0.05)
    assert found["xclp"].n_rounds == 10  # 40 is more than it allows


def test_settings_that_do_not_fit_a_method_are_its_failure(tmp_path):
    found = wanted(tmp_path, "[compare.fedavg]\nn_rounds = -1\n", "fedavg,moments")
    assert set(found.rows) == {"moments"}
    assert "n_rounds=-1 given" in found.failed["fedavg"]


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("", "momens", "Did you mean 'moments'"),
        ("", " , ", "no methods are named"),
        ("[compare.momens]\nn_rounds = 1\n", "moments", "there is no method 'momens'"),
        (
            "[compare.moments]\nrule = 1\nspacy = 2\n",
            "moments",
            r"\[compare.moments\] has the unknown key 'spacy'",
        ),
        ("[parameters]\nrunds = 1\n", "fedavg,hulls", r"\[parameters\] has the unknown key 'runds'"),
    ],
)
def test_what_is_refused_of_a_comparison(tmp_path, text, names, said):
    with pytest.raises(InputError, match=said):
        wanted(tmp_path, text, names)


def test_rows_kept_aside(tmp_path):
    file = tmp_path / "f.toml"
    file.write_text("")
    assert holdout_of(read_federation(file)) == Holdout(0.25)
    file.write_text('holdout = 0.4\nholdout_by = "patient"\n')
    assert holdout_of(read_federation(file)) == Holdout(0.4, grouped=True)
