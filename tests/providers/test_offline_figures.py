"""Figures on a schema whose names are words for figures, and with no column for months."""

from random import Random

import pytest
from desk import Desk

from providers.offline.facts import MAX_CALLS
from providers.offline.figures import Best, By, Direction, Op, figure_at
from providers.offline.match import is_kin
from providers.offline.parse import parse


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("total total of orders", "The total total of orders is 222.40 euros."),
        ("total rank of orders", "The total rank of orders is 19."),
        ("average total of all orders", "The average total of orders is 44.48 euros."),
        ("average total of paid orders", "The average total of orders with is_paid true is 39.80"),
        ("average average rating", "The average average_rating of customers is 3.83."),
        ("average rating of Ada", "There is 1 customer with name Ada:"),
        ("total orders", 'I did not understand "total" here'),
        ("orders with the highest total", "There are 2 orders with the highest total, 99.90 eur"),
        ("latest order", "There is 1 order with the latest placed_on, 2024-08-01:"),
        ("oldest order", "There is 1 order with the earliest placed_on, 2023-07-04:"),
        ("orders ordered by rank, highest first", "There are 5 orders, sorted by rank, highest fi"),
        ("orders in July", "There are 2 orders with placed_on in July:"),
        ("orders in July 2023", "There is 1 order with placed_on in July 2023:"),
        ("orders in December", "There is 1 order with placed_on in December:"),
        ("orders in 2024", "There are 2 orders with placed_on in 2024:"),
        ("orders before 2024", "There are 2 orders with placed_on before 2024:"),
        ("orders after July 2023", "There are 3 orders with placed_on from the end of July 2023:"),
        ("orders until 2023", "There are 2 orders with placed_on before the end of 2023:"),
        ("orders on 2024-07-30", "There is 1 order with placed_on 2024-07-30:"),
        ("orders on 2023-02-30", 'I see no way to look for "2023-02-30" in orders as a date.'),
        ("total of orders in July", "There are 2 orders with placed_on in July:"),
        ("order 3", "There is 1 order with id 3:"),
        ("order with the highest rank", "There is 1 order with the highest rank, 9:"),
        ("order 3 bolts", "I only read what is on record"),
        ("Order the parts", "I only read what is on record"),
        ("draft orders", "There is 1 order without placed_on:"),
        ("most common rank", "The rank with the most orders is rank 2, with 2 orders."),
        (
            "customer with the most orders",
            "The customer with the most orders is Ada, with 2 orders",
        ),
        (
            "town with the most orders",
            "These 2 tie as the customer town with the most orders, 2 orders:",
        ),
        ("customers with more than 1 order", "This is the number of orders by customer, where it"),
        ("largest order", 'I don\'t see which field "largest" is about.'),
        ("orders in the first quarter", 'I found no "first quarter"'),
        ("customers per month", 'I don\'t see what to group customers by: I know no "month".'),
        ("orders after July", 'I see no way to look for "July" in orders as a date.'),
        ("wombats per month", 'I found no kind of record and no field called "wombats per month".'),
    ],
)
async def test_names_that_are_words_for_figures_are_told_apart(
    shop: Desk, question: str, answer: str
) -> None:
    asked = await shop.ask(question)
    assert asked.headline.startswith(answer)
    assert len(asked.calls) <= MAX_CALLS


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("orders by year", ["- 2023: 2 orders", "- 2024: 2 orders", "- no placed_on: 1 order"]),
        (
            "how many orders were placed in each year?",
            ["- 2023: 2 orders", "- 2024: 2 orders", "- no placed_on: 1 order"],
        ),
        (
            "total rank per month of placed_on",
            [
                "| year of placed_on | month of placed_on | total rank |",
                "| --- | --- | --- |",
                "| 2023 | July | 1 |",
                "| 2023 | December | 5 |",
                "| 2024 | July | 9 |",
                "| 2024 | August | 2 |",
                "| no placed_on | no placed_on | 2 |",
            ],
        ),
        (
            "orders by town",
            ["- Lyon: 2 orders", "- Turin: 2 orders", "- no customer town: 1 order"],
        ),
        (
            "paid orders by customer",
            ["- Ada: 1 order", "- Bo: 1 order", "- Cy: 1 order"],
        ),
    ],
)
async def test_groups_follow_one_another_in_time_or_by_size(
    shop: Desk, question: str, lines: list[str]
) -> None:
    asked = await shop.ask(question)
    assert asked.answer.splitlines()[1:] == lines


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("question", "headline"),
    [
        (
            "which day had the most flights",
            "The year, month and day with the most flights is 2013, November, day 27, with 1,014 ",
        ),
        (
            "the day with the fewest flights in July",
            "The year, month and day with the fewest flights with month July is 2013, July, day 4,",
        ),
        (
            "which day had the longest average departure delay",
            "The year, month and day with the longest average dep_delay of flights is 2013, March,",
        ),
        (
            "top 5 days by number of flights",
            "This is the number of flights by year, month and day, the 5 with the most out of 365:",
        ),
        (
            "the three days with the most flights",
            "This is the number of flights by year, month and day, the 3 with the most out of 365:",
        ),
        (
            "top 5 hours by average departure delay",
            "This is the average dep_delay of flights by hour, the 5 with the highest out of 20:",
        ),
    ],
)
async def test_a_day_that_is_ranked_is_one_of_the_calendar(
    tower: Desk, question: str, headline: str
) -> None:
    assert (await tower.ask(question)).headline.startswith(headline)


@pytest.mark.parametrize(
    ("question", "headline"),
    [
        (
            "which day had the most orders",
            "These 4 tie as the year of placed_on, month of placed_on and day of placed_on with",
        ),
        ("which year had the fewest orders", "These 2 tie as the year of placed_on with the few"),
        ("the 2 months with the most orders", "This is the number of orders by year of placed_on"),
        ("who placed the most orders", "The customer with the most orders is Ada, with 2 orders."),
        ("which customer placed the most orders", "The customer with the most orders is Ada, wit"),
        ("who lost the most orders", 'I did not understand "lost" here'),
        ("most orders", "I don't see what to group orders by."),
        ("top 2 customers by orders", "This is the number of orders by customer, the 2 with the"),
    ],
)
async def test_what_is_ranked_by_its_rows_is_found(
    shop: Desk, question: str, headline: str
) -> None:
    assert (await shop.ask(question)).headline.startswith(headline)


@pytest.mark.parametrize(
    ("question", "headline"),
    [
        ("which supplier delivers the most parts", "These 3 tie as the supplier with the most "),
        ("who delivers the most parts?", "These 3 tie as the supplier with the most parts, 8"),
        ("who makes the most parts", "These 3 tie as the supplier with the most parts, 8 parts:"),
        ("which supplier makes the most parts", "These 3 tie as the supplier with the most parts"),
        ("which supplier provides the fewest parts", "These 2 tie as the supplier with the fewest"),
        ("which project uses the most parts", "These 2 tie as the project with the most parts, 10"),
        ("which material is used in the most parts", "The material with the most parts is Steel,"),
        (
            "which projects use the most aluminum parts?",
            "The project with the most parts with part whose material is Aluminum is Cirrus Drone,",
        ),
        ("which supplier rejects the most parts", 'I did not understand "rejects" here'),
        ("top 3 suppliers by parts", "This is the number of parts by supplier, the 3 with the mos"),
        ("top 3 projects by parts", "This is the number of parts by project, the 3 with the most"),
        ("top 3 parts by supplier", "This is the number of parts by supplier, the 3 with the most"),
    ],
)
async def test_a_verb_that_only_says_whose_rows_are_counted_is_read(
    factory: Desk, question: str, headline: str
) -> None:
    assert (await factory.ask(question)).headline.startswith(headline)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("question", "headline"),
    [
        ("which carrier operates the most flights", "The carrier with the most flights is UA, wit"),
        ("who operates the most flights?", "The airline with the most flights is United Air Line"),
        ("which plane flies the most flights", "The plane tailnum with the most flights is N711MQ"),
        ("which airport serves the most flights", '"airport" may mean origin_airport or dest_airp'),
        ("who flies the most flights", "The airline with the most flights is United Air Lines In"),
        ("who cancels the most flights", 'I did not understand "cancels" here'),
    ],
)
async def test_a_verb_of_flights_is_read_or_named(
    tower: Desk, question: str, headline: str
) -> None:
    assert (await tower.ask(question)).headline.startswith(headline)


@pytest.mark.parametrize("tie", ["in", "of"])
async def test_a_quantity_of_parts_in_a_project_is_of_that_project_alone(
    factory: Desk, tie: str
) -> None:
    asked = await factory.ask(f"Total quantity of parts {tie} Cirrus Drone")
    assert asked.headline == "The total quantity of project parts with project Cirrus Drone is 60."


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("how many flights from JFK with delay over 60", "dep_delay, not arr_delay."),
        ("how many flights were delayed more than 2 hours", "dep_delay, not arr_delay."),
        ("how many weather records with wind over 20 mph", "wind_speed, not wind_gust."),
    ],
)
async def test_a_field_that_was_chosen_among_several_is_told(
    tower: Desk, question: str, said: str
) -> None:
    assert (await tower.ask(question)).answer.endswith(f"I took this to be about {said}")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_number_whose_meaning_depends_on_the_field_is_asked_about(tower: Desk) -> None:
    asked = await tower.ask("weather with wind over 20")
    assert asked.headline.startswith('"wind" may mean wind_dir, wind_speed or wind_gust.')
    asked = await tower.ask("how many flights with a departure delay over 60")
    assert asked.answer.endswith(" flights with dep_delay over 60.")


WORDS = """orders customers order total rank town average maximum number of most highest top three
    per by each month year and with from in July 2024 the sorted first lowest Ada Lyon over 2 paid
    latest not how many them which only common different on price rating expensive five there
    """.split()


@pytest.mark.parametrize("seed", range(8))
async def test_any_conversation_has_answers_within_the_calls_that_are_allowed(
    shop: Desk, seed: int
) -> None:
    chance = Random(seed)
    earlier: list[tuple[str, str]] = []
    for _ in range(20):
        question = " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))
        asked = await shop.ask(question, earlier=earlier[-3:])
        assert asked.answer
        assert len(asked.calls) <= MAX_CALLS
        keys = [(call.name, str(call.args)) for call in asked.calls]
        assert len(keys) == len(set(keys))
        assert "not be read just now" not in asked.answer, (question, asked.calls[-1])
        assert asked.answer == (await shop.ask(question, earlier=earlier[-3:])).answer
        earlier.append((question, asked.answer))


@pytest.mark.parametrize(
    ("text", "kind", "length"),
    [
        ("average price", Op, 1),
        ("most flights", Best, 1),
        ("most expensive part", Best, 2),
        ("most recent order", Best, 2),
        ("per carrier", By, 1),
        ("for each carrier", By, 2),
        ("sorted by price", By, 2),
        ("broken down by price", By, 3),
        ("in descending order", Direction, 3),
        ("worst first", Direction, 2),
        ("longest first", Direction, 2),
    ],
)
def test_words_that_ask_for_figures_are_found(text: str, kind: type, length: int) -> None:
    found = figure_at(parse(f"x {text}").pieces, 1)
    assert found is not None
    assert isinstance(found[0], kind)
    assert found[1] == length


def test_a_capital_at_the_start_of_a_sentence_says_nothing() -> None:
    assert figure_at(parse("Average price").pieces, 0) == (Op("avg", "average"), 1)


@pytest.mark.parametrize("text", ["Most Recent", "Top Gear", '"average"', "flights", "firstly"])
def test_names_in_capitals_ask_for_nothing(text: str) -> None:
    assert figure_at(parse(f"parts called {text}").pieces, 2) is None


def test_paths_to_a_code_and_to_the_name_behind_it_are_of_one_kind() -> None:
    keys = frozenset({("carrier", "airline")})
    assert is_kin(("carrier",), ("airline", "name"), keys)
    assert is_kin(("airline", "name"), ("airline", "carrier"), keys)
    assert not is_kin(("carrier",), ("plane", "name"), keys)
    assert not is_kin(("origin",), ("dest",), keys)
