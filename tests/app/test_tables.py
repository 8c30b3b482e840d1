"""Markdown tables are drawn where the answer goes to a terminal, and nothing else is changed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables import TableDrawer

TABLE = "| Part | Price |\n|---|--:|\n| Bolt | 0.35 |\n| Gear \\| small | 12.00 |\n"
DRAWN = """\
┏━━━━━━━━━━━━━━┳━━━━━━━┓
┃ Part         ┃ Price ┃
┡━━━━━━━━━━━━━━╇━━━━━━━┩
│ Bolt         │  0.35 │
│ Gear | small │ 12.00 │
└──────────────┴───────┘
"""


def shown(*pieces: str) -> str:
    drawer = TableDrawer()
    return "".join([*map(drawer.feed, pieces), drawer.end()])


def plain(text: str) -> str:
    """Take the styles away."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("We have:\n\n", "\nThat is all."), ("- a\n", "- b | c\n"), ("", "\n| a |\n")],
)
def test_a_table_is_drawn_and_what_is_around_it_stays(before: str, after: str) -> None:
    assert plain(shown(before + TABLE + after)) == before + DRAWN + after


@pytest.mark.parametrize(
    "text",
    [
        "There are 3 parts:\n- Bolt\n- Gear\n\n1. One | two\n",
        "| one line with bars |\n",
        "| a | b |\n| c | d |\n| e | f |\n",
        "| a | b |\n|---|\n",
        f"```\n{TABLE}```\n",
        f"~~~\n```\n{TABLE}~~~\n",
        "    " + TABLE.replace("\n", "\n    "),
        "",
        "\n\n",
        "``",
        "|",
        "a\r\n\u2028b\x0b",
    ],
)
def test_what_is_no_table_goes_through_as_it_is(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    ("pieces", "parts"),
    [
        (["Well", ", ", "we", "\nhave"], ["Well", ", ", "we", "\nhave", ""]),
        (["a\n|", "-", "|\nb"], ["a\n", "", "|-|\nb", ""]),
        ([TABLE[:20], TABLE[20:], "end"], ["", "", DRAWN + "end", ""]),
        ([TABLE], ["", DRAWN]),
        (["`", "`", "`\n|", "a"], ["", "", "```\n|", "a", ""]),
    ],
)
def test_only_what_may_be_a_table_is_held_back(pieces: list[str], parts: list[str]) -> None:
    drawer = TableDrawer()
    assert [*map(plain, map(drawer.feed, pieces)), plain(drawer.end())] == parts


@given(st.lists(st.text(alphabet="|-:a\n `~\\"), max_size=20))
def test_how_a_text_is_cut_makes_no_difference(pieces: list[str]) -> None:
    assert shown(*pieces) == shown("".join(pieces))


@given(st.text(alphabet="-:a\n `~\\é"))
def test_a_text_without_bars_is_not_changed(text: str) -> None:
    assert shown(text) == text


def test_a_cell_too_many_is_not_lost() -> None:
    drawn = plain(shown("| a | b |\n|---|:-:|\n| 1 |\n| 1 | 2 | 3 |\n"))
    assert "│ 1 │ 2 | 3 │" in drawn


def test_markup_in_a_cell_is_a_text_like_any_other() -> None:
    assert "[red]x[/red]" in plain(shown("| a |\n|---|\n| [red]x[/red] |\n"))


def test_a_table_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    drawn = plain(shown(f"| a |\n|---|\n| {'word ' * 20} {'w' * 40} |\n"))
    assert {len(line) for line in drawn.splitlines()} == {30}
    assert drawn.count("word") == 20
    assert drawn.count("w") == 60
