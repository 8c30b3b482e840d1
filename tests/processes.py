"""Real processes: commands that end, and servers that must end by themselves when told to."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

FRONTDESK = Path(sys.executable).with_name("frontdesk")
UVICORN = Path(sys.executable).with_name("uvicorn")
_PATIENCE_S = 240
"""How long a command may take on a machine that has much else to do."""


def run(folder: Path, *command: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a folder, with only the given settings."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            out, err = process.communicate(timeout=_PATIENCE_S)
        finally:
            if process.poll() is None:  # what it has started ends with it
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@contextmanager
def serving(
    folder: Path, *command: str | Path, ready: str = "/health/ready", **settings: str
) -> Generator[str]:
    """Run a server until the block ends; it must then end by itself, soon and without an error.

    It is there once it answers the path ``ready``.
    """
    port = free_port()
    with subprocess.Popen(
        [*command, "--port", str(port)],
        cwd=folder,
        env=environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_ready(url + ready, process)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=20)
    assert process.returncode in (0, -signal.SIGTERM), output
    assert "Traceback" not in output, output


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def environment(settings: dict[str, str]) -> dict[str, str]:
    """Give the environment of a command that has only these settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FRONTDESK_")}
    return {**kept, "COLUMNS": "200", **{f"FRONTDESK_{k.upper()}": v for k, v in settings.items()}}


def _wait_until_ready(url: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)  # another process starts; there is nothing to wait on
    raise AssertionError("the server did not start")


def ask(url: str, text: str) -> str:
    """Ask one question as a new visitor."""
    answer = httpx.post(f"{url}/chat/", json={"text": text}, timeout=30).json()
    assert answer["events"][-1]["type"] == "done"
    return answer["answer"]
