"""Which methods are compared, and with which settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedgeom.deploy.federation_file import read_federation
from fedgeom.deploy.study_file import holdout_of, methods_to_compare
from fedgeom.errors import InputError
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.method import METHODS
from fedgeom.testing.examples import example_sites

DISC = example_sites(rows=40)
TABLE = [replace(site, X=10 * site.X) for site in DISC]


def wanted(tmp_path, text, names, sites=DISC):
    file = tmp_path / "f.toml"
    file.write_text(text)
    return methods_to_compare(file, read_federation(file), names, sites)


def test_all_are_all(tmp_path):
    found = wanted(tmp_path, "", "all")
    assert set(found.methods) | set(found.failed) == set(METHODS)
    assert {"hulls", "moments", "fedavg"} <= set(found.methods)


def test_tables_say_what_they_need_and_the_file_says_otherwise(tmp_path):
    disc = wanted(tmp_path, "", "hulls, moments").methods
    assert (disc["hulls"].embedding, disc["moments"].space) == ("none", "ball")
    many = [replace(site, X=site.X.repeat(5, 0), y=site.y.repeat(5)) for site in TABLE]
    table = wanted(tmp_path, "", "hulls,moments,xclp", many)
    assert (table.methods["hulls"].embedding, table.methods["moments"].space) == ("discriminant", "euclidean")
    assert table.methods["xclp"].graph == "anchors"
    own = wanted(tmp_path, '[compare.moments]\nspace = "ball"\n', "moments", TABLE)
    assert own.methods["moments"].space == "ball"


def test_parameters_go_where_they_fit(tmp_path):
    text = "[parameters]\nrounds = 40\nepsilon = 0.05\n[compare.ditto]\nrounds = 3\n"
    found = wanted(tmp_path, text, "fedavg,ditto,hulls,moments,xclp").methods
    assert (found["fedavg"].rounds, found["ditto"].rounds, found["hulls"].epsilon) == (40, 3, 0.05)
    assert found["xclp"].rounds == 10  # 40 is more than it allows


def test_settings_that_do_not_fit_a_method_are_its_failure(tmp_path):
    found = wanted(tmp_path, "[compare.fedavg]\nrounds = -1\n", "fedavg,moments")
    assert set(found.methods) == {"moments"}
    assert "rounds=-1 given" in found.failed["fedavg"]


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("", "momens", "Did you mean 'moments'"),
        ("", " , ", "no methods are named"),
        ("[compare.momens]\nrounds = 1\n", "moments", "there is no method 'momens'"),
        (
            "[compare.moments]\nrule = 1\nspacy = 2\n",
            "moments",
            r"\[compare.moments\] has the unknown key 'spacy'",
        ),
        ("[parameters]\nrunds = 1\n", "fedavg,hulls", r"\[parameters\] has the unknown key 'runds'"),
    ],
)
def test_refusals(tmp_path, text, names, said):
    with pytest.raises(InputError, match=said):
        wanted(tmp_path, text, names)


def test_rows_kept_aside(tmp_path):
    file = tmp_path / "f.toml"
    file.write_text("")
    assert holdout_of(read_federation(file)) == Holdout(0.25)
    file.write_text('holdout = 0.4\nholdout_by = "patient"\n')
    assert holdout_of(read_federation(file)) == Holdout(0.4, grouped=True)
