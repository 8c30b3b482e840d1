"""The `frontdesk` command in this process, which is quicker than a new one; and on a terminal."""

import io
import logging
import os
import pty
import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from select import select

import pytest
from processes import FRONTDESK, environment

from app.cli import main

ROOMS = ("app", "planned", "providers", "schema")


def run_here(
    folder: Path, *words: str, stdin: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run `frontdesk` to its end in a folder, with only the given settings. Its log is pytest's."""
    out, err = io.BytesIO(), io.BytesIO()
    texts = [io.TextIOWrapper(output, "utf-8", write_through=True) for output in (out, err)]
    levels = {room: logging.getLogger(room).level for room in ROOMS}
    given = environment(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in [*os.environ]:
            patch.delenv(name)
        for name, value in given.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["frontdesk", *words])
        patch.setattr(sys, "path", [*sys.path])
        piped = io.BytesIO(stdin.encode(errors="surrogateescape"))
        patch.setattr(sys, "stdin", io.TextIOWrapper(piped))
        with redirect_stdout(texts[0]), redirect_stderr(texts[1]):
            status = _status()
    for room, level in levels.items():
        logging.getLogger(room).setLevel(level)
    said, told = (output.getvalue().decode() for output in (out, err))
    return subprocess.CompletedProcess(words, status, said, told)


def _status() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


class Terminal:
    """A person's terminal of 60 columns, on which a command runs."""

    def __init__(self, device: int, process: subprocess.Popen[bytes]) -> None:
        self._device, self.process, self.shown = device, process, ""

    def until(self, pattern: str) -> str:
        """Read until a pattern is shown; give all that was shown since the last call."""
        begun, pending = len(self.shown), b""
        while not re.search(pattern, self.shown[begun:]):
            if not select([self._device], [], [], 30)[0]:
                raise AssertionError(f"{pattern} is not shown: {self.shown[begun:]!r}")
            pending += os.read(self._device, 4096)
            try:
                self.shown, pending = self.shown + pending.decode().replace("\r\n", "\n"), b""
            except UnicodeDecodeError:
                continue  # the rest of a character is still to come
        return self.shown[begun:]

    def type(self, keys: str) -> None:
        """Press keys; "\\x03" is Ctrl-C, "\\x04" is Ctrl-D."""
        os.write(self._device, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until the command has ended.

        Python does not hear one that comes just before it waits for a key.
        """
        while self.process.poll() is None:
            self.type("\x03")
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1)

    def rest(self) -> str:
        """Read what is shown until the command has ended."""
        begun, shown = len(self.shown), self.shown.encode()
        try:
            while part := os.read(self._device, 4096):
                shown += part.replace(b"\r\n", b"\n")
        except OSError:
            pass  # so Linux says that nobody has the terminal any more
        self.process.wait(20)
        self.shown = shown.decode()
        return self.shown[begun:]


@contextmanager
def terminal(
    folder: Path,
    *words: str,
    command: Sequence[str | Path] = (FRONTDESK,),
    **settings: str,
) -> Generator[Terminal]:
    """Run `frontdesk` where all three streams are one terminal, which is its own."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        # The first terminal that the leader of a new session opens is its own.
        ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(theirs), *command, *words],
        cwd=folder,
        env={**environment(settings), "COLUMNS": "60", "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            os.close(ours)
            process.kill()
