"""Numbers and dates: the field an amount belongs to, and the condition it makes.

A unit is converted where the field's description names its own; anything else is refused, since a
number in the wrong unit is a wrong answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil, floor

from providers.offline.english import UNITS, singular, split_name
from providers.offline.facts import Field, Manager
from providers.offline.match import NUMERIC, TEMPORAL, Condition, units_of
from providers.offline.parse import Moment, Number
from schema.events import Json

_MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a question can't be answered: a kind, the word at fault, and what it might mean."""

    kind: str
    word: str = ""
    options: tuple[str, ...] = ()


class Stuck(Exception):
    """Reading the question ends here."""

    def __init__(self, kind: str, word: str = "", options: Iterable[str] = ()) -> None:
        super().__init__(kind, word)
        self.problem = Problem(kind, word, tuple(options))


def is_amount(field: Field | None) -> bool:
    """Tell whether a field holds what can be compared by a number."""
    return field is not None and field.type in NUMERIC | TEMPORAL


def is_year(value: int | float) -> bool:
    """Tell whether a number looks like a year."""
    return isinstance(value, int) and 1000 <= value <= 2999


def unit_fields(unit: str, manager: Manager) -> list[Field]:
    """Return the fields whose descriptions name a unit of the same kind."""
    return [f for f in manager.fields if f.type in NUMERIC and _factor(unit, f) is not None]


def _factor(unit: str, field: Field) -> float | None:
    """Return what a number in a unit is multiplied by to be in the field's; None if unknown."""
    unit = singular(unit.lower())
    own = units_of(field)
    if unit in own:
        return 1.0
    kind, size = UNITS.get(unit, ("", 1.0))
    sizes = [UNITS[o][1] for o in own if o in UNITS and UNITS[o][0] == kind]
    return size / sizes[0] if sizes else None


def amount(
    path: tuple[str, ...], field: Field, number: Number, lookup: str, unit: str
) -> Condition:
    """Make the condition of a number on a field. Raises ``Stuck`` where it would not be right."""
    unit = unit or number.unit
    said = number.text
    if unit:
        factor = _factor(unit, field)
        if factor is None and not (unit in UNITS and not _names_unit(field, unit)):
            raise Stuck("unit", unit, (field.name, field.description))
        if factor is not None and factor != 1.0:
            value = _scaled(number.value, factor)
            said = f"{value:,} ({number.text} {unit})"
            number = replace(number, value=value)
    if number.more:
        values: list[Json] = [
            _fitting(value, number, field) for value in (number.value, *number.more)
        ]
        return Condition(path, "in", values, said)
    if field.type in TEMPORAL:
        return _year(path, number, lookup)
    value, in_time = number.value, "year" in split_name(path[-1])
    if field.type == "integer" and not float(value).is_integer():
        # Whole numbers over 5.5 are those over 5.
        down = lookup in {"gt", "lte"}
        value = floor(value) if down else ceil(value) if lookup in {"gte", "lt"} else value
    return Condition(path, lookup, _fitting(value, number, field), said, in_time)


def _names_unit(field: Field, unit: str) -> bool:
    """Tell whether a description names units at all: a sign of money needs no more than a price."""
    return unit not in {"$", "€", "£", "%"} or bool(units_of(field) & set(UNITS))


def _scaled(value: int | float, factor: float) -> int | float:
    scaled = round(value * factor, 6)
    return int(scaled) if scaled == int(scaled) else scaled


def _fitting(value: int | float, number: Number, field: Field) -> int | float:
    if field.type == "integer":
        if value != int(value) or abs(value) > _MAX_INTEGER:
            raise Stuck("unfit", number.text, (field.name,))
        return int(value)
    return value


def _year(path: tuple[str, ...], number: Number, lookup: str) -> Condition:
    """Compare dates with a year; "after 2005" starts when the year has ended."""
    if not isinstance(number.value, int) or not is_year(number.value) or not lookup:
        raise Stuck("unclear", number.text)
    late = lookup in {"gt", "lte"}
    year = number.value + late
    lookup = {"gt": "gte", "lte": "lt"}.get(lookup, lookup)
    return Condition(path, lookup, f"{year:04}-01-01", number.text, in_time=True)


def moment(when: Moment, lookup: str, manager: Manager, field: str = "") -> list[Condition]:
    """Make the conditions of a date: on columns of year, month and day, or on the one date."""
    parts = {"year": when.year, "month": when.month, "day": when.day}
    given = {name: value for name, value in parts.items() if value is not None}
    whole = [f.name for f in manager.fields if f.type == "integer"]
    columns = {part: _calendar(part, whole) for part in given}
    alone = len(given) == 1
    if not field and all(columns.values()) and (not lookup or alone):
        if when.more:
            others = [other.month for other in when.more]
            same_kind = all(o.year is None and o.day is None for o in when.more)
            if not alone or not same_kind:
                raise Stuck("or", when.text)
            months: list[Json] = [when.month, *others]
            return [Condition((columns["month"],), "in", months, when.text)]
        return [
            Condition((columns[part],), lookup, value, when.text if alone else "", alone)
            for part, value in given.items()
        ]
    dates = [f for f in manager.fields if f.type in TEMPORAL and field in {"", f.name}]
    if len(dates) != 1 or len(given) < 3 or when.more:
        raise Stuck("date", when.text)
    return _on_date(when, lookup, dates[0])


def _calendar(part: str, names: list[str]) -> str:
    """Find the column of a part of a date: month, or one that ends so."""
    return next((n for n in names if split_name(n)[-1:] == (part,)), "")


def _on_date(when: Moment, lookup: str, field: Field) -> list[Condition]:
    day = f"{when.year:04}-{when.month:02}-{when.day:02}"
    if field.type == "date":
        return [Condition((field.name,), lookup, day, when.text, in_time=True)]
    if lookup in {"gte", "lt"}:
        return [Condition((field.name,), lookup, f"{day}T00:00:00", when.text, in_time=True)]
    end = Condition((field.name,), "lte", f"{day}T23:59:59.999999", when.text, in_time=True)
    if lookup == "lte":
        return [end]
    if lookup == "gt":
        return [replace(end, lookup="gt")]
    return [Condition((field.name,), "gte", f"{day}T00:00:00", when.text, in_time=True), end]
