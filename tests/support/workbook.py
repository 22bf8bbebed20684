"""A spreadsheet made by hand, for readers of spreadsheets."""

from __future__ import annotations

import zipfile


def workbook(path, rows):
    """The smallest workbook: one sheet with text inline."""
    cells = "".join(
        "<row>" + "".join(
            f"<c><v>{cell}</v></c>" if not isinstance(cell, str) else f'<c t="inlineStr"><is><t>{cell}</t></is></c>'
            for cell in row
        ) + "</row>"
        for row in rows
    )  # fmt: skip
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    relations = "application/vnd.openxmlformats-package.relationships+xml"
    types = (
        f'<Default Extension="xml" ContentType="application/xml"/><Default Extension="rels" ContentType="{relations}"/>'
    )
    sheets = '<sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets>'

    def relation(kind, target):
        one = f'<Relationship Id="r1" Type="{office}/{kind}" Target="{target}"/>'
        return f'<Relationships xmlns="{package}/relationships">{one}</Relationships>'

    with zipfile.ZipFile(path, "w") as book:
        book.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types">{types}</Types>')
        book.writestr("_rels/.rels", relation("officeDocument", "xl/workbook.xml"))
        book.writestr("xl/_rels/workbook.xml.rels", relation("worksheet", "worksheets/sheet1.xml"))
        book.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{office}">{sheets}</workbook>')
        sheet = f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
        book.writestr("xl/worksheets/sheet1.xml", sheet)
