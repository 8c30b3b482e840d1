"""A process is only taken for dead when that is certain."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from app.holders import is_dead, this_process


def test_a_process_that_nobody_has_asked_how_it_ended_is_dead() -> None:
    name = "import time; from app.holders import this_process; print(this_process(), flush=True)"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", f"{name}; time.sleep(60)"], cwd=root, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        holder = process.stdout.readline().decode().strip()
        assert not is_dead(holder)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(holder)


def test_only_a_process_of_this_machine_that_is_gone_is_dead() -> None:
    me = this_process()
    host, boot, namespace, pid, started, token = me.split("|")
    assert host == socket.gethostname()
    assert int(pid) == os.getpid()
    assert not is_dead(me)
    assert this_process() != me
    assert is_dead("|".join([host, boot, namespace, pid, "1", token]))
    assert is_dead("|".join([host, boot, namespace, "4194305", started, token]))
    for elsewhere in (
        ["other", boot, namespace],
        [host, "other", namespace],
        [host, boot, "other"],
    ):
        assert not is_dead("|".join([*elsewhere, "4194305", started, token]))
    for unreadable in ("", "another version's name", me + "|and more"):
        assert not is_dead(unreadable)
