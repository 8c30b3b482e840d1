"""The reference pages in docs/ are what the settings, errors and events say of themselves."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from app.reference import errors_reference, events_reference, settings_reference
from app.settings import named_fields
from schema.errors import ChatError, ToolError
from schema.events import LIVE, Event


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("settings", settings_reference),
        ("errors", errors_reference),
        ("events", events_reference),
    ],
)
def test_a_page_is_up_to_date(name: str, written: Callable[[], str], root: Path) -> None:
    page = (root / "docs" / f"{name}.md").read_text("utf-8")
    assert page == written(), "run `make docs`, and commit"


def test_every_code_has_a_row_of_its_own() -> None:
    told = re.findall(r"^\| `([a-z_]+)` \| (.+) \|$", errors_reference(), re.MULTILINE)
    kinds = [*ChatError.__subclasses__(), *ToolError.__subclasses__()]
    assert {kind.code for kind in kinds} <= {code for code, _ in told}
    assert len(told) == len({code for code, _ in told})
    assert not any("Source" in cells or "  " in cells for _, cells in told)


def test_every_event_has_a_chapter_and_every_field_a_meaning() -> None:
    page = events_reference()
    types = [kind.model_fields["type"].default for kind in get_args(get_args(Event.__value__)[0])]
    assert re.findall(r"^## `(\w+)`$", page, re.MULTILINE) == types
    assert page.count("With `live: true` only.") == len(LIVE)
    rows = re.findall(r"^\| (`\w+`) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    assert all(value and meaning for _, value, meaning in rows)


ROWS = re.findall(
    r"^\| `(FRONTDESK_[\w<>]+)` \| (.+) \| (.+) \| (.+) \|$", settings_reference(), re.MULTILINE
)


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
