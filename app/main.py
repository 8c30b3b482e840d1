"""The composition root: the only place that constructs the parts and joins them.

    app = create_app(managers)            # uvicorn shop.chat:app
    FRONTDESK_MANAGERS=shop.chat:managers # uvicorn app.main:app
    install(app, managers)                # the chat inside a FastAPI application of your own
    open_desk(managers)                   # the same events without a server

Source: design.md 5 and 6.
"""

import asyncio
import gc
import logging
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import FrameType, FunctionType, MethodType

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Server
from uvicorn.logging import DefaultFormatter

import planned
import providers
import schema
from app.doors import Desk, problem
from app.engine import TurnEngine
from app.identity import Authenticator, Identify, Permission
from app.named_code import load_callable, load_managers, load_object
from app.openapi import DESCRIPTION, FAILED, SUMMARY, TAGS, add_docs, describe
from app.routes import chat_router, health_router
from app.runs import RunHost
from app.sessions import Sessions
from app.settings import Settings, load_settings, session_secret
from app.store import Store, check, migrate
from app.tokens import Tokens
from providers.base import BaseLLMProvider
from providers.loading import (
    EMBEDDED,
    PROVIDER_FIX,
    chained,
    load_profile,
    load_provider,
    opened,
)
from schema import Managers
from schema.errors import BadEvent, ChatFailed, ConfigurationError, NotFound, TryAgain
from schema.index import SchemaIndex
from schema.query import Reader
from schema.reads import prepare_database
from schema.tools import ToolRegistry, data_tools

_log = logging.getLogger(__name__)
GRACE_S = 10
"""How long a server that ends waits for its connections to close; runs end sooner."""

_SWITCH_S = 0.0005
_ROOMS = ("app", "planned", "providers", "schema")


def create_app(managers: Managers, settings: Settings | None = None) -> FastAPI:
    """Build the application that serves ``managers``; without settings, those of the environment.

    Raises: ConfigurationError when the settings are wrong. What depends on the database is checked
    at start-up.
    """
    chosen = settings or load_settings()
    return _application(managers, chosen, _plugins(chosen))


def _application(managers: Managers, settings: Settings, plugins: "_Plugins") -> FastAPI:
    app = FastAPI(
        title="Frontdesk",
        version=version("frontdesk"),
        summary=SUMMARY,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        responses=FAILED,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"operation_spans": False},
    )
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(Exception, _fail)
    open_now = _install(app, managers, settings, plugins)

    async def check() -> None:
        await open_now().host.check()

    app.include_router(health_router(check))
    add_docs(app)
    return app


def install(app: FastAPI, managers: Managers, settings: Settings | None = None) -> None:
    """Add the chat to a FastAPI application, before it starts.

    The chat brings its routes, its own start and end, and its part of the OpenAPI document; to the
    application's other routes nothing changes. Raises: as ``create_app``.
    """
    chosen = settings or load_settings()
    _install(app, managers, chosen, _plugins(chosen))


def _install(
    app: FastAPI, managers: Managers, settings: Settings, plugins: "_Plugins"
) -> Callable[[], Desk]:
    """Add the chat, and return what gives its desk, or raises TryAgain while it is closed."""
    desks: list[Desk] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with _opened(managers, settings, plugins) as desk:
            desks.append(desk)
            with _on_ending(desk.host.drain), _spared_collections():
                yield
            desks.clear()

    def open_now() -> Desk:
        if not desks:
            raise TryAgain
        return desks[0]

    app.include_router(APIRouter(lifespan=lifespan))
    if settings.enabled:
        router = chat_router(settings, open_now)
        app.include_router(router)
        _describe(app, settings.url)
        if settings.allowed_origins:
            app.add_middleware(_ChatCors, router=router, origins=settings.allowed_origins)
    return open_now


def _describe(app: FastAPI, url: str) -> None:
    """Complete the application's OpenAPI document, once it is asked for."""
    build = app.openapi

    def openapi() -> dict[str, object]:
        document = build()
        describe(document, url)
        return document

    app.openapi = openapi


class _ChatCors:
    """Lets pages of other origins use the chat, and nothing else of the application."""

    def __init__(self, app: ASGIApp, *, router: APIRouter, origins: Sequence[str]) -> None:
        self._app, self._origins = app, frozenset(origins)
        self._paths = [route.path_regex for route in router.routes if isinstance(route, Route)]
        self._cors = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_credentials=True,
            allow_methods=("*",),
            allow_headers=("*",),
            expose_headers=("Retry-After", "X-Conversation-Id", "X-Run-Id"),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._cors if self._is_concerned(scope) else self._app
        await app(scope, receive, send)

    def _is_concerned(self, scope: Scope) -> bool:
        if scope["type"] != "http" or Headers(scope=scope).get("Origin") not in self._origins:
            return False
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return any(pattern.match(path) for pattern in self._paths)


def open_desk(
    managers: Managers, settings: Settings | None = None
) -> AbstractAsyncContextManager[Desk]:
    """Open everything that lives as long as an application, without its doors over a network.

    Without settings, those of the environment. ``Desk.run`` asks.
    Raises: ConfigurationError naming what is missing and the command or setting that mends it.
    """
    chosen = settings or load_settings()
    return _opened(managers, chosen, _plugins(chosen))


async def set_up(managers: Managers, settings: Settings) -> bool:
    """Bring the databases into the state that serving needs, as far as that is ours to do.

    Returns True if data was made. Raises: ConfigurationError when a configured database is not
    migrated.
    """
    url = settings.chat_database_url
    if settings.database_url is None:
        await migrate(url)
    else:
        await check(url)
    return await prepare_database(managers, url)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A start that went well, and all that it has opened is closed again."""

    app: FastAPI
    """Ready to be served: the code that settings name is made once for both."""
    index: SchemaIndex
    warnings: Sequence[str]
    """What does not keep it from starting."""


async def rehearse(managers: Managers, settings: Settings) -> Rehearsal:
    """Do what a start does, so that what is wrong is told in a sentence and not by a server.

    Raises: ConfigurationError.
    """
    plugins = _plugins(settings)
    app = _application(managers, settings, plugins)
    await set_up(managers, settings)
    async with opened(plugins.makers) as warnings, open_reader(managers, settings) as reader:
        return Rehearsal(app, reader.index, warnings)


def open_reader(managers: Managers, settings: Settings) -> Reader:
    """Make the reader of the exposed data; entering it checks what it needs."""
    return Reader(
        managers,
        database_url=settings.chat_database_url,
        max_results=settings.max_results,
        query_timeout_seconds=settings.query_timeout_seconds,
        timezone=settings.timezone,
    )


@dataclass(frozen=True, slots=True)
class _Plugins:
    """The code that settings name."""

    provider: Callable[[], BaseLLMProvider]
    makers: Sequence[Callable[[], BaseLLMProvider]]
    """The provider without its fallbacks, and then each profile's."""
    permission: Permission | None
    identify: Identify | None


def _plugins(settings: Settings) -> _Plugins:
    _check_rooms()
    made = _provider_setting("provider", settings.provider)
    first = load_provider(made, settings.effective_provider_config)
    profiles = {
        name: load_profile(
            name,
            _provider_setting(f"provider_profiles__{name}__provider", profile.provider),
            profile.provider_config or {},
        )
        for name, profile in (settings.provider_profiles or {}).items()
    }
    return _Plugins(
        chained(first, {name: profiles[name] for name in settings.provider_fallbacks}),
        [first, *profiles.values()],
        load_callable("permission", settings.permission),
        load_callable("identity", settings.identity),
    )


def _provider_setting(name: str, value: object) -> object:
    """Import what names a provider's class."""
    if isinstance(value, str) and value not in EMBEDDED:
        return load_object(name, value, id="E004", fix=PROVIDER_FIX)
    return value


@asynccontextmanager
async def _opened(
    managers: Managers, settings: Settings, plugins: _Plugins
) -> AsyncGenerator[Desk]:
    _configure_logging(settings.log_level)
    # Reads and the writer are threads that need the interpreter's lock for a moment, again and
    # again; a busy event loop would let each moment wait 5 ms.
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
    await set_up(managers, settings)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(Store.open(settings.chat_database_url))
        reader = await stack.enter_async_context(open_reader(managers, settings))
        context: Context | None = None
        if managers.tortoise is not None:
            opening = managers.tortoise.opened(settings.chat_database_url)
            context = await stack.enter_async_context(opening)
        host = await stack.enter_async_context(
            RunHost(
                store,
                max_recent_messages=settings.max_recent_messages,
                run_stale_s=settings.run_stale_seconds,
                now=_now,
                context=context,
            )
        )
        engine = TurnEngine(
            settings=settings,
            reader=reader,
            tools=ToolRegistry(data_tools()),
            provider=plugins.provider,
            now=_now,
        )
        tokens = settings.jwt and Tokens(settings.jwt, now=_now)
        authenticator = Authenticator(
            Sessions(session_secret(settings, warn=_log.warning)),
            tokens=tokens and await stack.enter_async_context(tokens),
            identify=plugins.identify,
            permission=plugins.permission,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            now=_now,
        )
        for warning in await stack.enter_async_context(opened(plugins.makers)):
            _log.warning("%s", warning)
        _log_start(settings, plugins, reader)
        yield Desk(settings, authenticator, engine, host)


@contextmanager
def _on_ending(act: Callable[[], None]) -> Generator[None]:
    """Call ``act`` when the process is told to end, before the server does what it does then.

    A server closes an application when all of its connections are closed, and those of a run that
    is at work are not. Neither is that of a client that does not read, so uvicorn is given a limit
    if it has none. In a thread other than the main one no signals can be heard.
    """
    loop = asyncio.get_running_loop()
    server: dict[int, Callable[[int, FrameType | None], object]] = {}

    def hear(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(act)
        server[number](number, frame)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(heard := signal.getsignal(number)):
                server[number] = heard
                signal.signal(number, hear)
                _limit_ending(heard)
    try:
        yield
    finally:
        for number, heard in server.items():
            if signal.getsignal(number) is hear:
                signal.signal(number, heard)


@contextmanager
def _spared_collections() -> Generator[None]:
    """Keep the garbage collector from what is there already, as long as the application serves.

    To go through all that a start has made takes it a tenth of a second, again and again, in which
    no stream goes on.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _limit_ending(heard: object) -> None:
    server = heard.__self__ if isinstance(heard, MethodType) else None
    if isinstance(server, Server) and server.config.timeout_graceful_shutdown is None:
        server.config.timeout_graceful_shutdown = GRACE_S


@cache
def _environment_app() -> FastAPI:
    settings = load_settings()
    return create_app(load_managers(settings.managers), settings)


def __getattr__(name: str) -> FastAPI:
    """Build ``app`` from the environment when a server first asks for it, and not on import."""
    if name == "app":
        return _environment_app()
    raise AttributeError(name)


def _check_rooms() -> None:
    """Refuse to run beside another project's ``app``, ``schema``, ``providers`` or ``planned``."""
    roots = {
        room.__name__: Path(room.__file__ or "").parent.parent
        for room in (planned, providers, schema)
    }
    own = Path(__file__).parent.parent
    for name, root in roots.items():
        if root != own:
            raise ConfigurationError(
                "E002",
                f"Another package named {name!r} in {root} hides Frontdesk's.",
                "Rename it, or install Frontdesk where that package is not.",
            )


def _configure_logging(level: str) -> None:
    """Show our log unless the host application has set up logging itself."""
    for room in _ROOMS:
        logger = logging.getLogger(room)
        logger.setLevel(level.upper())
        if not logger.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(DefaultFormatter("%(levelprefix)s %(message)s"))
            logger.addHandler(handler)


def _log_start(settings: Settings, plugins: _Plugins, reader: Reader) -> None:
    """Say what was chosen, and exactly what is exposed."""
    first, *_ = plugins.makers
    made = first if isinstance(first, type) else settings.provider
    if isinstance(made, str):
        name = "LiteLLMProvider" if made == "auto" else made
    else:
        # By its name: what an object tells of itself may hold a key.
        name = (made if isinstance(made, type | FunctionType) else type(made)).__qualname__
    jwt = settings.jwt
    if jwt is not None and jwt.jwks_url is not None and jwt.audience is None:
        _log.warning(
            "FRONTDESK_JWT__AUDIENCE is not set: what the issuer signs for other applications is "
            "believed here too."
        )
    model = settings.effective_provider_config.get("model")
    told = name if model is None else f"{name} with {model}"
    told += "".join(f", else profile {name}" for name in settings.provider_fallbacks)
    _log.info("Provider: %s. Chat routes below %s.", told, settings.url)
    for manager in reader.index.managers.values():
        shown = ", ".join([*manager.fields, *manager.links])
        _log.info("Exposed: %s (%s).", manager.name, shown)


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer the framework's own refusals (no such path, wrong method) with our body."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 404:
        meant = _with_other_ending(request)
        hint = "" if meant is None else f" The path is {meant}"
        response = problem(404, NotFound.code, NotFound.public + hint)
    else:
        response = problem(error.status_code, BadEvent.code, error.detail)
    response.headers.update(error.headers or {})
    return response


def _with_other_ending(request: Request) -> str | None:
    """Find the route that a path misses by the slash at its end.

    It is given as it is declared: nothing of the request is repeated, so that ids, whosever they
    are, all get the same answer.
    """
    root: str = request.scope.get("root_path", "")
    path: str = request.scope["path"].removeprefix(root)
    other = path.removesuffix("/") if path.endswith("/") else f"{path}/"
    for known in iter_route_contexts(request.app.routes):
        if isinstance(known.original_route, APIRoute) and known.path_regex.match(other):
            return f"{root}{known.path}"
    return None


async def _fail(_: Request, error: Exception) -> Response:
    """Answer what nobody expected; the server logs the details."""
    return problem(500, ChatFailed.code, ChatFailed.public)


def _now() -> datetime:
    return datetime.now(UTC)
