"""The embedded default: a deterministic provider that needs no key, no model and no network.

It knows nothing but the messages and tools it is given, and learns the schema by calling tools like
any model. Each completion reads the messages anew and goes through four stages:

    parse    question → intent and pieces
    resolve  pieces + facts → conditions, and values that the data has to place
    plan     → the next tool calls, or an outcome
    word     outcome → answer

What is where, from the bottom up:

    english  the lists of words, and word forms: all that is known before a question is read
    asks     what kind of message it is: a question, a greeting, a request to change something
    parse    the message cut into words, numbers, dates, comparisons and ties
    facts    what the tool results of this turn have said: managers, paths, pages
    figures  words that ask for a figure or an order, found among the pieces
    match    how well words name a field, and how well a value fits one
    subject  whose rows are asked for
    segment  which words are names of the schema, and which are values
    places   which fields in reach of the noun may hold a value
    asked    what is to be worked out: measures, groups, order, ranked rows
    frame    the question being read: which words have found a place, or the problem that stops it
    columns  the fields that figures are of
    dates    years, months and days as conditions
    ranking  what is ranked; what was read becomes figures, ranked rows, or a change of earlier ones
    tally    figures of the sentence: what to measure, group, rank or sort, and by what
    amounts  numbers, comparisons and units become conditions
    resolve  gaps, values, columns; every word accounted for
    recall   what an earlier question meant, told by the read that answered it
    follow   questions that lean on an earlier one: which, and what both mean
    probe    values looked for in the data before they become filters
    steps    calls and outcomes, and how a query is written
    lookup   questions that name no manager: rows looked for by name
    plan     the next step, within the calls that are allowed
    phrases  values, rows, filters and questions to ask instead, in words
    sums     figures in words
    word     outcomes in words

Text in rows is shown, never read: only the question and the schema decide what is asked for.
Source: design.md 8.
"""

import re
from collections.abc import AsyncIterator

from providers.base import (
    ChatEvent,
    DoneEvent,
    Message,
    TextChunkEvent,
    ToolCallEvent,
    ToolDefinition,
)
from providers.offline.facts import earlier_questions, read_turn
from providers.offline.follow import read_question
from providers.offline.plan import plan
from providers.offline.word import word

__all__ = ["OfflineProvider"]

_CHUNK = re.compile(r"\S+\s*|\s+")
_CHUNK_CHARS = 24


class OfflineProvider:
    """Answers simple English questions about the exposed data. Holds no state."""

    async def complete(
        self, messages: list[Message], tools: list[ToolDefinition]
    ) -> AsyncIterator[ChatEvent]:
        """Ask for the next look-ups, or answer; the same messages always give the same events."""
        text, facts = read_turn(messages)
        question = read_question(text, earlier_questions(messages))
        step = plan(question, facts, frozenset(tool.name for tool in tools))
        if isinstance(step, list):
            for number, call in enumerate(step, start=facts.calls + 1):
                yield ToolCallEvent(f"call_{number}", call.name, call.args)
        else:
            for chunk in _chunks(word(step, facts)):
                yield TextChunkEvent(chunk)
        yield DoneEvent()


def _chunks(text: str) -> list[str]:
    """Cut an answer at word ends, so that it is seen to arrive."""
    chunks = [""]
    for part in _CHUNK.findall(text):
        if len(chunks[-1]) >= _CHUNK_CHARS:
            chunks.append("")
        chunks[-1] += part
    return chunks
