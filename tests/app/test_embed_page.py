"""What docs/embed.md says is so, and what code that opens a desk can rely on."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import httpx
from pages import block, write
from processes import UVICORN, ask, run, serving
from transports import answer, kinds

from app.demo.toy import managers
from app.doors import Desk
from app.identity import Scope
from app.main import open_desk
from app.settings import Settings
from providers import Script
from providers.scripted import say
from schema.events import Actor, Ask, Done, Event, Failed, TextChunk

ANN = Actor("user", "ann")


def test_its_script_answers(tmp_path: Path) -> None:
    name = write(tmp_path, block("docs/embed.md", "python", "# ask.py"))
    ended = run(tmp_path, sys.executable, name, log_level="warning")
    assert ended.returncode == 0, ended.stderr
    first, *_ = ended.stdout.splitlines()
    assert first == "[search_managers {'query': 'projects aluminum parts'}]"
    assert "Mercury" in ended.stdout


def test_its_application_has_the_chat_and_asks_itself(tmp_path: Path) -> None:
    write(tmp_path, block("docs/embed.md", "python", "# site_chat.py"))
    with serving(tmp_path, UVICORN, "site_chat:site", ready="/openapi.json") as url:
        assert httpx.get(f"{url}/stock").json() == "There are 3 parts."
        assert ask(url, "How many parts are there?") == "There are 3 parts."


async def events_of(desk: Desk, text: str, actor: Actor = ANN) -> list[Event]:
    return [event async for event in desk.run(Ask(text=text), actor)]


async def test_its_way_to_leave_early_lets_the_run_go_on(toy_url: str) -> None:
    names: dict[str, Callable[[Desk, str], Awaitable[str]]] = {}
    exec(block("docs/embed.md", "python", "first_look"), names)
    async with open_desk(managers, Settings(database_url=toy_url)) as desk:
        assert await names["first_look"](desk, "How many parts are there?") == "search_managers"
        after = await events_of(desk, "How many materials are there?")
        while kinds(after) == ["error"]:  # the run that was left is still at work
            after = await events_of(desk, "How many materials are there?")
        assert kinds(after)[-1] == "done"
        visitor = Actor("session", "v")
        assert answer(await events_of(desk, "How many parts are there?", visitor)) != ""


async def test_what_is_refused_is_one_event(toy_url: str) -> None:
    asked: list[tuple[str, str]] = []

    def permission(actor: Actor, scope: Scope) -> bool:
        asked.append((actor.subject, scope["transport"]))
        return actor != ANN

    settings = Settings(database_url=toy_url, permission=permission, provider=Script(say("Yes.")))
    async with open_desk(managers, settings) as desk:
        [denied] = await events_of(desk, "Hi")
        [blank] = await events_of(desk, " ", Actor("user", "bob"))
        answered = await events_of(desk, "Hi", Actor("user", "bob"))
    assert isinstance(denied, Failed)
    assert isinstance(blank, Failed)
    assert (denied.code, blank.code) == ("denied", "bad_message")
    assert [type(event) for event in answered] == [TextChunk, Done]
    assert asked == [("ann", "desk"), ("bob", "desk"), ("bob", "desk")]


async def test_a_desk_that_is_closed_refuses(toy_url: str) -> None:
    async with open_desk(managers, Settings(database_url=toy_url)) as desk:
        pass
    async with aclosing(desk.run(Ask(text="Hi"), ANN)) as events:
        [refused] = [event async for event in events]
    assert isinstance(refused, Failed)
    assert refused.code == "try_again"
