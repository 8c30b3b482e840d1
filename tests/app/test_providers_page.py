"""What docs/providers.md says is so."""

import re
from dataclasses import asdict
from pathlib import Path

import pytest
from commands import run_here
from pages import block, read, settings, write
from processes import UVICORN, ask, serving

from providers import (
    AnthropicProvider,
    GeminiProvider,
    LiteLLMProvider,
    OllamaProvider,
    OpenAIProvider,
)
from providers.options import read_options

PAGE = read("docs/providers.md")


@pytest.mark.parametrize(
    "lines",
    [
        block("docs/providers.md", "sh", "ANTHROPIC_API_KEY"),
        block("docs/providers.md", "sh", "openai/qwen3"),
        block("docs/providers.md", "sh", "OllamaProvider"),
        block("docs/providers.md", "sh", "FALLBACKS"),
    ],
)
def test_its_settings_pass_the_check(lines: str, tmp_path: Path) -> None:
    given = {"managers": "app.demo.toy:managers", **settings(lines)}
    ended = run_here(tmp_path, "check", **given)
    assert ended.returncode == 0, ended.stderr


def test_its_own_provider_answers(tmp_path: Path) -> None:
    write(tmp_path, block("docs/providers.md", "python", "# shop/voice.py"))
    given = {"managers": "app.demo.toy:managers", "provider": "shop.voice.Parrot"}
    with serving(tmp_path, UVICORN, "app.main:app", **given) as url:
        assert ask(url, "Hello to you") == "Hello to you"


def test_it_tells_the_keys_and_their_defaults() -> None:
    rows = re.findall(r"^\| (`\w+`[^|]*) \| ([^|]*) \| [^|]*\|$", PAGE, re.MULTILINE)
    told = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    for name, default in asdict(read_options({"model": "m"}, {})).items():
        assert name in told
        if isinstance(default, int | float):
            assert told[name] == f"{default:g}"


@pytest.mark.parametrize(
    "made", [OpenAIProvider, AnthropicProvider, GeminiProvider, OllamaProvider]
)
def test_it_tells_the_vendors_defaults(made: type[LiteLLMProvider]) -> None:
    [row] = re.findall(
        rf"^\| `providers.{made.__name__}`.*\| `{made.required_extra}` \| (.+) \|$",
        PAGE,
        re.MULTILINE,
    )
    assert row == ", ".join(f"`{name}` {value}" for name, value in made.defaults.items())
