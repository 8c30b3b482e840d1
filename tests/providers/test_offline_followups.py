"""Questions that lean on earlier ones: which, for how long, and what the answer says of it."""

from collections.abc import Sequence

import orjson
import pytest
from desk import Asked, Desk

from providers.base import Message, ToolCallEvent
from providers.offline.facts import MAX_CALLS, Said, earlier_questions
from providers.offline.follow import read_question
from providers.offline.parse import parse
from schema.events import JsonObject

_WINDOW = 2
"""How many turns are shown besides the current one; a chain is longer."""


async def talk(desk: Desk, questions: Sequence[str]) -> Asked:
    """Ask one question after the other, each with the last turns in sight; the last answer."""
    turns: list[list[Message]] = []
    asked: Asked | None = None
    for question in questions:
        before = [message for turn in turns[-_WINDOW:] for message in turn]
        asked = await desk.ask(question, before=before)
        assert len(asked.calls) <= MAX_CALLS
        turns.append([*asked.messages[1 + len(before) :], Message("assistant", asked.answer)])
    assert asked is not None
    return asked


@pytest.mark.parametrize(
    ("text", "leans"),
    [
        ("and from LaGuardia?", "change"),
        ("what about United?", "change"),
        ("only the cancelled ones", "change"),
        ("in August?", "open"),
        ("by month", "open"),
        ("top three?", "open"),
        ("worst first", "open"),
        ("the five cheapest", "open"),
        ("which of them are active?", "rows"),
        ("what is their average price?", "rows"),
        ("show more", "more"),
        ("next", "more"),
        ("flights per month", ""),
        ("parts and their material", ""),
        ("How many airlines are there?", ""),
    ],
)
def test_how_a_message_leans_on_an_earlier_one_is_read(text: str, leans: str) -> None:
    assert read_question(text, [Said("flights from JFK")]).leans == leans


def test_small_talk_is_not_leaned_on() -> None:
    question = read_question("and in July?", [Said("flights from JFK"), Said("thanks"), Said("hi")])
    assert question.earlier == parse("flights from JFK")


def test_a_part_that_was_refused_is_not_leaned_on() -> None:
    earlier = [Said("flights from JFK"), Said("and from Zorb?", is_refused=True)]
    assert read_question("and in July?", earlier).earlier == parse("flights from JFK")


# --- how long a chain goes on ---------------------------------------------------------------------

CHAIN = ("flights from JFK?", "and from LaGuardia?", "and from Newark?", "and in July?")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("questions", "headline"),
    [
        (
            (*CHAIN, "and in August?", "and to LAX?", "and from JFK?", "how many?"),
            "There are 979 flights with month August and dest LAX and origin JFK. Kept from before:"
            " with month August and dest LAX and origin JFK.",
        ),
        (
            ("planes built before 1960", *(f"and before {year}?" for year in range(1961, 1971))),
            "There are 8 planes with year before 1970:",
        ),
        (
            (
                "average departure delay by airline",
                "only from JFK",
                "and in July?",
                "and in August?",
                "and to HNL?",
                "and the maximum?",
            ),
            "This is the highest dep_delay of flights with origin JFK and month August and dest HNL"
            " by airline, highest first:",
        ),
        (
            (
                "the carrier with most flights",
                "and from JFK?",
                "and from LGA?",
                "and from EWR?",
                "and in July?",
            ),
            "This is the number of flights with month July and origin EWR by carrier, highest "
            "first:",
        ),
    ],
)
async def test_a_chain_goes_on_when_its_first_question_is_out_of_sight(
    tower: Desk, questions: tuple[str, ...], headline: str
) -> None:
    asked = await talk(tower, questions)
    assert asked.headline == headline


@pytest.mark.parametrize(
    ("questions", "headline"),
    [
        (
            ("orders in July", "only paid ones", "how many of them?", "which ones?", "how many?"),
            "There are 2 orders with placed_on in July 2023 or July 2024 and is_paid true.",
        ),
        (
            (
                "orders by year",
                "only paid ones",
                "by town",
                "and the average total?",
                "and in 2024?",
            ),
            "This is the average total of orders with is_paid true and placed_on in 2024 by ",
        ),
        (
            ("customers with more than 1 order", "in 2023", "only paid ones", "in 2024", "in 2023"),
            "There are no orders with is_paid true and placed_on in 2023 by customer, where it is "
            "over 1.",
        ),
        (
            ("orders sorted by total", "only paid ones", "in 2024", "in 2023", "in 2024"),
            "There are 2 orders with is_paid true and placed_on in 2024, sorted by total, lowest",
        ),
        (("list 2 orders", "more", "more", "more"), "There are 5 orders; these follow the first 6"),
    ],
)
async def test_what_was_read_says_what_an_earlier_question_meant(
    shop: Desk, questions: tuple[str, ...], headline: str
) -> None:
    asked = await talk(shop, questions)
    assert asked.headline.startswith(headline)


FOREIGN: list[JsonObject] = [
    {"manager": "Order", "filters": {"not": {"is_paid": True}}},
    {"manager": "Order", "filters": {"total__between": [1, 2]}},
    {"manager": "Order", "filters": {"or": [{"is_paid": True}]}},
    {"manager": "Order", "filters": {"nothing__here": 1}},
    {"manager": "Order", "filters": [], "limit": 5},
    {"manager": "Order", "order_by": ["nothing"]},
    {"manager": "Order", "limit": 5, "after": "x"},
]


@pytest.mark.parametrize("args", FOREIGN)
async def test_a_read_that_another_provider_made_is_not_guessed_at(
    shop: Desk, args: JsonObject
) -> None:
    call = ToolCallEvent("c1", "query", args)
    before = [
        Message("user", "and those?"),
        Message("assistant", "", (call,)),
        Message("tool", orjson.dumps({"data": []}).decode(), (), "c1", "query"),
        Message("assistant", "There are some."),
    ]
    asked = await shop.ask("how many?", before=before)
    assert asked.headline.startswith("I can't tell what was asked before")


@pytest.mark.parametrize("question", ["how many?", "and in July?", "which ones?", "more"])
async def test_what_leans_on_nothing_says_so(shop: Desk, question: str) -> None:
    asked = await shop.ask(question)
    assert asked.headline.startswith("I see no earlier question that this leans on")


def test_the_count_of_ties_is_not_what_answered_a_ranking() -> None:
    ranked = ToolCallEvent("1", "query", {"manager": "Flight", "order_by": ["-distance"]})
    tied = ToolCallEvent("2", "query", {"manager": "Flight", "filters": {"distance": 1}})
    [said] = earlier_questions(
        [
            Message("user", "the longest flight"),
            Message("assistant", "", (ranked,)),
            Message("assistant", "", (tied,)),
            Message("assistant", "There are two."),
            Message("user", "and in July?"),
        ]
    )
    assert said.answered == ranked


# --- what a follow-up is, and what it says --------------------------------------------------------

JFK = "How many flights from JFK?"


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    "question",
    [
        "How many flights to LAX?",
        "flights to LAX",
        "to LAX, how many flights are there?",
        "Are there flights to LAX?",
        "July flights",
        "In July, flights to LAX",
        "which day had the most flights",
        "longest departure delay",
        "planes by manufacturer",
    ],
)
async def test_a_question_that_names_its_own_rows_starts_anew(tower: Desk, question: str) -> None:
    asked = await talk(tower, (JFK, question))
    assert "JFK" not in str(asked.calls[-1].args)
    assert "Kept from before" not in asked.answer


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    "question",
    [
        "how many to LAX?",
        "how many in July?",
        "and flights to LAX?",
        "what about flights to LAX",
        "to LAX",
        "by carrier",
        "how many of them were cancelled?",
        "sorted by distance",
        "which ones?",
    ],
)
async def test_a_fragment_leans_and_the_answer_says_on_what(tower: Desk, question: str) -> None:
    asked = await talk(tower, (JFK, question))
    assert "JFK" in str(asked.calls[-1].args)
    assert asked.answer.endswith("Kept from before: with origin JFK.")


async def test_what_was_listed_is_counted(factory: Desk) -> None:
    asked = await talk(factory, ("parts made of steel", "how many?"))
    assert asked.headline.startswith("There are 14 parts with material Steel.")
    asked = await talk(factory, ("how many parts are made of steel?", "which ones?"))
    assert asked.headline == "There are 14 parts with material Steel:"
    asked = await talk(factory, ("average price of steel parts", "how many?"))
    assert asked.headline.startswith("There are 14 parts with material Steel.")
    asked = await talk(factory, ("which supplier has the most parts?", "how many?"))
    assert asked.headline == "These 3 tie as the supplier with the most parts, 8 parts:"
