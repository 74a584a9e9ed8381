"""Writes small workbooks without a library, so that what reads them is tested against the format itself."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
STYLES = (
    f'<styleSheet xmlns="{MAIN}"><fonts><font/></fonts><fills><fill/></fills><borders><border/></borders>'
    '<cellStyleXfs><xf/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs>'
    "</styleSheet>"
)


def write_workbook(file: Path, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    """Write sheets of texts, numbers, truths and dates; None is an empty cell."""
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{at}.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for at in range(1, len(sheets) + 1)
    )
    named = "".join(
        f'<sheet name="{escape(name)}" sheetId="{at}" r:id="r{at}"/>' for at, name in enumerate(sheets, start=1)
    )
    links = "".join(
        f'<Relationship Id="r{at}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{at}.xml"/>'
        for at in range(1, len(sheets) + 1)
    )
    with zipfile.ZipFile(file, "w") as book:
        book.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Override PartName="/xl/workbook.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
            f"{kinds}</Types>",
        )
        book.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{OFFICE}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        book.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{named}</sheets></workbook>'
        )
        book.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{PACKAGE}/relationships">{links}'
            f'<Relationship Id="s" Type="{OFFICE}/styles" Target="styles.xml"/></Relationships>',
        )
        book.writestr("xl/styles.xml", STYLES)
        for at, rows in enumerate(sheets.values(), start=1):
            lines = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
            book.writestr(
                f"xl/worksheets/sheet{at}.xml",
                f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData></worksheet>',
            )
    return file


def _cell(value: Any) -> str:
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, datetime.date):
        return f'<c s="1"><v>{(value - datetime.date(1899, 12, 30)).days}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f"<c><v>{value}</v></c>"
