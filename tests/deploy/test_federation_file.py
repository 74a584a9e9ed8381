"""The federation file says what it wants, and refuses the rest."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.deploy.federation_check import check_federation
from fedgeom.deploy.federation_file import (
    build_method,
    build_policy,
    read_federation,
    read_sites,
    site_names,
    terms_of,
)
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy, StrictPolicy

SITE = '[[sites]]\nfile = "a.csv"\n'


def written(tmp_path, text):
    file = tmp_path / "f.toml"
    file.write_text(text)
    return file


def test_defaults_and_values(tmp_path):
    file = written(
        tmp_path,
        'method = "hulls"\nseed = 3\nlabel = "y"\n[parameters]\nepsilon = 1\ntrim = 0.1\nn_classes = 3\n'
        "[policy]\nmin_cohort = 4\n" + SITE + 'columns = ["u"]\n',
    )
    (tmp_path / "a.csv").write_text("u,v,y\n1,2,p\n3,4,q\n")
    plan = read_federation(file)
    method = build_method(file, plan)
    assert (plan.method, plan.seed, plan.holdout) == ("hulls", 3, 0.0)
    assert (method.epsilon, method.trim, method.n_classes) == (1.0, 0.1, 3)
    assert build_policy(file, plan).min_cohort == 4
    (site,) = read_sites(file, plan)
    assert (site.name, site.columns) == ("a", ("u",))


def test_no_policy_is_the_default(tmp_path):
    file = written(tmp_path, SITE)
    assert build_policy(file, read_federation(file)) == StrictPolicy()
    assert build_policy(file, read_federation(file), "relaxed") == Policy()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "not valid TOML"),
        ("sead = 1\n" + SITE, "unknown key 'sead'; known are sites, method, names, seed.*Did you mean 'seed'"),
        (
            SITE + 'lable = "y"\n',
            r"\[\[sites\]\] number 1 has the unknown key 'lable'; known are file, name, label",
        ),
        ("seed = 1\n", r"no \[\[sites\]\] are named"),
        ("sites = []\n", r"no \[\[sites\]\] are named"),
        ('[[sites]]\nname = "x"\n', "site 'x' has no file"),
        ("holdout = 0.6\n" + SITE, "<= 0.5"),
        ("approval_wait = -1\n" + SITE, r"approval_wait"),
        ("approval_wait = 700000\n" + SITE, r"approval_wait = 700000 given; wanted a number <= 604800"),
        ('seed = "one"\n' + SITE, "seed = 'one' given; wanted a whole number"),
        ("holdout = 2\n" + SITE, "holdout = 2 given; wanted a number <= 0.5"),
        ('method = "hulls"\nholdout_by = "patient"\n' + SITE, "holdout_by is given, but no rows are kept aside"),
        (
            'method = "hulls"\n[parameters]\nholdout = 0.2\n' + SITE,
            r"\[parameters\] has the unknown key 'holdout'",
        ),
        ("columns = 3\n" + SITE, "columns = 3 given; wanted a text or a list"),
        (
            'method = "hulls"\n[parameters]\nprivacy = { epsilon = 1, clip = 1 }\n' + SITE,
            r"\[parameters\] privacy given, but Hulls has no bound .* the methods that have one are: .*moments",
        ),
        (
            'method = "moments"\n[parameters]\nprivacy = { epsilon = 0, clip = 1 }\n' + SITE,
            r"\[parameters\] privacy: epsilon=0 given; wanted a number above 0",
        ),
        (
            'method = "moments"\n[parameters]\nprivacy = { epsilon = 1, clip = 0 }\n' + SITE,
            r"\[parameters\] privacy: clip=0 given; wanted a number above 0",
        ),
        (
            'method = "moments"\n[parameters]\nclasses = ["a", "b"]\nmin_sites = 3\n'
            "privacy = { epsilon = 1, clip = 1, colluders = 3 }\n" + SITE,
            r"none is left\. Wanted min_sites = 4 at least",
        ),
        ('method = "momens"\n' + SITE, "there are: ellipses, hulls.* Did you mean 'moments'?"),
        (
            'method = "hulls"\n[parameters]\nembedding = "pca"\n' + SITE,
            "embedding='pca' given; wanted one of 'none', 'discriminant'",
        ),
        (
            'method = "hulls"\n[parameters]\nembedding = "discriminat"\n' + SITE,
            "wanted one of 'none', 'discriminant', 'map'. Did you mean 'discriminant'?",
        ),
        ('method = "hull"\n' + SITE, "there is no method 'hull'; there are: ellipses, hulls"),
        (
            'method = "hulls"\n[parameters]\nepsilom = 1\n' + SITE,
            r"\[parameters\] has the unknown key 'epsilom'.*'epsilon'",
        ),
        (
            'method = "hulls"\n[parameters]\nepsilon = "small"\n' + SITE,
            r"f\.toml: \[parameters\] epsilon='small' given",
        ),
        (
            'method = "hulls"\n[parameters]\nepsilon = -1\n' + SITE,
            "epsilon=-1(.0)? given; wanted a number above 0",
        ),
        (
            'method = "fedavg"\n[parameters]\naggregation = {name = "trimmed", trimm = 0.1}\n' + SITE,
            "aggregation: 'trimmed' has no setting 'trimm'; it has trim",
        ),
        (
            'method = "fedavg"\n[parameters]\naggregation = "mode"\n' + SITE,
            "aggregation='mode' is unknown; there are: mean",
        ),
        (
            'method = "fedavg"\n[parameters]\nlearner = "tree"\n' + SITE,
            "learner='tree' is unknown; there are: logistic",
        ),
        (
            "[policy]\nsmallest = 3\n" + SITE,
            r"\[policy\] has the unknown key 'smallest'; known are min_cohort",
        ),
        ("[policy]\nmin_cohort = 1\n" + SITE, "use ≥ 2"),
        (SITE, "no label column is named for 'a.csv'"),
        ('label = "y"\n' + SITE, "does not exist"),
    ],
)
def test_refusals(tmp_path, text, message):
    file = written(tmp_path, text)

    def read_all():
        plan = read_federation(file)
        if plan.method:
            build_method(file, plan)
        build_policy(file, plan)
        read_sites(file, plan)

    with pytest.raises(InputError, match=message):
        read_all()


def test_a_job_waits_a_week_for_its_approvals_unless_the_file_says_less(tmp_path):
    assert read_federation(written(tmp_path, "")).approval_wait == 7 * 24 * 3600
    assert read_federation(written(tmp_path, "approval_wait = 0\n")).approval_wait == 0


def test_the_terms_of_a_file(tmp_path):
    file = written(tmp_path, 'method = "moments"\nseed = 4\n[parameters]\nmin_sites = 3\n')
    terms = terms_of(file, read_federation(file), ["b", "a"])
    assert (terms.method, terms.seed, terms.participants, terms.settings["min_sites"]) == (
        "moments",
        4,
        ("a", "b"),
        3,
    )
    file = written(tmp_path, 'method = "hulls"\n' + SITE + '[[sites]]\nname = "0"\n')
    assert site_names(read_federation(file)) == ["a", "0"]
    assert terms_of(file, read_federation(file), ["never", "seen"]).participants == ("0", "a")


def test_nothing_is_chosen_for_sites_of_their_own(tmp_path):
    file = written(tmp_path, 'names = "own"\n')
    with pytest.raises(InputError, match=r'no method is named.*"moments".*matches? names: ellipses, hulls'):
        terms_of(file, read_federation(file), ["a", "b"])


def test_names_at_the_top_are_a_setting_of_methods_that_match_them(tmp_path):
    file = written(tmp_path, 'method = "hulls"\nnames = "shared"\n')
    assert terms_of(file, read_federation(file), ["a", "b"]).settings["names"] == "shared"
    file = written(tmp_path, 'method = "hulls"\n')
    assert terms_of(file, read_federation(file), ["a", "b"]).settings["names"] == "own"
    file = written(tmp_path, 'method = "moments"\nnames = "shared"\n')
    assert "names" not in terms_of(file, read_federation(file), ["a", "b"]).settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'method = "fedavg"\nnames = "own"\n',
            "fedavg goes by shared names; the methods that match names are: ellipses, hulls",
        ),
        (
            'method = "moments"\n[parameters]\nnames = "own"\n',
            "moments goes by shared names; the methods that match names are: ellipses, hulls",
        ),
        ('method = "hulls"\nnames = "mine"\n', "names = 'mine' given; wanted .*shared"),
        (
            'method = "hulls"\nnames = "own"\n[parameters]\nnames = "shared"\n',
            r'names = "own" at the top, but names = "shared" in \[parameters\]',
        ),
        ('method = "hulls"\nnames = "shared"\n[parameters]\nn_classes = 3\n', "the classes are then the names"),
    ],
)
def test_names_that_cannot_be(tmp_path, text, message):
    file = written(tmp_path, text)
    with pytest.raises(InputError, match=message):
        build_method(file, read_federation(file))


ALL = "age,donor,patient,y\n1,B,p1,u\n2,A,p2,v\n3,B,p1,v\n4,A,p3,u\n"


def test_one_file_has_all_sites_with_their_patients(tmp_path):
    (tmp_path / "all.csv").write_text(ALL)
    file = written(tmp_path, 'file = "all.csv"\nsites_from = "donor"\nlabel = "y"\nholdout_by = "patient"\n')
    sites = read_sites(file, read_federation(file))
    assert [(site.name, site.columns, site.X[:, 0].tolist()) for site in sites] == [
        ("A", ("age",), [2, 4]),
        ("B", ("age",), [1, 3]),
    ]
    assert [site.groups.tolist() for site in sites] == [["p2", "p3"], ["p1", "p1"]]
    assert [site.row_numbers.tolist() for site in sites] == [[3, 5], [2, 4]]
    assert site_names(read_federation(file)) == []


@pytest.mark.parametrize("ending", ["parquet", "h5ad"])
def test_one_file_of_other_kinds_has_all_sites(tmp_path, ending):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    frame = pandas.DataFrame({"donor": ["B", "A", "B", "A"], "y": ["u", "v", "v", "u"]}, index=list("pqrs"))
    if ending == "h5ad":
        anndata.AnnData(np.eye(4, 2), obs=frame, layers={"n": np.eye(4, 2)}).write_h5ad(tmp_path / "all.h5ad")
        text = 'columns = "layers:n"\n'
    else:
        frame.assign(a=[1.0, 0, 0, 0], b=[0, 1.0, 0, 0]).to_parquet(tmp_path / "all.parquet")
        text = ""
    file = written(tmp_path, f'file = "all.{ending}"\nsites_from = "donor"\nlabel = "y"\n{text}')
    sites = read_sites(file, read_federation(file))
    assert [(site.name, site.index.tolist(), site.X.tolist()) for site in sites] == [
        ("A", ["q", "s"], [[0, 1], [0, 0]]),
        ("B", ["p", "r"], [[1, 0], [0, 0]]),
    ]


def test_groups_of_sites_with_files_of_their_own(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("age,patient,id,y\n1,p1,7,u\n2,p2,8,v\n")
    file = written(
        tmp_path,
        'label = "y"\nholdout_by = "patient"\ncolumns = ["age"]\n'
        + SITE
        + '[[sites]]\nfile = "b.csv"\ngroup = "id"\n',
    )
    sites = read_sites(file, read_federation(file))
    assert [site.groups.tolist() for site in sites] == [["p1", "p2"], ["7", "8"]]


def test_rows_have_the_names_that_a_column_has(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("age,id,nr,y\n1,p1,7,u\n2,p2,8,v\n")
    file = written(
        tmp_path,
        'label = "y"\nindex = "id"\ncolumns = ["age"]\n' + SITE + '[[sites]]\nfile = "b.csv"\nindex = "nr"\n',
    )
    sites = read_sites(file, read_federation(file))
    assert [site.index.tolist() for site in sites] == [["p1", "p2"], ["7", "8"]]
    (tmp_path / "all.csv").write_text(ALL)
    file = written(tmp_path, 'file = "all.csv"\nsites_from = "donor"\nlabel = "y"\nindex = "patient"\n')
    sites = read_sites(file, read_federation(file))
    assert [(site.columns, site.index.tolist()) for site in sites] == [
        (("age",), ["p2", "p3"]),
        (("age",), ["p1", "p1"]),
    ]


def test_columns_that_all_sites_have(tmp_path):
    (tmp_path / "a.csv").write_text("age,bmi,y\n1,2,u\n")
    (tmp_path / "b.csv").write_text("crp,age,y\n3,4,v\n")
    two = 'label = "y"\n' + SITE + '[[sites]]\nfile = "b.csv"\n'
    assert [one.topic for one in check_federation(written(tmp_path, two)).report.errors].count("columns") == 1
    file = written(tmp_path, "shared_columns = true\n" + two)
    checked = check_federation(file)
    assert "columns" not in [one.topic for one in checked.report.errors]
    assert [site.X.tolist() for site in checked.sites] == [[[1]], [[4]]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('file = "all.csv"\n', 'file = .all.csv. needs sites_from = "…"'),
        ('sites_from = "donor"\n', 'sites_from = .donor. needs the file with all sites, file = "…"'),
        (
            'sites_from = "donor"\nfile = "all.csv"\n' + SITE,
            r"sites_from = .donor. and \[\[sites\]\] are both there",
        ),
        (
            'sites_from = "donor"\nfile = "all.csv"\n',
            "no label column is named for 'all.csv'; .* at the top of the",
        ),
        (
            'sites_from = "doner"\nfile = "all.csv"\nlabel = "y"\n',
            r"all\.csv has no column 'doner'; .* Did you mean 'donor'\?",
        ),
        (
            'sites_from = "donor"\nfile = "all.csv"\nlabel = "y"\nholdout_by = "patien"\n',
            r"no column 'patien'; .* Did you mean 'patient'\?",
        ),
        (
            'sites_from = "same"\nfile = "one.csv"\nlabel = "y"\n',
            "column 'same' has one value, 'x'; wanted the column",
        ),
        (
            'sites_from = "age"\nfile = "all.csv"\nlabel = "y"\ncolumns = ["age"]\n',
            "'age' has 4 values in 4 rows, too many to be sites",
        ),
        ('sites_from = "y"\nfile = "all.csv"\nlabel = "y"\n', "'y' is the label column; wanted another"),
    ],
)
def test_one_file_that_does_not_say_its_sites(tmp_path, text, message):
    (tmp_path / "all.csv").write_text(ALL)
    (tmp_path / "one.csv").write_text("age,same,y\n1,x,u\n2,x,v\n")
    file = written(tmp_path, text)
    with pytest.raises(InputError, match=message):
        read_sites(file, read_federation(file))


def test_the_holdout_is_a_part_of_the_terms(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('method = "moments"\nholdout = 0.2\nholdout_by = "patient"\n' + SITE)
    plan = read_federation(file)
    assert terms_of(file, plan, []).settings["holdout"] == {"share": 0.2, "grouped": True}
    file.write_text('method = "moments"\n' + SITE)
    assert terms_of(file, read_federation(file), []).settings["holdout"] is None
