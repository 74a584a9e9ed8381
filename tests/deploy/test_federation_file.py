"""The federation file says what it wants, and refuses the rest."""

from __future__ import annotations

import pytest

from fedgeom.deploy.federation_file import (
    build_method,
    build_policy,
    read_federation,
    read_sites,
    site_names,
    terms_of,
)
from fedgeom.errors import InputError

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
    assert build_policy(file, read_federation(file)) is None


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
        ("holdout = 1.5\n" + SITE, "< 1"),
        ("approval_wait = -1\n" + SITE, r"approval_wait"),
        ("approval_wait = 700000\n" + SITE, r"approval_wait = 700000 given; wanted a number <= 604800"),
        ('seed = "one"\n' + SITE, "seed = 'one' given; wanted a whole number"),
        ("holdout = 2\n" + SITE, "holdout = 2 given; wanted a number < 1"),
        ("columns = 3\n" + SITE, "columns = 3 given; wanted a text or a list"),
        ('method = "momens"\n' + SITE, "there are: hulls.* Did you mean 'moments'?"),
        (
            'method = "hulls"\n[parameters]\nembedding = "pca"\n' + SITE,
            "embedding='pca' given; wanted one of 'none', 'discriminant'",
        ),
        (
            'method = "hulls"\n[parameters]\nembedding = "discriminat"\n' + SITE,
            "wanted one of 'none', 'discriminant'. Did you mean 'discriminant'?",
        ),
        ('method = "hull"\n' + SITE, "there is no method 'hull'; there are: hulls"),
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
    with pytest.raises(InputError, match=r'no method is named.*"moments".*matches? names: hulls'):
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
            "fedavg goes by shared names; the methods that match names are: hulls",
        ),
        (
            'method = "moments"\n[parameters]\nnames = "own"\n',
            "moments goes by shared names; the methods that match names are: hulls",
        ),
        ('method = "hulls"\nnames = "mine"\n', "names = 'mine' given; wanted .*shared"),
        (
            'method = "hulls"\nnames = "own"\n[parameters]\nnames = "shared"\n',
            r'names = "own" at the top, but names = "shared" in \[parameters\]',
        ),
        ('method = "hulls"\nnames = "shared"\n[parameters]\nn_classes = 3\n', "the classes are then the words"),
    ],
)
def test_names_that_cannot_be(tmp_path, text, message):
    file = written(tmp_path, text)
    with pytest.raises(InputError, match=message):
        build_method(file, read_federation(file))
