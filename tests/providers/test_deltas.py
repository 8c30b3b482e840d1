"""Deltas add up to whole calls however a vendor cuts them, and nothing is guessed into a call."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.deltas import Deltas, Tokens, merged
from schema.events import Json, ToolCallEvent

Delta = tuple[int | None, str | None, str | None, str | None]


def gathered(deltas: Sequence[Delta]) -> list[ToolCallEvent]:
    calls = Deltas()
    for index, id, name, arguments in deltas:
        calls.add(index=index, id=id, name=name, arguments=arguments)
    return calls.calls()


def shown(calls: Sequence[ToolCallEvent]) -> list[tuple[str, Json]]:
    return [(call.name, call.args) for call in calls]


LAYOUTS: dict[str, list[Delta]] = {
    "as OpenAI does": [
        (0, "a", "query", ""),
        (0, None, None, '{"n"'),
        (0, None, None, ":1}"),
        (1, "b", "query", ""),
        (1, None, None, '{"n":2}'),
    ],
    "whole calls": [(0, "a", "query", '{"n":1}'), (1, "b", "query", '{"n":2}')],
    "all with index 0": [(0, "a", "query", '{"n":1}'), (0, "b", "query", '{"n":2}')],
    "all with index 0, in pieces": [
        (0, "a", "query", '{"n":'),
        (0, None, None, "1}"),
        (0, "b", "query", '{"n"'),
        (0, None, None, ":2}"),
    ],
    "interleaved": [
        (0, "a", "query", '{"n"'),
        (1, "b", "query", '{"n":'),
        (0, None, None, ":1}"),
        (1, None, None, "2}"),
    ],
    "from index 1 on": [(1, "a", "query", '{"n":1}'), (2, "b", "query", '{"n":2}')],
    "without an index": [
        (None, "a", "query", '{"n":'),
        (None, None, None, "1}"),
        (None, "b", "query", '{"n":2}'),
    ],
    "without ids": [(0, None, "query", '{"n":1}'), (0, None, "query", '{"n":2}')],
    "without ids, by index": [
        (0, "", "query", '{"n":'),
        (1, "", "query", '{"n":2}'),
        (0, "", "", "1}"),
    ],
    "the id again with each delta": [
        (0, "a", "query", '{"n":'),
        (0, "a", "query", "1}"),
        (1, "b", "query", '{"n":2}'),
    ],
    "the same id twice": [(0, "a", "query", '{"n":1}'), (1, "a", "query", '{"n":2}')],
    "the id late": [
        (0, None, "query", None),
        (0, "a", None, '{"n":1}'),
        (1, "b", "query", '{"n":2}'),
    ],
    "empty deltas between": [
        (0, "a", "query", None),
        (0, None, None, None),
        (0, "", "", '{"n":1}'),
        (1, "b", "query", '{"n":2}'),
        (1, None, None, ""),
    ],
}


@pytest.mark.covers("H01", "C7-52")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_calls_are_told_apart_in_every_layout(layout: str) -> None:
    calls = gathered(LAYOUTS[layout])
    assert shown(calls) == [("query", {"n": 1}), ("query", {"n": 2})]
    assert all(call.id for call in calls)


@pytest.mark.covers("H03")
@pytest.mark.parametrize("arguments", ["", None, "  ", "\n"])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    assert gathered([(0, "a", "search", arguments)]) == [ToolCallEvent("a", "search", {})]


@pytest.mark.covers("P39")
@pytest.mark.parametrize(
    "arguments",
    ['{"n":1', '{"n":1}{"n":1}', "[1]", "null", '"{}"', "1", "{'n':1}", '{"n":NaN}', "n=1", "{}}"],
)
def test_what_is_no_object_is_not_made_into_one(arguments: str) -> None:
    [call] = gathered([(0, "a", "query", arguments)])
    assert call.args == arguments


@pytest.mark.covers("P39")
def test_a_delta_that_belongs_to_no_call_makes_none_that_runs() -> None:
    first, lost = gathered([(0, "a", "query", '{"n":'), (3, None, None, "1}")])
    assert (first.name, first.args) == ("query", '{"n":')
    assert lost.name == ""


@pytest.mark.covers("H06", "P39")
def test_arguments_cut_anywhere_never_become_a_call_that_runs() -> None:
    text = '{"mutation":"tagPart","input":{"id":1,"tag":"x"}}'
    for end in range(1, len(text)):
        [call] = gathered([(0, "a", "mutate", text[:end])])
        assert not isinstance(call.args, dict)


JSON_TEXTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4)


@given(st.lists(JSON_TEXTS, min_size=1, max_size=4), st.data())
def test_pieces_of_any_size_add_up(
    arguments: list[dict[str, int | str]], data: st.DataObject
) -> None:
    deltas: list[Delta] = []
    for index, text in enumerate(json.dumps(each) for each in arguments):
        places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        deltas += [
            (index, f"id{index}" if number == 0 else None, "query" if number == 0 else None, piece)
            for number, piece in enumerate(pieces)
        ]
    assert [call.args for call in gathered(deltas)] == arguments


@pytest.mark.covers("H40", "P39")
@pytest.mark.parametrize("number", [-(2**63) - 1, 2**64, 10**30])
def test_an_integer_of_any_size_is_the_one_that_was_given(number: int) -> None:
    [call] = gathered([(0, "a", "query", f'{{"filters": {{"id": {number}}}}}')])
    assert call.args == {"filters": {"id": number}}


@pytest.mark.covers("H04", "P41")
@pytest.mark.parametrize(
    "reports",
    [
        [Tokens(100, 1), Tokens(0, 20)],
        [Tokens(0, 20), Tokens(100, 0)],
        [Tokens(100, 20), Tokens(100, 20)],
        [Tokens(100, 1), Tokens(100, 7), Tokens(100, 20)],
    ],
)
def test_reports_of_one_completion_are_joined_and_not_summed(reports: list[Tokens]) -> None:
    joined = Tokens()
    for report in reports:
        joined = merged(joined, report)
    assert joined == Tokens(100, 20)
