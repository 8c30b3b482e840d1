"""A project with models of both kinds, served from its own folder as its author would."""

import shutil
import sys
import time
from pathlib import Path

import httpx
import pytest
from joserfc.jwk import OctKey
from jwts import sign
from pages import block
from processes import UVICORN, run, serving

from schema.events import Json, JsonObject

PROJECT = Path(__file__).with_name("project")
KEY = "k" * 48


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's folder with its databases, made by the libraries of their models."""
    folder = shutil.copytree(PROJECT, tmp_path / "project")
    filled = run(folder, sys.executable, "-m", "shop.fill")
    assert filled.returncode == 0, filled.stderr
    return folder


def results(url: str, text: str, subject: str | None = None) -> list[Json]:
    """Ask a question, and give the results of the tools that were called."""
    claims: JsonObject = {"sub": subject, "exp": int(time.time()) + 60}
    token = sign(OctKey.import_key(KEY), "HS256", claims)
    headers = {"Authorization": f"Bearer {token}"} if subject else {}
    answer = httpx.post(f"{url}/chat/", json={"text": text}, headers=headers, timeout=30).json()
    events: list[JsonObject] = answer["events"]
    assert events[-1]["type"] == "done"
    return [event["result"] for event in events if event["type"] == "tool_result"]


def rows(result: Json) -> Json:
    assert isinstance(result, dict)
    return result["data"]


def test_a_project_with_models_of_both_kinds_is_served_from_its_folder(project: Path) -> None:
    settings = {"provider": "shop.script:script", "jwt__secret": KEY}
    with serving(project, UVICORN, "shop.chat:app", **settings) as url:
        parts, material = results(url, "Which parts are there?")
        assert rows(parts) == [
            {"name": "Bolt", "price": "1.10", "material": {"name": "Steel"}},
            {"name": "Gear", "price": "12.00", "material": {"name": "Steel"}},
        ]
        assert "purchase_price" not in str(material)
        [orders] = results(url, "What did I order?", "ada")
        assert rows(orders) == [
            {
                "id": 1,
                "part_id": 1,
                "total": "5.50",
                "ordered_at": "2024-05-31T14:00:00+00:00",
                "owner_id": 1,
            }
        ]
        [orders] = results(url, "What did I order?", "bob")
        assert "24.00" in str(orders)
        assert "5.50" not in str(orders)
        [orders] = results(url, "What did I order?")
        assert rows(orders) == []


def test_the_same_managers_are_served_without_an_app_of_the_projects(project: Path) -> None:
    settings = {"managers": "shop.chat:managers", "provider": "shop.script:script"}
    with serving(project, UVICORN, "app.main:app", **settings) as url:
        parts, _ = results(url, "Which parts are there?")
        assert "Bolt" in str(rows(parts))


LEDGER = """
from types import SimpleNamespace


class ledger:
    async def balances(subject, account, amount__gt, limit, offset):
        rows = [Balance(account="4711", amount=Decimal("12.5")) for _ in range(amount__gt < 12)]
        return SimpleNamespace(rows=rows, count=len(rows))
"""
ASKS = """
from providers.scripted import Script, call, say

script = Script([
    call("query", manager="Part", fields=["name", "stock_value"]),
    call("query", manager="Balance", filters={"amount__gt": "11"}),
    call("query", manager="Balance", filters={"amount__gt": "13"}),
], say("Here they are."))
"""


def test_the_examples_of_the_page_on_exposing_run_together(project: Path) -> None:
    """A class of the ledger service stands in for what the page leaves to its reader."""
    exposed = block("docs/expose.md", "python", "# shop/chat.py")
    computed = block("docs/expose.md", "python", "@managers.field")
    balances = block("docs/expose.md", "python", "page=balances")
    code = "\n".join([exposed, computed, balances, LEDGER])
    (project / "shop" / "chat.py").write_text(code)
    (project / "shop" / "asks.py").write_text(ASKS)
    with serving(project, UVICORN, "shop.chat:app", provider="shop.asks:script") as url:
        parts, owed, none = results(url, "What is there?")
    assert rows(parts) == [
        {"name": "Bolt", "stock_value": "44.00"},
        {"name": "Gear", "stock_value": "0.00"},
    ]
    assert rows(owed) == [{"account": "4711", "amount": "12.5"}]
    assert rows(none) == []
