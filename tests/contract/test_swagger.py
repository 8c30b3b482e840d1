"""Swagger UI in a real browser: what a visitor and a user see when they try the operations."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pages import block
from playwright.async_api import Locator, Page, async_playwright, expect
from transports import serve

from app.demo.manufacturing import managers
from app.main import create_app
from app.settings import Jwt, Settings
from app.tokens import make_token

JWT = Jwt(secret="k" * 32)
ANSWER = "There are 64 parts."
WAIT_MS = 30_000
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)


@asynccontextmanager
async def browsing(profile: Path) -> AsyncGenerator[Page]:
    """Open a page in a browser that has never been anywhere."""
    chromium = shutil.which("chromium")
    assert chromium, "Chromium is not installed: run make test, or apt-get install chromium."
    async with async_playwright() as driver:
        context = await driver.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=QUIET, timeout=60_000
        )
        context.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        yield context.pages[0]
        await context.close()


@pytest.fixture
async def docs(manufacturing_url: str, tmp_path: Path) -> AsyncGenerator[Page]:
    """The page of a desk with the offline provider; it must load nothing from elsewhere."""
    settings = Settings(
        database_url=manufacturing_url, provider="offline", session_secret="s" * 32, jwt=JWT
    )
    async with serve(create_app(managers, settings)) as url, browsing(tmp_path / "profile") as page:
        asked: list[str] = []
        failures: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failures.append(str(error)))
        await page.goto(f"{url}/docs")
        yield page
        assert [address for address in asked if not address.startswith(f"{url}/")] == []
        assert failures == []


async def opened(page: Page, operation: str) -> Locator:
    """Unfold an operation."""
    block = page.locator(f"#operations-chat-{operation}")
    await block.locator(".opblock-summary-control").click()
    return block


async def ask(block: Locator, text: str) -> None:
    await block.locator("textarea").fill(f'{{"text": "{text}"}}')
    await execute(block)


async def execute(block: Locator) -> None:
    """Press the button; the answer before is gone at once."""
    clear = block.locator("button.btn-clear")
    if await clear.count():
        await clear.click()
    await block.locator("button.execute").click()


def status(block: Locator) -> Locator:
    return block.locator(".live-responses-table .response-col_status").last


def body(block: Locator) -> Locator:
    return block.locator(".live-responses-table .response-col_description").last


async def test_a_visitor_tries_a_question_and_its_token_goes_along(docs: Page) -> None:
    block = await opened(docs, "chat_ask")
    for _ in range(2):  # the first answer brings the session, and the second question needs a token
        await ask(block, "How many parts are there?")
        await expect(status(block)).to_contain_text("200")
        await expect(body(block)).to_contain_text(ANSWER)
    async with docs.expect_request("**/chat/") as asked:
        await execute(block)
    headers = await (await asked.value).all_headers()
    assert f"csrftoken={headers['x-csrftoken']}" in headers["cookie"]
    session = await opened(docs, "chat_session")
    await execute(session)
    await expect(body(session)).to_contain_text('"kind": "session"')


async def test_a_user_is_authorized_by_a_token_and_tries_a_stream(docs: Page) -> None:
    token = make_token(JWT, "ann", lifetime=timedelta(hours=1), now=datetime.now(UTC))
    await docs.locator(".auth-wrapper button.authorize").click()
    await docs.locator(".auth-container:has-text('bearer') input").first.fill(token)
    await docs.locator(".auth-container:has-text('bearer') button.authorize").click()
    await docs.locator("button.btn-done").first.click()
    session = await opened(docs, "chat_session")
    await execute(session)
    await expect(body(session)).to_contain_text('"subject": "ann"')
    stream = await opened(docs, "chat_stream")
    await ask(stream, "How many parts are there?")
    await expect(status(stream)).to_contain_text("200")
    await expect(body(stream)).to_contain_text('"type":"tool_result"')
    await expect(body(stream)).to_contain_text(ANSWER)
    plain = await opened(docs, "chat_ask")
    await ask(plain, "How many parts are there?")
    await expect(body(plain)).to_contain_text(ANSWER)
    assert await docs.context.cookies() == []  # a bearer decides alone


async def test_the_examples_can_be_tried_as_they_are(docs: Page) -> None:
    block = await opened(docs, "chat_stream")
    await execute(block)
    await expect(status(block)).to_contain_text("200")
    await expect(body(block)).to_contain_text("Cirrus Drone")
    for field in await block.locator(".parameters input").all():
        assert await field.input_value() == ""


async def test_the_socket_of_the_readme_is_opened_by_a_page_with_a_token(docs: Page) -> None:
    token = make_token(JWT, "ann", lifetime=timedelta(hours=1), now=datetime.now(UTC))
    host = docs.url.removeprefix("http://").removesuffix("/docs")
    script = block("README.md", "js", "new WebSocket").replace("localhost:8000", host)
    async with docs.expect_console_message(lambda message: "done" in message.text) as last:
        await docs.evaluate(f"token => {{ {script} }}", token)
    event = await (await last.value).args[0].json_value()
    assert event["type"] == "done"
    assert {"run_id", "seq", "usage"} <= event.keys()
