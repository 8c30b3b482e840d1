"""Questions that name no manager: rows are looked for by the name that the question has."""

from collections.abc import Sequence
from itertools import islice, takewhile

from providers.offline.english import CALCULATIONS, FILLER, GLUE, VERBS
from providers.offline.facts import QUERY, Facts, Field, Manager, Page
from providers.offline.frame import Problem
from providers.offline.match import (
    best_field,
    foreign_keys,
    name_field,
    named_relation,
    whole_words,
)
from providers.offline.parse import Question, Word
from providers.offline.places import related_names, speaks_of
from providers.offline.steps import COLUMNS, Call, LookedUp, Step, Trouble
from schema.events import Json, JsonObject

_LOOKUPS = 4
_ROWS = 20


def look_up(question: Question, facts: Facts) -> Step:
    """Search the names of rows for what the question has instead of a manager."""
    words = [piece for piece in question.pieces if isinstance(piece, Word)]
    first = words[0].text if words else ""
    if first.lower() in CALCULATIONS:
        return Trouble(Problem("calculation", first))
    name = [] if question.intent == "count" else _name_in(question, words, facts)
    places = [(m, f) for m in facts.managers.values() if (f := name_field(m))][:_LOOKUPS]
    if not name or not places:
        return Trouble(Problem("lost", first))
    text = " ".join(word.text for word in name)
    rest = [word for word in words if word not in name]
    calls = [(m, f, Call(QUERY, _query(m, f, text, rest, facts))) for m, f in places]
    waiting = [call for _, _, call in calls if call.key not in facts.done]
    if waiting:
        return waiting
    pages = [
        (manager, found)
        for manager, named, call in calls
        if isinstance(page := facts.page(call.args), Page)
        and (found := _with_words(page, named, text)).total_count
    ]
    if not pages and all(word.text.islower() for word in name):
        return Trouble(Problem("lost", text))
    unread = next((w.text for w in rest if not _is_answered(w, pages, facts)), "")
    return LookedUp(text, tuple(pages), unread, question.intent == "exists")


def _is_answered(word: Word, pages: Sequence[tuple[Manager, Page]], facts: Facts) -> bool:
    """Tell whether the rows say something of a word: what "cost" speaks of has to be a field."""
    if hints := VERBS.get(word.lower):
        return any(speaks_of(hints, manager) for manager, _ in pages)
    return _is_known(word, facts)


def _with_words(page: Page, named: Field, text: str) -> Page:
    """Keep rows that have the text as whole words; those called exactly so, if there are any."""
    words = whole_words(text)
    rows = [row for row in page.data if words.search(str(row.get(named.name)))]
    exact = [row for row in rows if str(row.get(named.name)).casefold() == text.casefold()]
    if exact or len(rows) < len(page.data) or page.total_count <= len(page.data):
        return Page(data=exact or rows, total_count=len(exact or rows))
    return page


def _query(
    manager: Manager, named: Field, text: str, rest: Sequence[Word], facts: Facts
) -> JsonObject:
    """Ask one manager for rows of a name, with what else the question names first."""
    asked = [best_field([word.lower], manager, 2) for word in rest if not word.quoted]
    hidden = {"id"} | foreign_keys(manager)
    names = [f.name for f in (named, *asked, *manager.fields) if f and f.name not in hidden]
    fields: list[Json] = list(islice(dict.fromkeys(names), COLUMNS))
    for relation, name in related_names(manager, facts):
        fields.append({relation: [name]})
    filters: JsonObject = {f"{named.name}__icontains": text}
    return {"manager": manager.name, "filters": filters, "fields": fields, "limit": _ROWS}


def _name_in(question: Question, words: Sequence[Word], facts: Facts) -> list[Word]:
    """Return the words that may be a row's name: quoted, capitalised, or what else is left."""
    quoted = next((word for word in words if word.quoted), None)
    if quoted:
        return [quoted]
    second = words[1] if len(words) > 1 else None
    # "Supplies the Bolt" is a verb before a name, "suppliers in Berlin" a noun.
    starts = second is not None and second is question.pieces[1] and not second.text.islower()
    alone = second is None or not second.joined or _is_known(second, facts)
    if words and words[0].text.islower() and words[0].text.endswith("s") and alone and not starts:
        # The question starts with a noun in plural that no manager goes by.
        return []
    shaped = [not word.text.islower() for word in words]
    fits = shaped if any(shaped) else [not _is_known(word, facts) for word in words]
    start = fits.index(True) if any(fits) else len(words)
    behind = zip(words[start + 1 :], fits[start + 1 :], strict=True)
    run = takewhile(lambda pair: pair[0].joined and pair[1], behind)
    return [*words[start : start + 1], *(word for word, _ in run)]


def _is_known(word: Word, facts: Facts) -> bool:
    """Tell whether a word speaks of the schema, not of a row."""
    if word.lower in FILLER | GLUE | set(VERBS):
        return True
    return any(
        best_field([word.lower], manager, 2) or named_relation([word.lower], manager)
        for manager in facts.managers.values()
    )
