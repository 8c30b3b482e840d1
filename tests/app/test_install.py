"""The chat inside a FastAPI application of somebody else."""

import gc
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI
from transports import events_of, kinds, serve

from app.demo.manufacturing import managers
from app.main import create_app, install
from app.settings import Settings
from providers import Script
from providers.scripted import say


async def test_a_host_application_gets_the_chat_and_stays_itself(manufacturing_url: str) -> None:
    told: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, str]]:
        told.append("begin")
        yield {"mine": "yes"}
        told.append("end")

    script = Script()
    host = FastAPI(title="Shop", lifespan=lifespan)

    @host.get("/orders")
    async def orders() -> list[int]:
        return [1, 2]

    settings = Settings.model_validate(
        {
            "provider": script,
            "database_url": manufacturing_url,
            "session_secret": "s" * 32,
            "url": "/desk",
            "allowed_origins": ("https://app.example",),
        }
    )
    install(host, managers, settings)
    script.will(say("a"))
    async with serve(host) as url, httpx.AsyncClient(base_url=url) as client:
        asked = await client.post("/desk/stream/", json={"text": "hi"})
        assert kinds(events_of(asked.content)) == ["text_chunk", "done"]
        assert (await client.get("/orders")).json() == [1, 2]
        # Refusals of the chat are the chat's, all others the host's.
        assert (await client.put("/desk/")).json()["code"] == "bad_event"
        assert (await client.put("/desk/session/")).headers["allow"] == "DELETE, GET, POST"
        assert (await client.get("/desk/runs/x/events/")).json()["code"] == "not_found"
        assert (await client.get("/nowhere")).json() == {"detail": "Not Found"}
        other = await client.get("/orders", headers={"Origin": "https://app.example"})
        assert "access-control-allow-origin" not in other.headers
        document = (await client.get("/openapi.json")).json()
        again = (await client.get("/openapi.json")).json()
    assert told == ["begin", "end"]
    assert document["info"]["title"] == "Shop"
    assert document == again
    assert set(document["paths"]) >= {"/orders", "/desk/", "/desk/stream/", "/desk/session/"}
    ours = create_app(managers, settings).openapi()
    for path in ("/desk/", "/desk/stream/", "/desk/session/"):
        for operation in ours["paths"][path].values():
            operation["responses"].pop("500", None)  # what the host fails with is its own
        assert document["paths"][path] == ours["paths"][path]
    known = document["components"]["schemas"]
    assert _references(document) <= {f"#/components/schemas/{name}" for name in known}


async def test_the_collector_is_kept_from_what_a_start_has_made_until_the_end(
    manufacturing_url: str,
) -> None:
    settings = Settings.model_validate(
        {"provider": Script(), "database_url": manufacturing_url, "session_secret": "s" * 32}
    )
    assert gc.get_freeze_count() == 0
    async with serve(create_app(managers, settings)):
        assert gc.get_freeze_count() > 100_000
    assert gc.get_freeze_count() == 0


def _references(document: object) -> set[str]:
    """Return all that a document refers to."""
    return set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))
