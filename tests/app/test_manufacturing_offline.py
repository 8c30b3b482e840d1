"""Questions about the manufacturing company, offline and over the engine, against SQL."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from questions import Desk, open_offline

from app.demo import manufacturing


@pytest_asyncio.fixture
async def factory(manufacturing_url: str) -> AsyncGenerator[Desk]:
    async with open_offline(manufacturing.managers, manufacturing_url) as desk:
        yield desk


OF_MATERIAL = "part p JOIN material m ON m.id = p.material_id"
OF_SUPPLIER = "part p JOIN supplier s ON s.id = p.supplier_id"
OF_PROJECT = (
    "projectpart l JOIN project j ON j.id = l.project_id AND NOT confidential"
    " JOIN part p ON p.id = l.part_id"
)

COUNTED: list[tuple[str, str]] = [
    ("which suppliers are there?", "supplier"),
    ("parts that cost more than 100 euros", "part WHERE price + 0 > 100"),
    ("active projects", "project WHERE status = 'active' AND NOT confidential"),
    (
        "which projects use rubber parts?",
        f"(SELECT DISTINCT j.id FROM {OF_PROJECT} JOIN material m ON m.id = p.material_id"
        " WHERE m.name = 'Rubber')",
    ),
]


@pytest.mark.parametrize(("question", "rows"), COUNTED)
async def test_rows_are_counted_as_sql_counts_them(factory: Desk, question: str, rows: str) -> None:
    asked, count = await factory.ask_count(rows, question)
    assert asked.headline.startswith(f"There are {count} ")


AVERAGE = f"SELECT round(avg(p.price), 2) FROM {OF_MATERIAL} WHERE m.name = 'Steel'"
ROUNDED = "round(avg(p.price) + 1e-9, 2)"

VALUES: list[tuple[str, str, str]] = [
    ("average price of steel parts", AVERAGE, "Steel is {:.2f} euros."),
    ("what is the average price of steel parts", AVERAGE, "Steel is {:.2f} euros."),
    ("mean price of parts made of steel", AVERAGE, "Steel is {:.2f} euros."),
    ("what is the average price of all steel parts?", AVERAGE, "Steel is {:.2f} euros."),
    ("total stock", "SELECT sum(stock) FROM part", "total stock of parts is {:,}."),
    ("sum of the stock of parts", "SELECT sum(stock) FROM part", "stock of parts is {:,}."),
    ("how many different cities are there?", "SELECT count(DISTINCT city) FROM supplier", "{}"),
    (
        "average density of parts",
        f"SELECT round(avg(density), 2) FROM {OF_MATERIAL}",
        "average material density of parts is {:.2f} grams per cubic centimetre.",
    ),
    (
        "average price of parts without a supplier",
        "SELECT round(avg(price), 2) FROM part WHERE supplier_id IS NULL",
        "without supplier is {:.2f} euros.",
    ),
]


@pytest.mark.parametrize(("question", "statement", "said"), VALUES)
async def test_a_value_is_that_of_sql(
    factory: Desk, question: str, statement: str, said: str
) -> None:
    asked = await factory.ask(question)
    [(value,)] = factory.sql(statement)
    assert len(asked.table) == 1
    assert said.format(value) in asked.headline


GROUPED: list[tuple[str, str, str]] = [
    (
        "parts per material",
        f"SELECT m.name, count(*) FROM {OF_MATERIAL} GROUP BY 1 ORDER BY 2 DESC, 1",
        "{} parts",
    ),
    (
        "how many parts does each supplier deliver?",
        "SELECT coalesce(s.name, 'no supplier'), count(*) FROM part p"
        " LEFT JOIN supplier s ON s.id = p.supplier_id GROUP BY 1 ORDER BY 2 DESC, s.name",
        "{} parts",
    ),
    (
        "projects by status",
        "SELECT status, count(*) FROM project WHERE NOT confidential GROUP BY 1 ORDER BY 2 DESC, 1",
        "{} project",
    ),
    (
        "materials by average price of parts",
        f"SELECT m.name, {ROUNDED} FROM {OF_MATERIAL} GROUP BY 1 ORDER BY 2 DESC",
        "{:.2f} euros",
    ),
    (
        "parts per city",
        f"SELECT city, count(*) FROM {OF_SUPPLIER} GROUP BY 1 ORDER BY 2 DESC, 1",
        "{} parts",
    ),
    (
        "parts per project",
        f"SELECT j.name, count(*) FROM {OF_PROJECT} GROUP BY 1 ORDER BY 2 DESC, 1",
        "{} parts",
    ),
    (
        "total quantity of project parts per project",
        f"SELECT j.name, sum(quantity) FROM {OF_PROJECT} GROUP BY 1 ORDER BY 2 DESC, 1",
        "{}",
    ),
    (
        "materials with more than 5 parts",
        f"SELECT m.name, count(*) FROM {OF_MATERIAL} GROUP BY 1"
        " HAVING count(*) > 5 ORDER BY 2 DESC",
        "{} parts",
    ),
    (
        "materials with an average part price over 50 euros",
        f"SELECT m.name, {ROUNDED} FROM {OF_MATERIAL} GROUP BY 1"
        " HAVING avg(p.price) > 50 ORDER BY 2 DESC",
        "{:.2f} euros",
    ),
]


@pytest.mark.parametrize(("question", "statement", "value"), GROUPED)
async def test_groups_are_those_of_sql(
    factory: Desk, question: str, statement: str, value: str
) -> None:
    asked = await factory.ask(question)
    rows = factory.sql(statement)
    expected = [f"- {name}: {value.format(of_group)}" for name, of_group in rows]
    if "no supplier" not in str(rows) and question != "parts per city":
        assert asked.result["total_count"] == len(rows)
    lines = [line.removesuffix("s") if value == "{} project" else line for line in asked.lines]
    assert [line for line in lines if "- no " not in line] == [
        line for line in expected if "- no " not in line
    ]


RANKED: list[tuple[str, str]] = [
    ("the three most expensive parts", "SELECT name FROM part ORDER BY price + 0 DESC LIMIT 3"),
    ("top three parts by price", "SELECT name FROM part ORDER BY price + 0 DESC LIMIT 3"),
    ("three parts with the highest price", "SELECT name FROM part ORDER BY price + 0 DESC LIMIT 3"),
    ("most expensive part", "SELECT name FROM part ORDER BY price + 0 DESC LIMIT 1"),
    ("which part is the cheapest?", "SELECT name FROM part ORDER BY price + 0 LIMIT 1"),
    ("lowest price", "SELECT name FROM part ORDER BY price + 0 LIMIT 1"),
    ("densest material", "SELECT name FROM material ORDER BY density + 0 DESC LIMIT 1"),
    (
        "the most expensive part from Osaka",
        f"SELECT p.name FROM {OF_SUPPLIER} WHERE city = 'Osaka' ORDER BY price + 0 DESC LIMIT 1",
    ),
    (
        "steel parts sorted by price",
        f"SELECT p.name FROM {OF_MATERIAL} WHERE m.name = 'Steel' ORDER BY price + 0",
    ),
    (
        "parts sorted by stock, highest first",
        "SELECT name FROM part ORDER BY stock DESC LIMIT 20",
    ),
]


@pytest.mark.parametrize(("question", "statement"), RANKED)
async def test_rows_are_ranked_as_sql_ranks_them(
    factory: Desk, question: str, statement: str
) -> None:
    asked = await factory.ask(question)
    names = [name for (name,) in factory.sql(statement)]
    assert [line[2:].split(": ")[0] for line in asked.lines] == names


@pytest.mark.parametrize(("head", "column"), [("supplier", "s.name"), ("supplier city", "city")])
async def test_groups_that_share_the_first_place_are_all_named(
    factory: Desk, head: str, column: str
) -> None:
    asked = await factory.ask(f"which {head} has the most parts?")
    rows = factory.sql(
        f"SELECT {column}, count(*) FROM {OF_SUPPLIER} GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    first = [name for name, count in rows if count == rows[0][1]]
    assert asked.text.splitlines() == [
        f"These {len(first)} tie as the {head} with the most parts, {rows[0][1]} parts:",
        *(f"- {name}" for name in first),
    ]


LEANING: list[tuple[tuple[str, ...], str]] = [
    (("parts made of steel", "and of brass?"), f"{OF_MATERIAL} WHERE m.name = 'Brass'"),
    (
        ("parts made of steel", "how many of them cost more than 20 euros?"),
        f"{OF_MATERIAL} WHERE m.name = 'Steel' AND price + 0 > 20",
    ),
    (
        (
            "parts made of steel",
            "how many of them cost more than 20 euros?",
            "which of those are from Hallam Forge?",
        ),
        f"{OF_MATERIAL} JOIN supplier s ON s.id = p.supplier_id"
        " WHERE m.name = 'Steel' AND price + 0 > 20 AND s.name = 'Hallam Forge'",
    ),
    (
        ("which projects use aluminum parts?", "which of them are active?"),
        f"(SELECT DISTINCT j.id FROM {OF_PROJECT} JOIN material m ON m.id = p.material_id"
        " WHERE m.name = 'Aluminum' AND status = 'active')",
    ),
    (
        ("parts that cost over 100 euros", "and under 1 euro?"),
        "part WHERE price + 0 < 1",
    ),
    (("how many parts are there?", "and suppliers?"), "supplier"),
]


@pytest.mark.parametrize(("chain", "rows"), LEANING)
async def test_a_question_leans_on_the_one_before(
    factory: Desk, chain: tuple[str, ...], rows: str
) -> None:
    asked, count = await factory.ask_count(rows, *chain)
    assert f" {count} " in asked.headline


async def test_figures_of_what_was_found(factory: Desk) -> None:
    earlier = "parts made of steel"
    asked = await factory.ask(earlier, "what is their average price?")
    [(value,)] = factory.sql(AVERAGE)
    assert f"with material Steel is {value:.2f} euros." in asked.headline
    asked = await factory.ask(earlier, "the cheapest?")
    assert asked.lines == ["- Flat Washer M8: price 0.03, material Steel, stock 20000"]
    asked = await factory.ask("average price of parts", "and by supplier?")
    assert asked.headline == "This is the average price of parts by supplier, highest first:"


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("average salary", '"average"'),
        ("average purchase price of materials", '"purchase price"'),
        ("average bank account of suppliers", '"bank account"'),
        ("suppliers by bank account", '"bank account"'),
        ("most expensive material", '"most expensive"'),
        ("parts of the cheapest material", '"cheapest material"'),
        ("average price of the cheapest parts", '"cheapest"'),
        ("maximum price of the cheapest parts", '"cheapest"'),
        ("the five most expensive parts, cheapest first", '"cheapest first"'),
        ("parts with a different material", '"different"'),
        ("parts with an average price", '"average"'),
        ("heaviest part", '"heaviest"'),
        ("parts by price", '"by price" may mean sorted by price or counted per price'),
        ("parts per colour", '"colour"'),
        ("median price", '"median"'),
        ("average id of parts", '"id"'),
        ("average material", '"average"'),
        ("total value of the stock", '"total"'),
        ("three parts per material", "3"),
        ("is the average price over 5?", '"5"'),
    ],
)
async def test_what_no_figure_can_say_is_refused(factory: Desk, question: str, word: str) -> None:
    asked = await factory.ask(question)
    assert word in asked.headline
    assert asked.tool not in {"aggregate"}
    assert "\nYou could ask:\n- " in asked.text


async def test_what_is_hidden_is_as_unknown_as_what_does_not_exist(factory: Desk) -> None:
    for form in ("average {} of suppliers", "suppliers by {}", "supplier with the highest {}"):
        hidden = await factory.ask(form.format("bank_account"))
        absent = await factory.ask(form.format("bonk_account"))
        assert hidden.text.replace("bank", "bonk") == absent.text


async def test_confidential_projects_are_in_no_figure(factory: Desk) -> None:
    asked = await factory.ask("projects by status")
    assert asked.lines[0] == "- active: 4 projects"
    asked = await factory.ask("parts per project")
    assert "Nightjar" not in asked.text
