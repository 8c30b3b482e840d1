"""Stage two, resolve: what a question means in terms of the schema known so far.

Every word has to find its place here: as a name of the schema, as a value, as part of a condition.
A word that finds none ends the reading, and the answer names it; nothing is left out in silence.
"""

from dataclasses import dataclass, field, replace

from providers.offline.amounts import Amounts
from providers.offline.asked import Change, Figures, Measure, Rank
from providers.offline.asks import Intent
from providers.offline.columns import is_link
from providers.offline.english import GLUE, singular
from providers.offline.facts import Facts, Manager
from providers.offline.frame import Cues, Frame, Problem, Stuck, Wanting
from providers.offline.match import (
    Bond,
    Candidate,
    Condition,
    is_amount,
    is_quantity,
    looks_like_code,
    manager_words,
    name_field,
)
from providers.offline.parse import Compare, Cue, Mark, Question
from providers.offline.places import MAX_SCHEMAS, Slot, related_names, speaks_of
from providers.offline.segment import (
    Absent,
    Mention,
    Segment,
    Value,
)
from providers.offline.subject import Subject, find_subject, mentioned_managers
from providers.offline.tally import Tally
from schema.events import JsonObject

SHOWN_ROWS = 20
_LEADING = GLUE | {"of", "in", "for", "with", "on"}
"""Ties and verbs that lead to the noun, and say nothing else there."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What an earlier question said of the rows; ``is_added``: on top of a still earlier one."""

    conditions: tuple[Condition, ...]
    slots: tuple[Slot, ...]
    is_added: bool = False


@dataclass(slots=True)
class Resolved:
    """What a question means: fixed ``conditions``, and ``slots`` for values the data must place.

    ``rows`` is how many to show, after those ``skipped``. ``related`` are the names of related
    rows, for a manager whose rows have none themselves. ``layers`` are what earlier questions said,
    oldest first; unless ``is_added``, what is new replaces what they said of the same. ``kept`` is
    what of it still holds. ``change`` is of an earlier figure.
    """

    subject: Manager
    noun: str
    intent: Intent
    told: Subject
    conditions: list[Condition] = field(default_factory=list[Condition])
    slots: list[Slot] = field(default_factory=list[Slot])
    asked: Figures | Rank | None = None
    change: Change | None = None
    layers: tuple[Layer, ...] = ()
    is_added: bool = False
    kept: tuple[Condition, ...] = ()
    skipped: int = 0
    compares: bool = False
    shown: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    problem: Problem | None = None
    rows: int = SHOWN_ROWS
    related: tuple[tuple[str, str], ...] = ()
    schemas: list[str] = field(default_factory=list[str])
    paths: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    reads: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def is_open(self) -> bool:
        """Tell whether the reading has to wait for look-ups, or has come to a problem."""
        return bool(self.problem or self.schemas or self.paths or self.reads)

    @property
    def own(self) -> Layer:
        """What the question itself says of the rows."""
        return Layer(tuple(self.conditions), tuple(self.slots), is_added=self.is_added)

    @property
    def is_figure(self) -> bool:
        """Tell whether a figure or an order is asked for, be it only a change of one."""
        return self.asked is not None or self.change is not None


def resolve(
    question: Question, facts: Facts, *, depth: int = 1, subject: Subject | None = None
) -> Resolved | None:
    """Read a question against the facts; None if no manager fits.

    ``depth``: hops to look at. ``subject`` is of the earlier question that this one leans on.
    """
    subject = subject or find_subject(question, facts)
    return _resolve(question, subject, facts, depth) if subject else None


def _resolve(question: Question, subject: Subject, facts: Facts, depth: int) -> Resolved:
    noun = " ".join(subject.words or manager_words(subject.manager))
    resolved = Resolved(subject.manager, singular(noun), question.intent, subject)
    resolved.compares = question.compares
    if not _is_known_by_itself(subject.manager):
        resolved.related = tuple(related_names(subject.manager, facts))
    if len(question.pieces) == subject.length and subject.start >= 0:
        manager = subject.manager
        if name_field(manager) is None and manager.name not in facts.detailed:
            # Rows without a name are listed by their key.
            resolved.schemas = [manager.name]
        return resolved
    _need_mentioned(question, facts, resolved)
    if not resolved.schemas and not resolved.paths:
        resolver = _Resolver(question, subject, facts, resolved, depth)
        try:
            resolver.run()
        except Stuck as stuck:
            resolved.problem = stuck.problem
            if link := _link(subject, stuck.problem, facts):
                resolved.schemas = [link.name] if link.name not in facts.detailed else []
                if resolved.schemas:
                    resolved.problem = None
                elif is_link(link) and subject.start >= 0:
                    return _resolve(question, replace(subject, manager=link), facts, 2)
        except Wanting:
            resolved.schemas, resolved.reads = resolver.places.wanted, resolver.reads
    return resolved


def _link(subject: Subject, problem: Problem, facts: Facts) -> Manager | None:
    """Return the manager that only links the rows asked for with those to group them by.

    Each part of each project is one row of it.
    """
    ends = {subject.manager.name, *problem.options}
    if problem.kind != "many" or len(ends) != 2:
        return None
    return next(
        (
            m
            for m in facts.managers.values()
            if ends <= {r.target for r in m.relations if not r.many}
        ),
        None,
    )


def _is_known_by_itself(manager: Manager) -> bool:
    """Tell whether rows have a name, or one key that people can read."""
    types = {f.type for f in manager.fields if f.name in manager.primary_key}
    return name_field(manager) is not None or (
        len(manager.primary_key) == 1 and types == {"string"}
    )


def _need_mentioned(question: Question, facts: Facts, resolved: Resolved) -> None:
    """Ask for the schemas of all that is mentioned, and for the ways there."""
    own = resolved.subject
    for name in dict.fromkeys((own.name, *mentioned_managers(question, facts))):
        if name not in facts.detailed:
            resolved.schemas.append(name)
        near = any(r.target == name for r in own.relations) or name == own.name
        if not near and (own.name, name) not in facts.paths:
            resolved.paths.append((own.name, name))
    resolved.schemas = resolved.schemas[:MAX_SCHEMAS]
    resolved.paths = resolved.paths[:1]


class _Resolver(Frame):
    """Folds the segments of one sentence into conditions and slots."""

    def __init__(
        self, question: Question, subject: Subject, facts: Facts, resolved: Resolved, depth: int
    ) -> None:
        super().__init__(question, subject, facts, depth)
        self.out = resolved
        self.gaps: dict[int, bool] = {}

    def run(self) -> None:
        """Give every segment its place, or stop at the first that has none."""
        self._refuse_early()
        asked = Tally(self).read()
        if isinstance(asked, Change):
            self.out.change = asked
        else:
            self.out.asked = asked
        amounts = Amounts(self)
        amounts.place_compared()
        self._gaps()
        amounts.place_plain()
        for index, value, mention in amounts.texts:
            self._place_text(value, index, mention or self._attached(index))
        self._values()
        self._rest()
        self._judge()
        self._show_rows(amounts.rows)
        self.out.schemas = self.places.wanted

    def _show_rows(self, rows: int | None) -> None:
        """Take how many rows the question wants to see: "five flights with the longest delay"."""
        asked = self.out.asked
        if isinstance(asked, Figures) and rows is not None:
            raise Stuck("calculation", str(rows))
        if isinstance(asked, Rank) and rows and asked.top:
            self.out.asked = replace(asked, top=rows)
        self.out.rows = min(rows or SHOWN_ROWS, SHOWN_ROWS)

    def _refuse_early(self) -> None:
        """Refuse what no filter can say, whatever the rest means."""
        last = len(self.segments) - 1
        if self.question.leans == "rows" and self.question.asks_do and self.tie(last) == "with":
            # "How many seats do they have?"
            self.used.add(last)
        targets: list[str] = []
        for segment in self.segments:
            if isinstance(segment, Mark) and segment.kind == "rows" and not self.question.leans:
                raise Stuck("unread", segment.text)
            if isinstance(segment, Mark) and segment.kind in {"both", "or"}:
                raise Stuck(segment.kind, segment.text)
            if isinstance(segment, Mention) and segment.target and not segment.field:
                targets.append(segment.target)
        if self.calculation:
            raise Stuck("calculation", self.calculation)
        if doubled := next((t for t in targets if targets.count(t) > 1), ""):
            raise Stuck("both", doubled)

    # --- gaps -------------------------------------------------------------------------------------

    def _absent(self) -> None:
        """Read a word that says, by the descriptions of fields, that they are not set."""
        for index, word in enumerate(self.segments):
            if isinstance(word, Absent):
                before = self.at(index - 1)
                if isinstance(before, Mark) and before.kind == "not":
                    raise Stuck("exclusion", f"{before.text} {word.text}")
                self.used.add(index)
                self.add([Condition((name,), "isnull", True) for name in word.fields])

    def _gaps(self) -> None:
        self._absent()
        for index, mark in enumerate(self.segments):
            if not isinstance(mark, Mark) or mark.kind not in {"missing", "unset"}:
                continue
            self.used.add(index)
            position = next((p for p in (index + 1, index - 1) if self._is_free(p)), -1)
            mention = self.at(position)
            if not isinstance(mention, Mention):
                unknown = self.at(index + 1)
                named = " ".join(unknown.words) if isinstance(unknown, Mention) else mark.text
                raise Stuck("unclear", unknown.said if isinstance(unknown, Value) else named)
            is_zero = self._is_zero(mark, mention)
            self.use(position)
            self.explain(self.cues_before(min(index, position)), mention.path)
            if is_zero:
                self.add([Condition(mention.path, "", 0, "0")])
            else:
                self._add_gap(mention, is_missing=True)
            self.gaps[position] = True

    def _is_free(self, position: int) -> bool:
        found = self.at(position)
        is_named = isinstance(found, Mention) and not found.is_subject and not found.is_loose
        return is_named and position not in self.used

    def _is_zero(self, mark: Mark, mention: Mention) -> bool:
        """Tell "no stock", which is a stock of 0; "no delay" may also be one that is not known."""
        found = mention.field
        if found is None or mark.kind == "unset" or not is_quantity(found):
            return False
        if found.nullable:
            raise Stuck("zero", f"{mark.text} {' '.join(mention.words)}", (found.name,))
        return True

    def _add_gap(self, mention: Mention, *, is_missing: bool) -> None:
        self.refuse_rivals(mention)
        self.add([Condition(mention.path, "isnull", is_missing)])

    # --- values -----------------------------------------------------------------------------------

    def _values(self) -> None:
        for index, value in enumerate(self.segments):
            if isinstance(value, Value) and index not in self.used:
                self.used.add(index)
                self._place_text(value, index, self._attached(index))

    def _attached(self, index: int) -> Mention | None:
        """Find what a value stands next to: "supplier X", "aluminum parts", "X time zone"."""
        position = index - 1
        if isinstance(self.at(position), Compare):
            position -= 1
        if self.is_holder(position):
            self.use(position)
            return self.mention(position)
        after = self.at(index + 1)
        if isinstance(after, Mention) and after.joined and self.is_holder(index + 1):
            self.use(index + 1)
            return after
        return self._field_behind(index) or self._led_by(index)

    def _field_behind(self, index: int) -> Mention | None:
        """Find the field in 'contain "bolt" in their name'."""
        if self.tie(index + 1) != "in":
            return None
        position = index + 2 + isinstance(self.at(index + 2), Mark)
        found = self.mention(position)
        if found and found.field and self.is_holder(position):
            self.used.update(range(index + 1, position + 1))
            return found
        return None

    def _led_by(self, index: int) -> Mention | None:
        """Find what the ties before a value speak of: "planes made by BOEING"."""
        cues = self.cues_before(index)
        position = index - len(cues) - 1
        led = self.mention(position)
        is_related = led is not None and led.field is None and not led.is_subject
        if not cues or led is None or not led.path:
            return None
        if position in self.used and is_link(self.manager):
            # "Quantity of parts in Apollo": each row is of a part, and of the project itself.
            return None
        if not is_related and not self.is_holder(position):
            return None
        if led.field:
            # "Name contains X" is about the name; "price of X" about the row called so.
            if {cue.kind for _, cue in cues} != {"use"}:
                return None
        hints, target = self.hints(cues), self.facts.managers.get(led.target)
        speaks = target is not None and speaks_of(hints, target)
        if not led.field and not speaks and speaks_of(hints, self.manager):
            return None
        self.use(position)
        return led

    def _bond(self, index: int) -> Bond:
        """Say how a value is tied to the noun it belongs to."""
        before, after = self.at(index - 1), self.at(index + 1)
        if isinstance(after, Mention) and after.joined and not after.field:
            return "kind"
        if isinstance(after, Cue) and self.cues_behind(index):
            before = after
        if isinstance(before, Cue) and before.kind == "named":
            return "named"
        if not isinstance(before, Cue) or before.kind == "with" or before.is_verb:
            return "own" if self.is_by_field else "loose"
        owner = self.at(index - 2)
        if before.kind == "of" and isinstance(owner, Mention) and owner.field:
            # "The price of the Bolt" is about the row called so.
            return "own"
        return "other" if before.kind in {"of", "made", "use", "by"} else "place"

    def _place_text(self, value: Value, index: int, mention: Mention | None) -> None:
        if mention and not mention.path:
            raise Stuck("unrelated", " ".join(mention.words))
        is_before = mention is not None and mention is self.at(index + 1)
        before, behind = self.cues_before(index), self.cues_behind(index + is_before)
        hints = self.hints(before) or self.hints(behind)
        if mention and mention.field:
            found = self.places.in_field(value.texts, mention)
            if not found:
                raise Stuck("unfit", value.said, (mention.field.name, *mention.field.choices))
            kept = self._explained(found, before, behind)
        else:
            if mention:
                self.take(self.segments.index(mention), mention)
            sought = (value.texts[0], hints, mention, self._bond(index))
            found = self.places.find(*sought)
            kept = self._explained(found, before, behind)
            if not kept and self.places.depth < 2:
                # Nothing near that the verb speaks of: look further away.
                self.places.depth = 2
                found = self.places.find(*sought)
                kept = self._explained(found, before, behind)
        if not kept and not self.places.wanted:
            cues = sorted((cue for _, cue in (*before, *behind)), key=lambda cue: not cue.is_verb)
            raise Stuck("unread", cues[0].text if cues and found else value.said)
        in_field = bool(mention and mention.field)
        self._offer(value, index, kept, tied=bool(before or behind or mention), in_field=in_field)

    def _explained(self, found: list[Candidate], before: Cues, behind: Cues) -> list[Candidate]:
        """Keep the places that the verbs around a value speak of, and take the verbs as placed."""
        for cues, closing in ((before, False), (behind, True)):
            for index, cue in cues:
                self.used.add(index)
                found = [c for c in found if self.is_explained(cue, c.path, closing=closing)]
        return found

    def _offer(
        self, value: Value, index: int, found: list[Candidate], *, tied: bool, in_field: bool
    ) -> None:
        if value.link == "and" and any(c.is_many for c in found):
            raise Stuck("both", value.said)
        plain = not value.quoted and all(t.islower() for t in value.texts)
        after = self.at(index + 1)
        kind = isinstance(after, Mention) and after.joined
        whole = plain and (not tied or kind) and not any(looks_like_code(t) for t in value.texts)
        cue = self.at(index - 1)
        part = isinstance(cue, Cue) and cue.text.lower().startswith(("contain", "includ"))
        part = part and in_field and len(value.texts) == 1 and not found[0].field.choices
        self.out.slots.append(Slot(value.texts, value.said, tuple(found), tied, whole, part))

    # --- what is left -----------------------------------------------------------------------------

    def _rest(self) -> None:
        for index, mention in enumerate(self.segments):
            if not isinstance(mention, Mention) or index in self.used:
                continue
            self.used.add(index)
            if mention.is_subject:
                # "In which projects", "the density of materials"
                self.used |= {at for at, cue in self.cues_before(index) if cue.kind in _LEADING}
                continue
            before = self.at(index - 1)
            counted = self.question.counted == mention.start
            if mention.field and mention.field.type == "boolean":
                negated = self.mark(index - 1) == "not"
                self.used |= {index - 1} if negated else set()
                self.explain(self.cues_before(index), mention.path)
                self.add([Condition(mention.path, "", not negated)])
            elif counted:
                self._count(mention)
            elif self.mark(index - 1) and (missing := self.gaps.get(index - 2)) is not None:
                # "Without a departure time and arrival time" goes on.
                self._add_gap(mention, is_missing=missing)
                self.gaps[index] = missing
            elif self._is_required(mention, before):
                self.explain(self.cues_before(index), mention.path)
                self._add_gap(mention, is_missing=False)
                self.gaps[index] = False
            else:
                self._column(index, mention, before)

    def _count(self, mention: Mention) -> None:
        """Count what is no row: "how many cities" are values; "how many seats" are in a column.

        A column is shown of the rows that are asked for, and is no answer if those are all.
        """
        is_narrowed = bool(self.conditions or self.out.slots)
        if mention.field and not is_amount(mention.field) and not self.out.is_figure:
            self.out.asked = Figures((Measure("count_distinct", mention.path, mention.field),))
            return
        if not is_narrowed:
            raise Stuck("unread", " ".join(mention.words))
        self.out.intent = "list"
        self._show(mention)

    def _column(self, index: int, mention: Mention, before: Segment | None) -> None:
        """Show a field or related rows where the question asks to see them, not to filter."""
        is_tied = isinstance(before, Cue) and before.kind not in {"of", "with"}
        amount_held = isinstance(before, Cue) and before.kind == "with" and is_amount(mention.field)
        behind = self.at(index + 1)
        is_tied = is_tied or (isinstance(behind, Mention) and behind.is_subject and behind.joined)
        # "Flights a day" is no list of days.
        is_tied = is_tied or (
            isinstance(before, Mention) and before.is_subject and not mention.joined
        )
        if is_tied or amount_held or mention.is_loose or self.question.intent != "list":
            raise Stuck("unread", " ".join(mention.words))
        tied = index - isinstance(before, Mark)
        self.explain(self.cues_before(tied), mention.path)
        self._show(mention)

    def _show(self, mention: Mention) -> None:
        """Show a field, or related rows by their name, or by their key."""
        if isinstance(self.out.asked, Figures):
            raise Stuck("unread", " ".join(mention.words))
        if mention.field:
            self.out.shown.append(mention.path)
            return
        self.refuse_rivals(mention)
        target = self.places.known(mention.target)
        if target:
            named = name_field(target)
            known_by = (named.name,) if named else target.primary_key
            self.out.shown += [(*mention.path, name) for name in known_by]

    def _is_required(self, mention: Mention, before: Segment | None) -> bool:
        """Tell "parts with a supplier", a condition, from "parts and their supplier", a column."""
        if not isinstance(before, Cue):
            return False
        if mention.field:
            optional = mention.field.nullable and not is_quantity(mention.field)
            return before.kind == "with" and optional
        return before.kind in {"with", "use", "in", "on", "for", "of"}

    def _judge(self) -> None:
        """Stop at the first word that has no place."""
        left = [s for index, s in enumerate(self.segments) if index not in self.used]
        for segment in left:
            if isinstance(segment, Mark) and segment.kind == "not":
                raise Stuck("exclusion", segment.text)
        for segment in left:
            if isinstance(segment, Cue):
                raise Stuck("unread", segment.text)
        self._drop_spare_gaps()

    def _drop_spare_gaps(self) -> None:
        """Drop "has any" of rows that another condition is about anyway."""
        paths = [c.path for c in self.conditions] + [
            p.path for slot in self.out.slots for p in slot.places
        ]
        self.out.conditions = [
            c
            for c in self.conditions
            if not (c.value is False and c.lookup == "isnull")
            or not any(len(p) > len(c.path) and p[: len(c.path)] == c.path for p in paths)
        ]
