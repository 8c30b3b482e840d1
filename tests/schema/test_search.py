"""Search: the managers that a question is about, best first, and nothing of what is hidden."""

import json
import random
import string
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel

from schema import Managers, ToolContext
from schema.errors import ToolError
from schema.events import Actor, Json, JsonObject
from schema.index import SchemaIndex
from schema.managers import Rule
from schema.query import Reader
from schema.tools import ToolRegistry, data_tools
from tests.schema.conftest import ADA, exposed
from tests.schema.shop import Material, Part, Project, ProjectPart

NAMES = ["Box", "Material", "Part", "Project", "ProjectPart", "Shelf", "Supplier"]


@pytest.fixture(scope="module")
def index() -> SchemaIndex:
    return SchemaIndex(exposed().build())


def hits(index: SchemaIndex, query: str) -> list[JsonObject]:
    return [hit for hit in index.search(query) if isinstance(hit, dict)]


def found(index: SchemaIndex, query: str) -> list[tuple[Json, Json]]:
    return [(hit["manager"], hit["reason"]) for hit in hits(index, query)]


def reasons(index: SchemaIndex, query: str) -> set[str]:
    return {str(hit["reason"]) for hit in hits(index, query)}


def scores(index: SchemaIndex, query: str) -> list[float]:
    return [hit["score"] for hit in hits(index, query) if isinstance(hit["score"], float)]


@pytest.mark.covers("C7-15")
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("part", ("Part", "name")),
        ("PARTS", ("Part", "name")),
        ("the components we make", ("Part", "alias")),
        ("project parts", ("ProjectPart", "name")),
        ("ProjectPart", ("ProjectPart", "name")),
        ("projectparts", ("ProjectPart", "name")),
        ("who are our suppliers", ("Supplier", "name")),
        ("density", ("Material", "field")),
        ("inventory", ("Part", "description")),
        ("companies", ("Supplier", "description")),
        ("prices in stock", ("Part", "field")),
        ("children", ("Project", "relation")),
        ("shelves", ("Shelf", "name")),
        ("boxes", ("Box", "name")),
    ],
)
def test_the_best_manager_comes_first_and_says_why(
    index: SchemaIndex, query: str, first: tuple[str, str]
) -> None:
    assert found(index, query)[0] == first


@pytest.mark.covers("C7-15")
@pytest.mark.parametrize("query", ["", " ", "\n\t", "?!", "\u200d", "_"])
def test_a_query_without_words_finds_nothing(index: SchemaIndex, query: str) -> None:
    assert index.search(query) == []


@pytest.mark.covers("C7-15")
@pytest.mark.parametrize(
    "query",
    [
        "What data do you have access to?", "list all managers", "what can I ask about",
        "art", "ial", "vehicles", "VehicleManager", "stee", "gravitation", "データ", "123",
    ],
)  # fmt: skip
def test_generic_and_unknown_words_list_the_catalogue(index: SchemaIndex, query: str) -> None:
    assert found(index, query) == [(name, "catalogue") for name in NAMES]
    assert scores(index, query) == [0] * len(NAMES)


def test_a_result_is_short_and_complete(index: SchemaIndex) -> None:
    [best, *_] = index.search("materials")
    assert best == {
        "manager": "Material",
        "description": "Materials used in manufacturing.",
        "score": 1.0,
        "reason": "name",
        "fields": ["id", "name", "density"],
        "relations": [{"name": "parts", "target": "Part", "many": True}],
    }


def test_scores_fall_and_the_order_is_deterministic(index: SchemaIndex) -> None:
    query = "which projects use parts of aluminum material from a supplier"
    ranked = scores(index, query)
    assert all(0 < score <= 1 for score in ranked)
    assert ranked == sorted(ranked, reverse=True)
    again = SchemaIndex(reversed(exposed().build()))
    assert again.search(query) == index.search(query)


def test_equal_scores_are_settled_by_words_not_asked_for_and_then_by_name() -> None:
    [part] = [manager for manager in exposed().build() if manager.name == "Part"]
    names = ["OrderLineNote", "OrderLine", "Order", "SalesOrder"]
    index = SchemaIndex(replace(part, name=name, links={}) for name in names)
    assert found(index, "orders") == [
        (name, "name") for name in ("Order", "OrderLine", "SalesOrder", "OrderLineNote")
    ]


def test_at_most_ten_are_found() -> None:
    [part] = [manager for manager in exposed().build() if manager.name == "Part"]
    index = SchemaIndex(replace(part, name=f"Part{n:02}", links={}) for n in range(12))
    for query, reason in (("stock", "field"), ("zebra", "catalogue")):
        assert found(index, query) == [(f"Part{n:02}", reason) for n in range(10)]


# --- joined and common names ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Which projects use aluminum parts?", "Project"),
        ("Which parts do projects use?", "Project"),
        ("how many parts of the projects", "Project"),
        ("quantity of the parts in a project", "ProjectPart"),
        ("rows of project_part", "ProjectPart"),
        ("show the project parts, by part", "ProjectPart"),
    ],
)
def test_a_name_joined_of_other_names_ranks_first_only_when_it_is_said(
    query: str, first: str
) -> None:
    managers = Managers()
    managers.expose(Material)
    managers.expose(Part)
    managers.expose(Project, use_when="projects and the parts they use")
    managers.expose(ProjectPart, aliases=("bill of materials",))
    assert found(SchemaIndex(managers.build()), query)[0][0] == first


def test_a_word_of_a_managers_name_counts_though_it_is_common() -> None:
    managers = Managers()
    managers.expose(Part, name="Store")
    managers.expose(Material, name="Record")
    index = SchemaIndex(managers.build())
    assert found(index, "all stores") == [("Store", "name")]
    assert found(index, "how many records are there") == [("Record", "name")]


def test_a_common_word_inside_a_name_does_not_count() -> None:
    managers = Managers()
    managers.expose(Part)
    managers.expose(ProjectPart, name="Usage", aliases=("bill of materials",))
    index = SchemaIndex(managers.build())
    assert found(index, "stock of parts")[0] == ("Part", "name")
    assert found(index, "of") == [("Part", "catalogue"), ("Usage", "catalogue")]


def test_manager_in_a_name_is_no_word_of_it() -> None:
    managers = Managers()
    managers.expose(Part, name="PartManager")
    managers.expose(Material, name="MaterialManager")
    index = SchemaIndex(managers.build())
    assert found(index, "PartManager")[0] == ("PartManager", "name")
    assert reasons(index, "VehicleManager") == {"catalogue"}


# --- spelling -------------------------------------------------------------------------------------


def slips(word: str) -> Iterator[str]:
    """The word with a letter less, more or other, or two swapped, at each place."""
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
        yield f"{word[:at]}x{word[at:]}"
        yield f"{word[:at]}x{word[at + 1 :]}"
        if word[at : at + 2] != word[at : at + 2][::-1]:
            yield word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


@pytest.mark.parametrize("name", ["Material", "Project", "Supplier"])
def test_a_slip_anywhere_finds_the_manager_for_less(index: SchemaIndex, name: str) -> None:
    for typo in {*slips(name.lower())} - {name.lower()}:
        assert found(index, typo)[0] == (name, "name"), typo
        assert 0 < scores(index, typo)[0] < 1, typo


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("prats", ("Part", "name")),
        ("materals", ("Material", "name")),
        ("compnent", ("Part", "alias")),
        ("densty", ("Material", "field")),
        ("inventroy", ("Part", "description")),
        ("projetcparts", ("ProjectPart", "name")),
    ],
)
def test_a_misspelled_word_keeps_the_place_it_hits(
    index: SchemaIndex, query: str, first: tuple[str, str]
) -> None:
    assert found(index, query)[0] == first


def test_of_words_equally_near_the_best_place_counts() -> None:
    managers = Managers()
    managers.expose(Part, name="Contract", description="A contrast.")
    assert found(SchemaIndex(managers.build()), "contrat") == [("Contract", "name")]


@pytest.mark.parametrize("query", ["pat", "bx", "cart", "mmmmmmaterial", "subplot", "mat3rial"])
def test_short_words_and_distant_ones_are_not_guessed(index: SchemaIndex, query: str) -> None:
    assert reasons(index, query) == {"catalogue"}


def test_a_word_that_is_there_is_never_taken_for_another() -> None:
    managers = Managers()
    managers.expose(Part, name="Contract")
    managers.expose(Material, name="Contact")
    index = SchemaIndex(managers.build())
    assert found(index, "contacts") == [("Contact", "name")]
    assert found(index, "contracts") == [("Contract", "name")]


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("companies", "company"), ("movies", "movie"), ("boxes", "box"), ("sizes", "size"),
        ("statuses", "status"), ("warehouses", "warehouse"), ("buses", "bus"), ("fuses", "fuse"),
        ("addresses", "address"), ("batches", "batch"), ("analyses", "analysis"),
        ("purchases", "purchase"), ("people", "person"), ("children", "child"), ("ties", "tie"),
        ("planes", "plane"), ("plans", "plan"), ("keys", "key"), ("series", "series"),
        ("Größen", "groessen"),
    ],
)  # fmt: skip
def test_singular_and_plural_are_one_word(plural: str, singular: str) -> None:
    for asked, held in ((plural, singular), (singular, plural)):
        managers = Managers()
        managers.expose(Part, name="Thing", aliases=(held,))
        managers.expose(Material)
        index = SchemaIndex(managers.build())
        assert found(index, asked) == [("Thing", "alias")]
        assert plural == "Größen" or scores(index, asked) == [0.95]


def test_plans_are_no_planes() -> None:
    managers = Managers()
    managers.expose(Part, name="Plane")
    managers.expose(Material, name="Plan")
    index = SchemaIndex(managers.build())
    assert found(index, "planes") == [("Plane", "name")]
    assert found(index, "plans") == [("Plan", "name")]


@pytest.mark.parametrize(
    ("alias", "query"),
    [
        ("Größe", "GRÖSSE"),
        ("Größe", "grosse"),
        ("Größe", "Gro\u0308ße"),
        ("København", "kobenhavn"),
        ("Łódź", "LODZ"),
        ("naïve café", "cafe"),
        ("İstanbul", "istanbul"),
        ("ﬁlter", "FILTER"),
        ("ＷＩＤＥ", "wide"),
        ("размер", "РАЗМЕР"),
        ("ёмкость", "емкость"),
        ("Μέγεθος", "ΜΕΓΕΘΟΣ"),
        ("किताब", "किताब"),
        ("می\u200cخواهم", "میخواهم"),
        ("材料", "材料"),
        ("크기", "크기"),
        ("cooperate", "co\u00adoperate"),
    ],
)
def test_words_of_any_script_are_found_in_any_spelling(alias: str, query: str) -> None:
    managers = Managers()
    managers.expose(Part, aliases=(alias,))
    managers.expose(Material, use_when="कुताब か")
    index = SchemaIndex(managers.build())
    assert found(index, query) == [("Part", "alias")]
    assert scores(index, query) == [0.95]


def test_marks_that_make_another_letter_are_kept() -> None:
    managers = Managers()
    managers.expose(Part, aliases=("かき",))
    managers.expose(Material, aliases=("がき",))
    assert found(SchemaIndex(managers.build()), "がき") == [("Material", "alias")]


# --- any query ------------------------------------------------------------------------------------


@given(query=st.text(max_size=200))
def test_any_text_has_an_answer(index: SchemaIndex, query: str) -> None:
    ranked = hits(index, query)
    assert index.search(query) == ranked
    names = [hit["manager"] for hit in ranked]
    assert len({*map(str, names)}) == len(names)
    assert {*map(str, names)} <= {*NAMES}
    for hit, score in zip(ranked, scores(index, query), strict=True):
        assert 0 <= score <= 1
        assert (score == 0) == (hit["reason"] == "catalogue")


def junk(seed: int, letters: int) -> str:
    pick = random.Random(seed)
    words = ("".join(pick.choices(string.ascii_lowercase, k=letters)) for _ in range(1_000))
    return " ".join(words)[:1_000]


@pytest.mark.parametrize(
    "query",
    [
        *(junk(seed, letters) for seed, letters in enumerate((1, 4, 5, 8, 12, 1_000))),
        "synthtic mmaterial suplier " * 40,
        "name price stock part density " * 33,
        "aB" * 500,
        "\ufdfa" * 1_000,
        "e" + "\u0301\u0316" * 500,
        "part " * 100_000,
    ],
    ids=lambda query: ascii(query[:12]),
)
def test_no_query_takes_long_among_a_thousand_managers(query: str, crowd: SchemaIndex) -> None:
    crowd.search(query)
    start = time.process_time()
    for _ in range(5):
        assert len(crowd.search(query)) == 10
    # Far above the figure of an idle machine: this finds a wrong order of growth, not noise.
    assert (time.process_time() - start) / 5 < 0.1


@pytest.fixture(scope="module")
def crowd() -> SchemaIndex:
    """A thousand managers with a word of their own each."""
    pick, managers = random.Random(0), {m.name: m for m in exposed().build()}
    kinds = [managers[name] for name in ("Material", "Part", "Project", "Supplier")]
    words = ["".join(pick.choices(string.ascii_lowercase, k=pick.randint(4, 9))) for _ in range(99)]
    return SchemaIndex(
        replace(kinds[n % 4], name=f"{pick.choice(words)}{n}", use_when=" ".join(words[:50]))
        for n in range(1_000)
    )


# --- what is hidden -------------------------------------------------------------------------------


class Full(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base of a schema of which much is hidden."""


class FullSupplier(Full, table=True):
    __tablename__ = "supplier"  # pyright: ignore[reportAssignmentType]

    id: int | None = Field(default=None, primary_key=True)
    name: str
    bank_account: str
    parts: list["FullPart"] = Relationship(back_populates="supplier")
    payrolls: list["FullPayroll"] = Relationship(back_populates="supplier")


class FullPart(Full, table=True):
    __tablename__ = "part"  # pyright: ignore[reportAssignmentType]

    id: int | None = Field(default=None, primary_key=True)
    name: str
    margin: int
    supplier_id: int = Field(foreign_key="supplier.id")
    supplier: FullSupplier = Relationship(back_populates="parts")


class FullPayroll(Full, table=True):
    __tablename__ = "payroll"  # pyright: ignore[reportAssignmentType]

    id: int | None = Field(default=None, primary_key=True)
    salary: int
    supplier_id: int = Field(foreign_key="supplier.id")
    supplier: FullSupplier = Relationship(back_populates="payrolls")


class Bare(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base of the same schema without what is hidden."""


class BareSupplier(Bare, table=True):
    __tablename__ = "supplier"  # pyright: ignore[reportAssignmentType]

    id: int | None = Field(default=None, primary_key=True)
    name: str
    parts: list["BarePart"] = Relationship(back_populates="supplier")


class BarePart(Bare, table=True):
    __tablename__ = "part"  # pyright: ignore[reportAssignmentType]

    id: int | None = Field(default=None, primary_key=True)
    name: str
    supplier_id: int = Field(foreign_key="supplier.id")
    supplier: BareSupplier = Relationship(back_populates="parts")


HIDDEN = ("Payroll", "payrolls", "bank_account", "margin", "salary")


def near_misses(count: int) -> list[str]:
    """The hidden names, and spellings of them that are one to three letters off."""
    pick, found = random.Random(1), dict.fromkeys(map(str, HIDDEN))
    while len(found) < count:
        word = pick.choice(HIDDEN)
        for _ in range(pick.randint(1, 3)):
            at, letter = pick.randrange(len(word)), pick.choice(string.ascii_lowercase + "_")
            word = word[:at] + pick.choice(["", letter, letter + word[at]]) + word[at + 1 :]
        if word[:1].isalpha() and "__" not in word:
            found[word] = None
    return [*found]


def asked_with(name: str) -> list[tuple[str, JsonObject]]:
    return [
        ("search_managers", {"query": name}),
        ("search_managers", {"query": f"{name} of suppliers and parts"}),
        ("get_manager_schema", {"manager": name}),
        ("find_path", {"from_manager": name, "to_manager": "Part"}),
        ("find_path", {"from_manager": "Supplier", "to_manager": name}),
        ("query", {"manager": name}),
        ("query", {"manager": "Supplier", "fields": [name]}),
        ("query", {"manager": "Part", "filters": {f"supplier__{name}": 1}}),
        ("query", {"manager": "Part", "order_by": [name]}),
    ]


async def transcript(managers: Managers, metadata: sa.MetaData, path: Path) -> list[str]:
    """All that is answered to the near misses: by the tools, and by GraphQL."""
    engine = sa.create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    engine.dispose()
    registry, lines = ToolRegistry(data_tools()), list[str]()
    async with Reader(managers, database_url=f"sqlite+aiosqlite:///{path}") as reader:
        context = ToolContext(ADA, await reader.view(ADA), reader)
        for name in near_misses(500):
            for tool, args in asked_with(name):
                try:
                    answer = json.dumps(await registry.call(tool, args, context))
                except ToolError as error:
                    answer = f"{error.code}: {error}"
                lines.append(f"{tool} {args}: {answer}")
            for document in (f"{{ {name}List {{ id }} }}", f"{{ supplierList {{ {name} }} }}"):
                lines.append(str(reader.schema(context.view).execute_sync(document).errors))
    return lines


def exposed_of(supplier: type, part: type, payroll: type | None, *, to_some: bool) -> Managers:
    """Expose what ADA may see; the rest is hidden from everybody, or ``to_some`` it is not."""

    def refused(actor: Actor) -> bool:
        return actor == ADA

    def hiding(name: str) -> tuple[str, ...] | dict[str, Rule]:
        return () if payroll is None else {name: refused} if to_some else (name,)

    managers = Managers()
    managers.expose(
        supplier, name="Supplier", description="Who delivers.", hide=hiding("bank_account")
    )
    managers.expose(part, name="Part", description="What is delivered.", hide=hiding("margin"))
    if payroll is not None and to_some:
        managers.expose(payroll, name="Payroll", readers=lambda actor: not refused(actor))
    return managers


@pytest.mark.covers("P17")
async def test_near_misses_of_hidden_names_tell_nothing(tmp_path: Path) -> None:
    bare = exposed_of(BareSupplier, BarePart, None, to_some=False)
    absent = await transcript(bare, Bare.metadata, tmp_path / "bare.db")
    assert len(absent) == 500 * 11
    for to_some in (False, True):
        full = exposed_of(FullSupplier, FullPart, FullPayroll, to_some=to_some)
        hidden = await transcript(full, Full.metadata, tmp_path / f"{to_some}.db")
        assert [pair for pair in zip(hidden, absent, strict=True) if pair[0] != pair[1]] == []
