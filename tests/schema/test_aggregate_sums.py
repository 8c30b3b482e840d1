"""Sums and averages of the aggregate tool: exact at any size, and of what is no number."""

from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlmodel import col

from schema.events import Json
from tests.schema.conftest import Aggregate, Query, Write, measure, on_sqlite
from tests.schema.shop import BIG, LARGEST, Part, ProjectPart


async def test_sums_beyond_64_bits_are_exact(aggregate: Aggregate) -> None:
    asked: list[Json] = [measure("sum", "id"), measure("avg", "id"), measure("sum", "price")]
    page = await aggregate("Part", measures=asked, having={"sum_id__gt": LARGEST})
    total = 1 + 2 + 3 + 4 + BIG + LARGEST
    assert page["data"] == [{"sum_id": str(total), "avg_id": total / 6, "sum_price": "25.60"}]
    page = await aggregate("Part", measures=asked, having={"sum_id__lte": str(LARGEST)})
    assert page["data"] == []
    page = await aggregate(
        "Part", group_by=["material__name"], measures=asked[:1], order_by=["-sum_id"]
    )
    assert page["data"] == [
        {"material__name": "Aluminum", "sum_id": str(2 + BIG + LARGEST)},
        {"material__name": None, "sum_id": 4},
        {"material__name": "Cobalt", "sum_id": 3},
        {"material__name": "Steel", "sum_id": 1},
    ]


async def test_averages_of_decimals_are_rounded_half_to_even(
    aggregate: Aggregate, write: Write
) -> None:
    await write(sa.delete(ProjectPart))
    await write(sa.delete(Part))
    for first, expected in (
        ("0.01", "0.00007812"),
        ("0.03", "0.00023438"),
        ("-0.03", "-0.00023438"),
    ):
        await write(sa.delete(Part))
        rows: list[dict[str, object]] = [
            {"id": n, "name": "", "price": Decimal(0)} for n in range(1, 128)
        ]
        await write(sa.insert(Part), [{"id": 128, "name": "", "price": Decimal(first)}, *rows])
        asked: list[Json] = [measure("avg", "price")]
        page = await aggregate("Part", measures=asked, having={"avg_price": expected})
        assert page["data"] == [{"avg_price": expected}]


@on_sqlite
async def test_decimals_off_their_scale_add_up_to_what_rows_show(
    aggregate: Aggregate, query: Query, write: Write
) -> None:
    for stored, shown, total in (
        ("2.675", "2.68", "16.08"),
        ("-2.665", "-2.66", "-15.96"),
        ("1e23", f"1{'0' * 23}.00", f"6{'0' * 23}.00"),
        ("1e-7", "0.00", "0.00"),
    ):
        await write(sa.text(f"UPDATE part SET price = {stored}"))
        page = await query("Part", fields=["price"], limit=1)
        assert page["data"] == [{"price": shown}]
        page = await aggregate("Part", measures=[measure("sum", "price", "sum")])
        assert page["data"] == [{"sum": total}]


@pytest.mark.covers("H42")
async def test_a_sum_that_is_no_number_is_null_with_a_note(
    aggregate: Aggregate, write: Write
) -> None:
    asked: list[Json] = [measure("sum", "ratio", "sum"), measure("avg", "ratio", "avg")]
    why = "null stands for a stored value that is infinite or not valid"
    notes = [f"avg: {why}", f"sum: {why}"]
    for ratio, alone in ((float("inf"), None), (float("-inf"), None), (1.7e308, 1.7e308)):
        await write(sa.update(Part).values(ratio=ratio))
        page = await aggregate("Part", group_by=["is_made_here"], measures=asked)
        assert page["data"] == [
            {"is_made_here": False, "sum": alone, "avg": alone},
            {"is_made_here": True, "sum": None, "avg": None},
        ]
        assert page["notes"] == notes
    await write(sa.update(Part).where(col(Part.id) == 1).values(ratio=float("inf")))
    await write(sa.update(Part).where(col(Part.id) == 2).values(ratio=float("-inf")))
    page = await aggregate("Part", filters={"id__lte": 2}, measures=asked)
    assert (page["data"], page["notes"]) == ([{"sum": None, "avg": None}], notes)


@pytest.mark.covers("H42")
@on_sqlite
async def test_stored_values_that_do_not_fit_spoil_their_own_group_only(
    aggregate: Aggregate, write: Write
) -> None:
    for price in ("9e999", "'abc'", "x'00'", "'1e999'"):
        await write(sa.text(f"UPDATE part SET price = {price} WHERE name = 'Gear'"))
        page = await aggregate(
            "Part",
            filters={"price__isnull": False},
            group_by=["material__name"],
            measures=[measure("sum", "price", "sum"), measure("avg", "price", "avg")],
        )
        assert page["data"] == [
            {"material__name": "Aluminum", "sum": "12.50", "avg": "6.25"},
            {"material__name": "Cobalt", "sum": None, "avg": None},
            {"material__name": "Steel", "sum": "1.10", "avg": "1.1"},
        ]
        assert "notes" in page
    for day in ("'soon'", "'2024-02-30'", "7", "x'00'"):
        await write(sa.text(f"UPDATE part SET made_on = {day}"))
        page = await aggregate("Part", group_by=["made_on__week"])
        assert page["data"] == [{"made_on__week": None, "count": 6}]
