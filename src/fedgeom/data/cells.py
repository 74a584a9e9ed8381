"""How cells of text become numbers: decimal marks, thousands, per cent, limits, dates; found by column, and said."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

UNLABELLED = ("", "nan", "na", "n/a", "<na>")
"""Cells of a label column, in lower case, that mean: nobody said what this row is."""
EMPTY = (*UNLABELLED, "none", "null", "?", ".", "#n/a")
"""Cells among the features, in lower case, that mean: nobody measured it."""
NONE = "none"
"""Among words it is one of them, as in a column "treatment"; among numbers it means that nobody measured it."""
NEARLY = 0.9
"""A column with this share of numbers among its filled cells is one of numbers."""
MOSTLY = 0.5
"""And so is one with this share, where they are many different ones."""
MANY_VALUES = 12
"""More different numbers than this are measurements rather than codes."""
MOST_SHOWN = 5
"""How many cells that are no numbers are shown; the others are counted."""
LEAST_GROUPED = 3
"""So many cells such as 1,030 beside whole numbers below 1,000 show that their mark divides thousands."""


class ReadOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a federation or site file says of how tables are read; what it leaves out is found."""

    separator: str = ""
    """What stands between the cells of a text file: ",", ";", "tab" …; "": found in the header."""
    decimal: Literal["", ".", ","] = ""
    """The decimal mark of text cells; the other one divides thousands. "": found, column by column."""
    encoding: str = ""
    """How a text file is encoded, such as "latin-1"; "": UTF-8, UTF-16 by its mark, otherwise Windows-1252."""
    missing: list[str | int | float] = []
    """Cells that mean: not measured, such as -9999 or "k.A."; in the label column: not labelled."""
    limits: Literal["", "gap", "limit", "half"] = ""
    """What "<5" is: a gap, 5, or 2.5 (of ">5", half has no meaning, and it is 5); "": asked about."""
    coerce: bool = False
    """Make cells of a column of numbers that are none gaps, instead of asking."""
    categorical: list[str] = []
    """Columns whose cells are names of categories, though they look like numbers."""
    sheet: str = ""
    """The sheet of a workbook; "": the first one."""
    rename: dict[str, str] = {}
    """New names of columns, by those in the file; everything else goes by the new ones."""
    rename_labels: dict[str, str] = {}
    """New names of labels, by those in the file."""
    rename_words: dict[str, dict[str, str]] = {}
    """By column of words, new words by those in the file."""
    drop: list[str] = []
    """Columns that are no features."""
    units: dict[str, str | float | list[float]] = {}
    """By column, what its numbers are multiplied by, such as 0.4536, or [0.5556, -17.78], which is added then; or
    "lb to kg"."""
    durations: dict[str, str] = {}
    """New columns from two dates: "years from birth to visit"; the columns of dates are no features."""
    dates: Literal["", "dmy", "mdy"] = ""
    """What stands first in dates such as 03/04/2024; "": found, column by column."""
    outcome: str = ""
    """Instead of labels: the column with the number that is to be explained (`Regression`)."""
    time: str = ""
    """Instead of labels: the column with how long each row was seen, for methods of survival."""
    event: str = ""
    """With ``time``: the column with 1 where that ended with the event, and 0 where it did not."""
    weights: str = ""
    """The column with how many rows each counts for."""
    offset: str = ""
    """The column with a term of a `Regression` whose coefficient is 1."""

    @property
    def reshapes(self) -> bool:
        """Whether columns are named, left out, converted or made."""
        return bool(self.rename or self.drop or self.units or self.durations)

    @property
    def missing_words(self) -> frozenset[str]:
        """What means "not measured", as text in small letters."""
        return frozenset(str(one).strip().lower() for one in self.missing)

    @property
    def missing_numbers(self) -> list[float]:
        """And the numbers among them."""
        found = []
        for one in self.missing:
            try:
                found.append(float(one))
            except ValueError:  # a word
                continue
        return found


NOTHING_SAID = ReadOptions()


def reading_of(top: ReadOptions, own: ReadOptions = NOTHING_SAID) -> ReadOptions:
    """Return how one file is read: as its own block says, and where that is silent, as the top of the file says."""
    chosen: dict[str, Any] = {}
    for name in ReadOptions.__struct_fields__:
        for_all = getattr(top, name)
        mine = getattr(own, name)
        chosen[name] = for_all | mine if isinstance(mine, dict) else mine or for_all
    return ReadOptions(**chosen)


class Remark(NamedTuple):
    """What was found while a table was read."""

    level: Literal["error", "warning", "note"]
    what: str
    remedy: str = ""
    topic: str = "cells"


def is_empty(cell: Any) -> bool:
    """Say whether a cell means that nothing was measured."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in EMPTY)


_SIGNS = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-", "\u2019": "'"})
_NUMBER = (
    r"[+-]?(?=[{decimal}]?\d)(?:[1-9]\d{{0,2}}(?:([{other} '])\d{{3}}(?:\1\d{{3}})*)|\d+)?"
    r"(?:{decimal}\d*)?(?:[eE][+-]?\d+)?"
)
_FORMATS = {
    ".": re.compile(_NUMBER.format(decimal=r"\.", other=",")),
    ",": re.compile(_NUMBER.format(decimal=",", other=".")),
}
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""Cells that may be thousands or thousandths."""
_LIMIT = re.compile(r"([<>≤≥]=?)\s*(?=\S)")
_UNIT = re.compile(r"(.*\d)\s*[A-Za-zµμ°²³/]+")
_DATE = re.compile(
    r"(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[T ]+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
)


@dataclass
class _Column:
    """The cells of a column, sorted by what they can be."""

    name: str
    cells: list[Any]
    texts: dict[int, str]
    """The filled cells that are text, by row, with plain signs and without limits or per cent."""
    limits: dict[int, str]
    """Which of them are limits, and on which side."""
    percent: set[int]
    dates: set[int]
    filled: int

    @classmethod
    def of(cls, name: str, cells: Sequence[Any], reading: ReadOptions) -> _Column:
        """Look at cells; those that the file calls missing are empty."""
        gone = reading.missing_words
        found = cls(name, list(cells), {}, {}, set(), set(), 0)
        for at, cell in enumerate(found.cells):
            if is_empty(cell) or (gone and str(cell).strip().lower() in gone):
                found.cells[at] = None
                continue
            found.filled += 1
            if isinstance(cell, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
                found.dates.add(at)
            elif isinstance(cell, str):
                found._take(at, cell.strip().translate(_SIGNS))
        return found

    def _take(self, at: int, text: str) -> None:
        limit = _LIMIT.match(text)
        if limit:
            self.limits[at] = limit[1]
            text = text[limit.end() :]
        elif _DATE.fullmatch(text):
            self.dates.add(at)
        if text.endswith("%"):
            self.percent.add(at)
            text = text[:-1].rstrip()
        self.texts[at] = text

    def fits(self, decimal: str) -> set[int]:
        """Return the rows of text cells that are numbers with a decimal mark."""
        pattern = _FORMATS[decimal]
        return {at for at, text in self.texts.items() if pattern.fullmatch(text) or _as_python(text)}

    def vote(self) -> tuple[str, str]:
        """Return the decimal mark that the column shows, and why; nothing where it shows none."""
        point = self.fits(".")
        comma = self.fits(",")
        if len(point) != len(comma):
            return (".", "") if len(point) > len(comma) else (",", "")
        grouped = [text for at, text in self.texts.items() if at in point and _GROUPED.fullmatch(text)]
        if not grouped or len({text[-4] for text in grouped}) > 1:
            return "", ""
        mark = grouped[0][-4]
        other = "," if mark == "." else "."
        whole = [
            text.lstrip("+-") for at, text in self.texts.items() if at in point and text.lstrip("+-").isdigit()
        ]
        if any(len(text) > 3 for text in whole):
            return mark, f"others, such as {max(whole, key=len)}, have no mark"
        if whole and len(grouped) >= LEAST_GROUPED:
            return other, "the other cells are whole numbers below 1,000"
        return "", "open"


def _as_python(text: str) -> bool:
    """Say whether Python reads a text as a number that has no mark to be in doubt about, such as inf or 1_000."""
    try:
        float(text)
    except ValueError:
        return False
    return "." not in text


def _value(text: str, decimal: str) -> float:
    other = "," if decimal == "." else "."
    plain = text.replace(other, "").replace(" ", "").replace("'", "").replace(decimal, ".")
    return float(plain)


@dataclass(frozen=True)
class ReadColumn:
    """A column as it was read: numbers, or why it has none."""

    values: Floats | None = None
    """(rows,), f8, NaN for gaps; None where the column holds text."""
    why: str = ""
    """Which cells of a column of numbers are none, or that they are dates; "" where cells are plain text."""
    remedy: str = ""
    remarks: tuple[Remark, ...] = ()
    written: tuple[tuple[str, str], ...] = ()
    """In which ways its numbers are written that nobody can doubt, such as decimal commas, each with an example."""


def written_remarks(found: Mapping[str, ReadColumn]) -> list[Remark]:
    """Say in one line for all columns in which way numbers are written."""
    ways: dict[str, list[tuple[str, str]]] = {}
    for name, one in found.items():
        for way, example in one.written:
            ways.setdefault(way, []).append((name, example))
    remarks = []
    for way, some in ways.items():
        shown = ", ".join(repr(name) for name, _ in some[:MOST_SHOWN])
        more = f" and {len(some) - MOST_SHOWN:,} more" if len(some) > MOST_SHOWN else ""
        have = f"columns {shown}{more} have" if len(some) > 1 else f"column {shown} has"
        remarks.append(Remark("note", f"{have} {way}: {some[0][1]}", "", "decimals"))
    return remarks


def read_columns(
    names: Iterable[str],
    cells: Callable[[str], Sequence[Any]],
    plain: Iterable[str],
    *,
    first_row: int,
    reading: ReadOptions,
    separator: str = "",
) -> dict[str, ReadColumn]:
    """Read columns whose cells are not all plain numbers.

    The decimal mark is that of the column; where its cells leave it open, that of the file's other columns, among them
    those of ``plain`` numbers, or the one that goes with the separator. Of ``plain`` columns those are returned that
    have to be read in another way.
    """
    known = {name: _Column.of(name, cells(name), reading) for name in names}
    votes = {name: (reading.decimal, "") if reading.decimal else one.vote() for name, one in known.items()}
    shown = {mark for mark, _ in votes.values() if mark}
    file_mark = reading.decimal or (shown.pop() if len(shown) == 1 else "")
    doubted = {}
    if "," in (reading.decimal, *(mark for mark, _ in votes.values())) or any(
        why == "open" for _, why in votes.values()
    ):
        for name in plain:
            texts = [one for one in cells(name) if isinstance(one, str)]
            points = [one for one in texts if "." in one.strip()[1:]]
            if points and all(_GROUPED.fullmatch(one.strip()) for one in points):
                doubted[name] = points[0]
            elif points and not file_mark:
                file_mark = "."
    found = {}
    for name, one in known.items():
        mark, why = votes[name]
        if not mark and why == "open":
            mark, why = _settled(file_mark, separator)
        found[name] = _read(one, mark or ".", why, first_row, reading)
    if file_mark == ",":
        for name, example in doubted.items():
            again = _Column.of(name, cells(name), reading)
            why = (
                "the file is told to have decimal commas"
                if reading.decimal
                else "other columns have decimal commas"
            )
            found[name] = _read(again, ",", why, first_row, reading, example)
    return found


def _settled(file_mark: str, separator: str) -> tuple[str, str]:
    """Return the decimal mark of a column that could be read in two ways, and why."""
    if file_mark:
        return file_mark, f"other columns have decimal {'points' if file_mark == '.' else 'commas'}"
    if separator == ";":
        return ",", "semicolons divide the file's cells, as where commas are decimal"
    return (
        ".",
        f"{'commas divide' if separator == ',' else 'nothing says that commas are decimal in'} the file's cells",
    )


def _read(
    column: _Column, decimal: str, why: str, first_row: int, reading: ReadOptions, example: str = ""
) -> ReadColumn:
    """Read a column with a decimal mark, which was chosen for the reason that is given, if any."""
    good = column.fits(decimal)
    numeric = column.filled - len(column.texts) - sum(at not in column.texts for at in column.dates)
    share = (len(good) + numeric) / max(column.filled, 1)
    nearly = sum(_is_nearly(text) for at, text in column.texts.items() if at not in good)
    like = share + nearly / max(column.filled, 1)
    different = len({column.texts[at] for at in good}) + min(numeric, MANY_VALUES + 1)
    dates = len(column.dates - good) / max(column.filled, 1)
    if dates >= NEARLY or (dates >= MOSTLY and share < MOSTLY):
        return _dates(column, first_row)
    if like < MOSTLY or (like < NEARLY and different <= MANY_VALUES):
        return ReadColumn(remarks=_half(column, share))
    bad = dict.fromkeys((set(column.texts) | column.dates) - good, "")
    with_sign = column.percent & good
    if with_sign and len(with_sign) < len(good) + numeric:
        few = with_sign if len(with_sign) <= (len(good) + numeric) / 2 else good - with_sign
        bad |= dict.fromkeys(few, "per cent")
    asked = {} if reading.limits else {at: "limit" for at in column.limits if at in good}
    bad |= asked
    values = np.full(len(column.cells), np.nan)
    for at, cell in enumerate(column.cells):
        if cell is None or at in bad:
            continue
        if at not in column.texts:
            values[at] = float(cell)
            continue
        text = column.texts[at]
        number = (
            float(text) if _as_python(text) and not _FORMATS[decimal].fullmatch(text) else _value(text, decimal)
        )
        values[at] = _limited(number, column.limits.get(at, ""), reading)
    remarks, written = _said(column, decimal, why, good - set(bad), reading, example)
    if not bad:
        return ReadColumn(values, remarks=tuple(remarks), written=tuple(written))
    what = _bad_cells(column, bad, share, first_row)
    if reading.coerce:
        gaps = Remark("warning", f"{what}; with coerce they are gaps", "", "cells")
        return ReadColumn(values, remarks=(*remarks, gaps), written=tuple(written))
    return ReadColumn(None, what, _cell_remedy(column, bad), tuple(remarks))


def _is_nearly(text: str) -> bool:
    """Say whether a text is a number with a unit, such as 72 kg, or with the other decimal mark."""
    found = _UNIT.fullmatch(text)
    bare = found[1].strip() if found else text
    return any(pattern.fullmatch(bare) for pattern in _FORMATS.values())


def _limited(number: float, side: str, reading: ReadOptions) -> float:
    if not side:
        return number
    if reading.limits == "gap":
        return float("nan")
    return number / 2 if reading.limits == "half" and side[0] in "<≤" else number


def _half(column: _Column, share: float) -> tuple[Remark, ...]:
    """Say of text of which many cells are numbers that it is taken for categories."""
    if share < MOSTLY:
        return ()
    what = f"column {column.name!r} is taken for text, though {share:.0%} of its cells are numbers"
    remedy = f'if it is meant as categories, say categorical = ["{column.name}"]; otherwise mend the other cells'
    return (Remark("warning", what, remedy),)


def _dates(column: _Column, first_row: int) -> ReadColumn:
    first = min(column.dates)
    what = (
        f"column {column.name!r} holds dates, row {first + first_row}: {str(column.cells[first])!r}, "
        f"{len(column.dates):,} of {column.filled:,} cells; a date is no number"
    )
    remedy = (
        f'make an age or a duration of it, durations = {{ age = "years from {column.name} to 2024-12-31" }}, or write '
        f'days since some day, or leave the column out, drop = ["{column.name}"]'
    )
    return ReadColumn(None, what, remedy)


def _said(
    column: _Column, decimal: str, why: str, good: set[int], reading: ReadOptions, example: str
) -> tuple[list[Remark], list[tuple[str, str]]]:
    """Say what was found in a column of numbers that are not written plainly: what may be doubted, and what not."""
    marked = [column.texts[at] for at in sorted(good) if re.search(r"[.,]", column.texts[at])]
    remarks = []
    written = []
    if marked and (decimal == "," or any("," in text for text in marked)):
        shown = example or next((text for text in marked if "," in text), marked[0])
        way = "decimal commas" if decimal == "," and "," in shown else "thousands"
        read = f"{shown!r} is read as {_value(shown, decimal):.10g}"
        if why and not reading.decimal:
            other = "," if decimal == "." else "."
            what = f"column {column.name!r} has {way}: {read}, because {why}"
            remarks.append(Remark("warning", what, f'decimal = "{other}" reads it otherwise', "decimals"))
        else:
            written.append((way, read))
    per_cent = column.percent & good
    if per_cent:
        first = column.texts[min(per_cent)]
        written.append(("per cent", f"{first + '%'!r} is read as {_value(first, decimal):.10g}"))
    if column.limits and reading.limits:
        count = f"{len(column.limits):,} limit{'s' if len(column.limits) > 1 else ''}"
        first_limit = str(column.cells[min(column.limits)])
        written.append((f'{count}, which are read as limits = "{reading.limits}" says', repr(first_limit)))
    return remarks, written


def _bad_cells(column: _Column, bad: Mapping[int, str], share: float, first_row: int) -> str:
    """List the cells of a column of numbers that are none: the rows of each text, the most frequent first."""
    where: dict[str, list[int]] = {}
    for at in sorted(bad):
        where.setdefault(str(column.cells[at]), []).append(at + first_row)
    texts = sorted(where.items(), key=lambda one: (-len(one[1]), one[1][0]))
    shown = [
        f"row {rows[0]}: {text!r}" + (f" ({len(rows):,} cells, this is the first)" if len(rows) > 1 else "")
        for text, rows in texts[:MOST_SHOWN]
    ]
    more = f" and {len(texts) - MOST_SHOWN:,} more texts" if len(texts) > MOST_SHOWN else ""
    count = "this cell is not" if len(bad) == 1 else f"these {len(bad):,} cells are not"
    part = 1 - len(bad) / max(column.filled, 1)
    return f"column {column.name!r} is {_percent(part)} numbers; {count}: {', '.join(shown)}{more}"


def _percent(share: float) -> str:
    """Write a share that is not all, and not nothing, as such."""
    return f"{min(max(share, 0.01), 0.99):.0%}" if 0 < share < 1 else f"{share:.0%}"


def _cell_remedy(column: _Column, bad: Mapping[int, str]) -> str:
    ways = []
    kinds = set(bad.values())
    if "limit" in kinds:
        ways.append(
            'a limit is no number: limits = "limit" takes 5 for <5, "half" takes 2.5, "gap" takes none of them'
        )
    if "per cent" in kinds:
        ways.append("some cells have a per cent sign and others have none: write them alike")
    if any(re.fullmatch(r"[+-]?\d+[.,]\d+", column.texts.get(at, "")) for at, kind in bad.items() if not kind):
        ways.append("write all cells with the same decimal mark, 1.5 with a point for a comma")
    ways.append(
        "mend the cells; or make them gaps, coerce = true (--coerce); if the texts are names of categories: "
        f'categorical = ["{column.name}"]'
    )
    return "; ".join(ways)


def check_reading(reading: ReadOptions) -> ReadOptions:
    """Refuse what cannot be meant."""
    if reading.separator and reading.separator != "tab" and len(reading.separator) != 1:
        raise InputError(f'separator = {reading.separator!r} given; wanted one sign, such as ";", or "tab"')
    for name, given in reading.units.items():
        conversion(name, given)
    for name, span in reading.durations.items():
        duration_parts(name, span)
    if reading.separator and reading.separator == reading.decimal:
        raise InputError(f"separator and decimal are both {reading.decimal!r}; one sign cannot be both")
    if reading.encoding:
        try:
            "".encode(reading.encoding)
        except LookupError as error:
            raise InputError(
                f'encoding = {reading.encoding!r} given; wanted one that Python knows, such as "latin-1" or "utf-16"'
            ) from error
    return reading


UNITS = {
    "mg": ("mass", 1e-6, 0.0), "g": ("mass", 1e-3, 0.0), "kg": ("mass", 1.0, 0.0), "lb": ("mass", 0.45359237, 0.0),
    "oz": ("mass", 0.028349523125, 0.0),
    "mm": ("length", 1e-3, 0.0), "cm": ("length", 1e-2, 0.0), "m": ("length", 1.0, 0.0), "in": ("length", 0.0254, 0.0),
    "ft": ("length", 0.3048, 0.0),
    "minutes": ("time", 1 / 1440, 0.0), "hours": ("time", 1 / 24, 0.0), "days": ("time", 1.0, 0.0),
    "weeks": ("time", 7.0, 0.0), "months": ("time", 30.436875, 0.0), "years": ("time", 365.2425, 0.0),
    "C": ("temperature", 1.0, 0.0), "K": ("temperature", 1.0, -273.15), "F": ("temperature", 5 / 9, -160 / 9),
    "%": ("share", 0.01, 0.0), "1": ("share", 1.0, 0.0),
}  # fmt: skip
"""What units measure, and how their numbers become those of one unit: times the second, plus the third."""


def conversion(column: str, given: str | float | list[float]) -> tuple[float, float]:
    """Return what a column's numbers are multiplied by, and what is added then.

    >>> conversion("weight", "lb to kg")
    (0.45359237, 0.0)
    """
    if isinstance(given, int | float):
        return float(given), 0.0
    if isinstance(given, list):
        if len(given) != 2:
            raise InputError(f"units.{column} = {given} given; wanted two numbers, [times, plus]")
        return given[0], given[1]
    old, found, new = (part.strip() for part in given.partition(" to "))
    if not found or old not in UNITS or new not in UNITS or UNITS[old][0] != UNITS[new][0]:
        raise InputError(
            f'units.{column} = {given!r} given; wanted two units of one kind, such as "lb to kg", among '
            f"{', '.join(UNITS)}; or the number to multiply by, which for amounts of a substance depends on it"
        )
    _, times, plus = UNITS[old]
    _, divided, minus = UNITS[new]
    return times / divided, (plus - minus) / divided


_SPAN = re.compile(r"(days|weeks|months|years) from (.+?) to (.+)")


def duration_parts(column: str, given: str) -> tuple[str, str, str]:
    """Return the unit of a duration, and the columns or days that it goes from and to."""
    found = _SPAN.fullmatch(given.strip())
    if not found:
        raise InputError(
            f'durations.{column} = {given!r} given; wanted "years from birth to visit", with days, weeks, months or '
            "years, and columns or days such as 2024-12-31"
        )
    return found[1], found[2].strip(), found[3].strip()


def is_day(text: str) -> bool:
    """Say whether a text is a day, year first."""
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def days_of(column: str, cells: Sequence[str], first_row: int, reading: ReadOptions) -> Floats:
    """Return dates as days since 1970, (rows,), f8; empty ones are gaps."""
    gone = reading.missing_words
    parts: dict[int, tuple[str, str, str]] = {}
    bad = []
    for at, cell in enumerate(cells):
        found = _DATE.fullmatch(cell.strip())
        if found and (len(found[1]) == 4 or len(found[3]) == 4):
            parts[at] = (found[1], found[2], found[3])
        elif not is_empty(cell) and cell.strip().lower() not in gone:
            bad.append(at)
    if bad and not reading.coerce:
        raise InputError(
            f"column {column!r}, row {bad[0] + first_row}: {cells[bad[0]]!r}, {len(bad):,} of {len(cells):,} cells "
            "are no dates with a year of four digits; mend them, or make them gaps, coerce = true (--coerce)"
        )
    order = reading.dates or _order(column, [one for one in parts.values() if len(one[0]) < 4], cells)
    values = np.full(len(cells), np.nan)
    for at, (first, second, third) in parts.items():
        year, month, day = (first, second, third) if len(first) == 4 else (third, second, first)
        if len(first) < 4 and order == "mdy":
            month = first
            day = second
        try:
            values[at] = (datetime.date(int(year), int(month), int(day)) - datetime.date(1970, 1, 1)).days
        except ValueError as error:
            raise InputError(
                f"column {column!r}, row {at + first_row}: {cells[at]!r} is no day ({error}); is the day first, dates "
                '= "dmy", or the month, dates = "mdy"?'
            ) from error
    return values


def _order(column: str, parts: Sequence[tuple[str, str, str]], cells: Sequence[str]) -> str:
    """Return what stands first in dates that do not begin with the year."""
    day_first = any(int(first) > 12 for first, _, _ in parts)
    month_first = any(int(second) > 12 for _, second, _ in parts)
    points = any("." in cell for cell in cells)
    if not parts or day_first or (points and not month_first):
        return "dmy"
    if month_first:
        return "mdy"
    raise InputError(
        f"column {column!r}: {cells[0]!r} and the others can be read with the day or with the month first; say dates = "
        '"dmy" or "mdy"'
    )


DAYS = {"days": 1.0, "weeks": 7.0, "months": 30.436875, "years": 365.2425}
"""How many days a unit of durations has."""
