"""What a Strawberry type and its page function say of themselves is checked at start-up."""

import pytest
import strawberry

from schema import Managers
from schema.errors import ConfigurationError
from schema.events import Actor
from schema.resolver import PageFunction
from tests.schema.ledger import Balance, Ledger, served
from tests.schema.shop import Part, Project


@strawberry.input
class Question:
    text: str


@strawberry.type
class Undescribed:
    name: str


async def _takes_anything(**filters: str) -> list[Balance]:
    return []


async def _takes_what_must_be_given(account: str) -> list[Balance]:
    return []


async def _takes_a_mapping(account: dict[str, str] | None = None) -> list[Balance]:
    return []


async def _takes_what_is_of_two_kinds(account: str | int = "") -> list[Balance]:
    return []


def _sync() -> list[Balance]:
    return []


@pytest.mark.parametrize(
    ("model", "page", "problem"),
    [
        (Part, Ledger().balances, "Part is exposed with page=, and is no type of Strawberry's"),
        (Question, Ledger().balances, "Question is exposed with page=, and is no type"),
        (Balance, _sync, "page= of Balance is no async function"),
        (Balance, _takes_anything, r"page= of Balance takes \*\*filters: str, which says nothing"),
        (Balance, _takes_what_must_be_given, "takes account: str, which can't be a filter"),
        (Balance, _takes_a_mapping, "takes account: dict.*, which can't be a filter"),
        (Balance, _takes_what_is_of_two_kinds, "takes account: str.*, which can't be a filter"),
        (Balance, None, "Balance is not a table of a known kind"),
    ],
)
def test_a_mistake_is_told_at_start_up(
    model: type, page: PageFunction | None, problem: str
) -> None:
    managers = Managers()
    managers.expose(model, page=page)
    with pytest.raises(ConfigurationError, match=f"^E001: .*{problem}"):
        managers.build()


def test_limits_of_tables_are_refused_for_a_page_function() -> None:
    def everything(_: Actor) -> object:
        return {}

    managers = Managers()
    managers.expose(Balance, page=Ledger().balances, visible=everything)
    with pytest.raises(ConfigurationError, match="Balance has page= and visible= or tenant="):
        managers.build()
    managers = Managers()
    managers.expose(Balance, page=Ledger().balances, tenant="account")
    with pytest.raises(ConfigurationError, match="Balance has page= and visible= or tenant="):
        managers.build()
    managers = Managers()
    managers.expose(Balance, page=Ledger().balances)
    managers.field(Balance)(everything)
    with pytest.raises(ConfigurationError, match="a field of Balance, which has page="):
        managers.build()


def test_only_what_is_shown_can_be_hidden() -> None:
    managers = Managers()
    managers.expose(Balance, page=Ledger().balances, hide=("guarded",))
    with pytest.raises(ConfigurationError, match="names 'guarded', which Balance does not have"):
        managers.build()


def test_among_tenants_a_page_function_takes_the_actor_or_says_that_all_share() -> None:
    def tenants(page: PageFunction) -> Managers:
        managers = served(page)
        managers.expose(Project, tenant="owner")
        return managers

    tenants(Ledger().balances).build()
    with pytest.raises(ConfigurationError, match="Balance has no tenant="):
        tenants(Ledger().listed).build()
    managers = Managers()
    managers.expose(Balance, page=Ledger().listed, tenant=False)
    managers.expose(Project, tenant="owner")
    managers.build()


def test_a_type_without_a_description_has_none() -> None:
    managers = Managers()
    managers.expose(Undescribed, page=Ledger().balances)
    [manager] = managers.build()
    assert manager.description == ""
