"""What a table is."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.studio.studies import file_facts, likely_mistakes
from tests.data.workbooks import write_workbook


def test_a_text_table_with_gaps_and_words(tmp_path, patients):
    (tmp_path / "p.csv").write_bytes(patients)
    facts = file_facts(tmp_path / "p.csv")
    assert facts.rows == 160
    kinds = {one.name: (one.kind, one.gaps) for one in facts.columns}
    words = dict.fromkeys(("sex", "hospital", "diagnosis"), ("words", 0))
    assert kinds == {"age": ("numbers", 0), "bmi": ("numbers", 8), **words}
    assert (facts.label(), facts.sites_from(), facts.preparation()) == ("diagnosis", "hospital", "table")


def test_columns_are_shown_as_a_run_would_read_them_with_what_is_wrong_beside_them(tmp_path):
    rows = "".join(f"3{at % 10},5;{at};{'sixty' if at == 7 else at};{'ab'[at % 2]}\n" for at in range(40))
    (tmp_path / "german.csv").write_text("age;weight;height;diagnosis\n" + rows)
    facts = {one.name: one for one in file_facts(tmp_path / "german.csv").columns}
    assert (facts["age"].kind, facts["age"].note) == ("numbers", "decimal commas")
    assert facts["age"].bars[0] > 0
    assert (facts["weight"].kind, facts["weight"].note) == ("whole numbers", "")
    assert facts["height"].kind == "to mend"
    assert "sixty" in facts["height"].note
    assert file_facts(tmp_path / "german.csv").label() == "diagnosis"


def test_a_workbook_is_looked_into_like_any_table(tmp_path):
    pytest.importorskip("python_calamine", reason="needs the excel extra")
    rows = [["age", "ward", "class"], [39, "icu", "ill"], [None, "er", "well"], [50.5, "icu", "ill"]]
    facts = file_facts(write_workbook(tmp_path / "clinic.xlsx", {"A": rows}))
    assert facts.rows == 3
    kinds = [(one.name, one.kind, one.gaps) for one in facts.columns]
    assert kinds == [("age", "numbers", 1), ("ward", "words", 0), ("class", "words", 0)]
    assert facts.label() == "class"


def test_clean_numbers_need_no_preparation(tmp_path):
    (tmp_path / "p.tsv").write_text("a\tb\tlabel\tsite\n1\t2\tx\ts\n3\t4\ty\tt\n")
    facts = file_facts(tmp_path / "p.tsv")
    assert facts.preparation() == ""
    assert facts.columns[0].kind == "whole numbers"


def test_an_archive(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((4, 2)), y=np.array(["a", "b", "a", "b"]))
    facts = file_facts(tmp_path / "a.npz")
    assert facts.rows == 4
    assert facts.label() == "y"
    assert "X (4, 2)" in facts.matrix


def test_raw_counts_of_cells(tmp_path):
    anndata, pd = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    obs = pd.DataFrame({"cell_type": ["B", "T"] * 5, "donor": ["a"] * 5 + ["b"] * 5}, index=list("0123456789"))
    anndata.AnnData(np.ones((10, 3), np.float32), obs=obs).write_h5ad(tmp_path / "c.h5ad")
    facts = file_facts(tmp_path / "c.h5ad")
    assert (facts.label(), facts.sites_from(), facts.preparation()) == ("cell_type", "donor", "counts")
    assert "3 genes" in facts.matrix


@pytest.mark.parametrize("name", ["x.parquet", "x.h5ad", "x.npz"])
def test_a_damaged_file_is_said_to_be_one(tmp_path, name):
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=r"x\.\w+"):
        file_facts(tmp_path / name)


def test_likely_mistakes_are_said_at_the_column_that_they_are_about(client, place):
    rng = np.random.default_rng(0)
    lines = ["age,weight,stay,hospital,diagnosis"]
    for at in range(200):
        ill = int(rng.random() < 0.5)
        site = at % 4
        weight = rng.normal(70, 8) * (2.2046 if site == 3 else 1)
        age = -999 if at % 40 == 0 else rng.integers(30, 90)
        lines.append(f"{age},{weight:.1f},{10 * ill},h{site},{['well', 'ill'][ill]}")
    place.make(place.files)
    (place.files / "odd.csv").write_text("\n".join(lines) + "\n")
    found = likely_mistakes([place.files / "odd.csv"], [file_facts(place.files / "odd.csv")])
    said = {one.topic: one.columns for one in found}
    assert said == {"sentinels": ("age",), "units": ("weight",), "leak": ("stay",)}
    page = client.get("/files?file=odd.csv").text
    rows = {row.split("</th>")[0].rpartition(">")[2]: row for row in page.split("<tr>")}
    assert "-999 in column" in rows["age"]
    assert "lb and kg" in rows["weight"]
    assert "tell the classes apart all by themselves" in rows["stay"]
    assert "at-column" not in rows["diagnosis"]
