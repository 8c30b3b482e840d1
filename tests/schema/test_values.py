"""Values on the wire: exact integers, plain decimals, zoned times, and what has no wire form."""

import sqlite3
from pathlib import Path

import orjson
import pytest

from schema.events import Json
from tests.schema.conftest import Query, on_sqlite
from tests.schema.shop import BIG, LARGEST


async def test_every_kind_of_value_has_its_wire_form(query: Query) -> None:
    page = await query("Part", filters={"id": 4})
    assert page["data"] == [
        {
            "id": 4,
            "name": "100%_Nut",
            "price": None,
            "stock": 2,
            "ratio": 0.5,
            "notes": "a␀b",
            "is_made_here": False,
            "status": "on hold",
            "made_on": "2024-05-31",
            "made_at": "2024-05-31T14:00:00+00:00",
            "booked_at": "2024-06-01T09:30:00+00:00",
            "packed_at": "08:30:00",
            "serial": "00000000-0000-0000-0000-000000000007",
            "extra": {"n": None, "big": str(BIG), "list": [1, "x"]},
            "material_id": None,
            "supplier_id": None,
        }
    ]


@pytest.mark.covers("H40")
async def test_large_integers_keep_their_digits(query: Query) -> None:
    page = await query("Part", fields=["id"], filters={"id__in": [str(BIG), LARGEST]})
    assert page["data"] == [{"id": str(BIG)}, {"id": str(LARGEST)}]
    page = await query("Project", fields=[{"parts": ["id"]}], filters={"parts__id": BIG})
    assert page["data"] == []


async def test_decimals_have_the_scale_of_their_column(query: Query) -> None:
    page = await query("Part", fields=["price"], filters={"id__lt": 3})
    assert page["data"] == [{"price": "1.10"}, {"price": "12.00"}]


@pytest.mark.covers("H41", "H42")
async def test_results_are_strict_json_whatever_is_stored(query: Query) -> None:
    page = await query("Part", fields=["name", "ratio", "notes"], filters={"ratio__isnull": False})
    assert orjson.loads(orjson.dumps(page)) == page
    assert page["data"] == [
        {"name": "100%_Nut", "ratio": 0.5, "notes": "a␀b"},
        {"name": "Straße", "ratio": None, "notes": None},
    ]
    assert page["notes"] == ["ratio: null stands for a stored value that is infinite or not valid"]


@pytest.mark.covers("H42")
async def test_sorting_and_filtering_by_an_infinity_works(query: Query) -> None:
    page = await query("Part", fields=["name"], order_by=["-ratio"], limit=2)
    assert page["data"] == [{"name": "Straße"}, {"name": "100%_Nut"}]
    page = await query("Part", fields=["name"], filters={"ratio__gt": 0.6})
    assert page["data"] == [{"name": "Straße"}]


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        ("stock", "many"),
        ("made_on", "31.5.2024"),
        ("made_at", "soon"),
        ("packed_at", "noon"),
        ("status", "GONE"),
        ("price", "cheap"),
        ("serial", "seven"),
        ("extra", "{broken"),
        ("ratio", "half"),
        ("name", b"\xff"),
    ],
)
@on_sqlite
async def test_a_stored_value_that_does_not_fit_its_column_is_null_with_a_note(
    shop_file: Path, query: Query, column: str, stored: str | bytes
) -> None:
    with sqlite3.connect(shop_file) as writer:
        writer.execute(f"UPDATE part SET {column} = ? WHERE id = 1", (stored,))
    fields: list[Json] = ["id", column]
    page = await query("Part", fields=fields, filters={"id": 1})
    assert page["data"] == [{"id": 1, column: None}]
    note = "null stands for a stored value that is infinite or not valid"
    assert page["notes"] == [f"{column}: {note}"]
    page = await query("ProjectPart", fields=[{"part": fields}], filters={"part_id": 1}, limit=1)
    assert page["data"] == [{"part": {"id": 1, column: None}}]
    assert page["notes"] == [f"part.{column}: {note}"]
    page = await query("Project", fields=[{"parts": fields}], filters={"code": "APO"})
    assert page["notes"] == [f"parts.{column}: {note}"]
