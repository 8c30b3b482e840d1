"""Profiles and fallbacks by settings alone: what is taken, and what is told of what is wrong."""

import logging
from pathlib import Path

import pytest
from commands import run_here
from models import LITELLM_WARNINGS
from transports import answer, open_chat
from vendors import FakeVendor

from app.demo.toy import managers
from app.main import create_app
from app.settings import load_settings
from schema.errors import ConfigurationError
from schema.events import Failed

pytestmark = LITELLM_WARNINGS

PROFILES = "FRONTDESK_PROVIDER_PROFILES"
SEED = (
    '{"fast_local": {"provider": "providers.OllamaProvider",'
    ' "provider_config": {"model": "small"}, "trust_group": "local"},'
    ' "strong_local": {"provider": "providers.OllamaProvider",'
    ' "provider_config": {"model": "large"}, "trust_group": "local"}}'
)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_profiles_are_an_object_or_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROFILES, SEED)
    monkeypatch.setenv(f"{PROFILES}__BACKUP__PROVIDER", "providers.OpenAIProvider")
    monkeypatch.setenv(f"{PROFILES}__BACKUP__TRUST_GROUP", "default")
    monkeypatch.setenv(f"{PROFILES}__BACKUP__PROVIDER_CONFIG", '{"api_key": "SENTINEL-KEY-1"}')
    monkeypatch.setenv(f"{PROFILES}__LAST", '{"provider": "offline", "trust_group": "local"}')
    monkeypatch.setenv("FRONTDESK_PROVIDER_FALLBACKS", "backup")
    settings = load_settings()
    profiles = settings.provider_profiles
    assert profiles is not None
    assert sorted(profiles) == ["backup", "fast_local", "last", "strong_local"]
    assert profiles["backup"].provider_config == {"api_key": "SENTINEL-KEY-1"}
    assert profiles["last"].provider == "offline"
    assert profiles["strong_local"].trust_group == "local"
    assert "SENTINEL" not in repr(settings) + repr(profiles)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("", "SENTINEL-1", " must be a JSON object."),
        ("", '{"fast": "SENTINEL-1"}', "__FAST must be a JSON object."),
        ("", "[1]", " must be a JSON object."),
        ("__FAST", "SENTINEL-1", "__FAST must be a JSON object."),
        ("__FAST__PROVIDER", "offline", "__FAST__TRUST_GROUP must be set."),
        ("", '{"fast": {"trust_group": " SENTINEL-1", "provider": "auto"}}', "must not begin or"),
        ("__FAST__TRUSTGROUP", "SENTINEL-1", "closest one is FRONTDESK_PROVIDER_PROFILES__<NAME>"),
    ],
)
def test_a_wrong_profile_is_told_without_its_values(
    name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PROFILES}{name}", value)
    with pytest.raises(ConfigurationError, match=f"^E002: {PROFILES}") as caught:
        load_settings()
    assert told in str(caught.value)
    assert "SENTINEL" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            "slow",
            " entry 1 names no profile: FRONTDESK_PROVIDER_PROFILES has only fast_local, str",
        ),
        ("strong_local", " entry 1 names a profile that is not of the provider's trust_group"),
    ],
)
def test_who_is_not_trusted_as_much_stands_in_for_nobody(
    names: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILES, SEED)
    monkeypatch.setenv("FRONTDESK_PROVIDER_FALLBACKS", names)
    with pytest.raises(ConfigurationError, match=r"^E002: FRONTDESK_PROVIDER_FALLBACKS") as caught:
        load_settings()
    assert told in str(caught.value)


def test_a_fallback_without_any_profile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRONTDESK_PROVIDER_FALLBACKS", "backup")
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert str(caught.value).startswith(
        "E002: FRONTDESK_PROVIDER_FALLBACKS entry 1 names no profile: "
        "FRONTDESK_PROVIDER_PROFILES is not set."
    )


def test_who_never_fails_needs_nobody() -> None:
    profile = {"provider": "providers.OpenAIProvider", "trust_group": "default"}
    settings = load_settings(provider_profiles={"backup": profile}, provider_fallbacks=["backup"])
    with pytest.raises(ConfigurationError, match=r"^E002: FRONTDESK_PROVIDER_FALLBACKS is set, "):
        create_app(managers, settings)


@pytest.mark.covers("C7-53")
@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ('"provider": "providers.NoProvider"', "E004: FRONTDESK_PROVIDER_PROFILES__FAST__PROVIDER"),
        ('"provider": "auto", "provider_config": {"model": "x"}', "E002: provider_profiles fast:"),
    ],
)
def test_check_tells_what_is_wrong_with_a_profile(profile: str, told: str, tmp_path: Path) -> None:
    given = f'{{"fast": {{{profile}, "trust_group": "local"}}}}'
    ended = run_here(tmp_path, "check", managers="app.demo.toy:managers", provider_profiles=given)
    assert ended.returncode == 2, ended.stdout
    assert ended.stderr.startswith(f"frontdesk: {told}")
    assert "Traceback" not in ended.stderr


@pytest.mark.covers("H10", "P40")
async def test_a_fallback_answers_while_the_model_is_limited(
    toy_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with FakeVendor("openai") as vendor, FakeVendor("anthropic") as backup:
        vendor.will("!429(ra=3600)")
        backup.will('T"from the backup" F(stop) || !429(ra=60)')
        config = {"base_url": backup.base_url, "api_key": "SENTINEL-KEY-2"}
        settings = {
            "provider": "auto",
            "model": vendor.model,
            "provider_config": {"base_url": vendor.base_url, "api_key": "SENTINEL-KEY-1"},
            "provider_profiles": {
                "backup": {
                    "provider": "providers.AnthropicProvider",
                    "provider_config": config,
                    "trust_group": "default",
                }
            },
            "provider_fallbacks": ["backup"],
            "turn_timeout_seconds": 20,
        }
        async with open_chat("sse", managers, toy_url, **settings) as chat:
            assert answer(await chat.ask("hi")) == "from the backup"
            [failed] = await chat.ask("hi")
        assert isinstance(failed, Failed)
        assert (failed.code, failed.retry_after_seconds) == ("provider_failed", 60)
        assert (vendor.calls, backup.calls) == (1, 2)
        assert vendor.faults == backup.faults == []
    assert "Provider: LiteLLMProvider with openai/gpt-4o, else profile backup." in caplog.text
    assert "SENTINEL" not in caplog.text
