"""What the aggregate tool refuses, and how it says so."""

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from schema import Managers, ToolRetry
from schema.aggregates import AggregateRequest
from schema.events import Json, JsonObject
from schema.query import Reader
from tests.schema.conftest import ADA, Aggregate, measure, on_sqlite

ELEVEN: list[Json] = ["name"] * 11
MANY: list[Json] = [measure("count")] * 21
REFUSED: list[tuple[JsonObject, str]] = [
    ({"group_by": ["nam"]}, "^group_by 'nam': Part has no 'nam'. Did you mean name\\? Fields: id"),
    ({"group_by": ["cost"]}, "^group_by 'cost': Part has no 'cost'"),
    ({"group_by": ["supplier__bank_account"]}, "^group_by 'supplier__bank_account': Supplier has"),
    ({"group_by": ["material"]}, "^group_by: 'material' is a relation; name a field of Material"),
    (
        {"group_by": ["uses__quantity"]},
        "^group_by: 'uses__quantity' leads over uses, a list of ProjectPart. Aggregate ProjectPart"
        " instead, and reach Part by part.",
    ),
    (
        {"group_by": ["projects__code"]},
        "^group_by: 'projects__code' leads over projects, a list of Project. Aggregate Project",
    ),
    ({"group_by": ["extra"]}, "^group_by: extra holds json"),
    ({"group_by": ["made_at__minute"]}, "no part 'minute'. Its parts: made_at__year, made_at__qua"),
    ({"group_by": ["made_on__hour"]}, "^group_by: the date field made_on has no part 'hour'"),
    ({"group_by": ["packed_at__day"]}, "^group_by: the time field .* Its parts: packed_at__hour.$"),
    ({"group_by": ["name__year"]}, "^group_by: the string field name has no part 'year'. Only"),
    ({"group_by": ["made_at__year__month"]}, "^group_by: .* has no part 'year__month'"),
    ({"group_by": ["name", "name"]}, "^group_by: 'name' is given twice"),
    ({"group_by": [1]}, "^group_by: must be a list of fields"),
    ({"group_by": ELEVEN}, "^group_by: at most 10 keys"),
    (
        {"group_by": ["__".join(["material"] * 1 + ["parts", "id"])]},
        "^group_by: .* leads over parts",
    ),
    ({"measures": ["count"]}, "^measures: must be a list of objects, such as"),
    ({"measures": MANY}, "^measures: at most 20 measures"),
    ({"measures": [{"op": "median", "field": "price"}]}, "^measures: op must be one of count, sum"),
    ({"measures": [{"op": "cuont"}]}, "Did you mean count\\?$"),
    ({"measures": [{"field": "price"}]}, "^measures: op must be one of"),
    ({"measures": [{"op": "sum", "column": "price"}]}, "^measures: 'column' is unknown; it must"),
    ({"measures": [{"op": "sum"}]}, "^measures: sum needs a field. Fields for it: id, price, sto"),
    ({"measures": [{"op": "sum", "field": 3}]}, "^measures: sum needs a field"),
    ({"measures": [measure("sum", "name")]}, "^measures: sum does not take the string field name"),
    ({"measures": [measure("avg", "is_made_here")]}, "^measures: avg does not take the boolean"),
    ({"measures": [measure("max", "serial")]}, "^measures: max does not take the uuid field"),
    ({"measures": [measure("count_distinct", "extra")]}, "does not take the json field extra"),
    ({"measures": [measure("sum", "cost")]}, "^measures 'cost': Part has no 'cost'"),
    ({"measures": [measure("sum", "made_at__year")]}, "^measures: 'made_at__year' goes on after"),
    ({"measures": [measure("sum", "uses__quantity")]}, "^measures: .* Aggregate ProjectPart inst"),
    ({"measures": [{"op": "count"}, {"op": "count"}]}, "^measures: the result has 'count' twice"),
    ({"group_by": ["name"], "measures": [measure("count", key="name")]}, "has 'name' twice"),
    *(
        ({"measures": [{"op": "count", "as": key}]}, "^measures: as must be a name of letters")
        for key in ("a b", "-a", "a__gt", "and", "not", "", 'a"b', "a" * 81, 3)
    ),
    ({"having": {"name": "x"}}, "^having: Unknown filter 'name': the list of measures has no"),
    ({"having": {"count__regex": 3}}, "^having: Unknown filter 'count__regex': the integer field"),
    ({"having": {"count": "x"}}, "^having: Filter count: the value must be an integer"),
    ({"having": {"count": None}}, "^having: Filter count: null is asked for with count__isnull"),
    ({"having": {"or": {"count": 1}}}, "^having: Filter or: must be a list"),
    ({"having": {"not": {"not": {"not": {"not": {"not": {"not": {}}}}}}}}, "^having: .* nested"),
    ({"order_by": ["nam"]}, "^order_by: the result has no 'nam'. Its keys: count.$"),
    ({"order_by": ["price"]}, "^order_by: the result has no 'price'"),
    ({"order_by": ["count", "-count"]}, "^order_by: count is given twice"),
    ({"order_by": [1]}, "^order_by: must be a list of keys"),
    ({"filters": {"nam": 1}}, "^Unknown filter 'nam': Part has no 'nam'"),
    ({"filters": []}, "^filters: must be an object"),
    ({"having": []}, "^having: must be an object"),
    ({"limit": 0}, "^limit: must be an integer of 1"),
    ({"limit": "5"}, "^limit: must be an integer"),
    ({"offset": -1}, "^offset: must be an integer of 0"),
    ({"measures": [{"op": 2**70}]}, "^measures: must be plain JSON"),
    ({"fields": ["name"]}, "^Unexpected argument 'fields'"),
]


@pytest.mark.covers("H31")
@on_sqlite
async def test_what_does_not_fit_is_refused_by_name(aggregate: Aggregate) -> None:
    for asked, message in REFUSED:
        with pytest.raises(ToolRetry, match=message):
            await aggregate("Part", **asked)
    with pytest.raises(ToolRetry, match=r"^Unknown manager 'Parts'. Did you mean Part\?"):
        await aggregate("Parts")


class Cents(sa.TypeDecorator[float]):
    """A price that is stored as another number."""

    impl = sa.Float
    cache_ok = True

    def process_result_value(self, value: float | None, dialect: sa.Dialect) -> float | None:
        return None if value is None else value / 100


class Base(DeclarativeBase):
    pass


class Ticket(Base):
    __tablename__ = "ticket"

    id: Mapped[int] = mapped_column(primary_key=True)
    price: Mapped[float] = mapped_column(Cents)


async def test_numbers_in_a_form_of_their_own_are_not_added_up(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "tickets.db") as writer:
        writer.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, price FLOAT)")
        writer.execute("INSERT INTO ticket VALUES (1, 250), (2, 350)")
    managers = Managers()
    managers.expose(Ticket)
    async with Reader(managers, database_url=f"sqlite:///{tmp_path}/tickets.db") as reader:
        view = await reader.view(ADA)
        measures: list[Json] = [measure("max", "price"), measure("sum", "id")]
        page = await reader.aggregate(AggregateRequest("Ticket", measures=measures), view)
        assert page["data"] == [{"max_price": 3.5, "sum_id": 3}]
        for op in ("sum", "avg"):
            request = AggregateRequest("Ticket", measures=[measure(op, "price")])
            with pytest.raises(ToolRetry, match=f"^measures: price is stored in .* no {op}"):
                await reader.aggregate(request, view)


@on_sqlite
async def test_paths_are_bounded(aggregate: Aggregate) -> None:
    deep = "__".join(["parent"] * 5 + ["name"])
    assert (await aggregate("Project", group_by=[deep]))["total_count"] == 1
    with pytest.raises(ToolRetry, match="at most 5 relations"):
        await aggregate("Project", group_by=[f"parent__{deep}"])
