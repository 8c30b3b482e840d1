"""The environment alone makes a desk with a model, which LiteLLM is loaded for.

Nobody but the configured vendor is ever contacted.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest
from processes import FRONTDESK, UVICORN, ask, serving
from vendors import WIRES, FakeVendor, Wire

ROOT = Path(__file__).parents[2]


class Found(TypedDict):
    """What the process tells at its end."""

    answers: list[str]
    addresses: list[list[str | int]]
    faults: list[str]
    contacted: list[list[str | int]]
    loaded: bool


DESK = r"""
import asyncio, json, sys

contacted = []

def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        contacted.append(list(arguments[1][:2]))
    elif event == "socket.getaddrinfo":
        contacted.append([str(arguments[0]), 0])

sys.addaudithook(watch)
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/tests"]

from transports import answer, open_chat
from vendors import FakeVendor

from app.demo.toy import managers

async def ask(**settings):
    async with open_chat("engine", managers, None, provider="auto", **settings) as chat:
        return answer(await chat.ask("How many parts are there?"))

async def main(wires):
    found = {"answers": [], "addresses": [], "faults": []}
    for wire in wires:
        async with FakeVendor(wire) as vendor:
            vendor.will('T"12" F(stop) U(3,1)')
            config = {"base_url": vendor.base_url, "api_key": "SENTINEL-KEY-1"}
            # LiteLLM has no price of this one.
            model = "ollama_chat/gemma4:e4b" if wire == "ollama" else vendor.model
            found["answers"].append(await ask(model=model, provider_config=config))
            port = int(vendor.base_url.split(":")[2].split("/")[0])
            found["addresses"].append(["127.0.0.1", port])
            found["faults"] += vendor.faults
    if not wires:
        found["answers"].append(await ask())
    return found

found = asyncio.run(main(sys.argv[2:]))
print(json.dumps(found | {"contacted": contacted, "loaded": "litellm" in sys.modules}))
"""


def run_desks(folder: Path, *wires: str) -> Found:
    """Ask in a process of its own a desk for each wire's fake vendor; without any, one of none."""
    ended = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", DESK, str(ROOT), *wires],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "SENTINEL" not in ended.stderr
    assert "never awaited" not in ended.stderr
    return json.loads(ended.stdout)


def test_without_a_model_it_is_never_loaded(tmp_path: Path) -> None:
    found = run_desks(tmp_path)
    assert found["loaded"] is False
    assert found["contacted"] == []
    assert "3 parts" in found["answers"][0]


@pytest.mark.covers("H33")
def test_nobody_but_the_vendors_is_contacted(tmp_path: Path) -> None:
    found = run_desks(tmp_path, *WIRES)
    contacted = {str(place) for place in found["contacted"]}
    assert contacted == {str(place) for place in found["addresses"]}
    assert (found["answers"], found["faults"], found["loaded"]) == (["12"] * 4, [], True)


Served = tuple[Wire, tuple[str | Path, ...], dict[str, str], str, str | None]
SERVED: list[Served] = [
    ("openai", (FRONTDESK, "serve"), {"model": "openai/x"}, "x", "Bearer k"),
    (
        "ollama",
        (UVICORN, "app.main:app"),
        {"provider": "providers.OllamaProvider", "provider_config__model": "qwen3.5:9b"},
        "qwen3.5:9b",
        None,
    ),
]


@pytest.mark.parametrize(("wire", "command", "settings", "model", "key"), SERVED)
async def test_a_server_needs_nothing_but_its_environment_to_ask_a_model(
    wire: Wire,
    command: tuple[str | Path, ...],
    settings: dict[str, str],
    model: str,
    key: str | None,
    tmp_path: Path,
) -> None:
    async with FakeVendor(wire) as vendor:
        vendor.will('T"12" F(stop) U(3,1)')
        config = {"base_url": vendor.base_url} | ({"api_key": "k"} if key else {})
        given = {"managers": "app.demo.toy:managers", "provider_config": json.dumps(config)}
        with serving(tmp_path, *command, **given, **settings) as url:
            assert ask(url, "How many parts are there?") == "12"
    [request] = vendor.requests
    assert (request.body["model"], request.headers.get("authorization")) == (model, key)
    assert "How many parts are there?" in str(request.body["messages"])
    assert vendor.faults == []
