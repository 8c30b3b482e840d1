"""Parsing: what a question says before anything is known of the data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.offline.english import plural, related, same, singular, split_name
from providers.offline.facts import Facts, call_key
from providers.offline.parse import Compare, Cue, Mark, Moment, Number, Piece, Word, parse
from providers.offline.plan import plan
from providers.offline.word import word
from schema.events import ToolCallEvent

OFFERED = frozenset({"search_managers", "get_manager_schema", "find_path", "query", "aggregate"})

WORDS = st.sampled_from(
    """which parts part steel Steel material materials of made with without no not more than 5 1960
    between and or from to LGA density name how many are there "Hex Bolt" , ? > after in July is the
    active average total maximum distinct per each by top five most longest oldest expensive
    highest first worst sorted descending price month number count does have their July -3
    9999999999999999999 _ __ ' " é 数""".split()
)


@given(st.text(max_size=200))
def test_any_text_parses(text: str) -> None:
    question = parse(text)
    assert len(question.topic) <= 200


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_any_question_leads_to_calls_or_an_answer(text: str) -> None:
    facts = _facts()
    step = plan(parse(text), facts, OFFERED)
    assert step if isinstance(step, list) else word(step, facts)
    last = plan(parse(text), facts, frozenset())
    assert not isinstance(last, list)
    assert word(last, facts)


def _facts() -> Facts:
    """What a look at two related managers brings; every search has the same answer."""
    facts = Facts()
    part = """{"found": true, "manager": "Part", "primary_key": ["id"], "aliases": ["component"],
        "fields": [{"name": "id", "type": "integer"}, {"name": "name", "type": "string"},
        {"name": "price", "type": "decimal"}, {"name": "made_on", "type": "date"},
        {"name": "status", "type": "enum", "choices": ["active", "old"]},
        {"name": "hidden", "type": "boolean", "nullable": false}],
        "relations": [{"name": "material", "target": "Material"}]}"""
    material = """{"found": true, "manager": "Material", "primary_key": ["id"],
        "fields": [{"name": "name", "type": "string"}, {"name": "density", "type": "number"}],
        "relations": [{"name": "parts", "target": "Part", "many": true}]}"""
    for name, schema in (("Part", part), ("Material", material)):
        facts.learn(ToolCallEvent("1", "get_manager_schema", {"manager": name}), schema)
    facts.calls = 0
    facts.done = _Everything()
    return facts


class _Everything(set[str]):
    """Searches, schemas and paths are done; queries are not."""

    def __contains__(self, key: object) -> bool:
        reads = tuple(call_key(tool, {})[:-2] for tool in ("query", "aggregate"))
        return not str(key).startswith(reads)


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("How many parts are there?", "count"),
        ("count the parts", "count"),
        ("number of parts", "count"),
        ("What's the total number of parts?", "count"),
        ("Which parts are there?", "list"),
        ("Show me all parts", "list"),
        ("parts", "list"),
        ("Are there any parts?", "exists"),
        ("Do you have parts", "exists"),
        ("hi", "greeting"),
        ("Hello there!", "greeting"),
        ("Good morning", "greeting"),
        ("thank you", "thanks"),
        ("help", "help"),
        ("What can you do?", "help"),
        ("who are you", "help"),
        ("What data do you have?", "help"),
        ("", "help"),
        ("???", "help"),
    ],
)
def test_the_intent_is_read(text: str, intent: str) -> None:
    assert parse(text).intent == intent


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("planes built before 1960", [Word("built", joined=True), Compare("lt", in_time=True)]),
        ("seats > 400", [Compare("gt"), Number(400, "400")]),
        ("seats at least 400", [Compare("gte"), Number(400, "400")]),
        ("with 400 or more seats", [Compare("gte"), Number(400, "400"), Word("seats")]),
        ("price no more than $1,200.50", [Compare("lte"), Number(1200.5, "$1,200.50", unit="$")]),
        (
            "between 1950 and 1960",
            [
                Compare("gte", in_time=True),
                Number(1950, "1950"),
                Compare("lte", in_time=True),
                Number(1960, "1960"),
            ],
        ),
        ("from LGA to HNL", [Cue("from"), Word("LGA"), Cue("to"), Word("HNL")]),
        ("flights arriving at HNL", [Cue("to"), Word("HNL")]),
        ("made of steel", [Cue("made"), Word("steel")]),
        ("that do not have a supplier", [Mark("missing"), Word("supplier")]),
        ("not from LGA", [Mark("not"), Cue("from"), Word("LGA")]),
        ("in New York, or LA", [Word("New"), Word("York", joined=True), Mark("and"), Mark("or")]),
        ('called "Hex Bolt"', [Cue("named"), Word("Hex Bolt", quoted=True)]),
        ("America/Anchorage", [Word("America/Anchorage")]),
        ("Bolt's material", [Word("Bolt"), Word("material", joined=True)]),
        ("flights of US in May", [Cue("of"), Word("US"), Cue("in"), Moment("May", month=5)]),
        ("airports in OR", [Cue("in"), Word("OR")]),
    ],
)
def test_words_become_pieces(text: str, pieces: list[Piece]) -> None:
    found = list(parse(text).pieces)
    starts = range(len(found) - len(pieces) + 1)
    assert any(found[start : start + len(pieces)] == pieces for start in starts), found


def test_the_topic_leaves_out_numbers_fillers_and_quoted_words() -> None:
    assert parse('How many records of parts called "Bolt" cost over 5?').topic == "parts cost"


def test_a_number_too_long_for_a_number_stays_a_word() -> None:
    assert parse("part 12345678901234567890").pieces[1:] == (
        Word("12345678901234567890", joined=True),
    )


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("part", "parts"),
        ("city", "cities"),
        ("box", "boxes"),
        ("bus", "buses"),
        ("series", "series"),
        ("day", "days"),
    ],
)
def test_plurals_are_built_and_known(one: str, many: str) -> None:
    assert plural(one) == many
    assert same(one, many)
    assert singular(many) == one or one == "bus"


def test_words_are_the_same_by_number_and_related_by_stem() -> None:
    assert same("planes", "plane")
    assert not same("planes", "plan")
    assert related("supplied", "supplier")
    assert related("departing", "departure")
    assert not related("part", "party")
    assert split_name("dep_time ProjectPart 2ndRow") == (
        "dep",
        "time",
        "project",
        "part",
        "2",
        "nd",
        "row",
    )
