"""A ledger service: a type and page functions as a project writes them itself."""

import asyncio
import enum
from datetime import UTC, datetime
from decimal import Decimal

import strawberry

from schema import Managers, Page
from schema.events import Actor
from schema.resolver import PageFunction


class Side(enum.Enum):
    DEBIT = "debit"
    CREDIT = 2


class Forbidden(strawberry.BasePermission):
    message = "secret"

    def has_permission(self, source: object, info: strawberry.Info, **kwargs: object) -> bool:
        return False


@strawberry.type
class Booking:
    number: int


@strawberry.type(description="What customers owe, from the ledger service.")
class Balance:
    id: strawberry.ID
    account: str
    amount: Decimal | None = strawberry.field(description="In euros.")
    side: Side = Side.DEBIT
    since: datetime | None = None
    tags: list[str] = strawberry.field(default_factory=list[str])
    last: Booking | None = None
    bookings: list[Booking] = strawberry.field(default_factory=list[Booking])
    secret: strawberry.Private[str] = "CANARY-1"
    guarded: str = strawberry.field(permission_classes=[Forbidden], default="CANARY-2")

    @strawberry.field
    def label(self) -> str:
        return f"{self.account}: {self.amount}"

    @strawberry.field(description="Found out slowly.")
    async def owner(self) -> str | None:
        await asyncio.sleep(0)
        return {"a-1": "Ada"}.get(self.account)

    @strawberry.field
    def risk(self) -> float:
        if self.amount is None:
            raise LookupError("secret detail")
        return float(self.amount) / 10

    @strawberry.field
    def history(self, days: int) -> str:
        return f"CANARY-{days}"

    @strawberry.field
    def host(self, info: strawberry.Info) -> str:
        return f"CANARY-{info}"


LEDGER = [
    Balance(id=strawberry.ID("1"), account="a-1", amount=Decimal("10.50"), tags=["old"]),
    Balance(id=strawberry.ID("2"), account="b-2", amount=None, side=Side.CREDIT),
    Balance(
        id=strawberry.ID("3"),
        account="c-3",
        amount=Decimal("7.00"),
        since=datetime(2024, 5, 31, 14, 0, tzinfo=UTC),
    ),
]


class Ledger:
    """A service that remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []

    async def balances(
        self,
        actor: Actor,
        limit: int,
        offset: int,
        account: str | None = None,
        amount__gt: Decimal | None = None,
        order_by: list[str] | None = None,
    ) -> Page[Balance]:
        """Give one page, as a service does that has many rows."""
        asked: dict[str, object] = {"actor": actor, "limit": limit, "offset": offset}
        asked |= {"account": account, "amount__gt": amount__gt, "order_by": order_by}
        self.asked.append(asked)
        found = [row for row in LEDGER if account in (None, row.account)]
        if amount__gt is not None:
            found = [row for row in found if row.amount is not None and row.amount > amount__gt]
        if order_by == ["-account"]:
            found = found[::-1]
        return Page(found[offset : offset + limit], len(found))

    async def listed(
        self,
        fields: list[str],
        account__in: list[str] | None = None,
        side: Side | None = None,
        since__gte: datetime | None = None,
        search: str = "",
    ) -> list[Balance]:
        """Give all rows that match."""
        asked: dict[str, object] = {"fields": fields, "account__in": account__in, "side": side}
        self.asked.append({**asked, "since__gte": since__gte, "search": search})
        return [row for row in LEDGER if account__in is None or row.account in account__in]


def served(page: PageFunction) -> Managers:
    managers = Managers()
    managers.expose(Balance, page=page, aliases=("debt",), use_when="open bills")
    return managers
