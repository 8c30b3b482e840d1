"""Settings that hold a secret keep it, and those that name code import it, or say why not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.demo.toy import managers
from app.main import create_app, load_managers
from app.settings import DATA_FOLDER, Settings, load_object, session_secret
from providers import Script
from schema.errors import ConfigurationError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory: secrets are kept below it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _secret() -> str:
    return session_secret(Settings.model_construct(), warn=lambda _: None)


def test_a_secret_is_made_once_and_only_its_owner_reads_it(folder: Path) -> None:
    made = _secret()
    assert len(made) >= 32
    assert _secret() == made
    assert (folder / DATA_FOLDER / "secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (folder / DATA_FOLDER).iterdir()] == ["secret"]


@pytest.mark.parametrize("text", [b"", b"\n", b"short", b"\xff" * 40])
def test_a_secret_that_anybody_could_guess_signs_nothing(folder: Path, text: bytes) -> None:
    (folder / DATA_FOLDER).mkdir()
    (folder / DATA_FOLDER / "secret").write_bytes(text)
    with pytest.raises(ConfigurationError, match="secret"):
        _secret()


def test_a_folder_that_can_not_be_made_is_named(folder: Path) -> None:
    (folder / DATA_FOLDER).write_text("in the way")
    with pytest.raises(ConfigurationError, match="FRONTDESK_SESSION_SECRET"):
        _secret()


# --- settings that name code ----------------------------------------------------------------------

SHOP = """
from providers import OfflineProvider, Script
class Own(OfflineProvider): pass
class Outer:
    class Inner(OfflineProvider): pass
script = Script()
number = 3
"""
NOT_THERE = [
    ("", "ValueError"),
    ("offlin", "ValueError"),
    ("a_shop:", "has no attribute ''"),
    (".Own", "ValueError"),
    ("no_such_shop.Own", "ModuleNotFoundError: No module named 'no_such_shop'"),
    ("broken_shop:Own", "ZeroDivisionError: division by zero"),
    ("a_shop:Other", "has no attribute 'Other'"),
]


@pytest.fixture
def shop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of a user's with one of everything, and one that can't be imported."""
    (folder / "a_shop.py").write_text(SHOP)
    (folder / "broken_shop.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    yield
    for name in ("a_shop", "broken_shop"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("shop")
def test_code_is_named_with_a_dot_or_a_colon() -> None:
    own = load_object("provider", "a_shop:Own")
    assert load_object("provider", "a_shop.Own") is own
    assert isinstance(load_object("provider", "a_shop:Outer.Inner"), type)
    assert isinstance(load_object("provider", "a_shop:script"), Script)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    "path", ["a_shop:Own", "a_shop.Own", "a_shop:Outer.Inner", "a_shop:script"]
)
def test_a_provider_of_any_kind_can_be_named(path: str) -> None:
    create_app(managers, Settings.model_construct(provider=path))


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("path", "reason"), NOT_THERE)
def test_code_that_can_not_be_imported_is_told_by_its_setting_with_the_reason(
    path: str, reason: str
) -> None:
    told: dict[str, str] = {}
    for name in ("provider", "permission"):
        with pytest.raises(ConfigurationError) as caught:
            create_app(managers, Settings.model_construct().model_copy(update={name: path}))
        told[name] = str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        load_managers(path)
    told["managers"] = str(caught.value)
    for name, text in told.items():
        assert text.startswith("E004: " if name == "provider" else "E002: ")
        assert f"FRONTDESK_{name.upper()}={path} can't be imported" in text
        assert reason in text


@pytest.mark.usefixtures("shop")
def test_a_provider_that_is_named_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match=r"^E004: provider 3 is not callable"):
        create_app(managers, Settings.model_construct(provider="a_shop:number"))
