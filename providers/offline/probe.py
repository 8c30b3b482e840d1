"""Values found in the data: which of the fields in question holds what the user said.

The places of a value are looked into before it becomes a filter: those of one manager at once. So a
filter is only made of values that exist, in the data's own spelling, and a value that exists
nowhere can be named.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from providers.offline.english import SPELLINGS
from providers.offline.facts import Answer, Facts, Page
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
    """A place that holds a value. ``others`` are longer values that have it as a part.

    ``parts`` are texts that no value there is, each with the values that it was taken for.
    """

    place: Candidate
    condition: Condition
    others: tuple[str, ...] = ()
    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()


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
        waiting = [probe for probe in _probes(slot, tier, facts) if facts.page(probe) is None]
        left = settled.left - len(settled.probes)
        if waiting and _same_rows(tier) and len(waiting) > left:
            # Too many fields of the same related rows to try them all: let the user say which.
            settled.rivals = settled.rivals or (slot.said, tuple(tier))
            return
        if waiting and left > 0:
            settled.probes = _each_once([*settled.probes, *waiting])
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
    pages = [facts.page(probe) for probe in _probes(slot, tier, facts)]
    settled.is_refused = settled.is_refused or "refused" in pages
    hits = _hits(slot, tier, facts)
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


def _probes(slot: Slot, places: Sequence[Candidate], facts: Facts) -> list[JsonObject]:
    """Return the look-ups that tell whether places hold the texts, each once."""
    probes: list[JsonObject] = []
    for place in places if not slot.is_part else ():
        together = _together(place, places)
        probes += [_probe(slot, place, text, together, facts) for text in slot.texts if together]
    return _each_once(probes)


def _together(place: Candidate, places: Sequence[Candidate]) -> list[Candidate]:
    """Return the places to look into at once with a place; none if its choices tell already."""
    if place.field.choices:
        return []
    return [p for p in places if p.owner == place.owner and not p.field.choices]


def _probe(
    slot: Slot, place: Candidate, text: str, together: Sequence[Candidate], facts: Facts
) -> JsonObject:
    """Return the look-up that tells whether a place holds a text.

    It is one for all places of a manager. If that finds too many rows to tell, those that it was
    seen in are looked into one by one, and the rest at once again.
    """
    asked = _each_once([_single(slot, place, text) for place in together for text in slot.texts])
    fields: list[Json] = [*dict.fromkeys(p.field.name for p in together)]
    either: list[Json] = [probe["filters"] for probe in asked]
    joint = asked[0] if len(asked) == 1 else _query(place, {"or": either}, fields, _ROWS)
    page = facts.page(joint)
    if page is None or (isinstance(page, Page) and page.total_count <= len(page.data)):
        return joint
    seen = [p for p in together if isinstance(page, Page) and _is_seen(slot, p, page)]
    if not seen or place in seen:
        return _single(slot, place, text)
    return _probe(slot, place, text, [p for p in together if p not in seen], facts)


def _is_seen(slot: Slot, place: Candidate, page: Page) -> bool:
    values = [value.lower() for value in _values(place, page)]
    return any(text.lower() in value for value in values for text in slot.texts)


def _each_once(probes: list[JsonObject]) -> list[JsonObject]:
    """Drop look-ups that two fields lead to."""
    return [probe for number, probe in enumerate(probes) if probe not in probes[:number]]


def _single(slot: Slot, place: Candidate, text: str) -> JsonObject:
    """Ask one place for a text; for all at once where it holds codes."""
    if _is_code(place):
        texts: list[Json] = [s for code in slot.texts for s in _spellings(code)]
        return _query(place, {f"{place.field.name}__in": texts}, [place.field.name], len(texts))
    return _contains(place, text)


def _spellings(text: str) -> list[Json]:
    """Vary the letter case of a code, unless it stands in capitals."""
    return [text] if looks_like_code(text) else list(dict.fromkeys((text, text.upper())))


def _contains(place: Candidate, text: str) -> JsonObject:
    return _query(place, {f"{place.field.name}__icontains": text}, [place.field.name], _ROWS)


def _query(place: Candidate, filters: JsonObject, fields: list[Json], limit: int) -> JsonObject:
    return {"manager": place.owner, "filters": filters, "fields": fields, "limit": limit}


def _values(place: Candidate, page: Page) -> list[str]:
    found = (row.get(place.field.name) for row in page.data)
    return list(dict.fromkeys(value for value in found if isinstance(value, str)))


def _hits(slot: Slot, tier: Sequence[Candidate], facts: Facts) -> list[Hit]:
    """Return the places of a tier that hold every one of the texts."""
    return [hit for place in tier if (hit := _hit(slot, place, _together(place, tier), facts))]


def _hit(slot: Slot, place: Candidate, together: Sequence[Candidate], facts: Facts) -> Hit | None:
    """Return the condition for a place that holds every one of the texts."""
    found: list[_Match] = []
    for text in slot.texts:
        probe = _probe(slot, place, text, together, facts) if together else {}
        match = _match(slot, text, place, facts.page(probe))
        if match is None:
            return None
        found.append(match)
    part = next((m for m in found if not m.values), None)
    if part and not slot.is_part and len(part.text) < _LEAST_PART:
        return None  # "LA" is a part of Atlanta
    parts = tuple((m.text, m.values) for m in found if m.is_partial)
    if part and len(found) == 1:
        condition = Condition(place.path, "icontains", part.text, part.text)
        return Hit(place, condition, parts=parts)
    values: list[Json] = list(dict.fromkeys(v for m in found for v in m.values))
    if part or not values:
        return None
    said = " or ".join(m.said for m in found)
    lookup = "" if len(values) == 1 else "in"
    condition = Condition(place.path, lookup, values[0] if len(values) == 1 else values, said)
    return Hit(place, condition, tuple(o for m in found for o in m.others), parts)


@dataclass(frozen=True, slots=True)
class _Match:
    """The values a text stands for; none if only a filter on the part can say them."""

    text: str
    values: tuple[str, ...] = ()
    said: str = ""
    others: tuple[str, ...] = ()
    is_partial: bool = False


def _match(slot: Slot, text: str, place: Candidate, page: Answer | None) -> _Match | None:
    if slot.is_part:
        return _Match(text)
    if place.field.choices:
        choice = choice_of(text, place.field)
        return _Match(text, (choice,), choice) if choice else None
    if not isinstance(page, Page) or not page.total_count:
        return None
    known = _values(place, page)
    if not _is_code(place):
        return _in_text(slot, text, known, page)
    exact = [value for value in known if value.lower() == text.lower()]
    if not exact and page.total_count > len(page.data):
        # The rows on the page may all be of the other values asked for.
        exact = [text]
    return _Match(text, tuple(exact), exact[0]) if exact else None


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
        return _Match(text, is_partial=True)
    said = within[0] if len(within) == 1 else f'"{text}" in it'
    return _Match(text, tuple(within), said, is_partial=True)


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
            settled.probes = _each_once([*settled.probes, probe])
            return
        values = _values(place, page) if isinstance(page, Page) else []
        other = SPELLINGS.get(text.lower(), "")
        same = [v for v in values if _squeezed(v) in {_squeezed(text), other}]
        if same:
            condition = Condition(place.path, "", same[0], same[0])
            settled.hits.append(Hit(place, condition))
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
    tiers = _tiers(slot.places)
    hits = [h for t in tiers for h in _hits(loose, t, facts) if not h.place.is_code]
    return tuple(str(h.condition.value) for h in hits if h.condition.lookup == "")[:3]


def _squeezed(text: str) -> str:
    return text.lower().replace(" ", "")


def _alike(text: str, value: str) -> bool:
    parts = [value, *value.split()]
    return any(SequenceMatcher(None, text.lower(), p.lower()).ratio() >= _SIMILAR for p in parts)
