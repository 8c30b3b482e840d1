"""The large demo: a question finds its manager among 150, and its rows are there."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from desk import Desk, open_desk

from app.demo.large import managers
from schema.events import Json, JsonObject
from schema.index import SchemaIndex


@pytest.fixture(scope="module")
def index() -> SchemaIndex:
    return SchemaIndex(managers.build())


@pytest_asyncio.fixture
async def company(large_url: str) -> AsyncGenerator[Desk]:
    async with open_desk(managers, large_url) as desk:
        yield desk


def hits(index: SchemaIndex, query: str) -> list[JsonObject]:
    return [hit for hit in index.search(query) if isinstance(hit, dict)]


def test_there_are_150_managers_and_ways_between_nearly_all(index: SchemaIndex) -> None:
    assert len(index.managers) == 150
    links = [link for manager in index.managers.values() for link in manager.links.values()]
    assert {link.relation.many for link in links} == {True, False}
    assert sum(bool(manager.links) for manager in index.managers.values()) >= 135


@pytest.mark.parametrize(
    ("question", "manager"),
    [
        ("Who works in which department?", "Department"),
        ("list all employees", "Employee"),
        ("Which purchase orders are open?", "PurchaseOrder"),
        ("lines of purchase orders", "PurchaseOrderLine"),
        ("invoices that are overdue", "Invoice"),
        ("unpaid bills from suppliers", "SupplierInvoice"),
        ("What did customers complain about?", "Complaint"),
        ("How many machines are broken?", "Machine"),
        ("machine downtime", "DowntimeEvent"),
        ("vacation of people", "LeaveRequest"),
        ("candidates for a job", "Applicant"),
        ("laptops", "Computer"),
        ("Which trucks do we have?", "Vehicle"),
        ("accidents at work", "SafetyIncident"),
        ("carpark", "ParkingSpace"),
        ("passwords and logins", "UserAccount"),
        ("What is the exchange rate of the dollar?", "ExchangeRate"),
        ("bill of materials of a product", "PartsList"),
        ("When was the gauge calibrated?", "MeasuringDevice"),
        ("parcels", "Package"),
        ("prospects", "Lead"),
        ("who may open doors", "AccessBadge"),
        ("lunch", "CanteenMenu"),
        ("backups", "BackupJob"),
        ("hazardous chemicals", "HazardousSubstance"),
        ("bank statements", "BankTransaction"),
        ("sales forecast", "SalesForecast"),
        ("suplier audits", "SupplierAudit"),
        ("employes", "Employee"),
        ("meeting rooms", "MeetingRoom"),
    ],
)
def test_a_question_finds_its_manager_first(
    index: SchemaIndex, question: str, manager: str
) -> None:
    first, *_ = hits(index, question)
    assert first["manager"] == manager
    assert first["reason"] != "catalogue"


def test_what_nobody_keeps_records_of_lists_the_catalogue(index: SchemaIndex) -> None:
    for question in ("zebras", "What data do you have?"):
        listed = hits(index, question)
        assert [hit["manager"] for hit in listed] == [*index.managers][:10]
        assert {str(hit["reason"]) for hit in listed} == {"catalogue"}


@pytest.mark.covers("C7-16")
def test_paths_lead_across_the_company(index: SchemaIndex) -> None:
    def fields(start: str, goal: str) -> list[Json]:
        hops = index.find_path(start, goal)["hops"]
        assert isinstance(hops, list)
        return [hop["field"] for hop in hops if isinstance(hop, dict)]

    assert fields("PurchaseOrderLine", "Supplier") == ["purchase_order", "supplier"]
    assert fields("Customer", "Payment") == ["invoices", "payments"]
    assert fields("Payment", "Warehouse") == ["invoice", "sales_order", "pick_lists", "warehouse"]
    assert index.find_path("Patent", "Employee")["reason"] == "no_path"


@pytest.mark.parametrize(
    ("question", "headline"),
    [
        ("List all employees", "There are 12 employees:"),
        ("List all laptops", "There are 3 laptops:"),
        ("How many parts lists are there?", "There are 5 parts lists."),
        ("Which invoices are overdue?", "There are 2 invoices with status overdue:"),
        ("Which machines are broken?", "There is 1 machine with status broken:"),
    ],
)
async def test_questions_are_answered_from_the_rows(
    company: Desk, question: str, headline: str
) -> None:
    assert (await company.ask(question)).headline == headline


async def test_what_is_not_found_is_told_with_what_is_there(company: Desk) -> None:
    asked = await company.ask("List all zebras")
    assert asked.headline.startswith(
        'I found no kind of record and no field called "zebras". I can answer about '
    )
    assert [call.name for call in asked.calls] == ["search_managers"]
    asked = await company.ask("How many vehicels are there?")
    assert "I can answer about vehicles" in asked.headline
