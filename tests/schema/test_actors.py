"""Each actor sees what is theirs: managers with readers, fields hidden from some, tenants apart."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers, ToolContext
from schema.errors import ConfigurationError, ToolError
from schema.events import Actor, Json, JsonObject
from schema.managers import Rule
from schema.query import Reader
from schema.request import QueryRequest
from schema.tools import ToolRegistry, data_tools
from tests.schema.conftest import ADA
from tests.schema.shop import Material, Part, Project, ProjectPart, Supplier

BUYER = Actor("user", "ben", scopes=frozenset({"costs", "suppliers"}))


def lacks(scope: str) -> Rule:
    return lambda actor: scope not in actor.scopes


def has(scope: str) -> Rule:
    async def answer(actor: Actor) -> bool:
        return scope in actor.scopes

    return answer


def managers() -> Managers:
    """Costs and a relation are for buyers, suppliers are too; payroll is for nobody."""
    managers = Managers()
    managers.expose(Material, hide={"parts": lacks("costs")})
    managers.expose(Part, hide={"cost": lacks("costs"), "uses": lacks("costs")})
    managers.expose(Project)
    managers.expose(ProjectPart)
    managers.expose(Supplier, hide=("bank_account",), readers=has("suppliers"))
    return managers


def static() -> Managers:
    """The same as somebody sees it who is no buyer."""
    managers = Managers()
    managers.expose(Material, hide=("parts",))
    managers.expose(Part, hide=("cost", "uses"))
    managers.expose(Project)
    managers.expose(ProjectPart)
    return managers


@asynccontextmanager
async def context(url: str, managers: Managers, actor: Actor) -> AsyncGenerator[ToolContext]:
    async with Reader(managers, database_url=url) as reader:
        yield ToolContext(actor, await reader.view(actor), reader)


async def answer(context: ToolContext, tool: str, args: JsonObject) -> Json:
    try:
        found = await ToolRegistry(data_tools()).call(tool, args, context)
    except ToolError as error:
        return f"{error.code}: {error}"
    return (
        {k: v for k, v in found.items() if k != "result_id"} if isinstance(found, dict) else found
    )


HIDDEN: list[tuple[str, JsonObject]] = [
    ("query", {"manager": "Part", "fields": ["cost"]}),
    ("query", {"manager": "Part", "fields": ["*"]}),
    ("query", {"manager": "Part", "filters": {"cost__gt": 5}}),
    ("query", {"manager": "Part", "filters": {"not": {"cost": 1}}}),
    ("query", {"manager": "Part", "filters": {"or": [{"cost": 1}]}}),
    ("query", {"manager": "Part", "order_by": ["-cost"]}),
    ("query", {"manager": "Part", "fields": [{"uses": ["quantity"]}]}),
    ("query", {"manager": "Part", "filters": {"uses__quantity": 4}}),
    ("query", {"manager": "Part", "fields": [{"supplier": ["name"]}]}),
    ("query", {"manager": "Part", "filters": {"supplier__name": "Acme"}}),
    ("query", {"manager": "Part", "order_by": ["supplier__name"]}),
    ("query", {"manager": "Project", "fields": [{"parts": ["name", "cost"]}]}),
    ("query", {"manager": "Project", "filters": {"parts__cost__gt": 1}}),
    ("query", {"manager": "ProjectPart", "fields": [{"part": [{"uses": ["quantity"]}]}]}),
    ("query", {"manager": "Material", "fields": [{"parts": ["name"]}]}),
    ("query", {"manager": "Supplier"}),
    ("query", {"manager": "supplier", "fields": ["name"]}),
    ("query", {"manager": "Suplier"}),
    ("get_manager_schema", {"manager": "Part"}),
    ("get_manager_schema", {"manager": "Material"}),
    ("get_manager_schema", {"manager": "Supplier"}),
    ("find_path", {"from_manager": "Part", "to_manager": "Supplier"}),
    ("find_path", {"from_manager": "Supplier", "to_manager": "Part"}),
    ("find_path", {"from_manager": "Material", "to_manager": "Project"}),
    ("search_managers", {"query": "supplier"}),
    ("search_managers", {"query": "cost"}),
    ("search_managers", {"query": "what data is there"}),
]


@pytest.mark.covers("H31", "P16", "P17")
async def test_what_is_hidden_from_an_actor_is_as_unknown_as_what_does_not_exist(
    shop_url: str,
) -> None:
    async with context(shop_url, managers(), ADA) as mine, context(shop_url, static(), ADA) as bare:
        for tool, args in HIDDEN:
            assert await answer(mine, tool, args) == await answer(bare, tool, args), args


async def test_an_actor_for_whom_it_is_not_hidden_has_all_of_it(shop_url: str) -> None:
    async with context(shop_url, managers(), BUYER) as buyer:
        for tool, args in HIDDEN:
            if args.get("manager") not in ("Suplier",):
                told = str(await answer(buyer, tool, args))
                assert not told.startswith("invalid_arguments"), (args, told)
        found = await answer(
            buyer,
            "query",
            {
                "manager": "Supplier",
                "fields": ["name", {"parts": ["cost"]}],
                "filters": {"parts__cost__isnull": True, "name": "Acme"},
            },
        )
        assert isinstance(found, dict)
        assert found["total_count"] == 1
        path = await answer(buyer, "find_path", {"from_manager": "Part", "to_manager": "Supplier"})
        assert isinstance(path, dict)
        assert path["found"] is True
        shown = await answer(buyer, "get_manager_schema", {"manager": "Supplier"})
        assert "bank_account" not in str(shown)


def explodes(actor: Actor) -> object:
    raise RuntimeError("CANARY")


async def explodes_later(actor: Actor) -> object:
    raise RuntimeError("CANARY")


def has_no_truth(actor: Actor) -> object:
    return sa.column("owner") > actor.subject


@pytest.mark.parametrize("broken", [explodes, explodes_later, has_no_truth])
async def test_a_rule_that_fails_hides(shop_url: str, broken: Rule) -> None:
    managers = Managers()
    managers.expose(Part, hide={"cost": broken, "price": lambda actor: None})
    managers.expose(Supplier, readers=broken)
    async with context(shop_url, managers, BUYER) as buyer:
        assert [*buyer.view.managers] == ["Part"]
        columns = buyer.view.managers["Part"].columns
        assert ("cost" in columns, "price" in columns) == (False, True)
        assert "CANARY" not in str(await answer(buyer, "query", {"manager": "Supplier"}))


async def test_a_rule_that_gives_on_a_coroutine_means_what_that_says(shop_url: str) -> None:
    def gives_on(rule: Rule) -> Rule:
        async def answer(actor: Actor) -> object:
            return rule(actor)

        return answer

    managers = Managers()
    managers.expose(Part, hide={"cost": gives_on(has("suppliers"))})
    managers.expose(Supplier, readers=gives_on(has("suppliers")))
    for actor, expected in ((ADA, ["Part"]), (BUYER, ["Part", "Supplier"])):
        async with context(shop_url, managers, actor) as mine:
            assert [*mine.view.managers] == expected
            assert ("cost" in mine.view.managers["Part"].columns) is (actor is ADA)


async def test_a_manager_without_a_column_left_is_not_there(shop_url: str) -> None:
    managers = Managers()
    names = ("id", "name", "density", "parts")
    managers.expose(Material, hide=dict.fromkeys(names, lacks("costs")))
    managers.expose(Part)
    async with context(shop_url, managers, ADA) as ada, context(shop_url, managers, BUYER) as ben:
        assert [*ada.view.managers] == ["Part"]
        assert "material" not in ada.view.managers["Part"].links
        assert [*ben.view.managers] == ["Material", "Part"]


async def test_rules_are_asked_once_for_a_run(shop_url: str) -> None:
    asked = list[str]()

    def ask(what: str) -> Callable[[Actor], object]:
        def answer(actor: Actor) -> object:
            asked.append(what)
            return what == "readers"

        return answer

    managers = Managers()
    managers.expose(Part, readers=ask("readers"), hide={"cost": ask("hide")})
    async with context(shop_url, managers, ADA) as ada:
        for _ in range(3):
            await answer(ada, "query", {"manager": "Part", "fields": ["cost"]})
        assert asked == ["readers", "hide"]


@pytest.mark.covers("P17")
async def test_graphql_of_an_actor_has_no_names_that_are_hidden(shop_url: str) -> None:
    async with Reader(managers(), database_url=shop_url) as reader:
        for actor, expected in ((ADA, False), (BUYER, True)):
            view = await reader.view(actor)
            schema = reader.schema(view)
            assert schema is reader.schema(view)
            text = schema.as_str()
            assert ("Supplier" in text, "cost:" in text) == (expected, expected)
            asked = "{ partList(limit: 1) { name cost supplier { name } } }"
            result = await schema.execute(asked, context_value=view)
            assert (result.errors is None) is expected


# --- tenants --------------------------------------------------------------------------------------


class House(SQLModel, registry=registry(metadata=sa.MetaData())):
    pass


class Country(House, table=True):
    code: str = Field(primary_key=True)

    clients: list["Client"] = Relationship(back_populates="country")


class Client(House, table=True):
    id: int | None = Field(default=None, primary_key=True)
    name: str
    tenant_id: str | None
    country_code: str | None = Field(default=None, foreign_key="country.code")

    country: Country | None = Relationship(back_populates="clients")
    invoices: list["Invoice"] = Relationship(back_populates="client")


class Invoice(House, table=True):
    id: int | None = Field(default=None, primary_key=True)
    total: int
    client_id: int | None = Field(default=None, foreign_key="client.id")

    client: Client | None = Relationship(back_populates="invoices")


NORTH, SOUTH = (Actor("user", name, tenant=name) for name in ("north", "south"))
NOBODY = Actor("user", "stray")


def house() -> Managers:
    managers = Managers()
    managers.expose(Country, tenant=False)
    managers.expose(Client, tenant="tenant_id", hide=("tenant_id",))
    managers.expose(
        Invoice,
        tenant="client__tenant_id",
        visible=lambda actor: {} if actor.subject == "north" else {"total__gt": 10},
    )
    return managers


ROWS: list[tuple[type[House], JsonObject]] = [
    (Country, {"code": "NO"}),
    (Client, {"id": 1, "name": "Nils", "tenant_id": "north", "country_code": "NO"}),
    (Client, {"id": 2, "name": "Sue", "tenant_id": "south", "country_code": "NO"}),
    (Client, {"id": 3, "name": "Lost", "tenant_id": None, "country_code": "NO"}),
    (Invoice, {"id": 1, "total": 5, "client_id": 1}),
    (Invoice, {"id": 2, "total": 7, "client_id": 2}),
    (Invoice, {"id": 3, "total": 70, "client_id": 2}),
    (Invoice, {"id": 4, "total": 9, "client_id": None}),
]


@pytest.fixture(params=["sqlite", "postgres"])
async def house_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path}/house.db"
    else:
        url = str(request.getfixturevalue("postgres_url"))
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(House.metadata.create_all)
        for model, row in ROWS:
            await connection.execute(sa.insert(model).values(row))
    await engine.dispose()
    return url


@pytest.mark.parametrize(
    ("actor", "clients", "invoices"),
    [(NORTH, ["Nils"], [5]), (SOUTH, ["Sue"], [70]), (NOBODY, [], []), (ADA, [], [])],
    ids=lambda value: value.subject if isinstance(value, Actor) else "",
)
async def test_a_tenant_has_its_own_rows_by_every_path(
    house_url: str, actor: Actor, clients: list[Json], invoices: list[Json]
) -> None:
    async with Reader(house(), database_url=house_url) as reader:
        view = await reader.view(actor)

        async def rows(manager: str, *fields: Json, **filters: Json) -> list[Json]:
            page = await reader.query(QueryRequest(manager, [*fields], {**filters}), view)
            data = page["data"]
            assert isinstance(data, list)
            assert page["total_count"] == len(data)
            return data

        assert await rows("Client", "name") == [{"name": name} for name in clients]
        assert await rows("Invoice", "total") == [{"total": total} for total in invoices]
        nested: list[Json] = [
            {"code": "NO", "clients": [{"name": n, "invoices": [{"total": t}]}]}
            for n, t in zip(clients, invoices, strict=True)
        ] or [{"code": "NO", "clients": []}]
        assert nested == await rows(
            "Country", "code", {"clients": ["name", {"invoices": ["total"]}]}
        )
        found = await rows("Country", "code", clients__name__in=["Nils", "Sue", "Lost"])
        assert bool(found) is bool(clients)
        assert await rows("Country", "code", clients__name="Lost") == []
        assert await rows("Country", "code", clients__invoices__total=7) == []


async def test_once_there_are_tenants_every_manager_says_whose_rows_it_has() -> None:
    managers = house()
    managers.expose(Part)
    with pytest.raises(ConfigurationError, match=r"Part has no tenant=.*tenant=False"):
        managers.build()


@pytest.mark.parametrize(
    ("tenant", "reason"),
    [
        ("tenant", "no 'tenant'. Did you mean tenant_id"),
        ("country", "does not lead to one column"),
        ("invoices__total", "does not lead to one column"),
        ("name__icontains", "does not lead to one column"),
        ("", "an empty tenant="),
    ],
)
async def test_a_tenant_that_leads_nowhere_stops_the_start(
    house_url: str, tenant: str, reason: str
) -> None:
    managers = Managers()
    managers.expose(Client, tenant=tenant)
    with pytest.raises(ConfigurationError, match=reason):
        async with Reader(managers, database_url=house_url):
            pass
