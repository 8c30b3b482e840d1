"""How Tortoise keeps the values of its fields, as types of SQLAlchemy Core.

The types turn what the drivers (sqlite3, asyncpg) give into what Tortoise itself would read, and
the values of filters into what compares rightly with what it has stored.
Source: ``tortoise/fields/data.py`` and ``tortoise/backends`` of Tortoise 1.1.
"""

from collections.abc import Callable
from datetime import UTC, datetime, time, tzinfo
from enum import Enum, IntEnum
from typing import ClassVar, Protocol, cast
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from schema.exact import UTC_TEXT
from schema.sources import InOrder, TextDecimal


class _Converter(Protocol):
    """A field at its work; ``model`` is the class that it belongs to."""

    model: type

    def to_db_value(self, value: object, instance: type) -> object: ...
    def to_python_value(self, value: object) -> object: ...


def stored_type(field: object, zone: tzinfo | None) -> TypeEngine[object]:
    """The type of a field's column, without a kind of value for a kind of field that is unknown.

    ``zone`` is that of times without one; None when Tortoise keeps no zones.
    """
    made = cast("TypeEngine[object]", _made(field, zone))  # what values it has is of no matter
    converter = cast("_Converter", field)  # as every field of Tortoise is one
    methods = converter.to_python_value, converter.to_db_value
    if all(method.__module__.startswith("tortoise.") for method in methods):
        return made
    kind = _ConvertedInOrder if isinstance(made, InOrder) else _Converted
    return kind(made, converter)


def _made(field: object, zone: tzinfo | None) -> object:
    from tortoise import fields
    from tortoise.fields.data import CharEnumFieldInstance, IntEnumFieldInstance

    if isinstance(field, CharEnumFieldInstance):
        return sa.Enum(field.enum_type, native_enum=False, values_callable=_texts)
    if isinstance(field, IntEnumFieldInstance):
        return _NumberedEnum(field.enum_type)
    if isinstance(field, fields.DecimalField):
        return TextDecimal(field.max_digits, field.decimal_places)
    if isinstance(field, fields.DatetimeField):
        return _Moment(zone)
    if isinstance(field, fields.TimeField):
        return _Clock(zone)
    plain: tuple[tuple[type[object], Callable[[], object]], ...] = (
        (fields.IntField, sa.BigInteger),
        (fields.TimeDeltaField, sa.Interval),
        (fields.CharField, sa.String),
        (fields.TextField, sa.Text),
        (fields.FloatField, lambda: sa.Float(asdecimal=False)),
        (fields.BooleanField, sa.Boolean),
        (fields.DateField, sa.Date),
        (fields.UUIDField, _Uuid),
        (fields.JSONField, lambda: sa.JSON().with_variant(JSONB(), "postgresql")),
        (fields.BinaryField, sa.LargeBinary),
    )
    return next((make() for kind, make in plain if isinstance(field, kind)), sa.types.NullType())


def _texts(members: type[Enum]) -> list[str]:
    return [str(member.value) for member in members]


def _is_sqlite(dialect: Dialect) -> bool:
    return dialect.name == "sqlite"


class _Converted(TypeDecorator[object]):
    """A type with the conversions of a field of the project's own on top."""

    impl = sa.types.NullType
    cache_ok = True

    def __init__(self, made: TypeEngine[object], field: _Converter) -> None:
        super().__init__()
        self.impl = self.impl_instance = self.made = made
        self.field = field

    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        # A member of an enum is stored by the type below.
        return value if isinstance(value, Enum) else self.field.to_db_value(value, self.field.model)

    def process_result_value(self, value: object, dialect: Dialect) -> object:
        return self.field.to_python_value(value)


class _ConvertedInOrder(_Converted):
    """Such a type whose stored texts are in order only in the form that the type below has."""

    cache_ok = True

    def in_order(self, value: ColumnElement[object], dialect: Dialect) -> ColumnElement[object]:
        return self.made.in_order(value, dialect) if isinstance(self.made, InOrder) else value


class _NumberedEnum(TypeDecorator[IntEnum]):
    """An enum that is stored by its members' numbers."""

    impl = sa.Enum
    cache_ok = True

    def __init__(self, members: type[IntEnum]) -> None:
        super().__init__(members, native_enum=False)
        self.members = members

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[int]:
        return dialect.type_descriptor(sa.SmallInteger())

    def process_bind_param(self, value: IntEnum | None, dialect: Dialect) -> int | None:
        return None if value is None else int(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> IntEnum | None:
        return None if value is None else self.members(value)


class _Uuid(TypeDecorator[UUID]):
    """A UUID, on SQLite as a text with dashes."""

    impl = sa.Uuid
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str] | TypeEngine[UUID]:
        if _is_sqlite(dialect):
            return dialect.type_descriptor(sa.String())
        return dialect.type_descriptor(sa.Uuid())

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> UUID | str | None:
        return str(value) if value is not None and _is_sqlite(dialect) else value

    def process_result_value(self, value: UUID | str | None, dialect: Dialect) -> UUID | None:
        return UUID(value) if isinstance(value, str) else value


# --- times ----------------------------------------------------------------------------------------


class _Ordered(FunctionElement[str]):
    """A text of SQLite in a form whose order is that of the times."""

    inherit_cache = True
    form: ClassVar[str]


@compiles(_Ordered, "sqlite")
def _ordered_text(element: _Ordered, compiler: SQLCompiler, **options: object) -> str:
    return element.form.format(*(compiler.process(each, **options) for each in element.clauses))


class _Utc(_Ordered):
    """A date and time in UTC, and the same for one that is stored without an offset.

    Tortoise stores the offset that a value was given with; others may store none.
    """

    form = (
        "CASE WHEN substr({0}, -6) = '+00:00' THEN {0}"
        " WHEN substr({0}, -6, 1) IN ('+', '-') THEN coalesce("
        "datetime(substr({0}, 1, 19) || substr({0}, -6))"
        " || substr({0}, 20, length({0}) - 25) || '+00:00', {0})"
        " ELSE {1} END"
    )


class _WithoutZone(_Ordered):
    """A time of day without its offset."""

    form = (
        "CASE WHEN substr({0}, -6, 1) IN ('+', '-')"
        " THEN substr({0}, 1, length({0}) - 6) ELSE {0} END"
    )


def _in_utc(value: ColumnElement[object], zone: tzinfo | None) -> ColumnElement[object]:
    text = sa.type_coerce(value, sa.String())
    # Tortoise's zones are those of the time zone database, whose names hold no quotes.
    name = str(zone or UTC)
    without = text.concat(sa.literal_column("'+00:00'"))
    if name != "UTC":
        without = sa.Function(UTC_TEXT, text, sa.literal_column(f"'{name}'"), type_=sa.String())
    return _compared(_Utc(value, without))


def _compared(text: _Ordered) -> ColumnElement[object]:
    # What a text stands for is of no matter to those who compare it.
    return cast("ColumnElement[object]", text)


class _Moment(TypeDecorator[datetime]):
    """A date and time: on SQLite a text, with the offset unless zones are not kept."""

    impl = sa.DateTime
    cache_ok = True

    def __init__(self, zone: tzinfo | None) -> None:
        super().__init__(timezone=zone is not None)
        self.zone = zone

    def in_order(self, value: ColumnElement[object], dialect: Dialect) -> ColumnElement[object]:
        return _in_utc(value, self.zone) if _is_sqlite(dialect) else value

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str] | TypeEngine[datetime]:
        if _is_sqlite(dialect):
            return dialect.type_descriptor(sa.String())
        return dialect.type_descriptor(sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | str | None:
        if value is None:
            return None
        moment = value.astimezone(UTC) if self.zone else value.replace(tzinfo=UTC)
        return moment.isoformat(" ") if _is_sqlite(dialect) else moment

    def process_result_value(
        self, value: datetime | str | None, dialect: Dialect
    ) -> datetime | None:
        if value is None:
            return None
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        if self.zone is None:
            return moment.replace(tzinfo=None)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone)
        return moment.astimezone(UTC)


class _Clock(TypeDecorator[time]):
    """A time of day: on SQLite a text. The offset is shown where it is another than usual."""

    impl = sa.Time
    cache_ok = True

    def __init__(self, zone: tzinfo | None) -> None:
        super().__init__()
        self.zone = zone

    @property
    def _usual(self) -> time:
        """A time at the offset that Tortoise adds; zones with summer time have none to add."""
        usual = time(tzinfo=self.zone)
        return usual if usual.utcoffset() is not None else time(tzinfo=UTC)

    def in_order(self, value: ColumnElement[object], dialect: Dialect) -> ColumnElement[object]:
        return _compared(_WithoutZone(value)) if _is_sqlite(dialect) else value

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str] | TypeEngine[time]:
        if _is_sqlite(dialect):
            return dialect.type_descriptor(sa.String())
        return dialect.type_descriptor(sa.Time(timezone=True))

    def process_bind_param(self, value: time | None, dialect: Dialect) -> time | str | None:
        if value is None:
            return None
        if _is_sqlite(dialect):
            return value.replace(tzinfo=None).isoformat()
        return value if value.tzinfo else value.replace(tzinfo=self._usual.tzinfo)

    def process_result_value(self, value: time | str | None, dialect: Dialect) -> time | None:
        if value is None:
            return None
        clock = value if isinstance(value, time) else time.fromisoformat(value)
        is_usual = self.zone is None or clock.utcoffset() in (None, self._usual.utcoffset())
        return clock.replace(tzinfo=None) if is_usual else clock
