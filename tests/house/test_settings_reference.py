"""docs/settings.md is what the settings say of themselves."""

import re
from pathlib import Path

import pytest

from app.reference import settings_reference
from app.settings import named_fields

ROWS = re.findall(
    r"^\| `(FRONTDESK_[\w<>]+)` \| (.+) \| (.+) \| (.+) \|$", settings_reference(), re.MULTILINE
)


def test_the_page_of_the_settings_is_up_to_date(root: Path) -> None:
    page = (root / "docs" / "settings.md").read_text("utf-8")
    assert page == settings_reference(), "run `make docs`, and commit"


def test_every_setting_and_every_part_of_one_has_its_row() -> None:
    assert [row[0] for row in ROWS] == list(named_fields())
    for name, *cells in ROWS:
        assert all(cells), name
        assert not any("|" in cell for cell in cells), name


@pytest.mark.parametrize(
    ("name", "value", "default"),
    [
        ("ENABLED", "`true` or `false`", "`true`"),
        ("URL", "text", "`/chat/`"),
        ("PERMISSION", "dotted path", "unset"),
        ("JWT", "JSON object", "unset"),
        ("JWT__SECRET", "text of 32 characters or more", "unset"),
        ("ALLOWED_HOSTS", "list", "unset"),
        ("SYSTEM_PROMPT", "text", "empty"),
        ("TIMEZONE", "time zone", "`UTC`"),
        ("MAX_RETRIES_PER_MESSAGE", "whole number from 0", "`8`"),
        ("MAX_TOTAL_ROUNDS_PER_MESSAGE", "whole number from 1", "unset"),
        ("QUERY_TIMEOUT_SECONDS", "number above 0", "unset"),
        ("LOG_LEVEL", "`debug`, `info`, `warning` or `error`", "`info`"),
    ],
)
def test_values_and_defaults_are_in_words(name: str, value: str, default: str) -> None:
    [row] = [row for row in ROWS if row[0] == f"FRONTDESK_{name}"]
    assert row[1:3] == (value, default)


def test_a_list_has_an_example() -> None:
    assert [
        name for name, value, _, meaning in ROWS if value == "list" and "Example: " not in meaning
    ] == []
