"""Settings that hold a secret keep it, or say why they can't."""

from pathlib import Path

import pytest

from app.settings import DATA_FOLDER, Settings, session_secret
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
