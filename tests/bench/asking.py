"""A completion of a vendor's model through our adapter, beside LiteLLM alone."""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import aclosing, contextmanager
from multiprocessing.connection import Connection

from vendors import FakeVendor

from providers import LiteLLMProvider
from providers.base import Message, complete_round
from providers.lite import load_litellm
from providers.translation import wire_messages, wire_tools
from schema.tools import ToolRegistry, data_tools

_COMPLETIONS = 20
"""Of each side in each repeat; the first repeat does not count."""

_SCRIPTS: Mapping[str, str] = {
    "100 deltas": 'T"word " x 100 F(stop) U(900,100)',
    "a call": """
        C(0,"a","query","") C(0,-,-,'{"manager"') C(0,-,-,':"Part"') C(0,-,-,',"fields"')
        C(0,-,-,':["name",') C(0,-,-,'"price"]') C(0,-,-,',"limit"') C(0,-,-,':20}')
        F(tool_calls) U(900,20)
    """,
}
_MESSAGES = [Message("system", "Answer from the data. " * 100), Message("user", "Which parts?")]
_TOOLS = ToolRegistry(data_tools()).definitions


def asking_shares(repeats: int) -> dict[str, list[float]]:
    """Return, by what the model says and by repeat, our processor time over LiteLLM's alone.

    Both send the same messages and tools over a kept connection to a vendor in a process of its
    own, in turns, and read the answer to its end. LiteLLM alone sends by aiohttp, its default.
    """
    vars(load_litellm()).update(disable_aiohttp_transport=False)
    return {
        name: asyncio.run(_shares(script, repeats + 1))[1:] for name, script in _SCRIPTS.items()
    }


async def _shares(script: str, repeats: int) -> list[float]:
    shares: list[float] = []
    with _vendor(script, 2 * repeats * _COMPLETIONS) as (model, base_url):
        provider = LiteLLMProvider({"model": model, "base_url": base_url, "api_key": "k"})
        async with provider.opened():
            for _ in range(repeats):
                ours = await _cpu_s(lambda: _ask(provider))
                alone = await _cpu_s(lambda: _ask_litellm(model, base_url))
                shares.append(ours / alone)
    return shares


async def _cpu_s(ask: Callable[[], Awaitable[None]]) -> float:
    start = time.process_time()
    for _ in range(_COMPLETIONS):
        await ask()
    return time.process_time() - start


async def _ask(provider: LiteLLMProvider) -> None:
    deadline = asyncio.get_running_loop().time() + 60
    async with aclosing(complete_round(provider, _MESSAGES, _TOOLS, deadline)) as events:
        async for _ in events:
            pass


async def _ask_litellm(model: str, base_url: str) -> None:
    stream = await load_litellm().acompletion(
        model=model,
        messages=wire_messages(_MESSAGES),
        tools=wire_tools(_TOOLS),
        stream=True,
        stream_options={"include_usage": True},
        temperature=0,
        api_key="k",
        api_base=base_url,
    )
    async for _ in stream:
        pass


@contextmanager
def _vendor(script: str, times: int) -> Generator[tuple[str, str]]:
    """Start a vendor that says the same that many times; gives its model and its address."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_run_vendor, args=(theirs, script, times))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join()


def _run_vendor(parent: Connection, script: str, times: int) -> None:
    asyncio.run(_serve(parent, script, times))


async def _serve(parent: Connection, script: str, times: int) -> None:
    async with FakeVendor("openai") as vendor:
        vendor.will(*times * [script])
        parent.send((vendor.model, vendor.base_url))
        await asyncio.to_thread(parent.recv)
    assert vendor.faults == []
