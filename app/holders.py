"""The names of the processes that hold leases, and whether the process behind a name is gone."""

import os
import secrets
import socket
from functools import cache
from pathlib import Path


def this_process() -> str:
    """Make a holder's name, from which others on this machine can see whether its process lives.

    Shape: host|boot id|process id namespace|process id|start of the process|a token of its own.
    """
    pid = str(os.getpid())
    return "|".join((*_this_machine(), pid, _started(pid), secrets.token_hex(8)))


def is_dead(holder: str) -> bool:
    """Tell whether the holder's process ran on this machine and is certainly gone."""
    here = _this_machine()
    match holder.split("|"):
        case [*machine, pid, started, _] if (*machine,) == here and all(here) and started:
            return _started(pid) != started
        case _:
            return False


@cache
def _this_machine() -> tuple[str, ...]:
    """Tell machines apart, restarts of one, and containers on one; empty where it can't be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = namespace = ""
    return socket.gethostname().replace("|", "_"), boot, namespace


def _started(pid: str) -> str:
    """Return when a process was started, in ticks since boot; empty if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name in the second field may hold spaces and brackets; the start is the 22nd field. One
    # that has ended stays in the list, as Z, until its parent asks how.
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
