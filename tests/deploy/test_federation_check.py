"""A federation file and its tables: every fault is found, and nothing is raised, whatever the files hold."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.datasets import load_set
from fedgeom.deploy.federation_check import check_federation, stop_if_unready
from fedgeom.errors import InputError
from tests.cli.calling import write_csv

HEAD = 'method = "moments"\nlabel = "kind"\n[parameters]\nspace = "euclidean"\n'


@pytest.fixture
def sites(tmp_path):
    found = load_set("wine", n_sites=4).train
    for site in found:
        write_csv(tmp_path / f"{site.name}.csv", site, "kind")
    return found


def write(tmp_path, sites, head=HEAD, more=""):
    file = tmp_path / "study.toml"
    file.write_text(head + "".join(f'[[sites]]\nfile = "{site.name}.csv"\n' for site in sites) + more)
    return file


def test_a_file_that_is_ready_has_everything_a_run_needs(tmp_path, sites):
    checked = check_federation(write(tmp_path, sites))
    assert checked.report.ready
    plan, method, looked = stop_if_unready(checked)
    tables = looked.sites
    assert (plan.method, method.name, [one.name for one in tables]) == (
        "moments",
        "moments",
        [s.name for s in sites],
    )
    np.testing.assert_allclose(tables[1].X, sites[1].X)


def test_a_site_that_cannot_be_read_keeps_nobody_from_being_checked(tmp_path, sites):
    """Finding 10: the first fault was all that one was told."""
    (tmp_path / "site-1.csv").unlink()
    (tmp_path / "site-2.csv").write_bytes(b"\xff\xfe\x00broken")
    text = (tmp_path / "site-3.csv").read_text().splitlines()
    text[4] = text[4].replace(text[4].split(",")[2], "", 1)
    (tmp_path / "site-3.csv").write_text("\n".join(text))
    (tmp_path / "date.csv").write_text("alcohol,kind\n2020-01-03,a\n")
    more = '[[sites]]\nfile = "date.csv"\n[[sites]]\nname = "odd"\nfile = "x.h5ad"\n'
    (tmp_path / "x.h5ad").write_text("no")
    checked = check_federation(write(tmp_path, sites, more=more))
    said = {one.sites: one.what for one in checked.report.errors}
    assert set(said) == {("site-1",), ("site-2",), ("site-3",), ("date",), ("odd",)}
    assert "does not exist" in said["site-1",]
    assert "UTF-8" in said["site-2",]
    assert said["site-3",] == "row 5, column 'ash' is nan"
    assert "'2020-01-03'" in said["date",]
    assert "holds dates" in said["date",]
    assert "cannot be read as .h5ad" in said["odd",] or "needs anndata" in said["odd",]
    assert [one.name for one in checked.report.sites] == ["site-3", "site-4"]
    with pytest.raises(InputError, match="not ready, 5 faults"):
        stop_if_unready(checked)


def test_text_in_a_column_keeps_nobody_from_being_checked(tmp_path):
    for name, dose, gap in (("a", "1.5", "3"), ("b", "low", ""), ("c", "2.5", "4")):
        rows = "".join(f"{at},{dose},{gap if at == 4 else 1},{'uv'[at % 2]}\n" for at in range(12))
        (tmp_path / f"{name}.csv").write_text(f"age,dose,bmi,y\n{rows}")
    file = tmp_path / "f.toml"
    file.write_text(
        'method = "fedavg"\nlabel = "y"\n' + "".join(f'[[sites]]\nfile = "{name}.csv"\n' for name in "abc")
    )
    text, gap = check_federation(file).report.errors
    assert "column 'dose', row 2: 'low', 12 of 12 cells are no numbers" in text.what
    assert gap.what == "row 6, column 'bmi' is nan"
    assert text.sites == gap.sites == ("b",)
    rows = "".join(f"{at},{'abc'[at % 3]},{'' if at == 4 else 1},{at % 2},x\n" for at in range(30))
    (tmp_path / "all.csv").write_text(f"age,site,bmi,y,word\n{rows}")
    file.write_text('method = "fedavg"\nfile = "all.csv"\nsites_from = "site"\nlabel = "y"\n')
    text, gap = check_federation(file).report.errors
    assert "'word'" in text.what
    assert gap.what == "row 6, column 'bmi' is nan"


def test_method_policy_and_sites_are_looked_at_whatever_else_is_wrong(tmp_path, sites):
    sites[0].X[2, 0] = np.nan
    write_csv(tmp_path / "site-1.csv", sites[0], "kind")
    head = 'method = "momens"\nlabel = "kind"\n[policy]\nmin_cohor = 3\n'
    checked = check_federation(write(tmp_path, sites, head))
    said = [one.what for one in checked.report.errors]
    assert len(said) == 3
    assert "Did you mean 'moments'?" in said[0]
    assert "Did you mean 'min_cohort'?" in said[1]
    assert said[2] == "row 4, column 'alcohol' is nan"
    assert checked.method is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist; wanted a federation file"),
        ("a = ", "is not valid TOML"),
        ("methd = 3\n", "Did you mean 'method'?"),
        ('label = "y"\n', "no [[sites]] are named"),
        ('label = "y"\n[[sites]]\nname = "a"\n', "has no file"),
        ('[[sites]]\nfile = "site-1.csv"\n', "no label column is named"),
    ],
)
def test_files_that_say_too_little_or_nothing(text, words, tmp_path, sites):
    file = tmp_path / "f.toml"
    if text is not None:
        file.write_text(text)
    checked = check_federation(file)
    assert any(words in str(one) for one in checked.report.errors)
    with pytest.raises(InputError):
        stop_if_unready(checked)


def test_names_given_twice_are_a_fault_and_the_first_is_looked_at(tmp_path, sites):
    checked = check_federation(write(tmp_path, [*sites, sites[0]]))
    (found,) = checked.report.errors
    assert "given more than once: site-1" in found.what
    assert len(checked.sites) == 4


def test_a_reader_that_stumbles_is_a_fault_of_that_site(tmp_path, sites, monkeypatch):
    def stumble(path, federation, entry):
        raise MemoryError("12 GB") if entry.file == "site-1.csv" else ZeroDivisionError("by zero")

    monkeypatch.setattr("fedgeom.deploy.federation_check.read_entry", stumble)
    said = {one.sites: one.what for one in check_federation(write(tmp_path, sites)).report.errors}
    assert said["site-1",] == "the table does not fit into memory (12 GB)"
    assert said["site-2", "site-3", "site-4"] == "it cannot be read: ZeroDivisionError: by zero"


def test_too_few_sites_are_not_complained_of_where_a_file_is_missing(tmp_path, sites):
    for site in sites[:2]:
        (tmp_path / f"{site.name}.csv").unlink()
    assert len(check_federation(write(tmp_path, sites), policy="relaxed").report.errors) == 2
    (found,) = check_federation(write(tmp_path, sites[2:]), policy="relaxed").report.errors
    assert "2 sites were given; sums need 3" in found.what


def test_one_file_with_all_sites_is_looked_at_as_well(tmp_path):
    rows = "".join(f"{i},{1 + i % 3},{'AB'[i % 2]},{'uv'[i // 2 % 2]}\n" for i in range(40))
    (tmp_path / "all.csv").write_text("a,b,town,y\n" + rows)
    file = tmp_path / "f.toml"
    text = 'method = "moments"\nfile = "all.csv"\nsites_from = "town"\nlabel = "y"\ncolumns = ["a", "b"]\n'
    file.write_text(text + '[parameters]\nspace = "euclidean"\n[policy]\nmin_cohort = 2\n')
    checked = check_federation(file, policy="relaxed")
    assert checked.report.ready, checked.report.errors
    assert [site.name for site in checked.sites] == ["A", "B"]
    file.write_text(text.replace('"town"', '"twon"'))
    (found,) = check_federation(file, policy="relaxed").report.errors
    assert "has no column 'twon'" in found.what
    assert "Did you mean 'town'?" in f"{found.what} {found.remedy}"


def test_how_files_are_read_is_said_and_can_be_overridden(tmp_path):
    german = "age;crp;y\n" + "".join(f"{20 + at},5;1,{at + 100};{'ab'[at % 2]}\n" for at in range(40))
    for name in ("n", "s", "e"):
        (tmp_path / f"{name}.csv").write_text(german)
    blocks = "".join(f'[[sites]]\nfile = "{name}.csv"\n' for name in ("n", "s"))
    file = tmp_path / "f.toml"
    file.write_text(
        'method = "ridge"\nlabel = "y"\nprepare = "table"\n' + blocks + '[[sites]]\nfile = "e.csv"\ndecimal = "."'
    )
    report = check_federation(file, policy="relaxed").report
    (said,) = [one for one in report.at("note") if "decimal commas" in one.what]
    assert said.sites == ("n", "s")
    assert "column 'age' has decimal commas: '20,5' is read as 20.5" in said.what
    (doubted,) = [one for one in report.warnings if one.topic == "decimals"]
    assert "'1,100' is read as 1.1, because other columns have decimal commas" in doubted.what
    (wrong,) = report.errors
    assert wrong.sites == ("e",)
    assert "column 'age' is 0% numbers" in wrong.what
    assert "same decimal mark" in wrong.remedy


def test_cells_that_are_no_numbers_are_listed_by_site_and_made_gaps_where_that_is_said(tmp_path):
    rows = "".join(f"{20 + at},{at % 7},{'ab'[at % 2]}\n" for at in range(60))
    for name in ("n", "s", "e"):
        (tmp_path / f"{name}.csv").write_text("age,z,y\n" + rows + ("sixty,1,a\n72?,2,b\n" if name == "s" else ""))
    blocks = "".join(f'[[sites]]\nfile = "{name}.csv"\n' for name in ("n", "s", "e"))
    file = tmp_path / "f.toml"
    file.write_text('method = "ridge"\nlabel = "y"\nprepare = "table"\n' + blocks)
    (fault,) = check_federation(file, policy="relaxed").report.errors
    assert fault.sites == ("s",)
    assert "column 'age' is 97% numbers; these 2 cells are not: row 62: 'sixty', row 63: '72?'" in fault.what
    coerced = check_federation(file, policy="relaxed", coerce=True).report
    assert coerced.ready
    assert any("with coerce they are gaps" in one.what and one.sites == ("s",) for one in coerced.warnings)
