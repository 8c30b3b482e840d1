"""docs/errors.md and docs/events.md are what the code says of itself."""

import re
from pathlib import Path
from typing import get_args

from app.reference import errors_reference, events_reference
from schema.errors import ChatError, ToolError
from schema.events import LIVE, Event


def test_the_pages_are_up_to_date(root: Path) -> None:
    for name, text in (("errors", errors_reference()), ("events", events_reference())):
        page = (root / "docs" / f"{name}.md").read_text("utf-8")
        assert page == text, "run `make docs`, and commit"


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
