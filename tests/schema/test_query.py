"""The query tool: fields, nested rows, order, pages, and what it refuses."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlmodel import col

from schema import Managers, ToolRetry
from schema.events import Json
from schema.query import Reader
from schema.request import MAX_NESTED, QueryRequest
from schema.rows import MAX_RELATED_ROWS
from tests.schema.conftest import ADA, Query, Write, on_sqlite
from tests.schema.shop import BIG, LARGEST, Part, Project, ProjectPart


async def test_a_page_has_rows_a_total_and_an_opaque_id(query: Query) -> None:
    page = await query("Material", fields=["name"], limit=2)
    other = await query("Material", fields=["name"], limit=2)
    result_id = page.pop("result_id")
    assert page == {
        "data": [{"name": "Steel"}, {"name": "Aluminum"}],
        "total_count": 3,
        "has_more": True,
    }
    assert isinstance(result_id, str)
    assert result_id != other["result_id"]


async def test_no_fields_and_a_star_mean_all_scalar_fields(query: Query) -> None:
    row = {"id": 1, "name": "Steel", "density": 7.8}
    assert (await query("Material", limit=1))["data"] == [row]
    assert (await query("Material", fields=["*"], limit=1))["data"] == [row]
    starred = await query("Material", fields=["name", "*", {"parts": ["id"]}], limit=1)
    assert starred["data"] == [{**row, "parts": [{"id": 1}]}]


async def test_keys_come_in_the_order_they_were_asked_for(query: Query) -> None:
    page = await query("Part", fields=["name", {"material": ["name"]}, "id"], limit=1)
    [row] = page["data"] if isinstance(page["data"], list) else []
    assert isinstance(row, dict)
    assert list(row) == ["name", "material", "id"]


@pytest.mark.covers("C7-14")
async def test_nested_selections_return_nested_objects(query: Query) -> None:
    page = await query(
        "Part",
        fields=["name", {"material": ["name"]}, {"projects": ["code", {"parent": ["code"]}]}],
        filters={"id__in": [1, 3]},
    )
    assert page["data"] == [
        {
            "name": "Bolt",
            "material": {"name": "Steel"},
            "projects": [
                {"code": "APO", "parent": None},
                {"code": "MER", "parent": {"code": "APO"}},
            ],
        },
        {
            "name": "Gear",
            "material": {"name": "Cobalt"},
            "projects": [{"code": "APO", "parent": None}],
        },
    ]


async def test_lists_below_lists_and_below_single_rows_find_their_parents(query: Query) -> None:
    page = await query(
        "ProjectPart",
        fields=["quantity", {"project": ["code", {"children": ["code", {"items": ["part_id"]}]}]}],
        filters={"part_id": 1},
    )
    venus = {"code": "VEN", "items": [{"part_id": 4}]}
    mercury = {"code": "MER", "items": [{"part_id": 1}, {"part_id": 2}]}
    assert page["data"] == [
        {
            "quantity": 4,
            "project": {"code": "APO", "children": [mercury, {"code": "X'1", "items": []}]},
        },
        {"quantity": 9, "project": {"code": "MER", "children": [venus]}},
    ]


async def test_a_dangling_or_null_key_is_a_null_relation(query: Query) -> None:
    page = await query("Part", fields=["name", {"supplier": ["name"]}], filters={"id__in": [3, 4]})
    assert page["data"] == [
        {"name": "Gear", "supplier": None},
        {"name": "100%_Nut", "supplier": None},
    ]


async def test_composite_keys_join_both_ways(query: Query) -> None:
    shelves = await query("Shelf", fields=["label", {"boxes": ["id"]}])
    boxes = await query("Box", fields=["id", {"shelf": ["label"]}])
    assert shelves["data"] == [
        {"label": "A1", "boxes": [{"id": 1}, {"id": 3}]},
        {"label": "A2", "boxes": [{"id": 2}]},
    ]
    assert boxes["data"] == [
        {"id": 1, "shelf": {"label": "A1"}},
        {"id": 2, "shelf": {"label": "A2"}},
        {"id": 3, "shelf": {"label": "A1"}},
        {"id": 4, "shelf": None},
    ]


async def test_a_nested_list_is_cut_at_its_limit_and_says_so(query: Query) -> None:
    fields: Json = ["code", {"items": {"fields": ["part_id"], "limit": 1}}]
    cut = await query("Project", fields=fields, filters={"code": "APO"})
    whole = await query(
        "Project", fields=["code", {"items": {"fields": ["part_id"], "limit": 2}}], limit=1
    )
    assert cut["data"] == [{"code": "APO", "items": [{"part_id": 1}]}]
    assert cut["truncated"] is True
    assert "truncated" not in whole


@pytest.mark.covers("C7-13", "H45")
async def test_pages_over_ties_give_every_row_once(query: Query) -> None:
    seen: list[Json] = []
    for offset in range(0, 6, 2):
        page = await query("Part", fields=["id"], order_by=["is_made_here"], limit=2, offset=offset)
        rows = page["data"]
        assert isinstance(rows, list)
        seen += [row["id"] for row in rows if isinstance(row, dict)]
        assert page["total_count"] == 6
        assert page["has_more"] is (offset < 4)
    assert seen == [4, 1, 2, 3, str(BIG), str(LARGEST)]


@pytest.mark.covers("C7-13", "H45")
async def test_pages_stay_whole_while_rows_are_changed(query: Query, write: Write) -> None:
    ids = range(1_000, 1_500)
    rows = [{"id": n, "name": "same", "price": 5, "stock": 1} for n in ids]
    await write(sa.insert(Part), rows)
    seen: list[Json] = []
    for offset in range(0, 500, 7):
        page = await query(
            "Part", fields=["id"], filters={"name": "same"}, order_by=["-price"], limit=7,
            offset=offset,
        )  # fmt: skip
        found = page["data"] if isinstance(page["data"], list) else []
        seen += [row["id"] for row in found if isinstance(row, dict)]
        assert (page["total_count"], page["has_more"]) == (500, offset + 7 < 500)
        changed = sa.update(Part).where(col(Part.id) == 1_499 - offset)
        await write(changed.values(notes=f"changed {offset}"))
    assert seen == [*ids]


async def test_order_is_by_several_fields_with_missing_values_last(query: Query) -> None:
    for order, expected in {
        "price": ["Zahn", "Bolt", "Bearing", "Gear", "100%_Nut", "Straße"],
        "-price": ["Bearing", "Gear", "Bolt", "Zahn", "100%_Nut", "Straße"],
    }.items():
        page = await query("Part", fields=["name"], order_by=[order, "name"])
        assert page["data"] == [{"name": name} for name in expected]


async def test_rows_beside_the_same_row_of_their_own_table_go_by_their_own_key(
    query: Query, write: Write
) -> None:
    await write(
        sa.insert(Project), [{"code": "ADA", "name": "", "owner": "", "parent_code": "APO"}]
    )
    page = await query("Project", fields=["code"], order_by=["parent__code"])
    assert page["data"] == [{"code": code} for code in ("ADA", "MER", "X'1", "VEN", "APO")]


async def test_an_offset_past_the_end_is_empty_and_keeps_the_total(query: Query) -> None:
    page = await query("Material", offset=50)
    assert (page["data"], page["total_count"], page["has_more"]) == ([], 3, False)


async def test_the_limit_is_capped(shop_url: str) -> None:
    managers = Managers()
    managers.expose(Part)
    async with Reader(managers, database_url=shop_url, max_results=4) as reader:
        view = await reader.view(ADA)
        page = await reader.query(QueryRequest("Part", limit=100), view)
        assert isinstance(page["data"], list)
        assert (len(page["data"]), page["total_count"], page["has_more"]) == (4, 6, True)


@pytest.mark.covers("C7-12")
@pytest.mark.parametrize("limit", [True, "5", 0, -1, 2.5, 2**63])
async def test_a_limit_of_the_wrong_kind_is_refused(query: Query, limit: Json) -> None:
    with pytest.raises(ToolRetry, match=r"^limit: must be an integer"):
        await query("Part", limit=limit)


@pytest.mark.covers("C7-12")
@pytest.mark.parametrize("offset", [False, "0", -1, 2**63])
async def test_an_offset_of_the_wrong_kind_is_refused(query: Query, offset: Json) -> None:
    with pytest.raises(ToolRetry, match=r"^offset: must be an integer"):
        await query("Part", offset=offset)


WRONG_FIELDS: list[tuple[list[Json], str]] = [
    (["nam"], r"^fields: Part has no 'nam'. Did you mean name\? Fields: id, name"),
    (["name) { secret }"], "^fields: Part has no 'name\\) { secret }'"),
    (["__typename"], r"^fields: Part has no '__typename'"),
    (["cost"], "^fields: Part has no 'cost'"),
    (["material"], '^fields: material is a relation; ask for its fields as {"material"'),
    (["material__name"], "^fields: 'material__name' is written as a path"),
    (["material.name"], "^fields: 'material.name' is written as a path"),
    ([{"material": ["*"]}], "^fields.material: \\* is for the top level"),
    ([{"material": []}], "^fields.material: must name at least one field"),
    ([{"material": "name"}], "^fields.material: must list field names"),
    (
        [{"uses": {"fields": ["quantity"], "order_by": ["quantity"]}}],
        "^fields.uses: a nested relation takes fields and limit, and no 'order_by'. To filter",
    ),
    ([{"material": None}], "^fields.material: must list field names"),
    ([{"material": {"fields": ["name"], "page": 1}}], "^fields.material: a nested .* no 'page'"),
    ([{"material": {"fields": ["name"], "limit": 1}}], "^fields.material: a limit is for"),
    ([{"projects": {"fields": ["code"], "limit": True}}], "^fields.projects.limit: must be"),
    ([{"nothing": ["name"]}], "^fields: Part has no 'nothing'"),
    ([{"material": ["name"], "supplier": ["name"]}], "^fields: must list field names"),
    ([{"material": ["name"]}, {"material": ["id"]}], "^fields: material is given twice"),
    ([["name"]], "^fields: must list field names"),
    ([None], "^fields: must list field names"),
    ([], "^fields: must name at least one field"),
    ([2**70], "^fields: must be plain JSON"),
]


@pytest.mark.covers("C7-10")
@pytest.mark.parametrize(("fields", "message"), WRONG_FIELDS)
async def test_fields_that_do_not_fit_are_refused(
    query: Query, fields: list[Json], message: str
) -> None:
    with pytest.raises(ToolRetry, match=message):
        await query("Part", fields=fields)


@pytest.mark.parametrize(
    ("order_by", "message"),
    [
        (["materials__name"], "^order_by 'materials__name': Part has no 'materials'"),
        (["material__cost"], "^order_by: Material has no 'cost'"),
        (["material"], "^order_by: Part has no 'material'"),
        (["supplier__bank_account"], "^order_by: Supplier has no 'bank_account'"),
        (["projects__code"], "^order_by: projects is a list"),
        (["cost"], "^order_by: Part has no 'cost'"),
        (["extra"], "^order_by: extra holds json"),
        (["status"], "^order_by: status holds enum, which has no order"),
        (["name", "-name"], "^order_by: name is given twice"),
        ([1], "^order_by: must be a list of field names"),
    ],
)
async def test_orders_that_do_not_fit_are_refused(
    query: Query, order_by: list[Json], message: str
) -> None:
    with pytest.raises(ToolRetry, match=message):
        await query("Part", order_by=order_by)


async def test_depth_and_breadth_of_a_selection_are_bounded(query: Query) -> None:
    deep: Json = ["code"]
    for _ in range(5):
        deep = ["code", {"children": deep}]
    assert (await query("Project", fields=deep))["total_count"] == 4
    with pytest.raises(ToolRetry, match="5 deep"):
        await query("Project", fields=["code", {"children": deep}])
    wide: Json = ["code"]
    for _ in range(5):
        wide = ["code", {"parent": wide}, {"children": wide}]
    with pytest.raises(ToolRetry, match="at most 30 relations"):
        await query("Project", fields=wide)
    many: list[Json] = ["code"] * 150
    again: list[list[Json]] = [[*many, *many], [{"parent": many}, {"children": many}]]
    for fields in again:
        with pytest.raises(ToolRetry, match="at most 200 fields"):
            await query("Project", fields=fields)


async def _write_uses(write: Write) -> None:
    """Two hundred parts from 1000 on, each with sixty uses."""
    parts, codes = range(1_000, 1_200), [f"P{n}" for n in range(60)]
    await write(sa.insert(Part), [{"id": part, "name": ""} for part in parts])
    await write(sa.insert(Project), [{"code": code, "name": ""} for code in codes])
    uses = [{"project_code": code, "part_id": part} for part in parts for code in codes]
    await write(sa.insert(ProjectPart), uses)


async def test_lists_of_too_many_rows_in_all_are_refused(write: Write, query: Query) -> None:
    await _write_uses(write)
    few: Json = {"uses": {"fields": ["quantity"], "limit": 40}}
    page = await query("Part", fields=["id", few], filters={"id__gte": 1_000})
    assert page["truncated"] is True
    many: Json = {"uses": {"fields": ["quantity"], "limit": MAX_NESTED}}
    with pytest.raises(ToolRetry, match="hold too many rows"):
        await query("Part", fields=["id", many], filters={"id__gte": 1_000})


@on_sqlite
async def test_rows_of_lists_are_not_read_beyond_the_bound(shop_file: Path, write: Write) -> None:
    await _write_uses(write)
    read: list[tuple[object, ...]] = []

    def noted(_: sqlite3.Cursor, row: tuple[object, ...]) -> tuple[object, ...]:
        read.append(row)
        return row

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(shop_file, check_same_thread=False)
        connection.row_factory = noted
        return connection

    managers = Managers(reads=sa.create_engine(f"sqlite:///{shop_file}", creator=connect))
    managers.expose(Part)
    managers.expose(ProjectPart)
    nested: Json = {"uses": {"fields": ["quantity"], "limit": MAX_NESTED}}
    request = QueryRequest("Part", ["id", nested], {"id__gte": 1_000}, limit=200)
    async with Reader(managers, database_url=f"sqlite:///{shop_file}") as reader:
        read.clear()
        with pytest.raises(ToolRetry, match="hold too many rows"):
            await reader.query(request, await reader.view(ADA))
    assert len(read) == 200 + MAX_RELATED_ROWS + 1


async def test_a_result_of_too_many_bytes_loses_its_last_rows(write: Write, query: Query) -> None:
    await write(sa.update(Part).values(notes="x" * 100_000))
    page = await query("Part", fields=["id", "notes"])
    assert isinstance(page["data"], list)
    assert (len(page["data"]), page["total_count"], page["has_more"]) == (2, 6, True)
    assert page["truncated"] is True
    assert page["notes"] == ["the result is cut at 262144 bytes: ask for fewer fields or rows"]


async def test_names_of_managers_are_found_in_any_letter_case(query: Query) -> None:
    assert (await query("projectpart", limit=1))["total_count"] == 5
    with pytest.raises(ToolRetry, match=r"^Unknown manager 'Parts'. Did you mean Part\?"):
        await query("Parts")


async def test_string_keys_are_values_and_never_sql(query: Query) -> None:
    page = await query("Project", fields=["name"], filters={"code": "X'1"})
    assert page["data"] == [{"name": "Ex"}]
    page = await query("Project", fields=["name"], filters={"code": "APO' OR '1'='1"})
    assert page["data"] == []
