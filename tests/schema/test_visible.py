"""``visible`` limits rows wherever a table appears, and shows nothing when it is wrong."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import date
from decimal import Decimal
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import registry

from schema import Managers
from schema.aggregates import AggregateRequest
from schema.events import Actor, Json, JsonObject
from schema.managers import Visible
from schema.query import Reader
from schema.request import QueryRequest
from tests.schema.conftest import ADA, measure
from tests.schema.shop import Material, Part, Project, ProjectPart, Status, Supplier

GRACE = Actor("user", "grace", scopes=frozenset({"Bolt", "Gear"}))


@asynccontextmanager
async def opened(url: str, **visible: Visible) -> AsyncGenerator[Reader]:
    """The shop with the given visible functions, by model name in lower case."""
    managers = Managers()
    for model in (Material, Part, Project, ProjectPart):
        managers.expose(model, visible=visible.get(model.__name__.lower()))
    managers.expose(Supplier, hide=("bank_account", "city"), visible=visible.get("supplier"))
    async with Reader(managers, database_url=url) as reader:
        yield reader


async def read(reader: Reader, actor: Actor, manager: str, **options: Json) -> JsonObject:
    fields, filters = options.get("fields"), options.get("filters")
    assert isinstance(fields, list)
    assert filters is None or isinstance(filters, dict)
    page = await reader.query(QueryRequest(manager, fields, filters), await reader.view(actor))
    rows = page["data"]
    assert isinstance(rows, list)
    assert page["total_count"] == len(rows)
    return page


def own(actor: Actor) -> object:
    return {"owner": actor.subject}


async def test_the_root_and_its_count_are_limited(shop_url: str) -> None:
    async with opened(shop_url, project=own) as reader:
        page = await read(reader, GRACE, "Project", fields=["code"])
        assert page["data"] == [{"code": "MER"}, {"code": "VEN"}]
        page = await read(reader, ADA, "Project", fields=["code"])
        assert page["data"] == [{"code": "APO"}, {"code": "X'1"}]


async def test_a_combined_filter_limits_like_any_other(shop_url: str) -> None:
    def theirs(actor: Actor) -> object:
        return {"or": ({"owner": actor.subject}, {"parent__owner": actor.subject}), "not": {}}

    def others(actor: Actor) -> object:
        return {"not": {"or": ({"owner": actor.subject}, {"parent__code__in": {"APO"}})}}

    async with opened(shop_url, project=theirs) as reader:
        assert (await read(reader, GRACE, "Project", fields=["code"]))["data"] == []
    async with opened(shop_url, project=others) as reader:
        page = await read(reader, ADA, "Project", fields=["code"])
        codes = [str(row["code"]) for row in _rows(page)]
        assert "APO" not in codes
        assert "VEN" in codes or "MER" in codes
        parts = await read(
            reader, ADA, "Part", fields=["name", {"projects": ["code"]}], filters={"id__gt": 0}
        )
        shown = {str(p["code"]) for row in _rows(parts) for p in _rows({"data": row["projects"]})}
        assert shown <= set(codes)


def _rows(page: JsonObject) -> list[JsonObject]:
    data = page["data"]
    assert isinstance(data, list)
    return [row for row in data if isinstance(row, dict)]


async def test_a_page_that_is_full_has_a_limited_count(shop_url: str) -> None:
    async with opened(shop_url, project=own) as reader:
        view = await reader.view(GRACE)
        page = await reader.query(QueryRequest("Project", ["code"], limit=1), view)
        assert (page["total_count"], page["has_more"]) == (2, True)


async def test_single_rows_lists_and_links_beside_a_row_are_limited(shop_url: str) -> None:
    async with opened(shop_url, project=own) as reader:
        page = await read(reader, GRACE, "Project", fields=["code", {"parent": ["code"]}])
        assert page["data"] == [
            {"code": "MER", "parent": None},
            {"code": "VEN", "parent": {"code": "MER"}},
        ]
        fields: Json = ["name", {"projects": ["code"]}]
        page = await read(reader, GRACE, "Part", fields=fields, filters={"stock": 5})
        assert page["data"] == [{"name": "Bolt", "projects": [{"code": "MER"}]}]


async def test_paths_of_filters_lead_to_visible_rows_only(shop_url: str) -> None:
    async with opened(shop_url, project=own) as reader:
        for filters, expected in [
            ({"parent__code": "APO"}, []),
            ({"parent__isnull": True}, ["MER"]),
            ({"parent__isnull": False}, ["VEN"]),
            ({"parent__parent__isnull": False}, []),
        ]:
            asked: JsonObject = {**filters}
            page = await read(reader, GRACE, "Project", fields=["code"], filters=asked)
            assert page["data"] == [{"code": code} for code in expected]
        for filters, expected in [
            ({"projects__code": "APO"}, []),
            ({"projects__code": "MER"}, ["Bolt", "Bearing"]),
            ({"projects__isnull": False}, ["Bolt", "Bearing", "100%_Nut"]),
            ({"uses__project__code": "APO"}, []),
        ]:
            asked = {**filters}
            page = await read(reader, GRACE, "Part", fields=["name"], filters=asked)
            assert page["data"] == [{"name": name} for name in expected]


async def test_a_visible_link_table_limits_what_it_links(shop_url: str) -> None:
    def many(actor: Actor) -> object:
        return {"quantity__gt": 1}

    async with opened(shop_url, projectpart=many) as reader:
        fields: Json = ["code", {"parts": ["id"]}]
        page = await read(reader, ADA, "Project", fields=fields, filters={"code": "APO"})
        assert page["data"] == [{"code": "APO", "parts": [{"id": 1}]}]
        page = await read(reader, ADA, "Project", fields=["code"], filters={"parts__name": "Gear"})
        assert page["data"] == []


async def test_a_filter_may_use_hidden_columns_and_models_that_are_not_exposed(
    shop_url: str,
) -> None:
    def paid(actor: Actor) -> object:
        return {"supplier__payroll__person": "CANARY-77", "supplier__city": "Köln"}

    async with opened(shop_url, part=paid) as reader:
        page = await read(reader, ADA, "Part", fields=["name"])
        assert page["data"] == [{"name": "Bolt"}, {"name": "Straße"}]
        page = await read(
            reader, ADA, "Material", fields=["name", {"parts": ["name"]}], filters={"id__lte": 2}
        )
        assert page["data"] == [
            {"name": "Steel", "parts": [{"name": "Bolt"}]},
            {"name": "Aluminum", "parts": [{"name": "Straße"}]},
        ]
        page = await read(
            reader, ADA, "ProjectPart", fields=["quantity", {"part": ["name"]}],
            filters={"project_code": "APO"},
        )  # fmt: skip
        assert page["data"] == [
            {"quantity": 4, "part": {"name": "Bolt"}},
            {"quantity": 1, "part": None},
        ]
        page = await read(reader, ADA, "Project", fields=["code"], filters={"parts__stock__gte": 0})
        assert page["data"] == [{"code": "APO"}, {"code": "MER"}]


class Nameless:
    def __str__(self) -> str:
        raise LookupError


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "found",
    [
        None,
        False,
        True,
        "all",
        ["name"],
        {"name": None},
        {"nothing": 1},
        {"name__in": []},
        {"stock": "many"},
        {"stock__gt": object()},
        {"price__isnull": 0},
        {1: 2},
        {Nameless(): 2},
        {"id__in": ENDLESS},
    ],
)
async def test_anything_but_a_fitting_filter_shows_nothing(shop_url: str, found: object) -> None:
    async with opened(shop_url, part=lambda actor: found) as reader:
        assert (await read(reader, ADA, "Part", fields=["id"]))["data"] == []
        page = await read(reader, ADA, "Material", fields=["name", {"parts": ["id"]}])
        assert page["data"] == [
            {"name": name, "parts": []} for name in ("Steel", "Aluminum", "Cobalt")
        ]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


async def test_an_exception_shows_nothing_and_is_logged(
    shop_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(actor: Actor) -> object:
        raise LookupError("secret detail")

    async with opened(shop_url, part=broken) as reader:
        assert (await read(reader, ADA, "Part", fields=["id"]))["data"] == []
    assert "secret detail" in caplog.text
    assert len(warnings_of(caplog)) == 1


async def test_none_shows_nothing_without_a_word(
    shop_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(shop_url, part=lambda actor: None) as reader:
        assert (await read(reader, ADA, "Part", fields=["id"]))["data"] == []
    assert warnings_of(caplog) == []


async def test_an_empty_filter_shows_everything(shop_url: str) -> None:
    async with opened(shop_url, part=lambda actor: {}) as reader:
        assert (await read(reader, ADA, "Part", fields=["id"]))["total_count"] == 6


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"name__in": GRACE.scopes}, ["Bolt", "Gear"]),
        ({"name__in": ("Zahn",)}, ["Zahn"]),
        ({"price": Decimal("0.5")}, ["Zahn"]),
        ({"serial": UUID(int=7)}, ["100%_Nut"]),
        ({"made_on": date(2024, 5, 31)}, ["100%_Nut"]),
        ({"status": Status.ON_HOLD}, ["100%_Nut"]),
        ({"material__isnull": True}, ["100%_Nut"]),
        ({"projects__isnull": True}, ["Straße", "Zahn"]),
    ],
)
async def test_python_values_serve_as_well_as_json(
    shop_url: str, found: object, expected: list[str]
) -> None:
    async with opened(shop_url, part=lambda actor: found) as reader:
        page = await read(reader, GRACE, "Part", fields=["name"])
        assert page["data"] == [{"name": name} for name in expected]


async def test_it_is_evaluated_once_per_view_and_may_be_async(shop_url: str) -> None:
    calls: list[str] = []

    async def later(actor: Actor) -> object:
        await asyncio.sleep(0)
        calls.append(actor.subject)
        return {"name": "Bolt"} if len(calls) == 1 else None

    async with opened(shop_url, part=later) as reader:
        view = await reader.view(ADA)
        for _ in range(3):
            page = await reader.query(QueryRequest("Part", ["name"]), view)
            assert page["data"] == [{"name": "Bolt"}]
        assert calls == ["ada"]
        assert (await read(reader, GRACE, "Part", fields=["id"]))["data"] == []


async def test_views_of_one_shape_share_sql_but_not_values(shop_url: str) -> None:
    async with opened(shop_url, project=own) as reader:
        views = [await reader.view(actor) for actor in (ADA, GRACE)]
        assert views[0].shape == views[1].shape
        pages = [await reader.query(QueryRequest("Project", ["owner"]), v) for v in views]
        assert [page["data"] for page in pages] == [
            [{"owner": "ada"}] * 2,
            [{"owner": "grace"}] * 2,
        ]


async def test_what_was_read_for_one_who_sees_all_is_limited_for_another(shop_url: str) -> None:
    def theirs(actor: Actor) -> object:
        return {} if actor is ADA else {"owner": actor.subject}

    asked = AggregateRequest("Project", measures=[measure("max", "code")])
    async with opened(shop_url, project=theirs) as reader:
        for actor, codes in ((ADA, ["APO", "MER", "VEN", "X'1"]), (GRACE, ["MER", "VEN"])):
            page = await read(reader, actor, "Project", fields=["code"])
            assert page["data"] == [{"code": code} for code in codes]
            figures = await reader.aggregate(asked, await reader.view(actor))
            assert figures["data"] == [{"max_code": codes[-1]}]


class WholeProject:
    pass


class WholeProjectPart:
    pass


SHARING = registry()
SHARING.map_imperatively(WholeProject, sa.inspect(Project).local_table)
SHARING.map_imperatively(WholeProjectPart, sa.inspect(ProjectPart).local_table)


async def test_models_of_one_table_have_limits_of_their_own(shop_url: str) -> None:
    managers = Managers()
    managers.expose(Project, visible=own)
    managers.expose(WholeProject)
    managers.expose(Part)
    managers.expose(ProjectPart, visible=lambda actor: {"quantity__gt": 1})
    managers.expose(WholeProjectPart)
    async with Reader(managers, database_url=shop_url) as reader:
        page = await read(reader, GRACE, "Project", fields=["code"])
        assert page["data"] == [{"code": "MER"}, {"code": "VEN"}]
        page = await read(reader, GRACE, "WholeProject", fields=["code"])
        assert len(_rows(page)) == 4
        fields: Json = ["code", {"parts": ["id"]}]
        page = await read(reader, ADA, "Project", fields=fields, filters={"code": "APO"})
        assert page["data"] == [{"code": "APO", "parts": [{"id": 1}]}]
        page = await read(reader, ADA, "WholeProjectPart", fields=["quantity"])
        assert {"quantity": 1} in _rows(page)
