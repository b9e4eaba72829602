"""The tools of the sales task: export a month, clean it, summarise it by region, check the summary.

They work on files in the current working directory and return small dicts that JSON can carry. The same
input gives the same bytes, and a target appears whole or not at all, so a step that a crash cut short can
simply run again. Only the standard library is imported (and nothing slow of it): a bare process starts fast.

The four validators at the end take no argument; an empty list means satisfied, else it holds the reasons.
"""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

RAW, EXPORTED, CLEANED, REPORT, MONTH = "sales_2023.csv", "may_2023.csv", "cleaned.csv", "report.csv", "2023-05"
COLUMNS = [
    "order_id", "order_date", "region", "customer", "product", "quantity",
    "unit_price", "amount", "currency", "status", "note",
]  # fmt: skip
REPORT_COLUMNS = ["month", "region", "orders", "refunds", "units", "net_revenue"]
REGIONS = {
    "north": "north", "n": "north", "nord": "north",
    "south": "south", "s": "south", "süd": "south", "sud": "south",
    "east": "east", "e": "east", "ost": "east", "est": "east",
    "west": "west", "w": "west", "ouest": "west",
    "central": "central", "centre": "central", "mitte": "central",
}  # fmt: skip
_NO_REGION = {"", "-", "n/a", "na", "null", "none", "unknown"}
_MONTHS = [
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
]  # fmt: skip
_MONTH_NUMBERS = {name[:n]: i for i, name in enumerate(_MONTHS, 1) for n in range(3, len(name) + 1)}
_ISO = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9.]+)?(?:Z|[+-][0-9:]+)?)?")
_SLASHES = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")  # the day first
_WORDS = re.compile(r"([0-9]{1,2}) ([A-Za-z]{3,9})\.? ([0-9]{4})")
# A last group of one or two digits is cents, groups of three are thousands: no price here has three decimals.
_NUMBER = re.compile(r"([0-9]+|[1-9][0-9]{0,2}(?:([.,'])[0-9]{3})(?:\2[0-9]{3})*)(?:([.,])([0-9]{1,2}))?")
_CLEAN_FORMS = {
    "order_date": "[0-9]{4}-[0-9]{2}-[0-9]{2}", "quantity": "-?[0-9]+", "amount": r"-?[0-9]+\.[0-9]{2}",
}  # fmt: skip
Row = dict[str, str]


def parse_day(text: str) -> date | None:
    """The day that the text names in one of the four forms (a time after it is passed over), or None."""
    text = " ".join(text.split())
    try:
        if found := _ISO.fullmatch(text):
            return date(int(found[1]), int(found[2]), int(found[3]))
        if found := _SLASHES.fullmatch(text):
            return date(int(found[3]), int(found[2]), int(found[1]))
        if found := _WORDS.fullmatch(text):
            return date(int(found[3]), _MONTH_NUMBERS[found[2].lower()], int(found[1]))
    except (ValueError, KeyError):  # 31 February, month 13, a month name that is none
        pass
    return None


def parse_number(text: str) -> Decimal | None:
    """The number in ``1,234.50``, ``1.234,50``, ``1 234,50``, ``€12.50``, ``(45.00)``, ``45.00-``, or None."""
    bare = "".join(text.split()).replace("\u2212", "-").upper().replace("EUR", "").replace("€", "")
    negative = False
    for before, after in (("(", ")"), ("-", ""), ("", "-")):
        if len(bare) > 1 and bare.startswith(before) and bare.endswith(after):
            bare, negative = bare[len(before) : len(bare) - len(after)], True
            break
    found = _NUMBER.fullmatch(bare)
    if not found or (found[2] and found[2] == found[3]):  # one mark can not be both, as in 1.234.56
        return None
    value = Decimal(re.sub("[.,']", "", found[1]) + "." + (found[4] or "0"))
    return -value if negative else value


def _read(name: str, needed: Sequence[str]) -> list[list[str]]:
    """All lines of a CSV file, the header first; blank lines are empty lists."""
    path = Path(name)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {name!r} in the working directory")
    try:
        lines = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{name!r} can not be read as CSV in UTF-8: {error}") from error
    header = [column.strip() for column in lines[0]] if lines else []
    missing = [column for column in needed if column not in header]
    if missing:
        raise ValueError(f"{name!r} has no column {', '.join(missing)}; its first line is {header}")
    return [header, *([] if not any(cell.strip() for cell in line) else line for line in lines[1:])]


def _write(target: str, source: str, text: str) -> None:
    """Write the file under another name first: a reader sees the old file or the whole new one."""
    if Path(target).resolve() == Path(source).resolve():
        raise ValueError(f"target and source are the same file {target!r}: a second run would find changed input")
    beside = Path(f"{target}.part")
    beside.write_bytes(text.encode("utf-8"))
    os.replace(beside, target)


def _csv_text(lines: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _check_month(month: str) -> str:
    if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month):
        raise ValueError(f"month {month!r} is not of the form 2023-05")
    return month


def _export(source: str, month: str) -> tuple[list[list[str]], dict[str, int]]:
    """The header and the untouched lines of that month, and what became of the others."""
    header, *lines = _read(source, COLUMNS)
    place, kept = header.index("order_date"), [header]
    counts = {"read": 0, "kept": 0, "other_months": 0, "unreadable": 0, "blank": 0}
    for line in lines:
        counts["read" if line else "blank"] += 1
        if not line:
            continue
        day = parse_day(line[place]) if len(line) == len(header) else None
        if day is None:
            counts["unreadable"] += 1
        elif day.isoformat()[:7] == month:
            kept.append(line)
        else:
            counts["other_months"] += 1
    counts["kept"] = len(kept) - 1
    return kept, counts


def export_month(source: str, month: str, target: str) -> dict[str, object]:
    """Copy the rows of one month (``2023-05``) from the raw export to the target, cells as they are.

    ``read`` = ``kept`` + ``other_months`` + ``unreadable``; blank lines are counted apart. A row whose date
    can not be read belongs to no month. A time of day with Z counts for the day that is written there.
    """
    kept, counts = _export(source, _check_month(month))
    _write(target, source, _csv_text(kept))
    return {"source": source, "target": target, "month": month, **counts}


def _clean_region(text: str, counts: dict[str, int]) -> str:
    folded = unicodedata.normalize("NFC", text).strip().casefold()
    region = REGIONS.get(folded, "unknown")
    if region == "unknown":
        counts["regions_missing" if folded in _NO_REGION else "regions_unrecognised"] += 1
    elif region != text:
        counts["regions_respelled"] += 1
    return region


def _clean_row(raw: Row, counts: dict[str, int]) -> Row | None:
    """The row with every cell in its one form, or None when it can not be read."""
    day, quantity, price = parse_day(raw["order_date"]), parse_number(raw["quantity"]), parse_number(raw["unit_price"])
    order = raw["order_id"].strip().upper()
    if not order or day is None or quantity is None or price is None or quantity != int(quantity):
        return None
    amount = parse_number(raw["amount"])
    if (amount is None and raw["amount"].strip()) or raw["currency"].strip().upper() not in ("", "€", "EUR"):
        return None  # sums of other currencies can not be added up
    if amount is None:
        amount = quantity * price
        counts["amounts_computed"] += 1
    refund = quantity < 0 or amount < 0 or raw["status"].strip().lower() in ("refund", "refunded")
    if refund and (quantity > 0 or amount > 0):
        counts["refunds_signed"] += 1
    if refund:
        quantity, amount = -abs(quantity), -abs(amount)
    row = {column: " ".join(unicodedata.normalize("NFC", raw[column]).split()) for column in COLUMNS}
    row.update(order_id=order, order_date=day.isoformat(), region=_clean_region(raw["region"], counts), currency="EUR")
    row.update(quantity=str(int(quantity)), unit_price=f"{price:.2f}", amount=f"{amount:.2f}")
    row["status"] = "refund" if refund else row["status"].lower()
    counts["dates_rewritten"] += row["order_date"] != raw["order_date"]
    counts["numbers_rewritten"] += any(raw[c] not in ("", row[c], row[c].lstrip("-")) for c in ("unit_price", "amount"))
    return row


def _clean(header: list[str], lines: list[list[str]]) -> tuple[list[Row], dict[str, int]]:
    """Clean rows ordered by day and order, and the count of every repair."""
    counts = dict.fromkeys(
        ("read", "kept", "duplicates", "superseded", "unreadable", "regions_missing", "regions_unrecognised",
         "regions_respelled", "dates_rewritten", "numbers_rewritten", "amounts_computed", "refunds_signed"), 0,
    )  # fmt: skip
    rows: dict[str, Row] = {}
    for line in filter(None, lines):
        counts["read"] += 1
        row = _clean_row(dict(zip(header, line, strict=True)), counts) if len(line) == len(header) else None
        if row is None:  # an unreadable row takes no earlier row's place
            counts["unreadable"] += 1
            continue
        if row["order_id"] in rows:
            counts["duplicates" if rows[row["order_id"]] == row else "superseded"] += 1
        rows[row["order_id"]] = row
    counts["kept"] = len(rows)
    return sorted(rows.values(), key=lambda row: (row["order_date"], row["order_id"])), counts


def clean_rows(source: str, target: str) -> dict[str, object]:
    """Write the rows of the source cleaned: one row for each order, one form for each cell.

    Of several rows with the same order_id the last readable one wins (``duplicates``: equal after cleaning,
    ``superseded``: different). Regions become north, south, east, west, central or unknown; a refund (minus
    or status) has quantity and amount below zero; an empty amount is quantity times unit price. ``read`` = ``kept`` +
    ``duplicates`` + ``superseded`` + ``unreadable``; the repairs count rows read, also those that lost.
    """
    header, *lines = _read(source, COLUMNS)
    rows, counts = _clean(header, lines)
    _write(target, source, _csv_text([COLUMNS, *([row[column] for column in COLUMNS] for row in rows)]))
    return {"source": source, "target": target, **counts}


def _rows(name: str) -> list[Row]:
    """The rows of a cleaned file; raises ValueError for a row that clean_rows would not have written."""
    header, *lines = _read(name, COLUMNS)
    rows = []
    for number, line in enumerate(filter(None, lines), 1):
        if len(line) != len(header):
            raise ValueError(f"{name!r}, row {number}: {len(line)} cells under {len(header)} columns")
        row = dict(zip(header, line, strict=True))
        for column, form in _CLEAN_FORMS.items():
            if not re.fullmatch(form, row[column]) or (column == "order_date" and not parse_day(row[column])):
                raise ValueError(f"{name!r}, row {number}: {column} {row[column]!r} is not in its clean form")
        rows.append(row)
    return rows


def summarise(source: str, target: str) -> dict[str, object]:
    """Write orders, refunds, units and net revenue per month and region, sorted, as CSV.

    ``orders`` counts sales, ``refunds`` counts refunds; ``units`` and ``net_revenue`` are sums with refunds
    taken off. Every row names its month, so that a month which does not belong there can be seen.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in _rows(source):
        groups.setdefault((row["order_date"][:7], row["region"]), []).append(row)
    lines, total = [REPORT_COLUMNS], Decimal("0.00")
    for (month, region), rows in sorted(groups.items()):
        revenue = sum((Decimal(row["amount"]) for row in rows), Decimal("0.00"))
        refunds = sum(row["status"] == "refund" for row in rows)
        units = sum(int(row["quantity"]) for row in rows)
        lines.append([month, region, str(len(rows) - refunds), str(refunds), str(units), f"{revenue:.2f}"])
        total += revenue
    _write(target, source, _csv_text(lines))
    found = {"months": sorted({month for month, _ in groups}), "regions": len(lines) - 1, "net_revenue": f"{total:.2f}"}
    return {"source": source, "target": target, **found}


def _report_lines(report: str) -> list[Row]:
    header, *lines = _read(report, REPORT_COLUMNS)
    return [{**dict.fromkeys(header, ""), **dict(zip(header, line, strict=False))} for line in lines if line]


def _compare(lines: list[Row], rows: list[Row], month: str) -> list[str]:
    """Reasons why the report's lines are not the summary of the rows; counts in cents, unlike summarise."""
    others = sorted({line["month"] for line in lines} - {month})
    reasons = [f"the report has month {other or '(none)'}, only {month} is allowed" for other in others]
    want: dict[str, list[int]] = {}
    for row in rows:
        sums = want.setdefault(row["region"], [0, 0, 0, 0])
        sums[1 if row["status"] == "refund" else 0] += 1
        sums[2] += int(row["quantity"])
        sums[3] += int(row["amount"].replace(".", ""))
    have = {line["region"]: line for line in lines if line["month"] == month}
    if [line["region"] for line in lines if line["month"] == month] != sorted(have):
        reasons.append("the regions are not sorted, or one stands there twice")
    for region in sorted(want.keys() | have.keys()):
        if region not in have or region not in want:
            where = "missing from the report" if region in want else "in the report, not in the rows"
            reasons.append(f"region {region} is {where}")
            continue
        *whole, cents = want[region]
        sign = "-" if cents < 0 else ""
        expected = [*map(str, whole), f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"]
        for column, value in zip(REPORT_COLUMNS[2:], expected, strict=True):
            if have[region][column] != value:
                reasons.append(f"region {region}: {column} is {have[region][column]!r}, the rows give {value}")
    return reasons


def _check(report: str, cleaned: str, month: str) -> tuple[list[str], list[str]]:
    """The months of the cleaned file, and the reasons against the report."""
    rows, lines = _rows(cleaned), _report_lines(report)
    months = sorted({row["order_date"][:7] for row in rows})
    reasons = [f"{cleaned} has rows of {other}, only {month} is allowed" for other in months if other != month]
    reasons += _compare(lines, [row for row in rows if row["order_date"].startswith(month)], month)
    return months, reasons if rows else [*reasons, f"{cleaned} has no rows"]


def check_summary(report: str, cleaned: str, month: str) -> dict[str, object]:
    """Compute the summary again from the cleaned file and compare: ``ok``, ``reasons``, ``months`` found there."""
    months, reasons = _check(report, cleaned, _check_month(month))
    return {"ok": not reasons, "reasons": reasons, "months": months}


def _reasons(check: Callable[[], list[str]]) -> list[str]:
    """What the check finds; a file that is missing or can not be read is a reason too."""
    try:
        return check()
    except (OSError, ValueError) as error:
        return [str(error)]


def exported_ok() -> list[str]:
    """``may_2023.csv`` holds exactly the rows of May 2023 that are in ``sales_2023.csv``."""

    def check() -> list[str]:
        have, want = _read(EXPORTED, COLUMNS), _export(RAW, MONTH)[0]
        known = set(map(tuple, want))
        strange = sum(tuple(line) not in known for line in have)
        reasons = [f"{EXPORTED} has {strange} rows that are not rows of {MONTH} in {RAW}"] if strange else []
        if not strange and have != want:
            reasons.append(f"{EXPORTED} has {len(have) - 1} rows, {RAW} gives {len(want) - 1} in their order")
        return reasons

    return _reasons(check)


def cleaned_ok() -> list[str]:
    """``cleaned.csv`` holds every readable order of ``may_2023.csv`` once, clean, and of May 2023 only."""

    def check() -> list[str]:
        have, (header, *lines) = _rows(CLEANED), _read(EXPORTED, COLUMNS)
        want = {row["order_id"]: row for row in _clean(header, lines)[0]}
        orders = [row["order_id"] for row in have]
        reasons = []
        for month in sorted({row["order_date"][:7] for row in have} - {MONTH}):
            reasons.append(f"{CLEANED} has rows of {month}, only {MONTH} is allowed")
        if len(orders) != len(set(orders)):
            reasons.append(f"{CLEANED} has {len(orders) - len(set(orders))} orders twice")
        if set(orders) != set(want):
            lost, strange = len(set(want) - set(orders)), len(set(orders) - set(want))
            reasons.append(f"{CLEANED}: {lost} orders missing, {strange} too many")
        for column in ("order_date", "region", "quantity", "amount", "status"):
            wrong = sum(row["order_id"] in want and row[column] != want[row["order_id"]][column] for row in have)
            if wrong:
                reasons.append(f"{CLEANED}: {column} is wrong in {wrong} rows")
        return reasons

    return _reasons(check)


def summary_ok() -> list[str]:
    """``report.csv`` is the summary of ``cleaned.csv`` for May 2023."""
    return _reasons(lambda: _check(REPORT, CLEANED, MONTH)[1])


def report_ok() -> list[str]:
    """The whole task: ``report.csv`` is there, has May 2023 only, and its totals follow from the raw export."""

    def check() -> list[str]:
        lines = _report_lines(REPORT)
        header, *rows = _export(RAW, MONTH)[0]
        return _compare(lines, _clean(header, rows)[0], MONTH) + ([] if lines else [f"{REPORT} has no rows"])

    return _reasons(check)
