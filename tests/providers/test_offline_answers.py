"""Whole conversations with the offline provider over the demos and the real tools."""

import sqlite3

import pytest
from desk import Desk, open_desk

from app.demo import toy

MATERIALS = (
    "There are 3 materials:\n- Steel: density 7.8\n- Aluminum: density 2.7\n- Cobalt: density 8.9"
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "Which projects use aluminum parts?",
            "There is 1 project with parts whose material is Aluminum:\n- Mercury",
        ),
        (
            "What projects use parts made of aluminum?",
            "There is 1 project with parts whose material is Aluminum:\n- Mercury",
        ),
        ("List all materials", MATERIALS),
        ("Which materials are there?", MATERIALS),
        ("materials", MATERIALS),
        ("How many parts are there?", "There are 3 parts."),
        ("count parts", "There are 3 parts."),
        (
            "Which parts are made of steel?",
            "There is 1 part with material Steel:\n- Bolt: material Steel",
        ),
        ("steel parts", "There is 1 part with material Steel:\n- Bolt: material Steel"),
        (
            "parts with material Cobalt",
            "There is 1 part with material Cobalt:\n- Gear: material Cobalt",
        ),
        (
            "parts whose material is cobalt",
            "There is 1 part with material Cobalt:\n- Gear: material Cobalt",
        ),
        (
            "materials with density over 5",
            "There are 2 materials with density over 5:\n"
            "- Steel: density 7.8\n- Cobalt: density 8.9",
        ),
        (
            "materials denser than 8",
            "There is 1 material with density over 8:\n- Cobalt: density 8.9",
        ),
        (
            "Which material is the Bolt made of?",
            "There is 1 material with part Bolt:\n- Steel: density 7.8",
        ),
        (
            "What is the Bolt made of?",
            'This is on record for "Bolt".\n1 part:\n- Bolt: material Steel',
        ),
        ("parts of project Apollo", "There is 1 part with project Apollo:\n- Gear"),
        ("Which parts does Apollo use?", "There is 1 part with project Apollo:\n- Gear"),
        (
            "materials of project Apollo",
            "There is 1 material with parts whose project is Apollo:\n- Cobalt: density 8.9",
        ),
        (
            "parts and their material",
            "There are 3 parts:\n- Bolt: material Steel\n- Bearing: material Aluminum\n"
            "- Gear: material Cobalt",
        ),
        (
            "What is the density of steel?",
            "There is 1 material with name Steel:\n- Steel: density 7.8",
        ),
        ("parts made of tin", 'I found no "tin" in material, so I can\'t answer that.'),
        ("Are there any parts made of tin?", 'No, I found no "tin" in material.'),
    ],
)
async def test_the_toy_questions_are_answered_from_the_rows(
    toys: Desk, question: str, answer: str
) -> None:
    asked = await toys.ask(question)
    assert asked.answer.split("\nYou could ask:")[0] == answer
    assert len(asked.calls) <= 8


@pytest.mark.parametrize(
    ("question", "headline", "rows"),
    [
        (
            "Which projects use aluminum parts?",
            "There are 3 projects with parts whose material is Aluminum:",
            ["Beacon Light Tower", "Cirrus Drone", "Falcon Racing Bike"],
        ),
        (
            "suppliers in Lyon",
            "There is 1 supplier with city Lyon:",
            ["Rhône Composites"],
        ),
        (
            "Which vendors are based in Osaka or Lyon?",
            "There are 2 vendors with city Osaka or Lyon:",
            ["Rhône Composites", "Naniwa Fasteners"],
        ),
        (
            "suppliers in Berlin",
            'I found no "Berlin" in city, so I can\'t answer that.',
            None,
        ),
        (
            "how many parts does supplier Hallam Forge have?",
            "There are 7 parts with supplier Hallam Forge.",
            [],
        ),
        (
            "How many parts does Hallam Forge supply?",
            "There are 7 parts with supplier Hallam Forge.",
            [],
        ),
        (
            "Which supplier delivers the Heat Sink?",
            "There is 1 supplier with part Heat Sink:",
            ["Brabant Electronics"],
        ),
        (
            "Which projects are paused?",
            "There is 1 project with status paused:",
            ["Granite Press"],
        ),
        (
            "Which parts cost more than 300?",
            "There are 2 parts with price over 300:",
            ["Turbine Blade", "Machine Bed"],
        ),
        (
            "parts with price between 60 and 65",
            "There are 2 parts with price of at least 60 and price of at most 65:",
            ["Wheel Rim", "Stove Door"],
        ),
        (
            "parts with more than 15000 in stock",
            "There are 2 parts with stock over 15000:",
            ["Flat Washer M8", "Cable Tie"],
        ),
        (
            "How many parts have no supplier?",
            "There are 11 parts without supplier.",
            [],
        ),
        ("parts that have a supplier", "There are 53 parts with supplier:", None),
        ("part 7", "There is 1 part with id 7:", ["Battery Tray"]),
        (
            "How many parts are in project 3?",
            "There are 8 parts with projects id 3.",
            [],
        ),
        (
            "materials used in Cirrus Drone",
            "There are 5 materials with parts whose project is Cirrus Drone:",
            ["Aluminum", "Copper", "Brass", "Carbon Fiber", "Rubber"],
        ),
        (
            "Is there a project called Nightjar?",
            'No, I found no "Nightjar" in project name.',
            None,
        ),
        (
            "plastic parts",
            'I found no "plastic" in material, supplier, project and part name, '
            "so I can't answer that.",
            None,
        ),
        (
            "Which projects use parts from Hallam Forge?",
            "There are 3 projects with parts whose supplier is Hallam Forge:",
            ["Atlas Conveyor", "Delta Gearbox", "Falcon Racing Bike"],
        ),
        (
            "Which suppliers deliver aluminum parts?",
            "There are 4 suppliers with parts whose material is Aluminum:",
            None,
        ),
        ("not confidential projects", "There are 7 projects with confidential false:", None),
        (
            "What is the city of Hallam Forge?",
            "There is 1 supplier with name Hallam Forge:",
            ["Hallam Forge"],
        ),
        (
            "suppliers in Lyon, Osaka, Turin, Bilbao or Eindhoven",
            "There are 5 suppliers with city Lyon or Osaka or Turin or Bilbao or Eindhoven:",
            None,
        ),
    ],
)
async def test_the_manufacturing_questions_are_answered_from_the_rows(
    factory: Desk, question: str, headline: str, rows: list[str] | None
) -> None:
    asked = await factory.ask(question)
    assert asked.headline == headline
    if rows is not None:
        assert asked.rows == rows
    assert len(asked.calls) <= 8


FLIGHTS = {
    "There are 336,776 flights": [
        "How many flights are there?",
        "how many flights do we have in total?",
        "count the flights",
        "number of flights",
    ],
    "There are 16 airlines": ["Which airlines are there?", "list airlines", "Show me all airlines"],
    "There are 16 carriers": ["Which carriers are there?"],
    "There are 104,662 flights with origin LGA": [
        "flights from LGA",
        "Which flights depart from LGA?",
        "How many flights left from LGA?",
        "flights leaving LGA",
        "flights out of lga",
        "LGA flights",
    ],
    "There are 104,662 flights with origin_airport La Guardia": ["flights departing LaGuardia"],
    "There are 707 flights with dest HNL": [
        "flights to HNL",
        "how many flights go to HNL?",
        "flights arriving at HNL",
        "Show me flights bound for HNL",
    ],
    "Yes, there are 707 flights with dest HNL": ["Are there any flights to HNL?"],
    "There are 707 flights with dest_airport Honolulu Intl": ["flights to Honolulu"],
    "There are 11,262 flights with origin JFK and dest LAX": ["flights from JFK to LAX"],
    "There are 11,183 flights with origin LGA or JFK and dest ORD": [
        "flights from LGA and JFK to ORD"
    ],
    "There are 239 airports with tzone America/Anchorage": [
        "Which airports are in the America/Anchorage time zone?",
        "airports with time zone America/Anchorage",
        "How many airports use the America/Anchorage time zone?",
    ],
    "There are 3 planes with year before 1960": [
        "Which planes were built before 1960?",
        "planes older than 1960",
        "planes with year before 1960",
        "aircraft built before 1960",
    ],
    "There are 2 planes with year 1959": ["planes built in 1959"],
    "There are 3 planes with year from 1950 and year up to 1960": [
        "planes built between 1950 and 1960"
    ],
    "There are 8,255 flights without dep_time": [
        "flights without a departure time",
        "flights that have no departure time",
        "flights where the departure time is missing",
        "How many flights are missing a departure time?",
        "flights with no dep_time",
    ],
    "There is 1 plane with seats over 400": [
        "Which planes have more than 400 seats?",
        "planes with over 400 seats",
        "planes with seats > 400",
    ],
    "There are 13 planes with seats of at least 400": [
        "planes with at least 400 seats",
        "planes that have 400 or more seats",
    ],
    "There are 1,630 planes with manufacturer": ["Boeing planes", "planes made by BOEING"],
    "There are 54,635 flights with airline": [
        "flights operated by JetBlue",
        "flights of airline B6",
    ],
    "There are 29,425 flights with month July": ["flights in July"],
    "There are 5 flights with dep_delay over 1000": [
        "flights with departure delay over 1000",
        "flights delayed more than 1000 minutes",
    ],
    "There is 1 flight with plane seats over 400": ["flights on planes with more than 400 seats"],
    "There are 707 flights with distance over 4000": ["flights longer than 4000 miles"],
    "There are 2 airports with alt over 8000": ["airports above 8000 feet"],
    "There are 26,115 weather records": ["weather"],
}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("question", "headline"), [(q, headline) for headline, qs in FLIGHTS.items() for q in qs]
)
async def test_the_flights_questions_are_answered_from_the_rows(
    tower: Desk, question: str, headline: str
) -> None:
    asked = await tower.ask(question)
    said = asked.headline.replace("aircraft records", "planes")
    assert said.startswith(headline)
    assert len(asked.calls) <= 8


@pytest.mark.asyncio(loop_scope="session")
async def test_a_long_list_shows_twenty_rows_and_says_how_many_more(tower: Desk) -> None:
    asked = await tower.ask("Which airports are in the America/Anchorage time zone?")
    assert len(asked.rows) == 20
    assert asked.answer.splitlines()[-1] == "… and 219 more."


@pytest.mark.asyncio(loop_scope="session")
async def test_a_counted_field_is_shown_and_not_counted(tower: Desk) -> None:
    asked = await tower.ask("How many seats does plane N10156 have?")
    assert asked.answer.splitlines()[1].startswith("- N10156: seats 55, ")


async def test_independent_reads_go_out_together(toys: Desk) -> None:
    asked = await toys.ask("parts of project Apollo")
    assert [[call.name for call in calls] for calls in asked.rounds] == [
        ["search_managers"],
        ["get_manager_schema", "get_manager_schema"],
        ["query"],
        ["query"],
    ]
    ids = [call.id for call in asked.calls]
    assert len(set(ids)) == len(ids)


async def test_a_name_may_be_given_whole_or_in_part(factory: Desk) -> None:
    asked = await factory.ask("How many parts are called Roller Bearing?")
    assert asked.answer == "There is 1 part with name Roller Bearing."
    asked = await factory.ask("parts of supplier Hallam")
    assert asked.headline == "There are 7 parts with supplier Hallam Forge:"


async def test_an_answer_arrives_in_pieces(toys: Desk) -> None:
    asked = await toys.ask("List all materials")
    assert len(asked.chunks) > 2
    assert "".join(asked.chunks) == MATERIALS


async def test_rows_without_a_name_are_known_by_what_they_relate(factory: Desk) -> None:
    asked = await factory.ask("project parts with quantity over 150")
    assert asked.answer.splitlines()[1:] == [
        "- project Atlas Conveyor: part Hex Bolt M8, quantity 160",
        "- project Atlas Conveyor: part Hex Nut M8, quantity 160",
    ]


async def test_a_number_before_the_noun_is_how_many_to_show(factory: Desk) -> None:
    asked = await factory.ask("List 3 parts")
    assert asked.headline == "There are 64 parts:"
    assert len(asked.rows) == 3
    assert asked.answer.endswith("… and 61 more.")


async def test_two_values_at_once_are_told_apart_by_the_data(factory: Desk) -> None:
    asked = await factory.ask("steel parts from Hallam Forge")
    assert asked.headline == "There are 5 parts with material Steel and supplier Hallam Forge:"


async def test_a_value_in_part_of_a_longer_one_is_counted_apart(toy_url: str) -> None:
    with sqlite3.connect(toy_url.removeprefix("sqlite+aiosqlite:///")) as database:
        database.execute("INSERT INTO materialmanager (name, density) VALUES ('Tool Steel', 8)")
        database.execute("INSERT INTO partmanager (name, material_id) VALUES ('Die', 4)")
    database.close()
    async with open_desk(toy.managers, toy_url) as desk:
        asked = await desk.ask("How many parts are made of steel?")
    assert asked.answer == (
        "There is 1 part with material Steel. "
        'Not counted in, though alike in material: "Tool Steel".'
    )
