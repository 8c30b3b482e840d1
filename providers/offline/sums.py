"""Figures in words: measures, groups and rankings.

Numbers are those of the tools; they are only written as people read them, with separators, units,
and averages at two decimal places.
"""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from providers.offline.asked import Figures, Group, Measure, Rank, is_moment
from providers.offline.english import MONTH_NAMES, OP_WORDS
from providers.offline.facts import Field, Page
from providers.offline.match import NUMERIC, unit_of
from providers.offline.phrases import (
    COMPARED,
    counted,
    described,
    list_rows,
    listed,
    notes_on,
    sentence,
    text_of,
)
from providers.offline.resolve import SHOWN_ROWS
from providers.offline.steps import Found, columns_of, label, value_of
from schema.events import Json, JsonObject

_CENTS = Decimal("0.01")


def sums(found: Found, asked: Figures | Rank) -> str:
    """Word the figures that were asked for."""
    if isinstance(asked, Rank):
        text = _ranked(found, asked)
    else:
        text = _groups(found, asked) if asked.groups else _single(found, asked)
    notes = notes_on(found)
    is_list = "\n" in text
    return f"{text}\n{notes.strip()}" if is_list and notes else f"{text}{notes}"


# --- all rows together ----------------------------------------------------------------------------


def _single(found: Found, figures: Figures) -> str:
    row = found.page.data[0] if found.page.data else {}
    noun, said = counted(found.resolved.noun, 2), described(found.conditions)
    if len(figures.measures) == 1:
        return _one_value(row, figures.measures[0], noun, said)
    lines = [
        f"- {_named(m)}: {_amount(row.get(m.key), m) or 'not known'}" for m in figures.measures
    ]
    return f"These are the figures of {noun}{said}:\n" + "\n".join(lines)


def _one_value(row: JsonObject, measure: Measure, noun: str, said: str) -> str:
    value = row.get(measure.key)
    there = f"There {'is' if value == 1 else 'are'} {_amount(value, measure)}"
    if measure.op == "count":
        return sentence(f"{there} {noun}{said}")
    if measure.op == "count_distinct":
        values = f"different {'value' if value == 1 else 'values'} of {label(measure.path)}"
        return sentence(f"{there} {values} among {noun}{said}")
    name = label(measure.path)
    if value is None:
        return (
            f"There are no {noun}{said} that have a {name}, so there is no {OP_WORDS[measure.op]}."
        )
    return f"The {_named(measure)} of {noun}{said} is {_amount(value, measure)}."


# --- groups ---------------------------------------------------------------------------------------


def _groups(found: Found, figures: Figures) -> str:
    page, by = found.page, listed([_name(group) for group in figures.groups])
    noun, said = counted(found.resolved.noun, 2), described(found.conditions)
    if not page.data:
        having = _having(figures)
        return sentence(f"There are no {noun}{said}{having and f' by {by}{having}'}")
    if figures.top == 1:
        return _winner(found, figures)
    shown = page.data[: min(figures.top or SHOWN_ROWS, SHOWN_ROWS)]
    what = listed([_named(m, noun) for m in figures.measures])
    of = "" if any(m.op == "count" for m in figures.measures) else f" of {noun}"
    order = _order(figures, noun)
    if figures.top:
        which = f"the {len(shown)} with the {figures.said} out of {page.total_count:,}"
        which += _limit(figures.top)
        head = f"This is the {what}{of}{said} by {by}, {which}:"
    else:
        head = f"This is the {what}{of}{said} by {by}{_having(figures)}{order}:"
    lines = _table(shown, figures, found)
    left = page.total_count - found.resolved.skipped - len(shown)
    if left > 0 and not figures.top:
        lines.append(f"… and {left:,} more.")
    if figures.top == len(shown) < page.total_count and _is_tied(page, len(shown), figures.ranked):
        lines.append("Others have the same number as the last one.")
    return "\n".join((head, *lines))


def _winner(found: Found, figures: Figures) -> str:
    """Name the first group, and those it shares its place with."""
    page, measure = found.page, figures.ranked
    best = page.data[0].get(measure.key)
    tied = [row for row in page.data if row.get(measure.key) == best]
    noun, by = counted(found.resolved.noun, 2), listed([_name(g) for g in figures.groups])
    said = described(found.conditions)
    value = _amount(best, measure)
    # "The longest dep_delay" needs no second superlative.
    named = label(measure.path) if measure.op in {"max", "min"} else _named(measure)
    what = noun if measure.op == "count" else named
    value = (
        f"{value} {counted(found.resolved.noun, _count(best))}" if measure.op == "count" else value
    )
    of = said if measure.op == "count" else f" of {noun}{said}"
    if len(tied) == 1:
        first = _key(tied[0], figures)
        return f"The {by} with the {figures.said} {what}{of} is {first}, with {value}."
    is_cut = len(tied) == len(page.data) < page.total_count
    number = f"more than {len(tied) - 1}" if is_cut else f"{len(tied)}"
    lines = [f"- {_key(row, figures)}" for row in tied[:SHOWN_ROWS]]
    head = f"These {number} tie as the {by} with the {figures.said} {what}{of}, {value}:"
    return "\n".join((head, *lines))


def _table(rows: Sequence[JsonObject], figures: Figures, found: Found) -> list[str]:
    """List groups with one value; with more columns they are a table."""
    if len(figures.groups) == 1 and len(figures.measures) == 1:
        [measure] = figures.measures
        return [f"- {_key(row, figures)}: {_with_noun(row, measure, found)}" for row in rows]
    names = [_name(g) for g in figures.groups] + [
        _named(m, counted(found.resolved.noun, 2)) for m in figures.measures
    ]
    lines = [_cells(names), _cells(["---"] * len(names))]
    for row in rows:
        cells = [_bare_text(row, group) for group in figures.groups]
        cells += [_amount(row.get(m.key), m) or "not known" for m in figures.measures]
        lines.append(_cells(cells))
    return lines


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _with_noun(row: JsonObject, measure: Measure, found: Found) -> str:
    value = row.get(measure.key)
    text = _amount(value, measure) or "not known"
    is_count = measure.op == "count"
    return f"{text} {counted(found.resolved.noun, _count(value))}" if is_count else text


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 2


def _key(row: JsonObject, figures: Figures) -> str:
    return ", ".join(_group_text(row, group) for group in figures.groups)


def _group_text(row: JsonObject, group: Group) -> str:
    """Name a group; a number says nothing without the name of its field."""
    text = _bare_text(row, group)
    is_bare = text.lstrip("-").isdigit() and group.calendar != "year"
    return f"{_name(group)} {text}" if is_bare else text


def _bare_text(row: JsonObject, group: Group) -> str:
    value = row.get(group.key)
    if group.calendar == "month" and isinstance(value, int) and 1 <= value <= len(MONTH_NAMES):
        return MONTH_NAMES[value - 1]
    return text_of(value) or f"no {label(group.path)}"


def _name(group: Group) -> str:
    """Name a group: "carrier", "airline", "month of made_on"."""
    return f"{group.part} of {label(group.path)}" if group.part else label(group.path)


def _is_tied(page: Page, shown: int, measure: Measure) -> bool:
    rows = page.data
    return len(rows) > shown and rows[shown - 1].get(measure.key) == rows[shown].get(measure.key)


def _order(figures: Figures, noun: str) -> str:
    if not figures.order:
        return ""
    which = f" {_named(figures.ranked, noun)}" if len(figures.measures) > 1 else ""
    return f", highest{which} first" if figures.order[1] else f", lowest{which} first"


def _having(figures: Figures) -> str:
    having = figures.having
    if not having:
        return ""
    return f", where it is {COMPARED[having.lookup]} {having.said}".replace("is of", "is")


# --- ranked rows ----------------------------------------------------------------------------------


def _ranked(found: Found, rank: Rank) -> str:
    page, resolved = found.page, found.resolved
    said, name = described(found.conditions), label(rank.path)
    noun = counted(resolved.noun, 2)
    if not page.data:
        having = (
            "" if rank.top is None else f" that have a {name}" if not said else f" and a {name}"
        )
        return sentence(f"There are no {noun}{said}{having}")
    asked = {".".join(rank.path), *(".".join(c.path) for c in found.conditions)}
    asked |= {".".join(path) for path in resolved.shown}
    columns = columns_of(resolved, found.conditions)
    head, rows, total = _ranking(found, rank, noun, said)
    page, skipped = Page(data=rows, total_count=total), resolved.skipped
    shown = list_rows(page, columns, asked, resolved.subject, skipped=skipped)
    return f"{head}:\n{shown}"


def _ranking(found: Found, rank: Rank, noun: str, said: str) -> tuple[str, list[JsonObject], int]:
    """Return the sentence, the rows to list, and how many there are of them."""
    page, name = found.page, label(rank.path)
    ranked = f"{'and' if said else 'with'} the {rank.said} {name}"
    if rank.top is None:
        way = "highest first" if rank.descending else "lowest first"
        many = f"There {'is' if page.total_count == 1 else 'are'} {page.total_count:,}"
        noun = counted(found.resolved.noun, page.total_count)
        return f"{many} {noun}{said}, sorted by {name}, {way}", page.data, page.total_count
    if rank.top == 1:
        best = value_of(page.data[0], rank.path)
        tied = [row for row in page.data if value_of(row, rank.path) == best]
        count = found.tied or len(tied)
        noun = counted(found.resolved.noun, count)
        value = _amount(best, Measure("max", rank.path, rank.field))
        verb = "is" if count == 1 else "are"
        return f"There {verb} {count:,} {noun}{said} {ranked}, {value}", tied, count
    rows = page.data[: min(rank.top, SHOWN_ROWS)]
    one = f"This is the one {found.resolved.noun}"
    which = f"These are the {len(rows)} {noun}" if len(rows) > 1 else one
    head = f"{which}{said} {ranked}{_limit(rank.top)}"
    if rank.top == len(rows) < len(page.data) and value_of(rows[-1], rank.path) == value_of(
        page.data[len(rows)], rank.path
    ):
        head += "; others share the value of the last one"
    return head, rows, len(rows)


def _limit(top: int) -> str:
    return f" (I show at most {SHOWN_ROWS})" if top > SHOWN_ROWS else ""


# --- numbers --------------------------------------------------------------------------------------


def _named(measure: Measure, noun: str = "rows") -> str:
    """Name a measure: "average dep_delay", "number of flights"."""
    if measure.op == "count":
        return f"number of {noun}"
    return f"{OP_WORDS[measure.op]} {label(measure.path)}"


def _amount(value: Json, measure: Measure) -> str:
    """Write a value as people read it; "" if there is none."""
    if value is None:
        return ""
    if measure.op in {"count", "count_distinct"} or measure.field is None:
        return f"{value:,}" if isinstance(value, int) else str(value)
    if not isinstance(value, (int, float, str)) or measure.field.type not in NUMERIC:
        return text_of(value)
    text = _number(value, measure.field, is_average=measure.op == "avg")
    unit = unit_of(measure.field)
    return f"{text} {unit}" if unit else text


def _number(value: float | str, field: Field, *, is_average: bool) -> str:
    if is_moment(field) and not is_average:
        return str(value)
    try:
        number = Decimal(str(value))
        if is_average or (isinstance(value, float) and field.type == "number"):
            rounded = number.quantize(_CENTS, ROUND_HALF_UP)
            return f"{rounded:,}" if is_average or rounded != number else f"{number:,}"
    except InvalidOperation:
        return str(value)
    return f"{number:,}"
