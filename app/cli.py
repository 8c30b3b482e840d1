"""The ``frontdesk`` command."""

import asyncio
import json
import secrets
import sys
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console, RenderableType

from app.chat import answer, converse, open_here, open_there
from app.cleanup import clean_up
from app.database import DatabaseFailed
from app.demo import DEMOS
from app.exposed import exposed_json, exposed_table, seen_json, seen_tables
from app.main import create_app, open_reader, rehearse, set_up
from app.named_code import load_managers
from app.openapi import event_schema
from app.reference import errors_reference, events_reference, settings_reference
from app.serving import check_address, run_server, welcome
from app.settings import (
    DATA_FOLDER,
    TOKEN,
    Settings,
    desk_token,
    load_settings,
    session_secret,
)
from app.store import Store
from app.store import migrate as migrate_store
from app.terminal import Screen, Unwritable, log_to, writing
from app.tokens import actor_of, make_token
from schema import Managers
from schema.errors import ConfigurationError
from schema.events import Actor, Json
from schema.query import Reader
from schema.views import View

_CONTRACT = Path("openapi")
_console = Console()

cli = typer.Typer(
    help="A front desk for your data: ask your managers in plain language.",
    epilog="Begin with: frontdesk demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Port = Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)]
Host = Annotated[
    str,
    typer.Option(help="The address to listen on; a public one needs FRONTDESK_ALLOWED_HOSTS."),
]
Demo = Annotated[str | None, typer.Option(help=f"Take the managers of a demo: {', '.join(DEMOS)}.")]
Format = Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")]


def _plain(value: str | None) -> str | None:
    """Refuse what no token can say."""
    if value is not None and not value.strip():
        raise typer.BadParameter("it is blank.")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in value or ""):
        raise typer.BadParameter("it holds control characters, or is no text.")
    return value


Subject = Annotated[
    str | None, typer.Option(help="Who asks, as your data knows them.", callback=_plain)
]
Tenant = Annotated[str | None, typer.Option(help="The tenant they belong to.", callback=_plain)]
Scopes = Annotated[list[str] | None, typer.Option("--scope", help="What they may do; repeatable.")]
IsService = Annotated[bool, typer.Option("--service", help="A program, not a person.")]


def main() -> None:
    """Run a command; what is wrong is told in one sentence.

    The status is 2 for a wrong set-up, and 1 when standard output can't be written.
    """
    sys.path.insert(0, str(Path.cwd()))  # "module:attribute" settings name modules found from here
    try:
        cli()
    except ConfigurationError as error:
        Screen().fail(str(error))
        raise SystemExit(2) from None
    except Unwritable as error:
        Screen().fail(str(error))
        raise SystemExit(1) from None


@cli.command()
def demo(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(DEMOS)}.")] = "manufacturing",
    port: Port = 8000,
    host: Host = "127.0.0.1",
) -> None:
    """Serve a demo with its own data: no key, no network, nothing to configure.

    Example: frontdesk demo flights --port 8080
    """
    settings = _chosen(name)
    check_address(host, port, settings)
    managers = load_managers(settings.managers)
    _prepare_demo(name, managers, settings)
    session_secret(settings, warn=lambda _: None)  # in a demo it needs no thought
    rehearsed = asyncio.run(rehearse(managers, settings))
    _print(welcome(name, settings, host, port, _demo_file(name)))
    run_server(rehearsed.app, settings, host=host, port=port)


@cli.command()
def serve(
    port: Port = 8000,
    host: Host = "127.0.0.1",
    workers: Annotated[int, typer.Option(help="Processes that serve.", min=1)] = 1,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start anew when a Python file changes here.")
    ] = False,
) -> None:
    """Serve the managers that FRONTDESK_MANAGERS names.

    Example: FRONTDESK_MANAGERS=shop.chat:managers frontdesk serve --port 8080 --workers 2
    """
    if reload and workers > 1:
        raise typer.BadParameter("--reload takes one process: leave --workers out.")
    settings = load_settings()
    check_address(host, port, settings)
    managers = load_managers(settings.managers)
    rehearsed = asyncio.run(rehearse(managers, settings))
    session_secret(settings, warn=lambda told: Screen().say(f"WARNING: {told}"))
    run_server(rehearsed.app, settings, host=host, port=port, workers=workers, reload=reload)


@cli.command()
def migrate() -> None:
    """Create the chat tables, or bring them up to date.

    Example: FRONTDESK_DATABASE_URL=sqlite:////var/lib/shop/chat.db frontdesk migrate
    """
    url = load_settings().chat_database_url
    asyncio.run(migrate_store(url))
    _print("The chat tables are up to date.")


@cli.command()
def cleanup() -> None:
    """Delete conversations in which nothing has happened for FRONTDESK_TTL_HOURS.

    Their runs and events go along. It deletes only when it is called: let your scheduler do so.
    Desks may be at work meanwhile.

    Example: FRONTDESK_TTL_HOURS=720 frontdesk cleanup
    """
    settings = load_settings()
    deleted = asyncio.run(_cleaned_up(settings))
    conversations = "1 conversation" if deleted == 1 else f"{deleted} conversations"
    _print(f"{conversations} deleted, with nothing new in {settings.ttl_hours} hours.")


@cli.command()
def check(format: Format = "table") -> None:
    """Do what a start does, and show exactly what is exposed.

    With --format json, what is wrong is told as JSON too; the status is 2 then. A warning does not
    keep a server from starting.

    Example: FRONTDESK_MANAGERS=shop.chat:managers frontdesk check --format json
    """
    try:
        settings = load_settings()
        managers = load_managers(settings.managers)
        rehearsed = asyncio.run(rehearse(managers, settings))
    except ConfigurationError as error:
        if format == "table":
            raise
        problem: Json = {"id": error.id, "problem": error.problem, "fix": error.fix}
        _print_json({"ok": False, "problems": [problem], "warnings": [], "managers": []})
        raise typer.Exit(2) from None
    warnings, index = rehearsed.warnings, rehearsed.index
    if format == "table":
        _print(exposed_table(index))
        for warning in warnings:
            Screen().say(f"WARNING: {warning}")
    else:
        shown = exposed_json(index)
        _print_json({"ok": True, "problems": [], "warnings": [*warnings], "managers": shown})


@cli.command("managers")
def show_managers(
    demo: Demo = None,
    subject: Subject = None,
    tenant: Tenant = None,
    scopes: Scopes = None,
    is_service: IsService = False,
    format: Format = "table",
) -> None:
    """Show what somebody sees: managers, their fields and relations.

    Without --subject it is what a visitor sees, whom nobody knows.

    Example: frontdesk managers --demo manufacturing --subject alice
    """
    actor = _asker(subject, tenant, scopes, is_service=is_service)
    settings = _quiet(_chosen(demo))
    managers = load_managers(settings.managers)
    log_to(Screen(), with_tracebacks=settings.log_level == "debug")
    if demo is not None:
        _prepare_demo(demo, managers, settings)
    view = asyncio.run(_view(managers, settings, actor))
    if format == "table":
        _print(seen_tables(view))
    else:
        _print_json(seen_json(view))


@cli.command()
def chat(
    question: Annotated[
        str | None, typer.Argument(help="Without it: from a pipe, or what you type.")
    ] = None,
    demo: Demo = None,
    url: Annotated[
        str | None, typer.Option(help="Ask a running server, e.g. http://127.0.0.1:8000/chat/.")
    ] = None,
    subject: Subject = None,
    tenant: Tenant = None,
    scopes: Scopes = None,
    is_service: IsService = False,
) -> None:
    """Ask in the terminal, with or without a server.

    Without a question, you are asked for one after the other. The answer goes to standard output as
    it comes, all else to standard error. Without --subject a visitor asks, whom nobody knows.

    With --url the server says who asks: by the bearer token in the environment variable DESK_TOKEN
    (there, no list of processes shows it), else as a visitor.

    Example: frontdesk chat "Which projects use aluminum parts?" --demo manufacturing

    Example: DESK_TOKEN=$(frontdesk token alice) frontdesk chat --url http://127.0.0.1:8000/chat/
    """
    if url is not None and (demo or subject or tenant or scopes or is_service):
        raise typer.BadParameter(
            f"--url asks a server, which knows who asks by the token in {TOKEN}: "
            "leave out --demo, --subject, --tenant, --scope and --service."
        )
    with writing():
        has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    text = _piped_question() if question is None and not has_terminal else question
    actor, screen = _asker(subject, tenant, scopes, is_service=is_service), Screen()
    if url is None:
        settings = _quiet(_chosen(demo))
        managers = load_managers(settings.managers)
        if demo is not None:
            _prepare_demo(demo, managers, settings)
        log_to(screen, with_tracebacks=settings.log_level == "debug")
        opening = open_here(managers, settings, actor)
    else:
        opening = open_there(url, desk_token())
    try:
        if text is None:
            is_answered = converse(opening, screen)
        else:
            is_answered = asyncio.run(answer(opening, text, screen))
    except BrokenPipeError:
        _console.on_broken_pipe()  # exits, without another word to whoever reads no more
    else:
        raise typer.Exit(0 if is_answered else 1)


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
    _print(made)


@cli.command("settings")
def show_settings() -> None:
    """Print every setting, with its default and its meaning, as Markdown.

    Example: frontdesk settings | grep TIMEOUT
    """
    _print(settings_reference())


@cli.command("errors")
def show_errors() -> None:
    """Print every error's code, with its message and when it comes, as Markdown.

    Example: frontdesk errors | grep try_again
    """
    _print(errors_reference())


@cli.command("events")
def show_events() -> None:
    """Print every event with its fields, as Markdown.

    Example: frontdesk events | less
    """
    _print(events_reference())


@cli.command()
def openapi(
    check: Annotated[
        bool, typer.Option("--check", help="Compare instead of writing; exit 1 on a difference.")
    ] = False,
) -> None:
    """Write Frontdesk's own contract into ./openapi, or compare it.

    It is OpenAPI, the GraphQL schema of the manufacturing demo, and the schema of events.

    Example: frontdesk openapi --check
    """
    contract = _contract()
    stale = [
        path for path, text in contract.items() if not (path.is_file() and path.read_text() == text)
    ]
    if check and stale:
        Screen().fail(_difference(stale))
        raise typer.Exit(1)
    try:
        for path in stale:
            path.parent.mkdir(exist_ok=True)
            path.write_text(contract[path])
    except OSError as error:
        raise ConfigurationError(
            "E002",
            f"The contract can't be written to ./{_CONTRACT}: {error.strerror}.",
            "Run it at the root of Frontdesk's repository, or in a folder that can be written.",
        ) from error
    _print("The contract is up to date.")


def _chosen(demo: str | None) -> Settings:
    """Give the settings; those of a demo, whose data and chat have a file of their own."""
    if demo is None:
        return load_settings()
    if demo not in DEMOS:
        raise typer.BadParameter(f"there is no demo {demo!r}; choose from {', '.join(DEMOS)}.")
    settings = load_settings(
        managers=DEMOS[demo], database_url=f"sqlite+aiosqlite:///{_demo_file(demo)}"
    )
    return _quiet(settings)


def _demo_file(name: str) -> Path:
    return DATA_FOLDER / f"demo-{name}.db"


def _prepare_demo(name: str, managers: Managers, settings: Settings) -> None:
    file = _demo_file(name)
    try:
        asyncio.run(migrate_store(settings.chat_database_url))
    except ConfigurationError as error:
        fix = f"Delete {file} to start anew, or go to a folder that can be written."
        raise ConfigurationError(error.id, error.problem, fix) from error
    if asyncio.run(set_up(managers, settings)):
        Screen().say(f"The data of the {name} demo is made, once: {file}", "dim")


def _piped_question() -> str:
    """Read what is piped in. Bytes that are no text come as in an argument, to be refused."""
    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter(
            "it is missing: say it in quotes, or pipe it in.", param_hint="question"
        )
    return sys.stdin.buffer.read().decode(errors="surrogateescape").strip()


def _asker(
    subject: str | None, tenant: str | None, scopes: list[str] | None, *, is_service: bool
) -> Actor:
    """Give whom a token with these claims would speak for; without a subject, a new visitor."""
    if subject is None:
        if tenant or scopes or is_service:
            raise typer.BadParameter("--tenant, --scope and --service say more of a --subject.")
        return Actor("session", secrets.token_urlsafe(24))
    kind = "service" if is_service else "user"
    return actor_of(
        {"sub": subject, "tenant": tenant, "scope": " ".join(scopes or ()), "kind": kind}
    )


def _quiet(settings: Settings) -> Settings:
    """Leave out what a start tells, unless it is asked for."""
    if "log_level" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"log_level": "warning"})


async def _cleaned_up(settings: Settings) -> int:
    before = datetime.now(UTC) - timedelta(hours=settings.ttl_hours)
    try:
        async with Store.open(settings.chat_database_url) as store:
            return await clean_up(store, before)
    except DatabaseFailed as error:
        raise ConfigurationError(
            "E002",
            f"The chat database failed: {error}.",
            "See whether it can be written and is not locked, and repeat the command.",
        ) from error


async def _view(managers: Managers, settings: Settings, actor: Actor) -> View:
    await set_up(managers, settings)
    async with open_reader(managers, settings) as reader:
        return await reader.view(actor)


def _contract() -> dict[Path, str]:
    """Build the files of the contract; the GraphQL schema is that of the manufacturing demo."""
    managers = load_managers(DEMOS["manufacturing"])
    app = create_app(managers, Settings.model_construct())  # the same in every environment
    return {
        _CONTRACT / "openapi.json": _json(app.openapi()),
        _CONTRACT / "schema.graphql": Reader(managers, database_url="").graphql.as_str() + "\n",
        _CONTRACT / "events.schema.json": _json(event_schema()),
    }


def _difference(stale: list[Path]) -> str:
    """Say what of the contract is not as it is here, and where it was looked for."""
    names = ", ".join(path.name for path in stale)
    folder = _CONTRACT.absolute()
    if not any(path.exists() for path in stale):
        return (
            f"Frontdesk's own contract is compared, and {folder} does not have it: {names}. "
            "Go to the root of Frontdesk's repository; `frontdesk openapi` writes it."
        )
    return f"Out of date in {folder}: {names}. Run `frontdesk openapi` and commit."


def _print(shown: RenderableType) -> None:
    """Write to standard output: a text in whole lines, all else as a terminal draws it."""
    with writing():
        if isinstance(shown, str):
            typer.echo(shown.removesuffix("\n"))
        else:
            _console.print(shown)


def _print_json(value: Json) -> None:
    _print(_json(value))


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
