"""A deployment is told whether questions can be taken."""

import asyncio

import httpx
from transports import serve

from app.main import create_app
from app.settings import Settings
from app.store import migrate
from schema import Managers
from tests.postgres import Postgres, database
from tests.schema.conftest import exposed, fill


async def test_a_desk_whose_database_is_silent_is_not_ready_and_is_so_again_afterwards(
    postgres: Postgres, postgres_url: str
) -> None:
    await fill(postgres_url)
    await migrate(postgres_url)
    managers: Managers = exposed()
    settings = Settings.model_validate(
        {"provider": "offline", "database_url": postgres_url, "session_secret": "s" * 32}
    )
    name = database(postgres_url)
    async with (
        asyncio.timeout(60),
        serve(create_app(managers, settings)) as url,
        httpx.AsyncClient(base_url=url, timeout=10) as client,
    ):
        assert (await client.get("/health/ready")).status_code == 200
        postgres.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        with postgres.silent():
            answers = await asyncio.gather(*(client.get("/health/ready") for _ in range(2)))
            assert [answer.status_code for answer in answers] == [503, 503]
            assert {answer.json()["code"] for answer in answers} == {"try_again"}
            assert (await client.get("/health/live")).status_code == 200
        while (await client.get("/health/ready")).status_code != 200:
            pass  # a connection that was asked for in the silence may still have to end
