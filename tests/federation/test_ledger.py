"""The ledger: what left which site, and a file that outlives a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.federation.ledger import Ledger, LedgerEntry
from tests.federation.test_frames import without_pandas
from tests.tiers import examples


def entry(step: int, site: str, size: int = 10, kind: str = "k", reveals: str = "nothing") -> LedgerEntry:
    return LedgerEntry(step=step, site=site, kind=kind, bytes=size, received=5, reveals=reveals)


def some() -> Ledger:
    return Ledger([entry(1, "b", 10), entry(1, "a", 20), entry(2, "a", 5, "other", "a sum — Σ")])


def test_bytes_are_counted_by_site_and_in_all() -> None:
    ledger = some()
    assert ledger.sites == ["a", "b"]
    assert (ledger.sent(), ledger.sent("a"), ledger.sent("b"), ledger.sent("c")) == (35, 25, 10, 0)
    assert len(ledger) == 3
    assert [e.site for e in ledger] == ["b", "a", "a"]
    assert "3 messages from 2 sites, 35 bytes" in repr(ledger)


def test_the_summary_has_a_row_for_each_step_and_kind() -> None:
    assert some().summary() == [(1, "k", 2, 30, "nothing"), (2, "other", 1, 5, "a sum — Σ")]


def test_the_frame_has_a_row_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pandas(monkeypatch)
    assert some().frame()[2] == {
        "step": 2, "site": "a", "kind": "other", "bytes": 5, "received": 5, "reveals": "a sum — Σ"
    }  # fmt: skip
    assert [row["site"] for row in some().frame()] == ["b", "a", "a"]
    assert Ledger().frame() == []


def test_the_frame_of_pandas_adds_up() -> None:
    pytest.importorskip("pandas")
    frame = some().frame()
    assert frame.columns.tolist() == ["step", "site", "kind", "bytes", "received", "reveals"]
    assert frame.groupby("site")["bytes"].sum().to_dict() == {"a": 25, "b": 10}


def test_a_notebook_shows_the_summary_and_no_html_of_others() -> None:
    page = Ledger([entry(1, "a", 1234, "<b>", "x & y")])._repr_html_()
    assert "<td>&lt;b&gt;</td><td>1</td><td>1</td><td>1,234</td><td>x &amp; y</td>" in page


def test_messages_of_many_rounds_are_one_row() -> None:
    """Fifty rounds of training were 150 rows of a table that differed in a number."""
    rounds = [entry(step, site, 10, "sum", "a sum") for step in range(2, 9, 2) for site in "abc"]
    ledger = Ledger([entry(1, "a", 5), *rounds[:-1], entry(8, "b", 7, "sum", "another")])
    first, many, other = ledger.by_message()
    assert (first.when, first.sites, first.messages, first.bytes) == ("1", "1", 1, 5)
    assert (many.when, len(many.steps), many.sites, many.messages, many.bytes) == ("2 … 8", 4, "2–3", 11, 110)
    assert (other.when, other.reveals) == ("8", "another")
    assert ledger._repr_html_().count("<tr>") == 4


def test_listeners_hear_each_entry_once() -> None:
    ledger, heard = Ledger(), []
    ledger.listeners.append(heard.append)
    ledger.add(entry(1, "a"))
    assert heard == ledger.entries == [entry(1, "a")]


def test_two_new_ledgers_share_nothing() -> None:
    first, second = Ledger(), Ledger()
    first.add(entry(1, "a"))
    assert len(second) == 0


def test_a_ledger_survives_its_file(tmp_path: Path) -> None:
    some().save(tmp_path / "l")
    assert Ledger.load(tmp_path / "l").entries == some().entries
    Ledger().save(tmp_path / "empty")
    assert len(Ledger.load(tmp_path / "empty")) == 0


@examples(60)
@given(st.text(min_size=1), st.text())
def test_any_name_survives_the_file(tmp_path_factory: pytest.TempPathFactory, site: str, reveals: str) -> None:
    path = tmp_path_factory.mktemp("ledger") / "l"
    one = entry(1, site.encode("utf-8", "replace").decode(), reveals=reveals.encode("utf-8", "replace").decode())
    Ledger([one, one]).save(path)
    assert Ledger.load(path).entries == [one, one]


def test_a_file_cut_off_anywhere_keeps_all_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "l"
    some().save(path)
    data = path.read_bytes()
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        loaded = Ledger.load(path).entries
        whole = data[:end].count(b"\n")
        assert loaded == some().entries[: len(loaded)]
        assert whole <= len(loaded) <= whole + 1  # a line whole but for its end counts


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "l"
    some().save(path)
    for broken in (b"{]", b'{"step": 1}', b'"\xff"'):
        lines = path.read_bytes().splitlines()
        lines[1] = broken
        path.with_name("broken").write_bytes(b"\n".join(lines))
        with pytest.raises(InputError, match="line 2 is not a ledger entry"):
            Ledger.load(path.with_name("broken"))
