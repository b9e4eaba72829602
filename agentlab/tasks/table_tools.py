"""The tools of the table task: check a table of sea temperatures, average it, report, check the report.

The table is ``elnino_sst_1950_2010.csv``: one row for each year, one column for each month, degrees Celsius.
As in the sales task everything works on files in the current working directory, the same input gives the
same bytes, a target appears whole or not at all, and only the standard library is imported. The validators
at the end take no argument; an empty list means satisfied, else it holds the reasons.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

TABLE, AVERAGES, REPORT, SPAN = "elnino_sst_1950_2010.csv", "by_decade.csv", "sst_report.md", "decade"
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
AVERAGE_COLUMNS = ["period", "months", "mean", "lowest", "highest"]
# The sea there has never been outside this; a value that is has lost its decimal point or is a code for a gap.
COLDEST, WARMEST = Decimal(10), Decimal(40)
_MEAN = r"[0-9]+\.[0-9]{3}"


def _text(name: str) -> str:
    if not Path(name).is_file():
        raise FileNotFoundError(f"there is no file {name!r} in the working directory")
    try:
        return Path(name).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name!r} is not UTF-8: {error}") from error


def _lines(name: str, columns: list[str]) -> list[list[str]]:
    """The lines of a CSV file below its header, without blank ones."""
    try:
        lines = list(csv.reader(io.StringIO(_text(name), newline="")))
    except csv.Error as error:
        raise ValueError(f"{name!r} can not be read as CSV: {error}") from error
    if not lines or [cell.strip() for cell in lines[0]] != columns:
        raise ValueError(f"{name!r} does not begin with the columns {', '.join(columns)}")
    return [line for line in lines[1:] if line]


def _write(target: str, source: str, text: str) -> None:
    """Write the file under another name first: a reader sees the old file or the whole new one."""
    if Path(target).resolve() == Path(source).resolve():
        raise ValueError(f"target and source are the same file {target!r}: a second run would find changed input")
    beside = Path(f"{target}.part")
    beside.write_bytes(text.encode("utf-8"))
    os.replace(beside, target)


def _inspect(source: str) -> tuple[dict[int, list[Decimal]], list[str], int]:
    """The readable temperatures of each year, the reasons against the table, and the number of gaps."""
    years: dict[int, list[Decimal]] = {}
    reasons: list[str] = []
    gaps = 0
    for number, line in enumerate(_lines(source, ["YEAR", *MONTHS]), 1):
        if len(line) != 13 or not re.fullmatch("[0-9]{4}", line[0].strip()):
            reasons.append(f"row {number} is not a year and twelve months")
            continue
        year = int(line[0])
        if year in years:
            reasons.append(f"year {year} stands there twice")
        years[year] = []
        for month, cell in zip(MONTHS, line[1:], strict=True):
            if not cell.strip():
                gaps += 1
            elif not re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,3})?", cell.strip()):
                reasons.append(f"{month} {year}: {cell!r} is not a number with at most three decimals")
            elif not COLDEST < Decimal(cell.strip()) < WARMEST:
                reasons.append(f"{month} {year}: {cell} is no temperature of that sea")
            else:
                years[year].append(Decimal(cell.strip()))
    if years and len(years) != max(years) - min(years) + 1:
        reasons.append(f"{max(years) - min(years) + 1 - len(years)} years are missing in between")
    return years, reasons if years else [*reasons, "there are no rows"], gaps


def load_table(source: str) -> dict[str, object]:
    """Look the table over before anything is made of it: ``ok``, ``reasons``, its years, gaps and number of values."""
    years, reasons, gaps = _inspect(source)
    span = {"first_year": min(years, default=None), "last_year": max(years, default=None), "years": len(years)}
    return {"ok": not reasons, "reasons": reasons, **span, "values": sum(map(len, years.values())), "gaps": gaps}


def aggregate(source: str, target: str, by: str = SPAN) -> dict[str, object]:
    """Write mean, lowest and highest temperature by ``decade`` or ``year`` as CSV.

    ``months`` is the number of values behind a row: the last decade may have begun only. A table with
    faults raises ValueError; gaps are left out.
    """
    if by not in ("decade", "year"):
        raise ValueError(f"by {by!r} is neither 'decade' nor 'year'")
    years, reasons, _ = _inspect(source)
    if reasons:
        raise ValueError(f"{source!r} has faults: {'; '.join(reasons[:5])}")
    groups: dict[str, list[Decimal]] = {}
    for year, values in sorted(years.items()):
        groups.setdefault(f"{year // 10 * 10}s" if by == "decade" else str(year), []).extend(values)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(AVERAGE_COLUMNS)
    for period, values in groups.items():
        if values:
            mean = (sum(values, Decimal(0)) / len(values)).quantize(Decimal("0.001"), ROUND_HALF_EVEN)
            writer.writerow([period, len(values), mean, f"{min(values):.3f}", f"{max(values):.3f}"])
    _write(target, source, out.getvalue())
    return {"source": source, "target": target, "by": by, "periods": sum(map(bool, groups.values()))}


def write_report(source: str, target: str) -> dict[str, object]:
    """Write the averages as a short markdown report: a table, then the coldest and the warmest period."""
    lines = _lines(source, AVERAGE_COLUMNS)
    if not lines:
        raise ValueError(f"{source!r} has no rows to report")
    for line in lines:
        if len(line) != 5 or not re.fullmatch(_MEAN, line[2]):
            raise ValueError(f"{source!r}: the line of {line[0]} is not a period, a count and three temperatures")
    ranked = sorted(lines, key=lambda line: (Decimal(line[2]), line[0]))
    coldest, warmest = ranked[0], ranked[-1]
    table = [AVERAGE_COLUMNS, ["---", "---:", "---:", "---:", "---:"], *lines]
    text = "# Sea surface temperature, Niño 1+2, °C\n\n"
    text += "".join(f"| {' | '.join(line)} |\n" for line in table)
    text += f"\nColdest: {coldest[0]} ({coldest[2]})\nWarmest: {warmest[0]} ({warmest[2]})\n"
    _write(target, source, text)
    return {"source": source, "target": target, "coldest": coldest[0], "warmest": warmest[0]}


def _against(source: str, lines: list[list[str]], what: str) -> list[str]:
    """Reasons why the lines are not the averages of the table; counts in thousandths, unlike aggregate."""
    years, reasons, _ = _inspect(source)
    decades = any(line[0].endswith("s") for line in lines)
    want: dict[str, list[int]] = {}
    for year, values in years.items():
        period = f"{str(year)[:3]}0s" if decades else str(year)
        want.setdefault(period, []).extend(int(value * 1000) for value in values)
    if [line[0] for line in lines] != sorted(period for period in want if want[period]):
        reasons.append(f"{what}: the periods are not those of {source}, each once and in order")
    for line in lines:
        values_of = want.get(line[0])
        if not values_of:
            continue
        if len(line) != 5 or not all(map(re.fullmatch, ["[0-9]+", *3 * [_MEAN]], line[1:])):
            reasons.append(f"{what}: the line of {line[0]} is not a count and three temperatures")
            continue
        count, mean, lowest, highest = (int(cell.replace(".", "")) for cell in line[1:])
        if (count, lowest, highest) != (len(values_of), min(values_of), max(values_of)):
            reasons.append(f"{what}: months, lowest or highest of {line[0]} is wrong")
        if abs(2 * (mean * count - sum(values_of))) > count:  # more than half a thousandth off
            reasons.append(f"{what}: the mean of {line[0]} is {line[2]}, not the mean of {source}")
    return reasons


def _report_lines(report: str) -> tuple[list[list[str]], dict[str, str]]:
    """The lines of the report's table, and what it calls coldest and warmest."""
    text = _text(report)
    table = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    if not table or table[0] != AVERAGE_COLUMNS:
        raise ValueError(f"{report!r} has no table with the columns {', '.join(AVERAGE_COLUMNS)}")
    return table[2:], dict(re.findall(r"^(Coldest|Warmest): (\S+) ", text, re.MULTILINE))


def _check(report: str, source: str) -> list[str]:
    lines, named = _report_lines(report)
    reasons = _against(source, lines, report)
    if not reasons:
        means = {line[0]: Decimal(line[2]) for line in lines}
        for word, mean in (("Coldest", min(means.values())), ("Warmest", max(means.values()))):
            if means.get(named.get(word, "")) != mean:
                reasons.append(f"{report}: {word.lower()} is {named.get(word, 'not named')}, against the table")
    return reasons


def check_report(report: str, source: str) -> dict[str, object]:
    """Compute the report's numbers again from the table and compare: ``ok`` and ``reasons``."""
    reasons = _check(report, source)
    return {"ok": not reasons, "reasons": reasons}


def _reasons(check: Callable[[], list[str]]) -> list[str]:
    """What the check finds; a file that is missing or can not be read is a reason too."""
    try:
        return check()
    except (OSError, ValueError) as error:
        return [str(error)]


def table_ok() -> list[str]:
    """The table is there and has no faults."""
    return _reasons(lambda: _inspect(TABLE)[1])


def averages_ok() -> list[str]:
    """``by_decade.csv`` holds the averages of the table by decade."""

    def check() -> list[str]:
        lines = _lines(AVERAGES, AVERAGE_COLUMNS)
        years = [line[0] for line in lines if not line[0].endswith("s")]
        return [f"{AVERAGES}: {years[0]} is no decade"] if years else _against(TABLE, lines, AVERAGES)

    return _reasons(check)


def report_ok() -> list[str]:
    """The whole task: ``sst_report.md`` is there and says of the table what is true, by decade."""

    def check() -> list[str]:
        years = [line[0] for line in _report_lines(REPORT)[0] if not line[0].endswith("s")]
        return [f"{REPORT}: {years[0]} is no decade"] if years else _check(REPORT, TABLE)

    return _reasons(check)
