"""Values found in the data: which of the fields in question holds what the user said.

Each place is asked for the value by itself, before it becomes a filter. So a filter is only made of
values that exist, in the data's own spelling, and a value that exists nowhere can be named.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from providers.offline.english import SPELLINGS
from providers.offline.facts import Facts, Page
from providers.offline.match import Candidate, Condition, choice_of, looks_like_code, whole_words
from providers.offline.places import Slot
from schema.events import Json, JsonObject

_ROWS = 200
_CLOSE = 1.0
_TIE = 0.5
_MAX_VALUES = 50
_SIMILAR = 0.8
_LEAST_PART = 3
"""Letters that a part of a value has, to be taken for it where the question does not say so."""
_STEM = 4
_INNER = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Hit:
    """A place that holds a value. ``others`` are longer values that have it as a part."""

    place: Candidate
    condition: Condition
    others: tuple[str, ...]
    said: str

    @property
    def is_partial(self) -> bool:
        """Tell whether one value stands for a part of it."""
        return self.condition.lookup == "" and self.said.lower() != self.condition.said.lower()


@dataclass(frozen=True, slots=True)
class Missed:
    """A value that none of the ``looked`` places holds. ``similar`` are values close to it."""

    said: str
    looked: tuple[Candidate, ...]
    similar: tuple[str, ...] = ()
    is_whole: bool = False


@dataclass(slots=True)
class Settled:
    """Probes to make first, or what was found for every slot.

    ``cut`` is a slot whose places could not all be tried.
    """

    left: int
    respell: bool
    probes: list[JsonObject] = field(default_factory=list[JsonObject])
    hits: list[Hit] = field(default_factory=list[Hit])
    missed: Missed | None = None
    cut: Slot | None = None
    is_refused: bool = False
    rivals: tuple[str, tuple[Candidate, ...]] | None = None

    def add(self, probes: Iterable[JsonObject]) -> None:
        """Take probes, each once: two fields may lead to the same look-up."""
        for probe in probes:
            if probe not in self.probes:
                self.probes.append(probe)


def settle(slots: Sequence[Slot], facts: Facts, left: int, *, respell: bool) -> Settled:
    """Find the places of all values, best places first, with as many probes as are ``left``.

    ``respell``: look for other spellings of a value that is nowhere.
    """
    settled = Settled(left, respell)
    # A word that may mean nothing comes first: if it is nowhere, the rest does not matter.
    for slot in sorted(slots, key=lambda slot: (slot.is_tied, not slot.is_whole)):
        _settle(slot, facts, settled)
        if not slot.is_tied and (settled.probes or settled.missed):
            break
    return settled


def _settle(slot: Slot, facts: Facts, settled: Settled) -> None:
    for tier in _tiers(slot.places):
        waiting = [p for place in tier for p in _probes(slot, place) if facts.page(p) is None]
        left = settled.left - len(settled.probes)
        if waiting and _same_rows(tier) and len(waiting) > left:
            # Too many fields of the same related rows to try them all: let the user say which.
            settled.rivals = settled.rivals or (slot.said, tuple(tier))
            return
        if waiting and left > 0:
            settled.add(waiting)
            return
        if _take_hits(slot, tier, facts, settled):
            return
        if waiting:
            settled.cut = settled.cut or slot
            return
    _respell(slot, facts, settled)


def _same_rows(tier: Sequence[Candidate]) -> bool:
    return len(tier) > 1 and len({p.owner for p in tier}) == 1 and len(tier[0].path) > 1


def _take_hits(slot: Slot, tier: Sequence[Candidate], facts: Facts, settled: Settled) -> bool:
    """Take the best of the places that hold the value; two as good as each other are rivals."""
    hits = [hit for place in tier if (hit := _hit(slot, place, facts))]
    pages = [facts.page(probe) for place in tier for probe in _probes(slot, place)]
    settled.is_refused = settled.is_refused or "refused" in pages
    ties = [h.place for h in hits if h.place.score > hits[0].place.score - _TIE]
    if len(ties) > 1 and len(ties[0].path) > 1:
        settled.rivals = settled.rivals or (slot.said, tuple(ties))
    settled.hits += hits[:1]
    return bool(hits)


def _tiers(places: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Group places that are about as likely as each other."""
    tier: list[Candidate] = []
    for place in places:
        if tier and place.score < tier[0].score - _CLOSE:
            yield tier
            tier = []
        tier.append(place)
    if tier:
        yield tier


def _is_code(place: Candidate) -> bool:
    return (place.is_code and not place.is_name) or place.field.type == "uuid"


def _probes(slot: Slot, place: Candidate) -> list[JsonObject]:
    if place.field.choices or slot.is_part:
        return []
    if _is_code(place):
        texts: list[Json] = [s for text in slot.texts for s in _spellings(text)]
        return [_query(place, {f"{place.field.name}__in": texts}, len(texts))]
    return [_contains(place, text) for text in slot.texts]


def _spellings(text: str) -> list[Json]:
    """Vary the letter case of a code, unless it stands in capitals."""
    return [text] if looks_like_code(text) else list(dict.fromkeys((text, text.upper())))


def _contains(place: Candidate, text: str) -> JsonObject:
    return _query(place, {f"{place.field.name}__icontains": text}, _ROWS)


def _query(place: Candidate, filters: JsonObject, limit: int) -> JsonObject:
    fields: list[Json] = [place.field.name]
    return {"manager": place.owner, "filters": filters, "fields": fields, "limit": limit}


def _values(place: Candidate, page: Page) -> list[str]:
    found = (row.get(place.field.name) for row in page.data)
    return list(dict.fromkeys(value for value in found if isinstance(value, str)))


def _hit(slot: Slot, place: Candidate, facts: Facts) -> Hit | None:
    """Return the condition for a place that holds every one of the texts."""
    found: list[_Match] = []
    for text in slot.texts:
        match = _match(slot, text, place, facts)
        if match is None:
            return None
        found.append(match)
    part = next((m for m in found if not m.values), None)
    if part and not slot.is_part and len(part.text) < _LEAST_PART:
        return None  # "LA" is a part of Atlanta
    if part and len(found) == 1:
        return Hit(place, Condition(place.path, "icontains", part.text, part.text), (), part.text)
    values: list[Json] = list(dict.fromkeys(v for m in found for v in m.values))
    if part or not values:
        return None
    said = " or ".join(m.said for m in found)
    lookup = "" if len(values) == 1 else "in"
    condition = Condition(place.path, lookup, values[0] if len(values) == 1 else values, said)
    return Hit(place, condition, tuple(o for m in found for o in m.others), slot.said)


@dataclass(frozen=True, slots=True)
class _Match:
    """The values a text stands for; none if only a filter on the part can say them."""

    text: str
    values: tuple[str, ...] = ()
    said: str = ""
    others: tuple[str, ...] = ()


def _match(slot: Slot, text: str, place: Candidate, facts: Facts) -> _Match | None:
    if slot.is_part:
        return _Match(text)
    if place.field.choices:
        choice = choice_of(text, place.field)
        return _Match(text, (choice,), choice) if choice else None
    if _is_code(place):
        page = facts.page(_probes(slot, place)[0])
        known = _values(place, page) if isinstance(page, Page) else []
        exact = [value for value in known if value.lower() == text.lower()]
        if not exact and isinstance(page, Page) and page.total_count > len(page.data):
            # The rows on the page may all be of the other values asked for.
            exact = [text]
        return _Match(text, tuple(exact), exact[0]) if exact else None
    page = facts.page(_contains(place, text))
    if not isinstance(page, Page) or not page.total_count:
        return None
    return _in_text(slot, text, _values(place, page), page)


def _in_text(slot: Slot, text: str, known: list[str], page: Page) -> _Match | None:
    """Choose values that are the text, else those that have it as whole words."""
    is_all = page.total_count <= len(page.data)
    words = whole_words(text)
    within = [value for value in known if words.search(value)]
    exact = [value for value in within if value.casefold() == text.casefold()]
    others = tuple(value for value in within if value not in exact)
    if exact:
        if not is_all:
            exact += [t for t in (text.lower(), text.upper(), text.title()) if t not in exact]
        return _Match(text, tuple(exact), exact[0], others)
    if slot.is_whole or not within:
        return None
    if not is_all or len(within) > _MAX_VALUES:
        return _Match(text)
    said = within[0] if len(within) == 1 else f'"{text}" in it'
    return _Match(text, tuple(within), said)


# --- spelled otherwise ----------------------------------------------------------------------------


def _respell(slot: Slot, facts: Facts, settled: Settled) -> None:
    """Look once for values that begin like the one that is nowhere, before giving it up."""
    missed = Missed(slot.said, slot.places, is_whole=slot.is_whole)
    place = next((p for p in slot.places if not p.field.choices and not _is_code(p)), None)
    text = slot.texts[0]
    if settled.respell and place and len(slot.texts) == 1 and len(text) > _STEM:
        # "LaGuardia" may be La Guardia; other words are known by how they begin.
        apart = _INNER.sub(" ", text)
        probe = _contains(place, apart if apart != text else text[:_STEM])
        page = facts.page(probe)
        if page is None and settled.left > 0:
            settled.add([probe])
            return
        values = _values(place, page) if isinstance(page, Page) else []
        other = SPELLINGS.get(text.lower(), "")
        same = [v for v in values if _squeezed(v) in {_squeezed(text), other}]
        if same:
            condition = Condition(place.path, "", same[0], same[0])
            settled.hits.append(Hit(place, condition, (), same[0]))
            return
        missed = replace(missed, similar=tuple(v for v in values if _alike(text, v))[:3])
    if slot.is_whole and not missed.similar:
        missed = replace(missed, similar=_holding(slot, facts))
    settled.missed = settled.missed or missed


def is_run_together(text: str) -> bool:
    """Tell a value that may be two words: LaGuardia."""
    return bool(_INNER.search(text))


def _holding(slot: Slot, facts: Facts) -> tuple[str, ...]:
    """Return values that have the text as a part, where only a whole value counts."""
    loose = replace(slot, is_whole=False)
    hits = [h for place in slot.places if not place.is_code and (h := _hit(loose, place, facts))]
    return tuple(str(h.condition.value) for h in hits if h.condition.lookup == "")[:3]


def _squeezed(text: str) -> str:
    return text.lower().replace(" ", "")


def _alike(text: str, value: str) -> bool:
    parts = [value, *value.split()]
    return any(SequenceMatcher(None, text.lower(), p.lower()).ratio() >= _SIMILAR for p in parts)
