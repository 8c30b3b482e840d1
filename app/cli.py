"""The ``frontdesk`` command."""

import asyncio
import json
import secrets
import socket
import sys
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
import uvicorn
from fastapi import FastAPI
from rich.console import Console
from rich.table import Table

from app.addresses import is_loopback
from app.demo import DEMOS
from app.main import (
    GRACE_S,
    check_provider,
    create_app,
    load_managers,
    open_desk,
    open_reader,
    set_up,
)
from app.openapi import event_schema
from app.reference import reference
from app.settings import DATA_FOLDER, Settings, load_settings
from app.store import migrate as migrate_store
from app.terminal import Screen, answer, log_to
from app.tokens import actor_of, make_token
from schema import Managers
from schema.errors import ConfigurationError
from schema.events import Actor
from schema.managers import Manager
from schema.query import Reader

_CONTRACT = Path("openapi")
_QUESTIONS = {
    "manufacturing": "Which projects use aluminum parts?",
    "flights": "Which planes were built before 1960?",
    "large": "Which invoices are overdue?",
    "toy": "Which projects use aluminum parts?",
}
_WELCOME = """
The {name} demo is at {url}/docs (Ctrl-C stops it). Ask:

curl -N -X POST {url}/chat/stream/ \\
  -H 'content-type: application/json' -d '{{"text":"{question}"}}'
"""
_console = Console()
_errors = Console(stderr=True)

cli = typer.Typer(
    help="A front desk for your data: ask your managers in plain language.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Port = Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)]
Host = Annotated[
    str,
    typer.Option(help="The address to listen on; a public one needs FRONTDESK_ALLOWED_HOSTS."),
]


def _plain(value: str | None) -> str | None:
    """Refuse what no token can say."""
    if value is not None and not value.strip():
        raise typer.BadParameter("it is blank.")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in value or ""):
        raise typer.BadParameter("it holds control characters, or is no text.")
    return value


Tenant = Annotated[str | None, typer.Option(help="The tenant they belong to.", callback=_plain)]
Scopes = Annotated[list[str] | None, typer.Option("--scope", help="What they may do; repeatable.")]
IsService = Annotated[bool, typer.Option("--service", help="A program, not a person.")]


def main() -> None:
    """Run a command; a wrong set-up is told in one sentence and exits with status 2."""
    sys.path.insert(0, str(Path.cwd()))  # "module:attribute" settings name modules found from here
    try:
        cli()
    except ConfigurationError as error:
        _errors.print(
            f"frontdesk: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        raise SystemExit(2) from None


@cli.command()
def demo(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(DEMOS)}.")] = "manufacturing",
    port: Port = 8000,
    host: Host = "127.0.0.1",
) -> None:
    """Serve a demo with its own data: no key, no network, nothing to configure.

    Example: frontdesk demo flights --port 8080
    """
    settings = _demo_settings(name)
    _check_address(host, port, settings)
    managers = load_managers(settings.managers)
    asyncio.run(migrate_store(settings.chat_database_url))
    asyncio.run(_rehearse(managers, settings))
    url = f"http://{_served_host(host, settings)}:{port}"
    typer.echo(_WELCOME.format(name=name, url=url, question=_QUESTIONS[name]))
    _serve(create_app(managers, settings), settings, host=host, port=port)


@cli.command()
def serve(
    port: Port = 8000,
    host: Host = "127.0.0.1",
    workers: Annotated[int, typer.Option(help="Processes that serve.", min=1)] = 1,
) -> None:
    """Serve the managers that FRONTDESK_MANAGERS names.

    Example: FRONTDESK_MANAGERS=shop.chat:managers frontdesk serve --port 8080 --workers 2
    """
    settings = load_settings()
    _check_address(host, port, settings)
    managers = load_managers(settings.managers)
    create_app(managers, settings)
    asyncio.run(_rehearse(managers, settings))
    _serve("app.main:app", settings, host=host, port=port, workers=workers)


@cli.command()
def migrate() -> None:
    """Create the chat tables, or bring them up to date.

    Example: FRONTDESK_DATABASE_URL=sqlite:////var/lib/shop/chat.db frontdesk migrate
    """
    url = load_settings().chat_database_url
    asyncio.run(migrate_store(url))
    _console.print("The chat tables are up to date.")


@cli.command()
def check() -> None:
    """Do what a start does, and show exactly what is exposed.

    Example: FRONTDESK_MANAGERS=shop.chat:managers frontdesk check
    """
    settings = load_settings()
    managers = load_managers(settings.managers)
    create_app(managers, settings)
    _show_exposed(asyncio.run(_rehearse(managers, settings)))


@cli.command()
def chat(
    question: Annotated[str | None, typer.Argument(help="Or it is read from a pipe.")] = None,
    demo: Annotated[str | None, typer.Option(help=f"Ask a demo: {', '.join(DEMOS)}.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Who asks, as your data knows them.", callback=_plain)
    ] = None,
    tenant: Tenant = None,
    scopes: Scopes = None,
    is_service: IsService = False,
) -> None:
    """Ask here, without a server: the answer goes to standard output as it comes, all else to
    standard error. Without --subject a visitor asks, whom nobody knows.

    Example: frontdesk chat "Which projects use aluminum parts?" --demo manufacturing
    """
    text = _piped_question() if question is None else question
    if subject is not None:
        actor = _bearer(subject, tenant, scopes, is_service=is_service)
    elif tenant or scopes or is_service:
        raise typer.BadParameter("--tenant, --scope and --service say more of a --subject.")
    else:
        actor = Actor("session", secrets.token_urlsafe(24))
    settings = load_settings() if demo is None else _demo_settings(demo)
    managers = load_managers(settings.managers)
    try:
        if not asyncio.run(_chat(managers, _quiet(settings), actor, text, demo is not None)):
            raise typer.Exit(1)
    except BrokenPipeError:
        _console.on_broken_pipe()  # exits, without another word to whoever reads no more


@cli.command()
def token(
    subject: Annotated[
        str, typer.Argument(help="Who the bearer is, as your data knows them.", callback=_plain)
    ],
    hours: Annotated[int, typer.Option(help="How long it is valid.", min=1, max=8760)] = 1,
    tenant: Tenant = None,
    scopes: Scopes = None,
    is_service: IsService = False,
) -> None:
    """Print a bearer token, signed with FRONTDESK_JWT__SECRET.

    Example: frontdesk token alice --hours 8 --tenant acme --scope read --scope write
    """
    jwt = load_settings().jwt
    if jwt is not None and jwt.jwks_url is not None:
        raise ConfigurationError(
            "E002", "FRONTDESK_JWT__JWKS_URL is set.", "Get tokens from the issuer of its keys."
        )
    if jwt is None:
        raise ConfigurationError(
            "E002",
            "Tokens are signed with FRONTDESK_JWT__SECRET, which is not set.",
            "Make one with `python3 -c 'import secrets; print(secrets.token_urlsafe(48))'`.",
        )
    made = make_token(
        jwt,
        subject,
        lifetime=timedelta(hours=hours),
        now=datetime.now(UTC),
        tenant=tenant,
        scopes=tuple(scopes or ()),
        is_service=is_service,
    )
    typer.echo(made)


@cli.command("settings")
def show_settings() -> None:
    """Print every setting, with its default and its meaning, as Markdown.

    Example: frontdesk settings | grep TIMEOUT
    """
    typer.echo(reference(), nl=False)


@cli.command()
def openapi(
    check: Annotated[
        bool, typer.Option("--check", help="Compare instead of writing; exit 1 on a difference.")
    ] = False,
) -> None:
    """Write Frontdesk's own contract into ./openapi, as its repository has it: OpenAPI, GraphQL
    schema of the manufacturing demo, and event schema.

    Example: frontdesk openapi --check
    """
    contract = _contract()
    stale = [path for path, text in contract.items() if not _is_current(path, text)]
    if check and stale:
        names = ", ".join(str(path) for path in stale)
        _errors.print(f"Out of date: {names}. Run `frontdesk openapi` and commit.", style="red")
        raise typer.Exit(1)
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(contract[path])
    _console.print("The contract is up to date.")


def _demo_settings(name: str) -> Settings:
    """Give the settings of a demo, whose data and chat have a file of their own."""
    if name not in DEMOS:
        raise typer.BadParameter(f"there is no demo {name!r}; choose from {', '.join(DEMOS)}.")
    database_url = f"sqlite+aiosqlite:///{DATA_FOLDER}/demo-{name}.db"
    return load_settings(managers=DEMOS[name], database_url=database_url)


def _piped_question() -> str:
    """Read what is piped in. Bytes that are no text come as in an argument, to be refused."""
    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter(
            "it is missing: say it in quotes, or pipe it in.", param_hint="question"
        )
    return sys.stdin.buffer.read().decode(errors="surrogateescape").strip()


def _bearer(
    subject: str, tenant: str | None, scopes: list[str] | None, *, is_service: bool
) -> Actor:
    """Give whom a token with these claims would speak for."""
    kind = "service" if is_service else "user"
    return actor_of(
        {"sub": subject, "tenant": tenant, "scope": " ".join(scopes or ()), "kind": kind}
    )


def _quiet(settings: Settings) -> Settings:
    """Leave out what a start tells, unless it is asked for."""
    chosen = settings.model_fields_set & {"log_level"}
    # No session is signed here, so that no secret has to be kept.
    quiet = {"session_secret": secrets.token_urlsafe(32), "log_level": "warning"}
    return settings.model_copy(update={k: v for k, v in quiet.items() if k not in chosen})


async def _chat(
    managers: Managers, settings: Settings, actor: Actor, question: str, is_demo: bool
) -> bool:
    screen = Screen()
    log_to(screen, with_tracebacks=settings.log_level == "debug")
    if is_demo:
        await migrate_store(settings.chat_database_url)
    async with open_desk(managers, settings) as desk:
        return await answer(desk, actor, question, screen)


def _serve(
    app: FastAPI | str, settings: Settings, *, host: str, port: int, workers: int = 1
) -> None:
    uvicorn.run(
        app,
        host=host,
        port=port,
        workers=workers,
        log_level=settings.log_level,
        timeout_graceful_shutdown=GRACE_S,
    )


async def _rehearse(managers: Managers, settings: Settings) -> Reader:
    """Do what a start does, so that what is wrong is told in a sentence and not by a server.

    Returns the reader, closed again: what it knows of the managers stays.
    """
    await set_up(managers, settings)
    await check_provider(settings)
    async with open_reader(managers, settings) as reader:
        return reader


def _show_exposed(reader: Reader) -> None:
    table = Table("Manager", "Fields", "Relations", "Limits", title="Exposed")
    for manager in reader.index.managers.values():
        relations = [f"{name} -> {link.target}" for name, link in manager.links.items()]
        fields, limits = ", ".join(manager.fields), ", ".join(_limits(manager))
        table.add_row(manager.name, fields, ", ".join(relations), limits)
    _console.print(table)


def _limits(manager: Manager) -> Iterator[str]:
    """Say what keeps some actors from seeing all of a manager, and what nobody sees."""
    if manager.readers is not None:
        yield "readers"
    if manager.tenant:
        yield f"tenant {manager.tenant}"
    if manager.visible is not None:
        yield "visible"
    if manager.hides:
        yield f"hidden from some: {' '.join(manager.hides)}"
    if manager.left_out:
        yield f"left out, without a form in JSON: {' '.join(sorted(manager.left_out))}"


def _check_address(host: str, port: int, settings: Settings) -> None:
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
        raise ConfigurationError(
            "E002",
            f"Port {port} of {host} can't be listened on: {error.strerror}.",
            "Choose another with --port, or with PORT= for make.",
        ) from error


def _served_host(host: str, settings: Settings) -> str:
    """Choose a host name that is served, as it stands in a URL."""
    names = [name for name in settings.allowed_hosts if "*" not in name]
    chosen = host if host in names or not names else names[0]
    return f"[{chosen}]" if ":" in chosen else chosen


def _contract() -> dict[Path, str]:
    """Build the files of the contract; the GraphQL schema is that of the manufacturing demo."""
    managers = load_managers(DEMOS["manufacturing"])
    app = create_app(managers, Settings.model_construct())  # the same in every environment
    return {
        _CONTRACT / "openapi.json": _json(app.openapi()),
        _CONTRACT / "schema.graphql": Reader(managers, database_url="").graphql.as_str() + "\n",
        _CONTRACT / "events.schema.json": _json(event_schema()),
    }


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text
