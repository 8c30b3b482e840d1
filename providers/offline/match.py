"""How words are compared with a schema: which field they name, and which field a value belongs to.

Scores are small numbers added up from independent hints (names, descriptions, the shape of the
value); only their order matters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from providers.offline.english import (
    ABBREVIATIONS,
    CODE_WORDS,
    MOMENTS,
    NAME_LIKE,
    PLACES,
    related,
    same,
    singular,
    split_name,
)
from providers.offline.facts import Field, Manager, Relation
from schema.events import Json

NUMERIC = frozenset({"integer", "number", "decimal"})
TEMPORAL = frozenset({"date", "datetime"})

Bond = Literal["loose", "named", "own", "kind", "other", "place"]
"""How a value is tied to the noun.

Not at all, by "called", as a row of it, before it, by "of" or "by", by "in" or "from".
"""

_CODE = re.compile(r"(?=.*[A-Z0-9])[A-Z0-9][A-Z0-9_.-]{0,15}")
_UNITS = """seconds minutes hours days feet inches miles metres meters kilometres kilometers euros
    dollars pounds degrees percent mph knots millibars grams kilograms tonnes litres liters"""
_UNIT = re.compile(
    rf"\bin (?P<unit>(?:{'|'.join(_UNITS.split())})"
    r"(?: per [a-z]+(?: [a-z]+)?| Fahrenheit| Celsius)?)(?=$|[,;.])"
)
_NULL = re.compile(r"\bnull (?:if|when)\b[^;.]*")
_ZONE = re.compile(r"[A-Z]\w+/[A-Z]\w+")


@dataclass(frozen=True, slots=True)
class Condition:
    """One filter: a path, a lookup ("" is equality), and the value with the user's words for it.

    The lookup "any" has filters as its values, of which one must hold. ``rivals`` are fields that
    the user's words may mean as well.
    """

    path: tuple[str, ...]
    lookup: str
    value: Json
    said: str = ""
    in_time: bool = False
    rivals: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The filter's name in the query tool."""
        if self.lookup == "any":
            return "or"
        return "__".join((*self.path, self.lookup) if self.lookup else self.path)


@dataclass(frozen=True, slots=True)
class Scope:
    """A manager in reach of the one asked for. ``hops`` counts, a hop to many rows twice."""

    path: tuple[str, ...]
    manager: Manager
    hops: int = 0
    via: Relation | None = None
    detailed: bool = True
    is_many: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A field of the manager ``owner`` that may hold a value.

    ``is_sure``: something said so besides the value's shape. ``is_many``: the way there leads
    through a relation to many rows.
    """

    path: tuple[str, ...]
    field: Field
    owner: str
    score: float
    is_sure: bool = False
    is_many: bool = False
    is_code: bool = False
    is_name: bool = False


def looks_like_code(text: str) -> bool:
    """Tell whether a value looks like LGA, N10156 or M8."""
    return bool(_CODE.fullmatch(text))


def manager_words(manager: Manager) -> tuple[str, ...]:
    """Return the words of a manager's name, without a closing "Manager"."""
    words = split_name(manager.name)
    return words[:-1] if len(words) > 1 and words[-1] == "manager" else words


def names_manager(words: Sequence[str], manager: Manager) -> bool:
    """Tell whether the words are the manager's name or one of its aliases."""
    names = (manager_words(manager), *(split_name(alias) for alias in manager.aliases))
    return any(len(n) == len(words) and all(map(same, words, n)) for n in names)


def field_level(words: Sequence[str], name: str, description: str) -> int:
    """Say how well words name a field: 3 the whole name, 2 with the description, 1 only it, 0."""
    parts = [ABBREVIATIONS.get(part, part) for part in split_name(name)]
    if list(words) == [name.lower()]:
        return 3
    words = [ABBREVIATIONS.get(word, word) for word in words]
    if _same_words(words, parts) or _spells("".join(parts), words):
        return 3
    described = split_name(description)
    in_name = [any(same(word, part) for part in parts) for word in words]
    in_text = [any(same(word, part) for part in described) for word in words]
    if all(n or t for n, t in zip(in_name, in_text, strict=True)):
        return 2 if any(in_name) else 1
    return 0


def _same_words(words: Sequence[str], parts: Sequence[str]) -> bool:
    is_each = all(any(same(w, p) for p in parts) for w in words)
    return len(words) == len(parts) == len({*words}) and is_each


def _spells(name: str, words: Sequence[str]) -> bool:
    """Tell whether a name runs together openings of the words: tailnum for tail number."""
    if len(words) < 2 or not name:
        return False
    for word in words[:-1]:
        if not name.startswith(word):
            return False
        name = name[len(word) :]
    return len(name) >= 3 and words[-1].startswith(name)


def is_amount(field: Field | None) -> bool:
    """Tell whether a field holds what can be compared by a number."""
    return field is not None and field.type in NUMERIC | TEMPORAL


def is_quantity(field: Field) -> bool:
    """Tell a number of something from a time of day, a year or a text."""
    return field.type in NUMERIC and not MOMENTS & {*split_name(field.name)}


def best_field(
    words: Sequence[str], manager: Manager, least: int, types: frozenset[str] = frozenset()
) -> Field | None:
    """Return the field the words name best, at least at level ``least``; shorter names win ties.

    ``types`` are those that count, if not all.
    """
    ranked = [
        (-level, len(split_name(f.name)), len(split_name(f.description)), order)
        for order, f in enumerate(manager.fields)
        if (not types or f.type in types)
        and (level := field_level(words, f.name, f.description)) >= least
    ]
    return manager.fields[min(ranked)[3]] if ranked else None


def best_level(words: Sequence[str], manager: Manager) -> int:
    """Say how well words name any field of a manager."""
    levels = (field_level(words, f.name, f.description) for f in manager.fields)
    return max(levels, default=0)


def absent_if(word: str, manager: Manager) -> tuple[str, ...]:
    """Return the fields that are null, and only null, for rows that a word describes.

    Their descriptions say so, as in "null if cancelled". All of them are null then.
    """
    clause = re.compile(rf"\bnull (?:if|when) {re.escape(word)}(?=$|[,;.])", re.IGNORECASE)
    return tuple(f.name for f in manager.fields if f.nullable and clause.search(f.description))


def unit_of(field: Field) -> str:
    """Return the unit that a description names at the end of a clause, such as minutes, or ""."""
    found = _UNIT.search(field.description) if field.type in NUMERIC else None
    return found["unit"] if found else ""


def named_relation(words: Sequence[str], manager: Manager) -> Relation | None:
    """Return the relation of exactly that name."""
    return next((r for r in manager.relations if field_level(words, r.name, "") == 3), None)


def name_field(manager: Manager) -> Field | None:
    """Return the field people know a row by."""
    by_name = {f.name: f for f in manager.fields}
    own = [n for n in by_name if n.endswith(("_name", "_title"))]
    return next((by_name[n] for n in (*NAME_LIKE, *own) if n in by_name), None)


def foreign_keys(manager: Manager) -> set[str]:
    """Return the names of the columns behind relations: they say nothing beside them."""
    return {f"{relation.name}_id" for relation in manager.relations}


def key_columns(manager: Manager, known: Mapping[str, Manager]) -> frozenset[tuple[str, str]]:
    """Return columns that hold the keys of related rows, each with its relation."""
    return frozenset(
        (f.name, relation.name)
        for relation in manager.relations
        if not relation.many
        for f in manager.fields
        if f.name == f"{relation.name}_id"
        or set(split_name(f.name)) <= set(split_name(relation.name))
        or (relation.target in known and known[relation.target].primary_key == (f.name,))
    )


def is_kin(left: Sequence[str], right: Sequence[str], keys: frozenset[tuple[str, str]]) -> bool:
    """Tell whether two paths speak of the same: a code, and the name of the row it leads to."""
    short, long = sorted((tuple(left), tuple(right)), key=len)
    if short == long or (len(short) > 1 and short[:-1] == long[:-1]):
        return True
    return len(short) == 1 and len(long) > 1 and (short[0], long[0]) in keys


def is_code_field(field: Field, manager: Manager) -> bool:
    """Tell whether a field holds short codes rather than text."""
    if field.name in manager.primary_key and field.type == "string":
        return True
    words = {singular(w) for w in (*split_name(field.name), *split_name(field.description))}
    return bool(words & CODE_WORDS) and field.type in {"string", ""}


def hint_score(hints: Iterable[str], name: str, description: str) -> float:
    """Say how strongly hint words point at a name (4) or its description (3, in part 2)."""
    parts = [ABBREVIATIONS.get(part, part) for part in split_name(name)]
    # A word of when there is no value says nothing of those that are there.
    described = split_name(_NULL.sub("", description))
    best = 0.0
    for hint in hints:
        if any(related(hint, part) for part in parts):
            return 4.0
        if any(same(hint, word) for word in described):
            best = 3.0
        elif best < 2.0 and any(related(hint, word) for word in described):
            best = 2.0
    return best


def candidates(text: str, hints: frozenset[str], scope: Scope, bond: Bond) -> list[Candidate]:
    """Rate the fields of one manager as the place of a text value, best first."""
    known_by = name_field(scope.manager)
    via = hint_score(hints, scope.via.name, scope.via.description) if scope.via else 0.0
    found: list[Candidate] = []
    for field in scope.manager.fields:
        choice = choice_of(text, field)
        hint = hint_score(hints, field.name, field.description)
        is_place = not field.type and hint_score(hints & PLACES, field.name, "") > 0
        holds = is_place or _holds_text(field, scope, known_by)
        if choice is None and (field.choices or not holds):
            continue
        code = is_code_field(field, scope.manager)
        if field is known_by or (code and scope.via and not scope.via.many):
            hint = max(hint, via)
        score, fits = _shape_score(text, field, scope.manager, is_name=field is known_by)
        if field is known_by:
            score += _name_bias(bond, scope)
        # "BOEING planes": a description may give the value itself, as in "such as BOEING".
        is_given = bond in {"kind", "loose"} and bool(whole_words(text).search(field.description))
        score += hint - scope.hops + (8.0 if choice is not None else 0.0) + (5.0 * is_given)
        sure = (
            choice is not None
            or is_given
            or (hint > 0 and fits)
            or bool(_ZONE.fullmatch(text) and score > 4)
        )
        if bond == "place" and not sure and not code and field is not known_by:
            # "In Chicago" is no time zone, and no other text that only happens to have the word.
            continue
        if sure or score > (-5.0 if field is known_by else 0.0):
            path = (*scope.path, field.name)
            is_name, owner = field is known_by, scope.manager.name
            found.append(Candidate(path, field, owner, score, sure, scope.is_many, code, is_name))
    return sorted(found, key=lambda c: -c.score)


def _name_bias(bond: Bond, scope: Scope) -> float:
    """Rate a field of names by how the value is tied to the noun.

    "Steel parts" and "parts of Apollo" speak of a kind or of another thing, not of a part's name.
    """
    match bond:
        case "kind":
            return 1.0 if scope.via else -2.0
        case "other":
            return 0.0 if scope.path else -9.0
        case "place":
            return 0.0 if scope.path else -2.5
        case "loose" | "own" | "named":
            return 0.0


def _holds_text(field: Field, scope: Scope, known_by: Field | None) -> bool:
    if scope.detailed:
        return field.type in {"string", "enum"}
    return field is known_by or bool(set(split_name(field.name)) & CODE_WORDS)


def choice_of(text: str, field: Field) -> str | None:
    """Return the choice of a field that a text is, in the field's own spelling."""
    return next((c for c in field.choices if c.lower() == text.lower()), None)


def _shape_score(text: str, field: Field, manager: Manager, *, is_name: bool) -> tuple[float, bool]:
    """Rate a value's shape against a field, and tell whether it fits at all."""
    code = looks_like_code(text)
    if _ZONE.fullmatch(text):
        zone = hint_score({"zone", "path"}, field.name, field.description)
        return (5.0 if zone else 0.0), True
    if is_code_field(field, manager):
        short = len(text) <= 4 and text.isalpha()
        return (3.0, True) if code else (1.5, True) if short else (-1.0, False)
    if is_name:
        return (1.0 if code else 3.0), True
    return (0.5 if code else 1.0), True


def whole_words(text: str) -> re.Pattern[str]:
    """Match a text where it stands as whole words, in any letter case."""
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
