"""A company of 150 kinds of records, from departments and orders to servers and parking spaces.

It shows that a question finds its managers among many. The tables are made from the table of words
in ``app.demo.company``: a class for each record, whose fields mean the same wherever they stand.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from types import new_class
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import registry, relationship
from sqlmodel import Field, Relationship, SQLModel

from app.demo.company import COMPANY
from schema import Managers


class LargeTable(SQLModel, registry=registry(metadata=sa.MetaData())):
    """Base of this demo's tables: names here do not meet those of other domains."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A relation to one row of another kind; ``back`` is its name on the other side."""

    name: str
    target: str
    nullable: bool
    back: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of record. ``fields`` are names with their choices; ``names`` are of its rows."""

    name: str
    aliases: tuple[str, ...]
    description: str
    use_when: str
    fields: Mapping[str, tuple[str, ...]]
    links: tuple[_Link, ...]
    names: tuple[str, ...]

    @property
    def noun(self) -> str:
        """What one record is called: "purchase order"."""
        return _spaced(self.name)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.names) or 2 + _chance(self.name) % 4


# --- the table of words ---------------------------------------------------------------------------

_HEAD = re.compile(r"(\w+)(?: \((.+?)\))?: (.+?\.) \| (.+)")
_FIELD = re.compile(r"(\w+)(?:\((.+)\))?")
_LINK = re.compile(r"(\w+?)(?::(\w+))?(\?)?")

_PEOPLE = (
    "Ines Moreau", "Karl Lindqvist", "Mei Tanaka", "Tomasz Nowak", "Rosa Pinto", "Jan de Wit",
    "Aisha Khan", "Luca Ferri", "Hanna Vogel", "Omar Diallo", "Greta Holm", "Paul Roche",
)  # fmt: skip


def _kinds() -> Iterator[_Kind]:
    lines = [line for line in COMPANY.splitlines() if line]
    for head, body in zip(lines[::2], lines[1::2], strict=True):
        name, aliases, description, use_when = _parts(_HEAD, head)
        words, _, given = body.partition(" = ")
        fields, _, links = words.partition(" | ")
        names = _PEOPLE if given == "@people" else tuple(filter(None, given.split(", ")))
        yield _Kind(
            name=name,
            aliases=tuple(filter(None, aliases.split(", "))),
            description=description,
            use_when=use_when,
            fields={
                field: tuple(filter(None, choices.split(",")))
                for field, choices in (_parts(_FIELD, word) for word in fields.split())
            },
            links=tuple(_link(name, word) for word in links.split()),
            names=names,
        )


def _link(owner: str, word: str) -> _Link:
    name, target, mark = _parts(_LINK, word)
    back = _plural(_snake(owner))
    if target:
        back = f"{back}_as_{name}"
    return _Link(name, target or name.title().replace("_", ""), bool(mark), back)


def _parts(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"The table of the company can't be read at {text!r}.")
    return found.groups(default="")


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def _snake(name: str) -> str:
    return _spaced(name).replace(" ", "_")


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


# --- the tables -----------------------------------------------------------------------------------

_TYPES: Mapping[type, str] = {
    int: "storeys seats days week hours overtime rating size grade probability level recipients"
    " opened visitors score quantity position minutes capacity good scrap stock year"
    " interval_days kilometers stops memory wear temperature gigabytes",
    Decimal: "amount price cost budget area weight density minimum maximum quota commission percent"
    " balance rate value premium accuracy height",
}
_TYPE_OF = {field: type_ for type_, fields in _TYPES.items() for field in fields.split()}
"""Other fields are texts, or what the ends of their names say."""

_UNITS: Mapping[str, str] = {
    "amount price cost budget minimum maximum quota balance value premium": "in euros",
    "weight": "in kilograms",
    "area": "in square meters",
    "height": "in meters",
    "density": "in grams per cubic centimeter",
    "commission percent probability": "in percent",
    "temperature": "in degrees Celsius",
    "memory": "in gigabytes",
    "rating": "from 1 to 100",
}
_UNIT_OF = {field: unit for fields, unit in _UNITS.items() for field in fields.split()}

_DATES: Mapping[str, str] = {
    "closes_on": "closes", "due_on": "is due", "ends_on": "ends", "expires_on": "expires",
    "happened_on": "happened", "needed_on": "is needed", "ran_on": "ran", "starts_on": "starts",
}  # fmt: skip
"""What happens on a day, where it is not what was done with the record."""


def _type(field: str) -> type:
    if field.endswith("_on") or field in ("valid_from", "valid_until"):
        return date
    return bool if field.startswith(("is_", "has_")) else _TYPE_OF.get(field, str)


def _description(field: str, noun: str) -> str:
    words = field.replace("_", " ")
    if field.endswith("_on"):
        happens = _DATES.get(field, f"was {words.removesuffix(' on')}")
        return f"Day on which the {noun} {happens}."
    if _type(field) is bool:
        verb, _, what = words.partition(" ")
        return f"Whether the {noun} {verb} {what if verb == 'is' else f'a {what}'}."
    unit = _UNIT_OF.get(field)
    return f"{words.capitalize()} of the {noun}{f', {unit}' if unit else ''}."


def _model(kind: _Kind, back: list[tuple[_Kind, _Link]]) -> type[LargeTable]:
    """Make the class of one kind; ``back`` are the links that lead to it, with their owners."""
    annotations: dict[str, object] = {"id": int | None}
    members: dict[str, object] = {
        "__module__": __name__,
        "__doc__": kind.description,
        "__annotations__": annotations,
        "id": Field(default=None, primary_key=True, description="Row number."),
    }
    for field, choices in kind.fields.items():
        # Names equal values, so the database holds the words people use.
        enum = StrEnum(f"{kind.name}{field.title()}", [(c, c) for c in choices])
        annotations[field] = enum if choices else _type(field)
        members[field] = _field(annotations[field], _description(field, kind.noun))
    for link in kind.links:
        annotations[f"{link.name}_id"] = int | None if link.nullable else int
        members |= _to_one(kind, link)
    for owner, link in back:
        members[link.back] = _to_many(kind, owner, link)
    made = new_class(
        kind.name, (LargeTable,), {"table": True}, lambda namespace: namespace.update(members)
    )
    if not issubclass(made, LargeTable):
        raise TypeError(f"{kind.name} is not a table.")
    return made


def _field(type_: object, description: str) -> object:
    if type_ is Decimal:
        return Field(max_digits=12, decimal_places=2, description=description)
    return Field(description=description)


def _to_one(kind: _Kind, link: _Link) -> dict[str, object]:
    """The column and the relation that lead to one row of another kind."""
    words = link.name.replace("_", " ")
    missing = "; null if there is none" if link.nullable else ""
    relation = relationship(
        link.target,
        back_populates=link.back,
        foreign_keys=f"{kind.name}.{link.name}_id",
        info={"description": f"The {words} of the {kind.noun}{missing}."},
    )
    return {
        f"{link.name}_id": Field(
            foreign_key=f"{link.target.lower()}.id",
            index=True,
            description=f"Row number of the {words}{missing}.",
        ),
        link.name: Relationship(sa_relationship=relation),
    }


def _to_many(kind: _Kind, owner: _Kind, link: _Link) -> object:
    """The way back: all rows whose link leads to the row."""
    relation = relationship(
        owner.name,
        back_populates=link.name,
        foreign_keys=f"{owner.name}.{link.name}_id",
        info={"description": f"The {_plural(owner.noun)} of the {kind.noun}."},
    )
    return Relationship(sa_relationship=relation)


_KINDS = {kind.name: kind for kind in _kinds()}
_LINKS = [(owner, link) for owner in _KINDS.values() for link in owner.links]
_MODELS = {
    name: _model(kind, [(owner, link) for owner, link in _LINKS if link.target == name])
    for name, kind in _KINDS.items()
}


# --- the rows -------------------------------------------------------------------------------------

_TEXTS: Mapping[str, tuple[str, ...]] = {
    "city": ("Rotterdam", "Lyon", "Gdansk", "Porto", "Bilbao", "Turin"),
    "country": ("Netherlands", "France", "Poland", "Portugal", "Spain", "Italy"),
    "company": ("Rein & Zonen", "Claire Services", "Polbud", "Norte Seguros"),
    "reason": ("worn out", "wrong size", "late change", "damaged"),
    "remarks": ("as agreed", "to be watched", "very good", "needs a second look"),
    "currency": ("EUR", "USD", "PLN"),
    "unit": ("liter", "kilogram"),
    "dish": ("Pea soup", "Ratatouille", "Pierogi", "Caldo verde"),
    "month": ("2026-09", "2026-10", "2026-11"),
    "quarter": ("2026-Q1", "2026-Q2", "2026-Q3"),
    "source": ("trade fair", "web page", "customer"),
    "purpose": ("visit of a customer", "audit", "trade fair"),
}
_FIRST_DAY = date(2025, 1, 1)
_DAYS = 700


async def prepare(connection: AsyncConnection) -> None:
    """Create the tables and load the rows, in the transaction of ``connection``."""
    await connection.run_sync(LargeTable.metadata.create_all)
    for kind in _KINDS.values():
        rows = [_row(kind, number) for number in range(1, kind.count + 1)]
        await connection.execute(sa.insert(_MODELS[kind.name]), rows)


def _row(kind: _Kind, number: int) -> dict[str, object]:
    row = {
        field: choices[_chance(kind.name, field, number) % len(choices)]
        if choices
        else _value(kind, field, number)
        for field, choices in kind.fields.items()
    }
    for link in kind.links:
        chance = _chance(kind.name, link.name, number)
        missing = link.nullable and chance % 4 == 0
        row[f"{link.name}_id"] = None if missing else 1 + chance % _KINDS[link.target].count
    return row


def _value(kind: _Kind, field: str, number: int) -> object:
    chance, type_ = _chance(kind.name, field, number), _type(field)
    if type_ is date:
        return _FIRST_DAY + timedelta(days=chance % _DAYS)
    if type_ is bool:
        return chance % 3 > 0
    if type_ is Decimal:
        return Decimal(chance % 100_000) / 100
    if type_ is int:
        return 2026 - number % 3 if field == "year" else 1 + chance % 100
    return _text(kind, field, number)


def _text(kind: _Kind, field: str, number: int) -> str:
    name = kind.names[number - 1] if kind.names else f"{kind.noun.capitalize()} {number}"
    if field == "name":
        return name
    if field in ("number", "code"):
        initials = "".join(re.findall("[A-Z]", kind.name))
        return f"{initials}-{number:03}"
    if field == "email":
        return f"{name.lower().replace(' ', '.')}@example.com"
    if field in _TEXTS:
        # A city lies in its country.
        what = "city" if field == "country" else field
        return _TEXTS[field][_chance(kind.name, what, number) % len(_TEXTS[field])]
    return f"{field.replace('_', ' ').capitalize()} {number}"


def _chance(*of: object) -> int:
    """A number that looks random and is always the same for the same things."""
    return crc32(repr(of).encode())


managers = Managers(prepare=prepare)
for name, model in _MODELS.items():
    managers.expose(model, aliases=_KINDS[name].aliases, use_when=_KINDS[name].use_when)
