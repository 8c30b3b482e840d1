"""Servers as processes of their own: started, waited for, and watched from outside."""

import http.client
import os
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_START_LIMIT_S = 60
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready; ``start_s`` is how long its process took to answer so."""

    port: int
    pid: int
    start_s: float

    def cpu_s(self) -> float:
        """Return the processor time the process has used, user and system, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_mib(self) -> float:
        """Return the resident memory of the process."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        [resident] = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
        return int(resident) / 1024


@contextmanager
def serving(folder: Path, *command: str | Path, **settings: str) -> Generator[Server]:
    """Run a command that takes ``--port`` in ``folder`` until the block ends.

    Of Frontdesk's settings it sees the given ones only. It is ready when ``/health/ready`` says so.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FRONTDESK_")}
    given = {f"FRONTDESK_{name.upper()}": value for name, value in settings.items()}
    port = _free_port()
    start = time.perf_counter()
    with subprocess.Popen([*command, "--port", str(port)], cwd=folder, env=kept | given) as process:
        try:
            _wait_until_ready(process, port)
            yield Server(port, process.pid, time.perf_counter() - start)
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        if _is_ready(port):
            return
        time.sleep(0.01)  # another process starts; there is nothing to wait on
    raise RuntimeError("The server did not start.")


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
