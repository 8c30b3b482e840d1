"""A model is chosen by settings alone, and what is wrong with it is told before anything starts."""

import logging
from pathlib import Path

import pytest
from commands import run_here
from processes import FRONTDESK, run

from app.demo.toy import managers
from app.main import create_app, open_desk
from app.settings import Settings, load_settings
from schema.errors import ConfigurationError


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_environment_gives_an_object_or_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTDESK_MODEL", "openai/m")
    monkeypatch.setenv("FRONTDESK_PROVIDER_CONFIG", '{"max_tokens": 5, "temperature": 1}')
    monkeypatch.setenv("FRONTDESK_PROVIDER_CONFIG__API_KEY", "SENTINEL-KEY-1")
    monkeypatch.setenv("FRONTDESK_PROVIDER_CONFIG__MAX_TOKENS", "7")
    settings = load_settings()
    assert settings.effective_provider_config == {
        "model": "openai/m",
        "api_key": "SENTINEL-KEY-1",
        "max_tokens": "7",
        "temperature": 1,
    }
    assert "SENTINEL" not in repr(settings)
    create_app(managers, settings)


def test_without_either_nothing_is_configured() -> None:
    assert load_settings().effective_provider_config == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("SENTINEL-KEY-1", "must be a JSON object"),
        ('["SENTINEL-KEY-1"]', "must be a JSON object"),
        ('{"model": "SENTINEL-KEY-1"}', "names another model than FRONTDESK_MODEL"),
    ],
)
def test_a_wrong_configuration_is_told_without_its_value(
    value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRONTDESK_MODEL", "openai/m")
    monkeypatch.setenv("FRONTDESK_PROVIDER_CONFIG", value)
    with pytest.raises(ConfigurationError, match=r"^E002: FRONTDESK_PROVIDER_CONFIG") as caught:
        load_settings()
    assert reason in str(caught.value)
    assert "SENTINEL" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "model", "told"),
    [
        ("auto", "ollama_chat/m", "LiteLLMProvider with ollama_chat/m"),
        ("providers.OllamaProvider", "m", "providers.OllamaProvider with m"),
        ("providers:GoogleProvider", None, "providers:GoogleProvider"),
    ],
)
async def test_the_log_names_the_model(
    provider: str, model: str | None, told: str, toy_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = Settings.model_validate(
        {
            "provider": provider,
            "model": model,
            "provider_config": {"api_key": "SENTINEL-KEY-1"},
            "database_url": toy_url,
        }
    )
    async with open_desk(managers, settings):
        assert f"Provider: {told}. Chat" in caplog.text
    assert "SENTINEL" not in caplog.text


@pytest.mark.covers("C7-53")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model": "no-such-model"}, "E002: provider_config: the vendor of the model"),
        ({"model": "m", "provider": "offline"}, "E002: The provider offline takes no model"),
        ({"provider": "providers.NoProvider"}, "E004: FRONTDESK_PROVIDER=providers.NoProvider"),
        (
            {"provider": "providers.OllamaProvider", "provider_config__base_url": "nonsense"},
            "E002: provider_config: base_url must begin with http://",
        ),
    ],
)
def test_check_tells_what_is_wrong(settings: dict[str, str], told: str, tmp_path: Path) -> None:
    ended = run_here(tmp_path, "check", managers="app.demo.toy:managers", **settings)
    assert ended.returncode == 2, ended.stdout
    assert ended.stderr.startswith(f"frontdesk: {told}")
    assert "Traceback" not in ended.stderr


@pytest.mark.covers("C7-53")
@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        ({"model": "openai/m"}, "litellm."),
        ({"provider": "providers.OllamaProvider"}, "'frontdesk[chat-ollama]'."),
    ],
)
def test_check_tells_what_is_missing(settings: dict[str, str], extra: str, tmp_path: Path) -> None:
    (tmp_path / "litellm.py").write_text("raise ImportError('it is not installed')\n")
    ended = run(tmp_path, FRONTDESK, "check", managers="app.demo.toy:managers", **settings)
    assert ended.returncode == 2
    assert ended.stderr.startswith("frontdesk: E003: LiteLLM can't be imported.")
    assert f"pip install {extra}" in ended.stderr


def test_check_passes_for_a_model(tmp_path: Path) -> None:
    ended = run_here(tmp_path, "check", managers="app.demo.toy:managers", model="openai/m")
    assert ended.returncode == 0, ended.stderr
    assert "PartManager" in ended.stdout
