"""Settings that name code import it, or say why not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import run_here

from app.demo.toy import managers
from app.main import create_app, open_desk
from app.named_code import load_callable, load_managers, load_object
from app.settings import Settings
from providers import OfflineProvider, Script
from schema.errors import ConfigurationError

SHOP = """
from providers import OfflineProvider, Script
class Own(OfflineProvider): pass
class Outer:
    class Inner(OfflineProvider): pass
script = Script()
number = 3
nothing = None
"""
NOT_THERE = [
    ("", "names no module"),
    ("offlin", "names no module"),
    ("a_shop:", "names no module"),
    (".Own", "names no module"),
    ("no_such_shop.Own", "ModuleNotFoundError: No module named 'no_such_shop'"),
    ("broken_shop:Own", "ZeroDivisionError: division by zero"),
    ("broken_shop.Own", "ZeroDivisionError: division by zero"),
    ("a_shop:Other", "has no attribute 'Other'"),
    ("a_shop:scrpt", "has no attribute 'scrpt', the closest one is script)."),
    ("a_shop.Outer.Iner", "No module named 'a_shop.Outer'"),
    ("a_shop:Outer.Iner", "has no attribute 'Iner', the closest one is Inner)."),
]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of a user's with one of everything, and one that can't be imported."""
    (tmp_path / "a_shop.py").write_text(SHOP)
    (tmp_path / "broken_shop.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield
    for name in ("a_shop", "broken_shop"):
        sys.modules.pop(name, None)


def test_code_is_named_with_a_dot_or_a_colon() -> None:
    own = load_object("provider", "a_shop:Own")
    assert load_object("provider", "a_shop.Own") is own
    assert isinstance(load_object("provider", "a_shop:Outer.Inner"), type)
    assert isinstance(load_object("provider", "a_shop:script"), Script)


@pytest.mark.parametrize(
    "path", ["a_shop:Own", "a_shop.Own", "a_shop:Outer.Inner", "a_shop:script"]
)
def test_a_provider_of_any_kind_can_be_named(path: str) -> None:
    create_app(managers, Settings.model_construct(provider=path))


def _made() -> OfflineProvider:
    return OfflineProvider()


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("auto", "OfflineProvider"),
        ("a_shop:Own", "Own"),
        ("a_shop:script", "a_shop:script"),
        (Script(), "Script"),
        (_made, "_made"),
    ],
)
async def test_the_log_names_the_provider_and_tells_nothing_of_it(
    toy_url: str, caplog: pytest.LogCaptureFixture, provider: object, name: str
) -> None:
    settings = Settings.model_validate({"provider": provider, "database_url": toy_url})
    async with open_desk(managers, settings):
        assert f"Provider: {name}. Chat" in caplog.text


@pytest.mark.parametrize(("path", "reason"), NOT_THERE)
def test_code_that_can_not_be_imported_is_told_by_its_setting_with_the_reason(
    path: str, reason: str
) -> None:
    told: dict[str, str] = {}
    for name in ("provider", "permission", "identity"):
        with pytest.raises(ConfigurationError) as caught:
            create_app(managers, Settings.model_construct().model_copy(update={name: path}))
        told[name] = str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        load_managers(path)
    told["managers"] = str(caught.value)
    for name, text in told.items():
        assert text.startswith("E004: " if name == "provider" else "E002: ")
        assert f"FRONTDESK_{name.upper()}={path} " in text
        assert reason in text


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (
            "from app.demo.toy import managers",
            "names a module, and not the managers in it. Name them: corner.chat:managers.",
        ),
        (
            "from schema import Managers\none, other = Managers(), Managers()",
            "Name them: corner.chat:one or corner.chat:other.",
        ),
        (
            "managers = None",
            "names a module, and not the managers in it. "
            "Make some there, as managers = Managers(), and name them: corner.chat:managers.",
        ),
        (
            "1 / 0",
            "names a module, and not the managers in it (ZeroDivisionError: division by zero, in "
            "corner/chat.py line 1). Correct the code there.",
        ),
    ],
)
@pytest.mark.parametrize("before", ["", "import corner.chat"])
def test_a_module_is_told_from_the_managers_in_it(
    tmp_path: Path, module: str, told: str, before: str
) -> None:
    corner = tmp_path / "corner"
    corner.mkdir()
    (corner / "__init__.py").write_text("" if "1 / 0" in module else before)
    (corner / "chat.py").write_text(module)
    ended = run_here(tmp_path, "check", managers="corner.chat")
    for name in ("corner.chat", "corner"):
        sys.modules.pop(name, None)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("frontdesk: E002: FRONTDESK_MANAGERS=corner.chat names a module")
    assert ended.stderr.endswith(f"{told}\n")


def test_a_single_module_is_told_too() -> None:
    with pytest.raises(ConfigurationError, match=r"^E002: FRONTDESK_MANAGERS=a_shop names a mod"):
        load_managers("a_shop")


def _of_type(name: str) -> str:
    return (
        "takes the class of a model, a SQLModel table, a Tortoise model or a Strawberry type "
        f"with page=, and was given a value of type {name}, in slip_shop.py line 3). "
        "Correct the code there.\n"
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("managers.expose(5)", f"TypeError: expose() {_of_type('int')}"),
        ("managers.expose('Part')", f"TypeError: expose() {_of_type('str')}"),
        ("managers.field('Part')(print)", f"TypeError: field() {_of_type('str')}"),
    ],
)
def test_what_is_exposed_must_be_a_class(tmp_path: Path, line: str, told: str) -> None:
    module = f"from schema import Managers\nmanagers = Managers()\n{line}\n"
    (tmp_path / "slip_shop.py").write_text(module)
    ended = run_here(tmp_path, "check", managers="slip_shop:managers")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.endswith(told)


def test_a_wrong_setting_of_a_module_that_serves_itself_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module = """
from app.main import create_app
from app.demo.toy import managers
from app.settings import Settings
app = create_app(managers, Settings.model_construct(provider="gpt"))
"""
    (tmp_path / "serving_shop.py").write_text(module)
    with pytest.raises(ConfigurationError, match=r"^E004: FRONTDESK_PROVIDER=gpt names no"):
        load_managers("serving_shop:managers")


def test_a_provider_that_is_named_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match=r"^E004: provider int is not callable"):
        create_app(managers, Settings.model_construct(provider="a_shop:number"))


def test_what_a_setting_has_called_is_the_object_itself_or_what_its_path_names() -> None:
    assert load_callable("permission", None) is None
    assert load_callable("permission", print) is print
    assert load_callable("permission", "a_shop:Own") is load_object("permission", "a_shop:Own")


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a_shop:number", "a_shop:number"), ("a_shop.nothing", "a_shop.nothing"), (3, "int")],
)
def test_what_can_not_be_called_denies_the_start_and_not_nobody(value: object, shown: str) -> None:
    for name in ("permission", "identity"):
        with pytest.raises(ConfigurationError) as caught:
            load_callable(name, value)
        assert f"E002: FRONTDESK_{name.upper()}={shown} can't be called." in str(caught.value)
        settings = Settings.model_construct().model_copy(update={name: value})
        with pytest.raises(ConfigurationError, match=f"FRONTDESK_{name.upper()}"):
            create_app(managers, settings)
