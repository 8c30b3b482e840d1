"""What docs/providers.md says is so."""

import re
import shlex
from dataclasses import asdict
from pathlib import Path

import pytest
from processes import FRONTDESK, UVICORN, ask, run, serving

from providers import (
    AnthropicProvider,
    GeminiProvider,
    LiteLLMProvider,
    OllamaProvider,
    OpenAIProvider,
)
from providers.options import read_options

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()
SETTINGS: list[str] = re.findall(r"```sh\n(.+?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", SETTINGS)
def test_its_settings_pass_the_check(block: str, tmp_path: Path) -> None:
    given = dict(line.split("=", 1) for line in shlex.split(block))
    settings = {
        name.removeprefix("FRONTDESK_").lower(): value
        for name, value in given.items()
        if name.startswith("FRONTDESK_")
    }
    ended = run(tmp_path, FRONTDESK, "check", managers="app.demo.toy:managers", **settings)
    assert ended.returncode == 0, ended.stderr


def test_its_own_provider_answers(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "voice.py").write_text(code)
    settings = {"managers": "app.demo.toy:managers", "provider": "shop.voice.Parrot"}
    with serving(tmp_path, UVICORN, "app.main:app", **settings) as url:
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
