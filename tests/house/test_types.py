"""Types stay strict: a line may be excused from one named rule, a file or the project from none."""

import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

IGNORE = re.compile(r"#\s*(type:\s*ignore|pyright:\s*ignore|noqa)(?P<named>(\[|:\s*)[\w\-, ]+\]?)?")
SETTING = re.compile(r"#\s*(pyright:(?!\s*ignore)|ruff:\s*noqa|mypy:|flake8:)")


def loose(path: str, text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if SETTING.search(token.string):
            yield f"{path}:{token.start[0]} changes the rules for a whole file"
        for ignore in IGNORE.finditer(token.string):
            if not ignore["named"]:
                yield f"{path}:{token.start[0]} ignores every rule"


def test_each_ignore_names_its_rule(sources: dict[str, str]) -> None:
    found = [line for path, text in sources.items() for line in loose(path, text)]
    assert not found, "\n".join(found)


def test_the_type_checker_is_strict_everywhere(root: Path) -> None:
    pyright = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]

    assert pyright["typeCheckingMode"] == "strict"
    assert {"app", "planned", "providers", "schema", "tests", "alembic"} <= set(pyright["include"])
    assert {name: value for name, value in pyright.items() if value in (False, "none")} == {}
    assert {"exclude", "ignore", "strict", "executionEnvironments"} & pyright.keys() == set()


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # type: ignore",
        "x = 1  # pyright: ignore",
        "x = 1  # noqa",
        "x = 1  # pyright: ignore[reportAny]  # noqa",
        "# pyright: basic",
        "# pyright: reportAny=false",
        "# ruff: noqa: E501",
    ],
)
def test_a_loose_comment_is_found(text: str) -> None:
    assert list(loose("m.py", text))


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # pyright: ignore[reportAny, reportUnknownVariableType]",
        "x = 1  # type: ignore[assignment]",
        "x = 1  # noqa: E501",
        "x = '# noqa'",
    ],
)
def test_a_named_rule_may_be_ignored(text: str) -> None:
    assert list(loose("m.py", text)) == []
