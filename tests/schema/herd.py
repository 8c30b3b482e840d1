"""Farms and animals for the pairs of ``test_pairs.py``: one field of every kind, and fixed rows."""

import enum
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.orm import registry
from sqlmodel import Field, Relationship, SQLModel


class Herd(SQLModel, registry=registry(metadata=sa.MetaData())):
    pass


class Diet(enum.Enum):
    GRASS = "grass"
    MEAT = "meat"
    ALL = "all kinds"


class Farm(Herd, table=True):
    id: int = Field(primary_key=True)
    label: str
    size: int | None = None

    animals: list["Animal"] = Relationship(back_populates="farm")


class Animal(Herd, table=True):
    id: int = Field(primary_key=True)
    name: str | None = None
    legs: int | None = None
    tag: int | None = Field(default=None, sa_type=sa.BigInteger)
    weight: Decimal | None = Field(default=None, max_digits=12, decimal_places=3)
    ratio: float | None = None
    is_tame: bool | None = None
    diet: Diet | None = None
    born: date | None = None
    seen_at: datetime | None = None
    chip: UUID | None = None
    extra: dict[str, object] | None = Field(default=None, sa_type=sa.JSON(none_as_null=True))
    farm_id: int | None = Field(default=None, foreign_key="farm.id")

    farm: Farm | None = Relationship(back_populates="animals")


Row = dict[str, object]

FARMS: list[Row] = [
    {"id": 1, "label": "Nord", "size": 10},
    {"id": 2, "label": "nord", "size": None},
    {"id": 3, "label": "Süd", "size": 3},
    {"id": 4, "label": "empty", "size": 3},
]


def moment(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


GIVEN: list[Row] = [
    {"name": "Ada", "legs": 4, "tag": 2**53 + 1, "weight": Decimal("1.500"), "ratio": 0.5,
     "is_tame": True, "diet": Diet.GRASS, "born": date(2024, 2, 29),
     "seen_at": moment(2024, 3, 31, 0, 59, 59), "chip": UUID(int=1),
     "extra": {"a": 1}, "farm_id": 1},
    {"name": "ada", "legs": 4, "tag": 2**53, "weight": Decimal("1.5"), "ratio": -0.5,
     "is_tame": False, "diet": Diet.MEAT, "born": date(2024, 3, 1),
     "seen_at": moment(2024, 3, 31, 1, 0), "chip": UUID(int=2**127),
     "farm_id": 1},
    {"name": "Äda", "legs": 2, "tag": -(2**63), "weight": Decimal("-0.001"), "ratio": 1e300,
     "is_tame": True, "diet": Diet.ALL, "born": date(1, 1, 1),
     "seen_at": moment(1, 1, 1), "farm_id": 2},
    {"name": "ÄDA", "legs": 0, "tag": 2**63 - 1, "weight": Decimal("999999999.999"),
     "ratio": 1e-300, "is_tame": False, "diet": Diet.GRASS, "born": date(9999, 12, 31),
     "seen_at": moment(9999, 12, 31, 23, 59, 59, 999999),
     "extra": {}, "farm_id": 2},
    {"name": "50%", "legs": -1, "weight": Decimal("0.1"), "ratio": 0.1, "farm_id": 3},
    {"name": "50_", "legs": 100, "weight": Decimal("0.10"), "ratio": 0.3, "farm_id": 3},
    {"name": "a/b\\c", "legs": 6, "weight": Decimal(10), "ratio": 0.0, "is_tame": True,
     "seen_at": moment(2024, 10, 27, 0, 30), "diet": Diet.MEAT, "farm_id": 3},
    {"name": "Straße", "legs": 8, "weight": Decimal(9), "ratio": 3.0, "is_tame": False,
     "seen_at": moment(2024, 10, 27, 1, 30), "born": date(2024, 2, 28)},
    {"name": "STRASSE", "legs": 8, "weight": Decimal("9.001"), "diet": Diet.ALL},
    {"name": "", "legs": 4, "tag": 0, "weight": Decimal(0)},
    {"name": " ada ", "legs": 4, "chip": UUID(int=1)},
    {"name": "😀 x", "legs": 3, "farm_id": 1},
    {"name": "\uffff", "legs": 3, "farm_id": 1},
    {"name": "İzmir", "is_tame": False},
    {"farm_id": 2},
    {},
]  # fmt: skip
"""What is left out is null."""

COLUMNS = [
    "name", "legs", "tag", "weight", "ratio", "is_tame", "diet", "born", "seen_at",
    "chip", "extra", "farm_id",
]  # fmt: skip

ANIMALS: list[Row] = [
    {"id": number, **dict.fromkeys(COLUMNS), **given} for number, given in enumerate(GIVEN, 1)
]
