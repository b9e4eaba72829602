"""The sales tools on real files; what they should give is worked out here in another way."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.tasks import sales_tools as sales
from agentlab.tasks.data import dataset_path

HEADER = "order_id,order_date,region,customer,product,quantity,unit_price,amount,currency,status,note"


@pytest.fixture()
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture()
def finished(folder: Path) -> Path:
    """A workspace in which the whole task has been done."""
    shutil.copy(dataset_path(sales.RAW), folder)
    run_task()
    return folder


def run_task() -> None:
    sales.export_month(sales.RAW, sales.MONTH, sales.EXPORTED)
    sales.clean_rows(sales.EXPORTED, sales.CLEANED)
    sales.summarise(sales.CLEANED, sales.REPORT)


def write(path: Path, *rows: str) -> None:
    path.write_text("\n".join([HEADER, *rows]) + "\n", "utf-8")


def row(
    order: str, day: str = "2023-05-03", region: str = "north", quantity: str = "1", price: str = "10.00",
    amount: str = "10.00", currency: str = "EUR", status: str = "paid", note: str = "",
) -> str:  # fmt: skip
    out = io.StringIO()
    cells = (order, day, region, "Zoë", "Lamp", quantity, price, amount, currency, status, note)
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ---- cells


@given(st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)), st.times())
def test_every_form_of_a_day_gives_that_day(day: dt.date, time: dt.time) -> None:
    month = pd.Timestamp(2023, day.month, 1).month_name()
    year = f"{day.year:04d}"
    for text in (
        day.isoformat(), f" {day.day:02d}/{day.month:02d}/{year} ", f"{day.day}/{day.month}/{year}",
        f"{day.day} {month} {year}", f"{day.day:02d}  {month[:3].upper()} {year}",
        f"{day.isoformat()}T{time.strftime('%H:%M:%S')}Z", f"{day.isoformat()} {time.strftime('%H:%M')}",
    ):  # fmt: skip
        assert sales.parse_day(text) == day, text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n/a",
        "31/02/2023",
        "2023-13-05",
        "00/05/2023",
        "yesterday",
        "3 Mars 2023",
        "5/2023",
        "2023-05-03x",
        "\u0663/\u0660\u0665/2023",
    ],
)
def test_what_is_no_day_is_none(text: str) -> None:
    assert sales.parse_day(text) is None


@given(st.integers(-99_999_999, 99_999_999))
def test_every_form_of_a_number_gives_that_number(cents: int) -> None:
    value, plain = Decimal(cents) / 100, f"{abs(cents) // 100}.{abs(cents) % 100:02d}"
    grouped = f"{abs(cents) // 100:,}.{abs(cents) % 100:02d}"
    continental = grouped.replace(",", "_").replace(".", ",").replace("_", ".")
    spaced = continental.replace(".", "\u00a0")
    for text in (plain, grouped, continental, spaced, plain.replace(".", ","), "€" + grouped):
        forms = [f"-{text}", f"({text})", f"{text}-", f"\u2212{text}"] if cents < 0 else [text, f" {text} EUR"]
        for form in forms:
            assert sales.parse_number(form) == value, form


@pytest.mark.parametrize(
    ("text", "value"), [("1,299", "1299"), ("1.299", "1299"), ("1'299.5", "1299.5"), ("1,234,567.8", "1234567.8")]
)
def test_three_last_digits_are_thousands(text: str, value: str) -> None:
    assert sales.parse_number(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", "-", "()", "??", "two", "#REF!", "1.234.56", "1,23,456", "0,123", "1e5", "--5", "NaN", "\u0663"]
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert sales.parse_number(text) is None


@given(st.text())
def test_no_text_breaks_the_parsers(text: str) -> None:
    day, number = sales.parse_day(text), sales.parse_number(text)
    assert day is None or isinstance(day, dt.date)
    assert number is None or number.is_finite()


# ---- export


def test_export_keeps_the_month_as_it_stands(folder: Path) -> None:
    kept = [row("A", "03/05/2023", note="a,\nb"), row("B", "31 May 2023"), row("C", "2023-05-31T23:59:59Z")]
    lost = [row("D", "05/03/2023"), row("E", "2022-05-03"), row("F", "2023-06-01T00:00:00Z")]
    bad = [row("G", "31/02/2023"), "SO-9", row("H") + ",too many"]
    write(folder / "raw.csv", kept[0], lost[0], "", bad[0], kept[1], " ", lost[1], bad[1], kept[2], lost[2], bad[2])
    done = sales.export_month("raw.csv", "2023-05", "out.csv")
    assert (folder / "out.csv").read_text("utf-8") == "\n".join([HEADER, *kept]) + "\n"
    counts = {key: done[key] for key in ("read", "kept", "other_months", "unreadable", "blank")}
    assert counts == {"read": 9, "kept": 3, "other_months": 3, "unreadable": 3, "blank": 2}


def test_exports_of_all_months_are_the_whole_file(folder: Path) -> None:
    shutil.copy(dataset_path(sales.RAW), folder)
    totals: Counter[str] = Counter()
    for month in ("2021-05", "2022-05", "2022-12", "2024-01", "2024-05", *(f"2023-{m:02d}" for m in range(1, 13))):
        done = sales.export_month(sales.RAW, month, "month.csv")
        assert done["read"] == done["kept"] + done["other_months"] + done["unreadable"]  # type: ignore[operator]
        totals.update(kept=done["kept"])  # type: ignore[arg-type]
        last = done
    assert totals["kept"] == last["read"] - last["unreadable"]  # type: ignore[operator]


@pytest.mark.parametrize("month", ["", "2023-5", "2023-13", "May 2023", "2023-05-01"])
def test_a_month_of_another_form_is_refused(folder: Path, month: str) -> None:
    write(folder / "raw.csv", row("A"))
    with pytest.raises(ValueError, match="month"):
        sales.export_month("raw.csv", month, "out.csv")
    assert not (folder / "out.csv").exists()


# ---- clean


def test_the_later_row_of_an_order_wins_unless_it_can_not_be_read(folder: Path) -> None:
    write(
        folder / "raw.csv",
        row("SO-1", quantity="1"), row("SO-2"), row("so-1 ", quantity="3", amount="30.00"), row("SO-2"),
        row("SO-1", quantity="??"), row("", quantity="7"), row("SO-3", currency="USD"), row("SO-4", amount="#REF!"),
    )  # fmt: skip
    done = sales.clean_rows("raw.csv", "out.csv")
    assert [(r["order_id"], r["quantity"]) for r in read(folder / "out.csv")] == [("SO-1", "3"), ("SO-2", "1")]
    assert [done[k] for k in ("read", "kept", "duplicates", "superseded", "unreadable")] == [8, 2, 1, 1, 4]


@pytest.mark.parametrize(
    ("text", "region"),
    [(" north ", "north"), ("NORTH", "north"), ("Nord", "north"), ("Su\u0308d", "south"), ("SÜD", "south"),
     ("Ost", "east"), ("Ouest", "west"), ("Mitte", "central"), ("", "unknown"), ("N/A", "unknown"), ("-", "unknown"),
     ("Nroth", "unknown")],
)  # fmt: skip
def test_a_region_gets_its_one_name(folder: Path, text: str, region: str) -> None:
    write(folder / "raw.csv", row("A", region=text))
    sales.clean_rows("raw.csv", "out.csv")
    assert read(folder / "out.csv")[0]["region"] == region


@pytest.mark.parametrize(
    ("quantity", "amount", "status", "clean"),
    [("-2", "-20.00", "paid", ("-2", "-20.00", "refund")), ("2", "20,00", "REFUND ", ("-2", "-20.00", "refund")),
     ("2", "(20.00)", "paid", ("-2", "-20.00", "refund")), ("-2", "", "refund", ("-2", "-20.00", "refund")),
     ("2", "", "Paid ", ("2", "20.00", "paid")), ("120", "1.200,00", "shipped", ("120", "1200.00", "shipped"))],
)  # fmt: skip
def test_refunds_are_below_zero_and_empty_amounts_computed(
    folder: Path, quantity: str, amount: str, status: str, clean: tuple[str, str, str]
) -> None:
    write(folder / "raw.csv", row("A", quantity=quantity, amount=amount, status=status))
    sales.clean_rows("raw.csv", "out.csv")
    found = read(folder / "out.csv")[0]
    assert (found["quantity"], found["amount"], found["status"]) == clean


def test_cleaning_what_is_clean_changes_nothing(finished: Path) -> None:
    done = sales.clean_rows(sales.CLEANED, "again.csv")
    assert (finished / "again.csv").read_bytes() == (finished / sales.CLEANED).read_bytes()
    counted = {key for key, count in done.items() if isinstance(count, int) and count}
    assert counted == {"read", "kept", "regions_missing"}  # unknown stays unknown


def test_export_and_clean_can_change_places(finished: Path) -> None:
    sales.clean_rows(sales.RAW, "all.csv")
    sales.export_month("all.csv", sales.MONTH, "may.csv")
    assert (finished / "may.csv").read_bytes() == (finished / sales.CLEANED).read_bytes()


# ---- the whole task, worked out with pandas


def totals_by_pandas(raw: Path) -> dict[str, tuple[int, int, int, Decimal]]:
    frame = pd.read_csv(raw, dtype=str, keep_default_na=False).apply(lambda column: column.str.strip())
    day = pd.to_datetime(frame.order_date.str.slice(0, 10), format="%Y-%m-%d", errors="coerce")
    for form in ("%d/%m/%Y", "%d %B %Y"):
        day = day.fillna(pd.to_datetime(frame.order_date, format=form, errors="coerce"))
    frame = frame[(day.dt.year == 2023) & (day.dt.month == 5)]

    def cents(text: str) -> float:
        minus, digits = text.startswith(("-", "(")), text.strip("-()€").replace("\u00a0", "")
        if digits[-3:-2] in (".", ","):
            digits = digits[:-3].replace(",", "").replace(".", "") + digits[-2:]
        else:
            digits = digits.replace(",", "") + "00"
        return (-1 if minus else 1) * (int(digits) if digits.isdigit() else float("nan"))

    frame = frame.assign(price=frame.unit_price.map(cents), sum=frame.amount.map(lambda t: cents(t) if t else None))
    frame["units"] = pd.to_numeric(frame.quantity, errors="coerce")
    frame["sum"] = frame["sum"].fillna(frame.price * frame.units)
    frame = frame[frame.units.notna() & frame.price.notna() & (frame.order_id != "")]
    frame = frame.assign(order_id=frame.order_id.str.upper()).drop_duplicates("order_id", keep="last")
    starts = {"central": "ce mi", "east": "e ea os", "north": "n no", "south": "s so sü", "west": "w we ou"}
    regions = {start: region for region, texts in starts.items() for start in texts.split()}
    folded = frame.region.str.casefold().replace(["nroth", "sotuh", "overseas?"], "")
    frame = frame.assign(region=folded.str.slice(0, 2).map(regions).fillna("unknown"))
    refund = (frame.units < 0) | frame.status.str.casefold().str.startswith("refund")
    totals = {}
    for region, group in frame.assign(refund=refund).groupby("region"):
        sign = group.refund.map({True: -1, False: 1})
        revenue = Decimal(int((group["sum"].abs() * sign).sum())) / 100
        units = int((group.units.abs() * sign).sum())
        totals[str(region)] = (int((~group.refund).sum()), int(group.refund.sum()), units, revenue)
    return totals


def test_the_report_agrees_with_pandas(finished: Path) -> None:
    report = {
        line["region"]: (int(line["orders"]), int(line["refunds"]), int(line["units"]), Decimal(line["net_revenue"]))
        for line in read(finished / sales.REPORT)
    }
    assert report == totals_by_pandas(finished / sales.RAW)
    assert list(report) == sorted(report) == ["central", "east", "north", "south", "unknown", "west"]


def test_the_description_of_the_data_gives_the_true_numbers(finished: Path) -> None:
    whole, may = sales.clean_rows(sales.RAW, "all.csv"), sales.clean_rows(sales.EXPORTED, "may.csv")
    revenue = Decimal(str(sales.summarise("may.csv", "x.csv")["net_revenue"]))
    described = " ".join((Path(__file__).parents[2] / "datasets" / "README.md").read_text("utf-8").split())
    for text in (
        f"{whole['read']:,} rows", f"{whole['kept']:,} different orders", f"{whole['unreadable']} rows can not be read",
        f"there are {may['read']} rows; cleaned they are {may['kept']} orders with a net revenue of {revenue:,}.",
    ):  # fmt: skip
        assert text in described


def test_every_validator_is_satisfied_by_the_finished_task(finished: Path) -> None:
    assert (sales.exported_ok(), sales.cleaned_ok(), sales.summary_ok(), sales.report_ok()) == ([], [], [], [])
    found = sales.check_summary(sales.REPORT, sales.CLEANED, sales.MONTH)
    assert found == {"ok": True, "reasons": [], "months": ["2023-05"]}


def test_running_again_gives_the_same_bytes_and_leaves_nothing_else(finished: Path) -> None:
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    (finished / "report.csv.part").write_text("cut short by a crash")
    run_task()
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before
    assert set(before) == {sales.RAW, sales.EXPORTED, sales.CLEANED, sales.REPORT}


def test_results_are_small_json(finished: Path) -> None:
    for done in (
        sales.export_month(sales.RAW, "2023-06", "x.csv"),
        sales.clean_rows("x.csv", "y.csv"),
        sales.summarise("y.csv", "z.csv"),
        sales.check_summary("z.csv", "y.csv", "2023-05"),
    ):
        assert len(json.dumps(done)) < 2_000
        assert json.loads(json.dumps(done)) == done


# ---- what must not pass


def test_before_the_work_every_validator_names_the_missing_file(folder: Path) -> None:
    shutil.copy(dataset_path(sales.RAW), folder)
    for check, name in (
        (sales.exported_ok, sales.EXPORTED), (sales.cleaned_ok, sales.CLEANED),
        (sales.summary_ok, sales.CLEANED), (sales.report_ok, sales.REPORT),
    ):  # fmt: skip
        (reason,) = check()
        assert name in reason


def test_a_report_with_another_month_fails(finished: Path) -> None:
    sales.clean_rows(sales.RAW, sales.CLEANED)  # the step that picks the month was left out
    sales.summarise(sales.CLEANED, sales.REPORT)
    assert "the report has month 2023-04, only 2023-05 is allowed" in sales.report_ok()
    assert any("2023-04" in reason for reason in sales.cleaned_ok())
    assert any("2023-04" in reason for reason in sales.summary_ok())
    found = sales.check_summary(sales.REPORT, sales.CLEANED, sales.MONTH)
    assert found["ok"] is False
    assert len(found["months"]) == 17  # type: ignore[arg-type]


def test_a_report_of_the_wrong_month_fails(finished: Path) -> None:
    report = finished / sales.REPORT
    report.write_text(report.read_text().replace("2023-05", "2023-04"))
    assert "the report has month 2023-04, only 2023-05 is allowed" in sales.report_ok()


@pytest.mark.parametrize("cell", range(1, 6))
def test_one_changed_cell_of_the_report_fails(finished: Path, cell: int) -> None:
    report = finished / sales.REPORT
    lines = [line.split(",") for line in report.read_text().splitlines()]
    lines[3][cell] = lines[3][cell][:-1] + ("1" if lines[3][cell][-1] != "1" else "2")
    report.write_text("\n".join(map(",".join, lines)))
    assert sales.report_ok()
    assert sales.summary_ok()


def spoiled(lines: Sequence[str]) -> Iterable[tuple[str, list[str]]]:
    yield "a line lost", [*lines[:2], *lines[3:]]
    yield "a line twice", [*lines[:2], lines[1], *lines[2:]]
    yield "no rows", [lines[0]]
    yield "no header", [*lines[1:]]
    yield "cut off", [*lines[:-2], lines[-2][:7]]
    yield "empty", []


@pytest.mark.parametrize("name", [sales.EXPORTED, sales.CLEANED, sales.REPORT])
@pytest.mark.parametrize("how", range(6))
def test_a_spoiled_file_fails_its_validator(finished: Path, name: str, how: int) -> None:
    checks = {sales.EXPORTED: sales.exported_ok, sales.CLEANED: sales.cleaned_ok, sales.REPORT: sales.report_ok}
    what, lines = list(spoiled((finished / name).read_text("utf-8").split("\n")))[how]
    (finished / name).write_text("\n".join(lines), "utf-8")
    assert checks[name](), what


def test_report_ok_goes_back_to_the_raw_export(finished: Path) -> None:
    cleaned = finished / sales.CLEANED
    cleaned.write_text("\n".join(cleaned.read_text("utf-8").split("\n")[:-2]) + "\n", "utf-8")
    sales.summarise(sales.CLEANED, sales.REPORT)
    assert sales.summary_ok() == []  # a true summary of a file that lost an order
    assert sales.report_ok()
    assert sales.cleaned_ok()


# ---- bad input


@pytest.mark.parametrize("tool", ["export", "clean", "summarise", "check"])
def test_a_missing_file_is_named(folder: Path, tool: str) -> None:
    calls = {
        "export": lambda: sales.export_month("gone.csv", "2023-05", "out.csv"),
        "clean": lambda: sales.clean_rows("gone.csv", "out.csv"),
        "summarise": lambda: sales.summarise("gone.csv", "out.csv"),
        "check": lambda: sales.check_summary("report.csv", "gone.csv", "2023-05"),
    }
    with pytest.raises(FileNotFoundError, match=r"gone\.csv"):
        calls[tool]()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\xff\xfe\x00bad", HEADER.encode() + b'\n"' + b"x" * 200_000])
def test_a_file_of_another_kind_is_named(folder: Path, content: bytes) -> None:
    (folder / "odd.csv").write_bytes(content)
    for call in (lambda: sales.export_month("odd.csv", "2023-05", "o"), lambda: sales.clean_rows("odd.csv", "o")):
        with pytest.raises(ValueError, match=r"odd\.csv"):
            call()


def test_a_raw_export_can_not_be_summarised(folder: Path) -> None:
    write(folder / "raw.csv", row("A"), row("B", amount="1,299"))
    with pytest.raises(ValueError, match=r"raw\.csv.*row 2.*amount"):
        sales.summarise("raw.csv", "out.csv")


def test_a_target_that_is_the_source_is_refused(folder: Path) -> None:
    write(folder / "raw.csv", row("A"))
    before = (folder / "raw.csv").read_bytes()
    with pytest.raises(ValueError, match="same file"):
        sales.clean_rows("raw.csv", "./raw.csv")
    assert (folder / "raw.csv").read_bytes() == before


def test_a_bare_process_can_load_the_module_alone(finished: Path) -> None:
    # -S and -I: no site-packages, so anything but the standard library would fail.
    code = (
        "import importlib.util as u, sys; s = u.spec_from_file_location('s', sys.argv[1]); m = u.module_from_spec(s); "
        "s.loader.exec_module(m); print(m.report_ok(), sorted({'agentlab', 'pandas', 'dataclasses'} & {*sys.modules}))"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(sales.__file__)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "[] []"


# ---- any file at all

CELLS = st.sampled_from(
    ["", "SO-1", "2023-05-03", "3 May 2023", "Nord", "-2", "1,299", "1.299,50", "refund", "€", "x\ny"]
)
SALE = st.tuples(
    st.sampled_from(["SO-1", "so-1 ", "SO-2", "SO-3", ""]),
    st.sampled_from(["2023-05-03", "04/05/2023", "2023-06-01", "?"]),
    st.sampled_from(["north", "Nord", "", "S", "x"]),
    st.just("Zoë"),
    st.just("a,b"),
    st.sampled_from(["1", "-2", "3", "?"]),
    st.sampled_from(["9.99", "1,299.00"]),
    st.sampled_from(["", "9.99", "(20,00)", "1.299,50"]),
    st.sampled_from(["EUR", "", "€"]),
    st.sampled_from(["paid", "refund"]),
    st.sampled_from(["", "n\nm"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(SALE, st.lists(CELLS, max_size=12).map(tuple)), max_size=25))
def test_any_export_gives_a_report_that_passes(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with open(sales.RAW, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([HEADER.split(","), *lines])
        run_task()
        cleaned, report = read(folder / sales.CLEANED), read(folder / sales.REPORT)
        assert sales.exported_ok() == sales.cleaned_ok() == []
        assert (sales.summary_ok() == []) == (sales.report_ok() == []) == bool(cleaned)
    assert len({r["order_id"] for r in cleaned}) == len(cleaned)
    assert all((r["status"] == "refund") == (Decimal(r["amount"]) < 0) for r in cleaned)
    assert sum(Decimal(r["net_revenue"]) for r in report) == sum(Decimal(r["amount"]) for r in cleaned)
    assert sum(int(r["orders"]) + int(r["refunds"]) for r in report) == len(cleaned)
