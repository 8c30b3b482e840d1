"""Servers that the `frontdesk` command starts: where they listen, and what a demo says then."""

import asyncio
import errno
import shutil
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from app.addresses import is_loopback
from app.main import GRACE_S, rehearse
from app.named_code import load_managers
from app.settings import Settings, load_settings
from app.terminal import Screen
from schema.errors import ConfigurationError

_QUESTIONS = {
    "manufacturing": ("Which projects use aluminum parts?", "How many suppliers are there?"),
    "flights": ("Which planes were built before 1960?", "How many flights are there?"),
    "large": ("Which invoices are overdue?", "How many customers are there?"),
    "toy": ("Which projects use aluminum parts?", "How many parts are there?"),
}
_WELCOME = """
The {name} demo is ready. Ask it in another terminal,

  {command} chat --url {url} "{question}"

or over HTTP, as programs do:

  curl -N -X POST {url}stream/ \\
    -H 'content-type: application/json' -d '{{"text":"{question}"}}'

Ask more, such as "{other}"
What there is to ask for:  {command} managers --demo {name}
All routes, in a browser:  {root}/docs

{voice}Data and conversations are in {data}: delete it while the demo is stopped to start anew.
Ctrl-C stops the demo.

"""
_OFFLINE = """A small provider answers simple questions without a network; with FRONTDESK_MODEL
set, a language model answers (docs/providers.md).
"""
_OF_PORTS = (errno.EACCES, errno.EADDRINUSE)


def run_server(
    app: FastAPI,
    settings: Settings,
    *,
    host: str,
    port: int,
    workers: int = 1,
    reload: bool = False,
) -> None:
    """Serve an application to its end; other processes make theirs of the environment."""
    served = "app.main:app" if workers > 1 else app
    uvicorn.run(
        f"{__name__}:{made_anew.__name__}" if reload else served,
        factory=reload,
        host=host,
        port=port,
        workers=workers,
        reload=reload,
        log_level=settings.log_level,
        timeout_graceful_shutdown=GRACE_S,
    )


def made_anew() -> FastAPI:
    """Make the application when the project has changed; else tell what is wrong, and end."""
    try:
        settings = load_settings()
        managers = load_managers(settings.managers)
        # The loop of this thread is the server's, and has not begun to serve.
        with ThreadPoolExecutor() as pool:
            return pool.submit(asyncio.run, rehearse(managers, settings)).result().app
    except ConfigurationError as error:
        Screen().fail(str(error))
        raise SystemExit(2) from None


def welcome(demo: str, settings: Settings, host: str, port: int, data: Path) -> str:
    """Say what can be done with a demo that is served, whose data is in a file."""
    root = f"http://{_served_host(host, settings)}:{port}"
    question, other = _QUESTIONS[demo]
    is_offline = settings.model is None and settings.provider == "auto"
    return _WELCOME.format(
        name=demo,
        command="frontdesk" if shutil.which("frontdesk") else sys.argv[0],
        root=root,
        url=root + settings.url,
        question=question,
        other=other,
        voice=_OFFLINE if is_offline else "",
        data=data,
    )


def check_address(host: str, port: int, settings: Settings) -> None:
    """Say before anything is loaded that the server could not listen, or would serve nobody."""
    if not settings.allowed_hosts and not is_loopback(host):
        raise ConfigurationError(
            "E002",
            f"--host {host} serves other machines, and FRONTDESK_ALLOWED_HOSTS is not set.",
            "Set it to the names they use, e.g. FRONTDESK_ALLOWED_HOSTS=desk.example,10.0.0.5.",
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise ConfigurationError(
            "E002",
            f"Port {port} of {host} can't be listened on: {reason}.",
            "Choose another with --port, or with PORT= for make."
            if error.errno in _OF_PORTS
            else "Choose another address of this machine with --host.",
        ) from error


def _served_host(host: str, settings: Settings) -> str:
    """Choose a host name that is served, as it stands in a URL."""
    names = [name for name in settings.allowed_hosts if "*" not in name]
    chosen = host if host in names or not names else names[0]
    return f"[{chosen}]" if ":" in chosen else chosen
