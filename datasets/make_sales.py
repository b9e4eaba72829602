"""Write ``sales_2023.csv``: a shop's sales export for 2023, as dirty as real exports are.

    python datasets/make_sales.py            writes the file beside this script
    python datasets/make_sales.py --check    exit 1 when the committed file is not what this script makes

The file is the same byte for byte on every machine and every Python. That is why all chance comes from
``Random.random()``: it is the only method whose sequence Python promises to keep between versions.
Money is counted in integer cents, dates are counted from a fixed day, nothing asks for a locale.
"""

from __future__ import annotations

import csv
import io
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

SEED = 20230503
ORDERS = 5600
TARGET = Path(__file__).resolve().parent / "sales_2023.csv"
COLUMNS = (
    "order_id", "order_date", "region", "customer", "product", "quantity",
    "unit_price", "amount", "currency", "status", "note",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
REGIONS = {
    "north": ("north", "North", " north ", "NORTH", "Nord", "N"),
    "south": ("south", "South", "south ", "SOUTH", "Süd", "S"),
    "east": ("east", "East", " east", "EAST", "Ost", "E"),
    "west": ("west", "West", "west  ", "WEST", "Ouest", "W"),
    "central": ("central", "Central", " Central", "CENTRAL", "Mitte", "Centre"),
}
MISSING = ("", "", "", " ", "N/A", "-", "null")
MISTYPED = ("Nroth", "Sotuh", "overseas?")
CUSTOMERS = (
    "José Álvarez", "Łukasz Nowak", "山田 太郎", "Zoë de Vries", "Ólafur Jónsson", "Anna Schmidt", "Siobhán O'Brien",
    "Müller, Söhne GmbH", "Nguyễn Thị Hoa", "Çelik Ltd.", "Марина Соколова", "Δημήτρης Παππάς", "Smith & Daughters",
    "Renée Lefèvre", "Björn Åkesson", "Ana Luísa Conceição", "김민수", "Čapek, Dvořák a spol.", "Priya Raman",
    "Mohammed Haddad", 'The "Corner" Shop', "Ivana Kovačević", "Tariq Aziz", "Emily Clark", "Grażyna Wójcik", "Li Na",
    "Peter Jones", "Noémie Roux", "Håkon Dahl", "Acme, Inc.", "Fatima Zahra", "Sean Murphy", "Ruth Goldberg",
)  # fmt: skip
PRODUCTS = (
    ("Desk lamp", 3490), ("Office chair", 18900), ("Standing desk", 64900), ("Notebook A5", 495),
    ("Gel pens, 12 pack", 1299), ('Monitor 27"', 27950), ("USB-C cable 1 m", 899), ("Headset", 7900),
    ("Whiteboard 120 cm", 11200), ("Café table", 23500), ("Coat stand", 5900), ("Server rack", 129900),
    ("Label printer", 14975), ("Paper A4, 5 reams", 2750),
)  # fmt: skip
NOTES = (
    "Leave with the neighbour, 2nd floor", "Called twice,\nno answer", 'Marked "fragile"', "Größe L, bitte prüfen",
    "gift\n\nwrap in blue", "deliver before 10:00", "VIP ", "see order 03/05/2023",
    "invoice to head office, not to store",
)  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True)
class Sale:
    """One clean sale, before any dirt: what the shop really did."""

    number: int
    day: date
    region: str
    customer: str
    product: str
    quantity: int
    cents: int
    refund: bool = False
    note: str = ""


class Maker:
    """Makes sales and spells them out; holds the one source of chance."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def chance(self, share: float) -> bool:
        """True for this share of the calls."""
        return self._random() < share

    def below(self, end: int) -> int:
        """An integer from 0 to end - 1."""
        return int(self._random() * end)

    def pick(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[self.below(len(options))]

    def sale(self, number: int, day: date) -> Sale:
        """A sale of that day; small quantities are common, large ones rare."""
        product, cents = self.pick(PRODUCTS)
        if self.chance(0.3):  # some customers have agreed prices
            cents = cents * (80 + self.below(20)) // 100
        quantity = 1 + (self.below(4) if self.chance(0.85) else self.below(40))
        note = self.pick(NOTES) if self.chance(0.14) else ""
        region = self.pick(("north", "north", "south", "south", "east", "west", "west", "central"))
        return Sale(number, day, region, self.pick(CUSTOMERS), product, quantity, cents, note=note)

    def amended(self, sale: Sale) -> Sale:
        """The same order as it was exported a second time, after somebody corrected it."""
        what = self.below(3)
        if what == 0:
            return replace(sale, quantity=sale.quantity + 1 + self.below(3))
        if what == 1:
            return replace(sale, region=self.pick(tuple(REGIONS)))
        return replace(sale, cents=sale.cents * 95 // 100, note="price corrected")

    def spell_day(self, day: date) -> str:
        """One of the four date forms; with slashes the day stands first."""
        form = self.below(10)
        if form < 6:
            return day.isoformat()
        if form < 8:
            return f"{day.day:02d}/{day.month:02d}/{day.year}"
        if form < 9:
            return f"{day.day} {MONTHS[day.month - 1]} {day.year}"
        return f"{day.isoformat()}T{self.below(24):02d}:{self.below(60):02d}:{self.below(60):02d}Z"

    def spell_money(self, cents: int) -> str:
        """A sum as this or that till wrote it: thousands separators, decimal commas, signs."""
        whole, rest = divmod(abs(cents), 100)
        sign = "-" if cents < 0 else ""
        form = self.below(20)
        if form < 12:
            return f"{sign}{whole}.{rest:02d}"
        if form < 14:
            return f"{sign}{whole:,}.{rest:02d}"
        if form < 15:
            return f"{sign}{whole},{rest:02d}"
        if form < 17:
            return f"{sign}{whole:,}".replace(",", ".") + f",{rest:02d}"
        if form < 18:
            return f"{sign}{whole:,}".replace(",", "\u00a0") + f",{rest:02d}"
        if form < 19:
            return f"{sign}{whole:,}" + (f".{rest:02d}" if rest else "")
        return f"({whole}.{rest:02d})" if sign else f"€{whole}.{rest:02d}"

    def spell_region(self, region: str) -> str:
        """Mostly the plain name; else a variant, a gap or a typing error."""
        if self.chance(0.05):
            return self.pick(MISSING)
        if self.chance(0.004):
            return self.pick(MISTYPED)
        return region if self.chance(0.55) else self.pick(REGIONS[region])

    def row(self, sale: Sale) -> list[str]:
        """The sale as a line of the export."""
        quantity, amount = sale.quantity, sale.quantity * sale.cents
        status = self.pick(("paid", "paid", "shipped", "Paid "))
        if sale.refund:
            # Two tills, two habits: one books minus, the other only says so in the status.
            if self.chance(0.5):
                quantity, amount, status = -quantity, -amount, self.pick(("refund", "paid"))
            else:
                status = self.pick(("refund", "REFUND", "refunded"))
        customer = sale.customer
        if self.chance(0.03):
            customer = unicodedata.normalize("NFD", customer)  # the same name, other bytes
        if self.chance(0.04):
            customer += " "
        order = f"SO-{sale.number}"
        if self.chance(0.02):
            order = order.lower() + " "
        return [
            order,
            self.spell_day(sale.day),
            self.spell_region(sale.region),
            customer,
            sale.product,
            str(quantity),
            self.spell_money(sale.cents),
            "" if self.chance(0.03) else self.spell_money(amount),
            self.pick(("EUR", "EUR", "EUR", "EUR", "eur", "€", "")),
            status,
            sale.note,
        ]


def broken_rows(maker: Maker) -> list[list[str]]:
    """Rows that no reader can make sense of, each in its own way."""
    good = maker.row(maker.sale(990000, date(2023, 5, 12)))
    rows = [["SO-990001"], ["--- page 12 ---"], list(COLUMNS), ["SO-990002", "2023-05-09", "north"]]
    for number, bad in enumerate(("", "n/a", "31/02/2023", "2023-13-05", "yesterday", "00/05/2023"), 990003):
        rows.append([f"SO-{number}", bad, *good[2:]])
    for number, bad in enumerate(("??", "two", ""), 990020):
        rows.append([f"SO-{number}", f"2023-05-{10 + number % 10:02d}", *good[2:5], bad, *good[6:]])
    rows.append(["SO-990030", "2023-05-21", *good[2:6], "#REF!", "#REF!", *good[8:]])
    rows.append(["", "2023-05-22", *good[2:]])
    return rows


def strays(maker: Maker, number: int) -> list[list[str]]:
    """Rows of other years, some of them of another year's May."""
    days = ((2022, 12, 31), (2024, 1, 1), (2022, 5, 3), (2024, 5, 30), (2022, 5, 31), (2021, 5, 5))
    return [maker.row(maker.sale(number + i, date(*days[i % len(days)]))) for i in range(24)]


def all_rows() -> list[list[str]]:
    """Every row below the header, blank lines included (as empty lists)."""
    maker = Maker(SEED)
    start, rows = date(2023, 1, 1), []
    late: list[tuple[int, list[str]]] = []  # (place, row): second exports, always below the first one
    for i in range(ORDERS):
        sale = maker.sale(100000 + i, start + timedelta(days=i * 365 // ORDERS))
        if maker.chance(0.045):
            sale = replace(sale, refund=True, note=f"refund of SO-{sale.number - 1 - maker.below(min(300, i + 1))}")
        row = maker.row(sale)
        rows.append(row)
        if maker.chance(0.03):
            late.append((i + 1 + maker.below(40), list(row)))
        if maker.chance(0.04):
            late.append((i + 41 + maker.below(400), maker.row(maker.amended(sale))))
    blank: list[list[str]] = [[] for _ in range(30)]
    for row in [*strays(maker, 100000 + ORDERS), *broken_rows(maker), *blank]:
        late.append((1 + maker.below(ORDERS), row))
    # From the bottom up, so that an insertion does not move the places that are still to come.
    for place, row in sorted(late, key=lambda entry: entry[0], reverse=True):
        rows.insert(min(place, ORDERS), row)
    return rows


def contents() -> bytes:
    """The whole file; it begins with a byte order mark, as spreadsheets write it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in all_rows():
        writer.writerow(row)
    return out.getvalue().encode("utf-8-sig")


def main(arguments: Sequence[str]) -> int:
    """Write the file, or with ``--check`` compare it."""
    if list(arguments) not in ([], ["--check"]):
        print("usage: make_sales.py [--check]", file=sys.stderr)
        return 2
    made = contents()
    if not arguments:
        TARGET.write_bytes(made)
        print(f"{TARGET.name}: {len(made)} bytes written")
        return 0
    if not TARGET.exists() or TARGET.read_bytes() != made:
        print(f"{TARGET.name} is not what make_sales.py makes: run it without --check", file=sys.stderr)
        return 1
    print(f"{TARGET.name}: as made")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
