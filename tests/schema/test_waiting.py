"""Waiting with a limit: what is there comes at once, what is not is waited for and interrupted."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator

import pytest

from schema.waiting import wait_until


def _soon(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_what_is_there_is_returned_without_a_turn_of_the_loop() -> None:
    seen: list[str] = []
    asyncio.get_running_loop().call_soon(seen.append, "the loop")

    async def ready() -> int:
        return 5

    assert await wait_until(_soon(-1), ready()) == 5
    assert seen == []


async def test_what_is_not_there_is_waited_for() -> None:
    event, seen = asyncio.Event(), list[str]()

    async def later() -> str:
        seen.append("first")
        await event.wait()
        seen.append("second")
        await asyncio.sleep(0)
        return "done"

    asyncio.get_running_loop().call_soon(event.set)
    assert await wait_until(_soon(5), later()) == "done"
    assert seen == ["first", "second"]


async def test_a_future_is_waited_for_as_a_coroutine_is() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 7)
    assert await wait_until(_soon(5), future) == 7
    assert await wait_until(_soon(5), future) == 7


@pytest.mark.parametrize("seconds", [0.01, 0, -1])
async def test_what_comes_too_late_is_interrupted_and_cleans_up(seconds: float) -> None:
    seen: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    with pytest.raises(TimeoutError):
        await wait_until(_soon(seconds), endless())
    assert seen == ["cleaned up"]


async def test_a_cancellation_reaches_what_is_waited_for() -> None:
    entered, seen = asyncio.Event(), list[str]()

    async def endless() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait_until(_soon(5), endless()))
        await entered.wait()
        task.cancel()
    assert task.cancelled()
    assert seen == ["cancelled"]


def _at_once(error: Exception) -> Callable[[], Coroutine[None, None, None]]:
    async def fail() -> None:
        raise error

    return fail


def _later(error: Exception) -> Callable[[], Coroutine[None, None, None]]:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    return fail


@pytest.mark.parametrize("fails", [_at_once, _later])
async def test_an_exception_comes_out_as_it_is(
    fails: Callable[[Exception], Callable[[], Coroutine[None, None, None]]],
) -> None:
    error = ValueError("x")
    with pytest.raises(ValueError, match="x") as caught:
        await wait_until(_soon(5), fails(error)())
    assert caught.value is error


async def test_the_end_of_a_stream_ends_it() -> None:
    async def numbers() -> AsyncGenerator[int]:
        yield 1
        await asyncio.sleep(0)
        yield 2

    stream = numbers()
    assert [await wait_until(_soon(5), anext(stream)) for _ in range(2)] == [1, 2]
    with pytest.raises(StopAsyncIteration):
        await wait_until(_soon(5), anext(stream))


async def test_an_awaitable_of_any_kind_can_be_waited_for() -> None:
    class Twice:
        def __await__(self) -> Generator[None, None, str]:
            yield
            yield
            return "twice"

    assert await wait_until(_soon(5), Twice()) == "twice"
