"""Twenty questions about the flights, offline and over the engine, answered as SQL answers them."""

import calendar
import shutil
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from questions import Desk, open_offline

from app.demo import flights

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHOWN = 20


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tower(flights_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Desk]:
    path = flights_url.removeprefix("sqlite+aiosqlite:///")
    copy = shutil.copy(path, tmp_path_factory.mktemp("tower") / "flights.db")
    async with open_offline(flights.managers, f"sqlite+aiosqlite:///{copy}") as desk:
        yield desk


# --- how many rows there are ----------------------------------------------------------------------

COUNTED: list[tuple[str, str, str]] = [
    ("flights in total", "flight", "There are {:,} flights."),
    ("how many flights are there in total?", "flight", "There are {:,} flights."),
    ("total number of flights", "flight", "There are {:,} flights."),
    ("total flights", "flight", "There are {:,} flights."),
    ("airlines on record", "airline", "There are {:,} airlines:"),
    ("which airlines do we have on record?", "airline", "There are {:,} airlines:"),
    ("name of carrier B6", "airline WHERE carrier = 'B6'", "There is {:,} carrier with"),
    (
        "how many flights went from JFK to LAX",
        "flight WHERE origin = 'JFK' AND dest = 'LAX'",
        "There are {:,} flights with origin JFK and dest LAX.",
    ),
    (
        "how many flights were cancelled?",
        "flight WHERE dep_time IS NULL",
        "There are {:,} flights without dep_time and without dep_delay.",
    ),
    ("planes built before 1960", "plane WHERE year < 1960", "There are {:,} planes with year"),
    ("airports above 8,000 feet", "airport WHERE alt > 8000", "There are {:,} airports with alt"),
    (
        "total number of cancelled flights in July",
        "flight WHERE dep_time IS NULL AND month = 7",
        "There are {:,} flights without dep_time and without dep_delay and with month July.",
    ),
]


@pytest.mark.parametrize(("question", "rows", "said"), COUNTED)
async def test_rows_are_counted_as_sql_counts_them(
    tower: Desk, question: str, rows: str, said: str
) -> None:
    asked, count = await tower.ask_count(rows, question)
    assert asked.headline.startswith(said.format(count))


# --- one value ------------------------------------------------------------------------------------

JFK_IN_JULY = "SELECT avg(dep_delay) FROM flight WHERE origin = 'JFK' AND month = 7"
BOEING = "SELECT avg(seats) FROM plane WHERE manufacturer = 'BOEING'"
FROM_EWR = "SELECT count(DISTINCT dest) FROM flight WHERE origin = 'EWR'"

VALUES: list[tuple[str, str, str]] = [
    ("average departure delay from JFK in July", JFK_IN_JULY, " is {:,.2f} minutes."),
    ("what is the mean departure delay of flights from JFK in July?", JFK_IN_JULY, "{:.2f} min"),
    ("in July, what was the average dep_delay from JFK?", JFK_IN_JULY, "is {:.2f} minutes."),
    ("average seats of BOEING planes", BOEING, "with manufacturer BOEING is {:,.2f}."),
    ("average number of seats of BOEING planes", BOEING, "with manufacturer BOEING is {:,.2f}."),
    ("how many seats do BOEING planes have on average?", BOEING, "BOEING is {:,.2f}."),
    ("distinct destinations from EWR", FROM_EWR, "There are {} different values of dest among"),
    ("how many different destinations from EWR are there?", FROM_EWR, "There are {} different"),
    ("number of distinct destinations of flights from EWR", FROM_EWR, "There are {} different"),
    (
        "total distance of flights by United",
        "SELECT sum(distance) FROM flight WHERE carrier = 'UA'",
        "The total distance of flights with airline United Air Lines Inc. is {:,} miles.",
    ),
    ("average temperature at JFK", "SELECT avg(temp) FROM weather WHERE origin = 'JFK'", "{:.2f}"),
    ("average air time", "SELECT avg(air_time) FROM flight", "The average air_time of flights is"),
]


@pytest.mark.parametrize(("question", "statement", "said"), VALUES)
async def test_a_value_is_that_of_sql(
    tower: Desk, question: str, statement: str, said: str
) -> None:
    asked = await tower.ask(question)
    [(value,)] = tower.sql(statement)
    assert asked.tool == "aggregate"
    assert asked.table == [(value,)]
    assert said.format(value) in asked.text


# --- groups ---------------------------------------------------------------------------------------

PER_CARRIER = "SELECT carrier, count(*) FROM flight GROUP BY 1 ORDER BY 2 DESC, 1"
HONOLULU = "SELECT carrier, count(*) FROM flight WHERE dest = 'HNL' GROUP BY 1 ORDER BY 2 DESC, 1"
ARRIVALS = (
    "SELECT name, avg(arr_delay) FROM flight JOIN airline USING (carrier)"
    " GROUP BY 1 ORDER BY 2 DESC, 1"
)
CANCELLED = "SELECT month, count(*) FROM flight WHERE dep_time IS NULL GROUP BY 1 ORDER BY 1"
MAKERS = "SELECT manufacturer, count(*) FROM plane GROUP BY 1 ORDER BY 2 DESC, 1"

GROUPED: list[tuple[str, str, str]] = [
    ("flights per carrier", PER_CARRIER, "- {}: {:,} flights"),
    ("how many flights are there for each carrier?", PER_CARRIER, "- {}: {:,} flights"),
    ("number of flights by carrier", PER_CARRIER, "- {}: {:,} flights"),
    ("count flights grouped by carrier", PER_CARRIER, "- {}: {:,} flights"),
    ("flights to Honolulu by carrier", HONOLULU, "- {}: {:,} flights"),
    ("flights to HNL per carrier", HONOLULU, "- {}: {:,} flights"),
    ("average arrival delay by airline, worst first", ARRIVALS, "- {}: {:,.2f} minutes"),
    ("average arrival delay for each airline, highest first", ARRIVALS, "- {}: {:,.2f} minutes"),
    ("airlines by average arrival delay", ARRIVALS, "- {}: {:,.2f} minutes"),
    ("mean arrival delay per airline in descending order", ARRIVALS, "- {}: {:,.2f} minutes"),
    (
        "average arrival delay by airline, best first",
        ARRIVALS.replace("2 DESC", "2"),
        "- {}: {:,.2f} minutes",
    ),
    ("flights per year", "SELECT year, count(*) FROM flight GROUP BY 1", "- {}: {:,} flights"),
    (
        "average departure delay per origin and carrier",
        "SELECT origin, carrier, avg(dep_delay) FROM flight GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
        "| {} | {} | {:,.2f} minutes |",
    ),
    (
        "average and maximum departure delay by origin",
        "SELECT origin, avg(dep_delay), max(dep_delay) FROM flight GROUP BY 1 ORDER BY 2 DESC",
        "| {} | {:,.2f} minutes | {:,} minutes |",
    ),
    (
        "compare the average arrival delay of UA and AA",
        "SELECT carrier, avg(arr_delay) FROM flight WHERE carrier IN ('AA', 'UA') GROUP BY 1",
        "- {}: {:,.2f} minutes",
    ),
    (
        "flights of carrier UA vs AA",
        "SELECT carrier, count(*) FROM flight WHERE carrier IN ('AA', 'UA') GROUP BY 1",
        "- {}: {:,} flights",
    ),
    (
        "compare flights from JFK and LGA",
        "SELECT origin, count(*) FROM flight WHERE origin IN ('JFK', 'LGA') GROUP BY 1",
        "- {}: {:,} flights",
    ),
    (
        "airlines with more than 50,000 flights",
        "SELECT name, count(*) FROM flight JOIN airline USING (carrier)"
        " GROUP BY 1 HAVING count(*) > 50000 ORDER BY 2 DESC",
        "- {}: {:,} flights",
    ),
]


@pytest.mark.parametrize(("question", "statement", "line"), GROUPED)
async def test_groups_are_those_of_sql(
    tower: Desk, question: str, statement: str, line: str
) -> None:
    asked = await tower.ask(question)
    rows = tower.sql(statement)
    assert asked.result["total_count"] == len(rows)
    assert asked.table == rows[: SHOWN + 1]
    listed = asked.lines[2:] if line.startswith("|") else asked.lines
    assert listed == [line.format(*row) for row in rows[:SHOWN]]


@pytest.mark.parametrize(
    "question",
    ["cancelled flights per month", "how many flights were cancelled each month?"],
)
async def test_cancelled_flights_per_month(tower: Desk, question: str) -> None:
    asked = await tower.ask(question)
    rows = tower.sql(CANCELLED)
    assert asked.table == rows
    names = [(calendar.month_name[int(str(month))], count) for month, count in rows]
    assert asked.lines == [f"- {name}: {count:,} flights" for name, count in names]


@pytest.mark.parametrize(
    "question",
    [
        "planes by manufacturer, top five",
        "top five manufacturers by number of planes",
        "the 5 manufacturers with the most planes",
        "which five manufacturers have the most planes?",
    ],
)
async def test_the_first_of_the_groups(tower: Desk, question: str) -> None:
    asked = await tower.ask(question)
    rows = tower.sql(MAKERS)
    assert asked.table == rows[: SHOWN + 1]
    assert asked.lines == [f"- {name}: {count:,} planes" for name, count in rows[:5]]
    assert f"the 5 with the most out of {len(rows)}:" in asked.headline


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("the carrier with most flights", "The carrier with the most flights is UA, with {:,}"),
        ("which carrier has the most flights?", "The carrier with the most flights is UA, with"),
        ("carrier with the highest number of flights", "The carrier with the most flights is UA"),
        ("most common carrier of flights", "The carrier with the most flights is UA, with {:,}"),
        (
            "which airline has the most flights?",
            "The airline with the most flights is United Air Lines Inc., with {:,} flights.",
        ),
    ],
)
async def test_the_carrier_with_most_flights(tower: Desk, question: str, said: str) -> None:
    asked = await tower.ask(question)
    [(_, count), *_] = tower.sql(PER_CARRIER)
    assert asked.table[0][1] == count
    assert asked.text.startswith(said.format(count))


# --- ranked rows ----------------------------------------------------------------------------------

LONGEST = "SELECT id, dep_delay FROM flight ORDER BY dep_delay DESC NULLS LAST, id LIMIT {}"


@pytest.mark.parametrize(
    "question",
    [
        "longest departure delay",
        "which flight has the longest departure delay?",
        "what is the maximum departure delay?",
        "flight with the highest dep_delay",
        "what was the worst departure delay?",
    ],
)
async def test_the_longest_departure_delay_is_told_with_its_flight(
    tower: Desk, question: str
) -> None:
    asked = await tower.ask(question)
    [(number, delay)] = tower.sql(LONGEST.format(1))
    assert asked.headline.startswith("There is 1 flight with the ")
    assert asked.headline.endswith(f" dep_delay, {delay:,} minutes:")
    assert [line.split(", ")[0] for line in asked.lines] == [f"- id {number}: dep_delay {delay}"]


@pytest.mark.parametrize(
    "question",
    [
        "the five flights with the longest departure delay",
        "top 5 flights by departure delay",
        "which five flights have the longest departure delay?",
        "five flights with the highest departure delay",
    ],
)
async def test_the_five_longest_departure_delays(tower: Desk, question: str) -> None:
    asked = await tower.ask(question)
    rows = tower.sql(LONGEST.format(5))
    said = [line.split(", ")[0] for line in asked.lines]
    assert said == [f"- id {number}: dep_delay {delay}" for number, delay in rows]


async def test_rows_that_share_the_first_place_are_counted(tower: Desk) -> None:
    asked = await tower.ask("the longest flight")
    [(count, most)] = tower.sql(
        "SELECT count(*), distance FROM flight GROUP BY distance ORDER BY distance DESC LIMIT 1"
    )
    assert asked.headline == (
        f"There are {count} flights with the highest distance, {most:,} miles:"
    )
    assert asked.text.endswith(f"… and {int(str(count)) - SHOWN} more.")


# --- questions that lean on another ---------------------------------------------------------------

LAGUARDIA = "and from LaGuardia?"


@pytest.mark.parametrize(
    ("earlier", "statement", "said"),
    [
        (
            ("average departure delay from JFK in July",),
            "SELECT avg(dep_delay) FROM flight WHERE origin = 'LGA' AND month = 7",
            " is {:,.2f} minutes.",
        ),
        (
            ("distinct destinations from EWR",),
            "SELECT count(DISTINCT dest) FROM flight WHERE origin = 'LGA'",
            "There are {} different values of dest",
        ),
        (
            ("average arrival delay from EWR", "and in August?"),
            "SELECT avg(arr_delay) FROM flight WHERE origin = 'LGA' AND month = 8",
            " is {:,.2f} minutes.",
        ),
    ],
)
async def test_and_from_laguardia(
    tower: Desk, earlier: tuple[str, ...], statement: str, said: str
) -> None:
    asked = await tower.ask(*earlier, LAGUARDIA)
    [(value,)] = tower.sql(statement)
    assert asked.table == [(value,)]
    assert said.format(value) in asked.text
    assert "origin_airport La Guardia" in asked.headline


@pytest.mark.parametrize(
    ("chain", "rows"),
    [
        (("flights in July", LAGUARDIA), "flight WHERE month = 7 AND origin = 'LGA'"),
        (("flights from LGA in July", "in August?"), "flight WHERE month = 8 AND origin = 'LGA'"),
        (("flights to LAX on July 4", "and in August?"), "flight WHERE month = 8 AND dest = 'LAX'"),
        (
            ("flights from JFK", "what about United Airlines?"),
            "flight WHERE origin = 'JFK' AND carrier = 'UA'",
        ),
        (
            ("flights from JFK", "only the cancelled ones"),
            "flight WHERE origin = 'JFK' AND dep_time IS NULL",
        ),
        (
            ("flights from JFK", "how many of them were cancelled?"),
            "flight WHERE origin = 'JFK' AND dep_time IS NULL",
        ),
        (
            ("flights from JFK", "and from EWR?", "which of those are to LAX?"),
            "flight WHERE origin = 'EWR' AND dest = 'LAX'",
        ),
        (("How many flights are there?", "and airlines?"), "airline"),
        (("airports above 8,000 feet", "and above 7,000 feet?"), "airport WHERE alt > 7000"),
        (("flights from LGA", "show more"), "flight WHERE origin = 'LGA'"),
    ],
)
async def test_what_is_new_takes_the_place_of_what_was_said_of_the_same(
    tower: Desk, chain: tuple[str, ...], rows: str
) -> None:
    asked, count = await tower.ask_count(rows, *chain)
    assert f"{count:,} " in asked.headline


async def test_thanks_lean_on_nothing(tower: Desk) -> None:
    asked = await tower.ask("planes built before 1960", "and before 1970?", "thanks")
    assert asked.text == "You're welcome."


@pytest.mark.parametrize(
    ("chain", "statement"),
    [
        (
            ("average departure delay from JFK", "and by month?"),
            "SELECT month, avg(dep_delay) FROM flight WHERE origin = 'JFK' GROUP BY 1 ORDER BY 1",
        ),
        (("flights per month", "and per carrier?"), PER_CARRIER),
        (
            ("flights per carrier", "only those to HNL"),
            HONOLULU,
        ),
        (
            ("the carrier with most flights", LAGUARDIA),
            PER_CARRIER.replace("GROUP", "WHERE origin = 'LGA' GROUP"),
        ),
        (("average arrival delay by airline", "top three?"), ARRIVALS),
        (("average departure delay by airline", "and the average arrival delay?"), ARRIVALS),
        (
            ("average departure delay by origin", "and the maximum?"),
            "SELECT origin, max(dep_delay) FROM flight GROUP BY 1 ORDER BY 2 DESC, 1",
        ),
    ],
)
async def test_a_figure_goes_on_with_something_else_in_it(
    tower: Desk, chain: tuple[str, ...], statement: str
) -> None:
    asked = await tower.ask(*chain)
    assert asked.table == tower.sql(statement)[: SHOWN + 1]


async def test_more_rows_follow_those_that_were_shown(tower: Desk) -> None:
    asked = await tower.ask("flights from LGA", "show more", "more")
    rows = tower.sql("SELECT id FROM flight WHERE origin = 'LGA' ORDER BY id LIMIT 20 OFFSET 40")
    assert [line.split(":")[0] for line in asked.lines] == [f"- id {number}" for (number,) in rows]


@pytest.mark.parametrize(
    ("chain", "word"),
    [
        (("longest departure delay", "which of them were cancelled?"), '"of them"'),
        (("flights per carrier", "how many of them are from JFK?"), '"of them"'),
        (("flights from JFK", "and from Zorb?"), '"Zorb"'),
        (("flights from JFK", "top three?"), '"top"'),
        (("flights from JFK", "the first one"), "no earlier question"),
        (("average departure delay", "and the median?"), '"median"'),
    ],
)
async def test_what_cannot_be_followed_is_named(
    tower: Desk, chain: tuple[str, ...], word: str
) -> None:
    asked = await tower.ask(*chain)
    assert word in asked.headline
    assert "\nYou could ask:\n- " in asked.text


async def test_a_part_that_was_refused_is_left_out_of_what_follows(tower: Desk) -> None:
    chain = ("flights from JFK", "and from Zorb?", "and in July?")
    await tower.ask_count("flight WHERE origin = 'JFK' AND month = 7", *chain)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("average delay", '"delay" may mean dep_delay or arr_delay'),
        ("median departure delay", '"median"'),
        ("compare flights from JFK", "I can compare by two or more values"),
        ("percentage of cancelled flights", '"percentage"'),
        ("average number of flights per month", '"average"'),
        ("hottest hour", '"hottest"'),
        ("busiest airport", '"busiest"'),
        ("average manufacturer of planes", '"manufacturer"'),
        ("flights per wombat", '"wombat"'),
        ("planes by seats", '"by seats" may mean sorted by seats or counted per seats'),
        ("airport with the most flights", '"airport" may mean origin_airport or dest_airport'),
        ("planes sorted by seats, worst first", '"worst first" may mean'),
        ("the month with the longest delay by carrier", '"delay" may mean'),
        ("heaviest plane", '"heaviest"'),
        ("highest average seats", '"highest average"'),
        ("planes with the highest average seats", '"highest average"'),
        ("average year of planes", '"year"'),
    ],
)
async def test_a_figure_that_is_not_understood_is_refused_in_words(
    tower: Desk, question: str, word: str
) -> None:
    asked = await tower.ask(question)
    assert word in asked.headline
    assert asked.tool != "aggregate"
    assert "\nYou could ask:\n- " in asked.text


# --- what is easily misread -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "headline"),
    [
        ("top 5 planes by seats", "These are the 5 planes with the highest seats"),
        ("top 3 airports by alt", "These are the 3 airports with the highest alt:"),
        ("highest airport", "There is 1 airport with the highest alt"),
    ],
)
async def test_a_ranking_that_names_its_rows_leans_on_nothing(
    tower: Desk, question: str, headline: str
) -> None:
    said = await tower.ask("How many flights from JFK?", question)
    assert said.headline.startswith(headline)


@pytest.mark.parametrize(
    ("question", "field", "noun"),
    [
        ("How many manufacturers are there?", "manufacturer", "plane"),
        ("How many models of planes are there?", "model", "plane"),
        ("How many origins are there?", "origin", "flight"),
    ],
)
async def test_how_many_of_a_field_counts_its_values(
    tower: Desk, question: str, field: str, noun: str
) -> None:
    said = await tower.ask(question)
    [(count,)] = tower.sql(f"SELECT count(DISTINCT {field}) FROM {noun}")
    assert said.text == f"There are {count} different values of {field} among {noun}s."


@pytest.mark.parametrize(
    "question",
    [
        "How many planes are there? How many airlines are there?",
        "How many planes and how many airlines are there?",
        "What is the average dep delay and how many flights are there?",
        "How many airlines are there? And which is B6?",
    ],
)
async def test_two_questions_at_once_are_not_answered_by_half(tower: Desk, question: str) -> None:
    said = await tower.ask(question)
    assert said.headline.startswith("I answer one question at a time.")


async def test_two_letters_are_no_part_of_a_name(tower: Desk) -> None:
    said = await tower.ask("How many flights to LA?")
    assert said.headline.startswith('I found no "LA" in ')
    question = "How many airports have a name containing LA?"
    said, count = await tower.ask_count("airport WHERE name LIKE '%LA%'", question)
    assert f"{count:,} airports" in said.text


async def test_the_number_of_something_in_a_column_is_not_the_number_of_rows(tower: Desk) -> None:
    said = await tower.ask("How many seats are there?")
    assert said.headline.startswith('I did not understand "seats" here')
