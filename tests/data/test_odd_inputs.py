"""Files as people have them: bad and odd inputs, and the answer that each gets."""
# ruff: noqa: E501 - a case is one line of a table

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fedgeom.data import csv
from fedgeom.data.readers import read_site
from fedgeom.errors import InputError

NAN = float("nan")


@dataclass(frozen=True)
class Case:
    """One file, how it is read, and what comes of it: numbers and remarks, or an error."""

    what: str
    raw: str | bytes
    X: Any = None
    """The rows that are read, or the first of them."""
    says: str = ""
    """What a remark says, as a pattern; "": there is none."""
    error: str = ""
    reading: dict[str, Any] = field(default_factory=dict)
    text: bool = False
    ending: str = "csv"
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    labels: list[str] = field(default_factory=list)


def rows_of(cells: str, count: int = 30) -> str:
    """Return lines that end in a label, with a column that counts."""
    return "".join(f"{at},{cells},{'ab'[at % 2]}\n" for at in range(20, 20 + count))


DIRTY = "age,x,y\nsixty,1,a\nunknown,2,a\n72?,2,b\n" + rows_of("1")
NUMBERS = [
    Case(
        "decimal commas",
        "u;v;y\n39,0;1,5;a\n40,5;2;b\n",
        [[39, 1.5], [40.5, 2]],
        "'u', 'v' have decimal commas: '39,0' is read as 39",
    ),
    Case(
        "commas and thousands by points",
        "u;v;y\n1.234,5;1;a\n2,25;2;b\n",
        [[1234.5, 1], [2.25, 2]],
        "'1.234,5' is read as 1234.5",
    ),
    Case(
        "points and thousands by commas",
        'u,v,y\n"1,234.5",1,a\n2.25,2,b\n',
        [[1234.5, 1], [2.25, 2]],
        "thousands: '1,234.5' is read as 1234.5",
    ),
    Case("millions by commas", 'u,v,y\n"1,234,567",1,a\n25,2,b\n', [[1234567, 1], [25, 2]], "thousands"),
    Case("millions by points", "u;v;y\n1.234.567;1;a\n25;2;b\n", [[1234567, 1], [25, 2]], "thousands"),
    Case("thousands by spaces", "u;v;y\n1 234,5;1;a\n25;2;b\n", [[1234.5, 1], [25, 2]], "decimal commas"),
    Case("thousands by narrow spaces", "u;v;y\n1\u202f234;1;a\n25;2;b\n", [[1234, 1], [25, 2]]),
    Case("thousands by apostrophes", "u;v;y\n1'234.5;1;a\n25;2;b\n", [[1234.5, 1], [25, 2]]),
    Case(
        "open, semicolons",
        "u;v;y\n1,234;1;a\n2,345;2;b\n",
        [[1.234, 1], [2.345, 2]],
        r"'1,234' is read as 1\.234, because semicolons .*decimal = \"\.\" reads",
    ),
    Case(
        "open, commas",
        'u,v,y\n"1,234",1,a\n"2,345",2,b\n',
        [[1234, 1], [2345, 2]],
        r"'1,234' is read as 1234, because commas divide",
    ),
    Case(
        "open, by the other columns",
        "u;v;y\n1,234;1.5;a\n2,345;2;b\n",
        [[1234, 1.5], [2345, 2]],
        "is read as 1234, because other columns have decimal points",
    ),
    Case(
        "open, but one begins with 0",
        'u,v,y\n"0,234",1,a\n"2,345",2,b\n',
        [[0.234, 1], [2.345, 2]],
        "decimal commas",
    ),
    Case(
        "open, but others have no mark",
        'u,v,y\n"1,234",1,a\n2345,2,b\n',
        [[1.234, 1], [2345, 2]],
        "because others, such as 2345, have no mark",
    ),
    Case(
        "open, beside small whole numbers",
        "u;v;y\n1,234;1;a\n950;2;b\n1,030;3;a\n1,100;3;a\n",
        [[1234, 1], [950, 2]],
        "below 1,000",
    ),
    Case(
        "open, told",
        "u;v;y\n1,234;1;a\n2,345;2;b\n",
        [[1234, 1], [2345, 2]],
        "thousands",
        reading={"decimal": "."},
    ),
    Case(
        "points, told to be thousands",
        "u;v;y\n1.234;1;a\n2.345;2;b\n",
        [[1234, 1], [2345, 2]],
        "thousands",
        reading={"decimal": ","},
    ),
    Case(
        "points are thousands beside decimal commas",
        "u;v;y\n1.234;1,5;a\n2.345;2;b\n",
        [[1234, 1.5], [2345, 2]],
        "'1.234' is read as 1234, because other columns have decimal commas",
    ),
    Case(
        "points are points beside decimal commas",
        "u;v;y\n1.25;1,5;a\n2.345;2;b\n",
        [[1.25, 1.5], [2.345, 2]],
        "'v' has decimal commas",
    ),
    Case(
        "both marks in one column",
        "u;v;y\n1;1.0;a\n2;1,5;a\n3;2,5;b\n",
        error=r"column 'v' is 67% numbers; this cell is not: row 2: '1\.0'; write all cells with the same decimal mark",
    ),
    Case(
        "both marks in one column of many",
        "u;v;y\n" + "".join(f"1;{at},5;a\n" for at in range(20)) + "1;3.7;b\n",
        error=r"column 'v' is 95% numbers; this cell is not: row 22: '3\.7'; write all cells with the same decimal mark",
    ),
    Case("per cent", "u,v,y\n55%,1,a\n60 %,2,b\n", [[55, 1], [60, 2]], "'u' has per cent: '55%' is read as 55"),
    Case(
        "per cent with commas",
        "u;v;y\n5,5%;1;a\n60%;2;b\n",
        [[5.5, 1], [60, 2]],
        "per cent: '5,5%' is read as 5.5",
    ),
    Case(
        "per cent in some cells",
        "u,v,y\n55%,1,a\n60,2,b\n70,2,b\n",
        error="row 2: '55%'; some cells have a per cent sign and others have none",
    ),
    Case("a typographic minus", "u,v,y\n\u22125.5,1,a\n6,2,b\n", [[-5.5, 1], [6, 2]]),
    Case("exponents with commas", "u;v;y\n1,5e3;1;a\n2E-1;2;b\n", [[1500, 1], [0.2, 2]], "decimal commas"),
    Case("a plus, and points alone", "u,v,y\n+1.,1,a\n.5,2,b\n", [[1, 1], [0.5, 2]]),
    Case("underscores", "u,v,y\n1_000,1,a\n5,2,b\n", [[1000, 1], [5, 2]]),
    Case("wide digits", "u,v,y\n１２,1,a\n5,2,b\n", [[12, 1], [5, 2]]),
    Case("numbers in quotes and spaces", 'u,v,y\n" 12 ",1,a\n5 ,2,b\n', [[12, 1], [5, 2]]),
    Case(
        "signs for nothing",
        "u,v,y\nNA,1,a\n?,2,b\n.,3,a\nnull,4,b\n<NA>,5,a\n3,6,b\n",
        [[NAN, 1], [NAN, 2], [NAN, 3], [NAN, 4], [NAN, 5], [3, 6]],
    ),
]
CELLS = [
    Case(
        "words among numbers",
        DIRTY,
        error=r"'age' is 91% numbers; these 3 cells are not: row 2: 'sixty', row 3: 'unknown', row 4: '72\?'; .*--coerce.*categorical = \[\"age\"\]",
    ),
    Case(
        "words among numbers, where text is taken", DIRTY, error="these 3 cells are not: row 2: 'sixty'", text=True
    ),
    Case(
        "words among numbers, made gaps",
        DIRTY,
        [[NAN, 1], [NAN, 2], [NAN, 2], [20, 1]],
        "3 cells are not.*with coerce they are gaps",
        reading={"coerce": True},
        text=True,
    ),
    Case(
        "words among numbers, said to be missing",
        DIRTY,
        [[NAN, 1], [NAN, 2], [NAN, 2], [20, 1]],
        reading={"missing": ["sixty", "Unknown", "72?"]},
    ),
    Case(
        "many texts alike",
        "u,v,y\n" + rows_of("1") + "unknown,1,a\n" * 20,
        error=r"column 'u' is 60% numbers; these 20 cells are not: row 32: 'unknown' \(20 cells, this is the first\)",
        text=True,
    ),
    Case(
        "codes, some of them texts",
        "u,v,y\n" + "1,2,a\n2,2,b\nx,3,a\n" * 10,
        [[0, 2], [1, 2], [2, 3]],
        "'u' is taken for text, though 67% of its cells are numbers; if .*categorical",
        text=True,
        words={"u": ("1", "2", "x")},
    ),
    Case(
        "codes that are said to be categories",
        "u,v,y\n3,2,a\n1,2,b\n",
        [[1, 2], [0, 2]],
        text=True,
        reading={"categorical": ["u"]},
        words={"u": ("1", "3")},
    ),
    Case(
        "categories that are not there",
        "u,v,y\n3,2,a\n1,2,b\n",
        error="categorical names 'w', which is none of the features 'u', 'v'",
        text=True,
        reading={"categorical": ["w"]},
    ),
    Case(
        "limits",
        "u,v,y\n<5,1,a\n7,2,b\n",
        error=r"column 'u' is 50% numbers; this cell is not: row 2: '<5'; a limit is no number: limits = ",
        text=True,
    ),
    Case(
        "limits as they are",
        "u,v,y\n<5,1,a\n>90,2,b\n8,2,b\n",
        [[5, 1], [90, 2], [8, 2]],
        '2 limits, which are read as limits = "limit" says',
        reading={"limits": "limit"},
    ),
    Case(
        "limits halved",
        "u,v,y\n< 5,1,a\n≥90,2,b\n8,2,b\n",
        [[2.5, 1], [90, 2], [8, 2]],
        "limits",
        reading={"limits": "half"},
    ),
    Case(
        "limits as gaps",
        "u,v,y\n<=5,1,a\n8,2,b\n",
        [[NAN, 1], [8, 2]],
        "1 limit, which",
        reading={"limits": "gap"},
    ),
    Case(
        "limits with commas",
        "u;v;y\n<0,5;1;a\n8,5;2;b\n",
        [[0.5, 1], [8.5, 2]],
        "limit",
        reading={"limits": "limit"},
    ),
    Case(
        "units in the cells",
        "u,v,y\n72 kg,1,a\n80kg,2,b\n",
        error="column 'u' is 0% numbers; these 2 cells are not: row 2: '72 kg', row 3: '80kg'; mend",
        text=True,
    ),
    Case(
        "dates",
        "u,v,y\n2024-03-01,1,a\n2024-04-01,2,b\n",
        error="column 'u' holds dates, row 2: '2024-03-01', 2 of 2 cells; a date is no number",
        text=True,
    ),
    Case("German dates", "u;v;y\n01.03.2024;1;a\n31.12.1999;2;b\n", error="column 'u' holds dates", text=True),
    Case(
        "American dates with a time",
        "u,v,y\n3/1/2024 12:30,1,a\n12/31/99 01:00:00,2,b\n",
        error="column 'u' holds dates",
        text=True,
    ),
    Case(
        "a sentinel that is named",
        "u,v,y\n-9999,1,a\n7,-9999.0,b\n",
        [[NAN, 1], [7, NAN]],
        reading={"missing": [-9999]},
    ),
    Case(
        "a sentinel with a comma that is named",
        "u;v;y\n-9,9;1;a\n7,5;2;b\n",
        [[NAN, 1], [7.5, 2]],
        "decimal commas",
        reading={"missing": ["-9,9"]},
    ),
    Case(
        "categories with a sign for nothing",
        "u,v,y\nk.A.,1,a\nicu,2,b\n",
        [[NAN, 1], [0, 2]],
        reading={"missing": ["k.A."]},
        text=True,
        words={"u": ("icu",)},
    ),
    Case("true and false", "u,v,y\ntrue,1,a\nfalse,2,b\n", error="hold text, wanted numbers: 'u'"),
    Case("a column without a single cell", "u,v,y\n,1,a\n,2,b\n", [[NAN, 1], [NAN, 2]]),
]
FILES = [
    Case(
        "a line that names the separator", "sep=;\nu;v;y\n1,5;1;a\n2;2;b\n", [[1.5, 1], [2, 2]], "decimal commas"
    ),
    Case("such a line, with a sign before it", "\ufeffsep=,\r\nu,v,y\r\n1.5,1,a\r\n2,2,b\r\n", [[1.5, 1], [2, 2]]),
    Case("rows after such a line", "sep=;\nu;v;y\n1;1;a\nx;2;b\n", error="column 'u', row 4: 'x'"),
    Case(
        "commas in a header of semicolons",
        'u;"v, or, w";y\n1,5;1;a\n2;2;b\n',
        [[1.5, 1], [2, 2]],
        "decimal commas",
    ),
    Case("tabs in a .csv", "u\tv\ty\n1\t2\ta\n3\t4\tb\n", [[1, 2], [3, 4]]),
    Case("bars in a .csv", "u|v|y\n1|2|a\n3|4|b\n", [[1, 2], [3, 4]]),
    Case("commas in a .tsv", "u,v,y\n1,2,a\n3,4,b\n", [[1, 2], [3, 4]], ending="tsv"),
    Case("a separator that is told", "u:v:y\n1:2:a\n3:4:b\n", [[1, 2], [3, 4]], reading={"separator": ":"}),
    Case("tabs that are told", "u\tv\ty\n1\t2\ta\n", [[1, 2]], reading={"separator": "tab"}),
    Case(
        "a separator of two signs",
        "u,v,y\n1,2,a\n",
        error="separator = '::' given; wanted one sign",
        reading={"separator": "::"},
    ),
    Case(
        "one sign for two things",
        "u,v,y\n1,2,a\n",
        error="one sign cannot be both",
        reading={"separator": ",", "decimal": ","},
    ),
    Case(
        "decimal commas between commas",
        "u,v,y\n1,5,2,a\n",
        error=r"row 2: 4 cells, but the header has 3; are there decimal commas\?",
    ),
    Case(
        "latin-1",
        "größe;v;y\n1;2;a\n".encode("latin-1"),
        [[1, 2]],
        r"not UTF-8, and is read as Windows-1252 \(latin-1\): 'größe'; if",
    ),
    Case("Windows-1252", "u;v;y\n1;2;“a”\n".encode("cp1252"), [[1, 2]], "'“a”'"),
    Case("UTF-16", "größe;v;y\n1;2;a\n".encode("utf-16"), [[1, 2]], "UTF-16"),
    Case("UTF-16 without a mark", "u;v;y\n1;2;a\n".encode("utf-16-le"), [[1, 2]], "UTF-16"),
    Case(
        "an encoding that is told",
        "größe;v;y\n1;2;a\n".encode("mac-roman"),
        [[1, 2]],
        reading={"encoding": "mac-roman"},
    ),
    Case(
        "an encoding that is told wrongly",
        "größe;v;y\n1;2;a\n".encode("latin-1"),
        error="is not utf-8 text",
        reading={"encoding": "utf-8"},
    ),
    Case(
        "an encoding that nobody knows",
        "u,v,y\n1,2,a\n",
        error="wanted one that Python knows",
        reading={"encoding": "klingon"},
    ),
    Case("no text at all", b"\xff\xd8\xff\xe0\0\0\0\x01" * 40, error="is no text"),
    Case("old line ends", "u,v,y\r1,2,a\r3,4,b\r", [[1, 2], [3, 4]]),
    Case("empty lines", "\n\nu,v,y\n\n1,2,a\n\n", [[1, 2]]),
    Case("an empty file", "", error="is empty"),
    Case("a header alone", "u,v,y\n", error="has no rows, only a header"),
    Case(
        "a row too short",
        "u,v,y\n1,2,a\n3\n",
        error="row 3: 1 cells, but the header has 3; cells are divided by ','",
    ),
    Case("a name twice", "u,u,y\n1,2,a\n", error="names 'u' more than once"),
    Case("no label column", "u,v,z\n1,2,a\n", error="no column 'y' for the labels"),
    Case(
        "a key that there is not",
        "u,v,y\n1,2,a\n",
        error="unknown key 'decimals'; .*Did you mean 'decimal'",
        reading={"decimals": ","},
    ),
    Case("a key of the wrong kind", "u,v,y\n1,2,a\n", error="does not fit", reading={"coerce": "yes"}),
]


PATIENTS = "Alter,w,born,seen,y\n39,100,1990-01-01,2000-01-01,LEBT\n41,200,1980-06-01,2000-06-01,tot\n"
COLUMNS = [
    Case(
        "other names for columns",
        "Alter,v,y\n1,2,a\n",
        [[1, 2]],
        reading={"rename": {"Alter": "age"}},
        names=("age", "v"),
    ),
    Case("another name for the label", "u,v,Diagnose\n1,2,a\n", [[1, 2]], reading={"rename": {"Diagnose": "y"}}),
    Case(
        "a name that the file has already",
        "age,v,y\n1,2,a\n",
        [[1, 2]],
        reading={"rename": {"Alter": "age"}},
        names=("age", "v"),
    ),
    Case(
        "a name that the file has not",
        "Alter,v,y\n1,2,a\n",
        error="rename names 'Altr', which is not there; .*Did you mean 'Alter'",
        reading={"rename": {"Altr": "age"}},
    ),
    Case(
        "a name twice after renaming",
        "u,v,y\n1,2,a\n",
        error="given more than once: 'v'",
        reading={"rename": {"u": "v"}},
    ),
    Case(
        "two names exchanged",
        "u,v,y\n1,2,a\n",
        [[1, 2]],
        reading={"rename": {"u": "v", "v": "u"}},
        names=("v", "u"),
    ),
    Case(
        "other names for labels",
        "u,v,y\n1,2,LEBT\n3,4,tot\n",
        [[1, 2], [3, 4]],
        reading={"rename_labels": {"LEBT": "lebt"}},
        labels=["lebt", "tot"],
    ),
    Case(
        "other words in a column of words",
        "u,w,y\n1,M,a\n2,f,a\n3,,b\n4,m,b\n",
        [[1, 1], [2, 0], [3, np.nan], [4, 1]],
        reading={"rename_words": {"w": {"M": "m", "W": "f"}}},
        text=True,
        words={"w": ("f", "m")},
    ),
    Case(
        "other words in a column of numbers",
        "u,w,y\n1,2,a\n",
        error=r"rename_words names 'w', a column of numbers; .* categorical = \[\"w\"\]",
        reading={"rename_words": {"w": {"2": "f"}}},
        text=True,
    ),
    Case(
        "other words in a column that is not there",
        "u,w,y\n1,x,a\n",
        error="rename_words names 'ww', which is none of the features 'u', 'w'.* Did you mean 'w'",
        reading={"rename_words": {"ww": {"x": "f"}}},
        text=True,
    ),
    Case("a column left out", "u,w,y\n1,Bern,a\n", [[1]], reading={"drop": ["w"]}, names=("u",)),
    Case(
        "a column left out that is not there",
        "u,v,y\n1,2,a\n",
        [[1, 2]],
        r"drop names 'vv', which is no column\. Did you mean 'v'",
        reading={"drop": ["vv"]},
    ),
    Case(
        "a renamed column left out",
        "u,w,y\n1,Bern,a\n",
        [[1]],
        reading={"rename": {"w": "town"}, "drop": ["town"]},
        names=("u",),
    ),
    Case("the label left out", "u,v,y\n1,2,a\n", error="'y' is the label column", reading={"drop": ["y"]}),
    Case("a factor", "u,v,y\n1,2,a\n", [[12, 2]], reading={"units": {"u": 12}}),
    Case("a factor and a shift", "u,v,y\n1,2,a\n", [[7, 2]], reading={"units": {"u": [2.0, 5.0]}}),
    Case("units by name", "u,v,y\n100,2,a\n", [[45.359237, 2]], reading={"units": {"u": "lb to kg"}}),
    Case("Fahrenheit", "u,v,y\n98.6,2,a\n", [[37.0, 2]], reading={"units": {"u": "F to C"}}),
    Case(
        "units of two kinds",
        "u,v,y\n100,2,a\n",
        error="wanted two units of one kind",
        reading={"units": {"u": "lb to cm"}},
    ),
    Case(
        "units of a column that is not there",
        "u,v,y\n100,2,a\n",
        error="units names 'w', which is none of the features",
        reading={"units": {"w": 2}},
    ),
    Case(
        "units of text",
        "u,v,y\n100,Bern,a\n",
        error="units names 'v', which is a column of text",
        reading={"units": {"v": 2}},
        text=True,
    ),
    Case(
        "an age from two dates",
        PATIENTS,
        [[39, 100, 3652 / 365.2425], [41, 200, 7305 / 365.2425]],
        reading={"durations": {"age": "years from born to seen"}},
    ),
    Case(
        "days since a day",
        PATIENTS,
        [[39, 100, 0], [41, 200, 152]],
        reading={"durations": {"day": "days from 2000-01-01 to seen"}, "drop": ["born"]},
    ),
    Case(
        "German dates as days",
        "u;d;y\n1;31.12.2000;a\n2;;b\n",
        [[1, 365], [2, NAN]],
        reading={"durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "dates with the month first",
        "u,d,y\n1,1/2/2000,a\n2,1/31/2000,b\n",
        [[1, 1], [2, 30]],
        reading={"durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "dates that can be read in two ways",
        "u,d,y\n1,1/2/2000,a\n2,3/4/2000,b\n",
        error='say dates = "dmy" or "mdy"',
        reading={"durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "dates in an order that is told",
        "u,d,y\n1,1/2/2000,a\n",
        [[1, 31]],
        reading={"dates": "dmy", "durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "years of two digits",
        "u,d,y\n1,1/2/45,a\n",
        error="no dates with a year of four digits",
        reading={"durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "a word among dates",
        "u,d,y\n1,2000-01-02,a\n2,soon,b\n",
        error="column 'd', row 3: 'soon', 1 of 2 cells are no dates",
        reading={"durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "a word among dates, made a gap",
        "u,d,y\n1,2000-01-02,a\n2,soon,b\n",
        [[1, 1], [2, NAN]],
        reading={"coerce": True, "durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "a day that there is not",
        "u,d,y\n1,2000-02-30,a\n",
        error="row 2: '2000-02-30' is no day",
        reading={"durations": {"t": "days from 2000-01-01 to d"}},
    ),
    Case(
        "a duration that nobody understands",
        PATIENTS,
        error='wanted "years from birth to visit"',
        reading={"durations": {"age": "seen - born"}},
    ),
    Case(
        "a duration of a column that is not there",
        PATIENTS,
        error="no column 'birth'",
        reading={"durations": {"age": "years from birth to seen"}},
    ),
    Case(
        "a duration with the name of a column",
        PATIENTS,
        error="durations makes 'w', which is a column already",
        reading={"durations": {"w": "years from born to seen"}},
    ),
]


@pytest.mark.parametrize("case", [*NUMBERS, *CELLS, *FILES, *COLUMNS], ids=lambda case: case.what)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_file(tmp_path, monkeypatch, case, large):
    if large:  # by Arrow, as far as it can
        pytest.importorskip("pyarrow", reason="needs the bio extra")
        monkeypatch.setattr(csv, "SMALL", -1)
    file = tmp_path / f"a.{case.ending}"
    file.write_bytes(case.raw if isinstance(case.raw, bytes) else case.raw.encode())
    if case.error:
        with pytest.raises(InputError, match=case.error):
            read_site(file, label="y", text=case.text, reading=case.reading)
        return
    site = read_site(file, label="y", text=case.text, reading=case.reading)
    np.testing.assert_allclose(site.X[: len(case.X)], case.X, rtol=1e-12)
    assert not case.names or site.columns == case.names
    assert not case.labels or site.y.tolist() == case.labels
    assert site.categories == case.words
    said = [f"{one.what}; {one.remedy}" for one in site.remarks]
    assert said if case.says else not said
    if case.says:
        assert any(re.search(case.says, line) for line in said), said
