"""A sentence being read: its segments, which of them have found their place, and how.

Ties and verbs are taken together with what they tie: a verb counts only where the path that is
filtered by says something of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from providers.offline.english import GLUE
from providers.offline.facts import AGGREGATE, Facts, Page
from providers.offline.match import Condition, hint_score, is_amount
from providers.offline.parse import Cue, Mark, Question
from providers.offline.places import Places
from providers.offline.segment import Mention, Segment, read_segments
from providers.offline.subject import Subject
from schema.events import JsonObject

_Found = TypeVar("_Found")

Cues = list[tuple[int, Cue]]
"""Ties and verbs, each with its place."""


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


class Wanting(Exception):
    """Reading the question goes on when more schemas are known."""


def only_one(found: Sequence[_Found], said: str, names: Iterable[str], *, none: str) -> _Found:
    """Return the one thing that words mean. Raises: Stuck if it is one of several, or ``none``."""
    if len(found) > 1:
        raise Stuck("which", said, names)
    if not found:
        raise Stuck(none, said)
    return found[0]


class Frame:
    """The segments of one question; ``used`` are those that have a place."""

    def __init__(self, question: Question, subject: Subject, facts: Facts, depth: int) -> None:
        self.segments, self.calculation = read_segments(question, subject, facts)
        self.question = question
        self.facts = facts
        self.manager = subject.manager
        self.places = Places(subject.manager, facts, depth)
        self.own_words = subject.own_words
        self.is_by_field = not subject.words
        self.is_part = question.leans in {"change", "open"}
        self.used: set[int] = set()
        self.conditions: list[Condition] = []
        self.reads: list[JsonObject] = []

    def want(self, name: str) -> None:
        """Ask for a schema that the reading needs, if it was not asked for. Raises: Wanting."""
        if name not in self.facts.detailed:
            self.places.wanted.append(name)
            raise Wanting

    def read(self, args: JsonObject) -> Page:
        """Return an aggregate that the reading needs. Raises: Wanting; Stuck if it was refused."""
        page = self.facts.page(args, AGGREGATE)
        if page is None:
            self.reads.append(args)
            raise Wanting
        if not isinstance(page, Page):
            raise Stuck("refused")
        return page

    def at(self, index: int) -> Segment | None:
        """Return the segment at a place, None beyond the ends."""
        return self.segments[index] if 0 <= index < len(self.segments) else None

    def tie(self, index: int) -> str:
        """Return the kind of the tie or verb at a place, "" if none is there."""
        found = self.at(index)
        return found.kind if isinstance(found, Cue) else ""

    def mark(self, index: int) -> str:
        """Return the kind of the mark at a place, "" if none is there."""
        found = self.at(index)
        return found.kind if isinstance(found, Mark) else ""

    def cues_before(self, index: int) -> Cues:
        """Return the run of ties and verbs right before a place, the nearest first."""
        found: Cues = []
        while isinstance(cue := self.at(index - 1), Cue) and index - 1 not in self.used:
            index -= 1
            found.append((index, cue))
        return found

    def cues_behind(self, index: int) -> Cues:
        """Return the ties and verbs that close the question: "does Acme supply?"."""
        rest = [*enumerate(self.segments)][index + 1 :]
        found = [(at, cue) for at, cue in rest if isinstance(cue, Cue)]
        return found if len(found) == len(rest) else []

    def hints(self, cues: Cues) -> frozenset[str]:
        """Return what ties and verbs point to, save the noun itself."""
        return frozenset(hint for _, cue in cues for hint in cue.hints) - self.own_words

    def explain(self, cues: Cues, path: Sequence[str]) -> None:
        """Take ties and verbs as placed, or stop at a verb that the path says nothing of."""
        for index, cue in cues:
            if not self.is_explained(cue, path):
                raise Stuck("unread", cue.text)
            self.used.add(index)

    def is_explained(self, cue: Cue, path: Sequence[str], *, closing: bool = False) -> bool:
        """Tell whether a path says something of a verb, or of a tie that closes the question."""
        if cue.kind in GLUE or (not cue.is_verb and not closing):
            return True
        if closing and cue.kind in {"use", "with"}:
            return self.question.asks_do or cue.kind == "use"
        own = any(hint_score(cue.hints, word, "") > 0 for word in self.own_words)
        return own or self.places.explains(path, cue.hints)

    def use(self, position: int) -> None:
        """Mark a mention as placed with the ties before it, and the relation it goes through."""
        self.used.add(position)
        mention = self.at(position)
        if isinstance(mention, Mention):
            self.explain(self.cues_before(position), mention.path)
            for index, other in enumerate(self.segments[:position]):
                if isinstance(other, Mention) and other.target and mention.path[:-1] == other.path:
                    self.refuse_rivals(other)
                    self.take(index, other)

    def refuse_rivals(self, mention: Mention) -> None:
        """Stop where several relations, or none, lead to what is mentioned."""
        if not mention.path:
            raise Stuck("unrelated", " ".join(mention.words))
        if mention.rivals:
            raise Stuck("which", " ".join(mention.words), (mention.path[0], *mention.rivals))

    def take(self, index: int, mention: Mention) -> None:
        """Mark related rows as placed, with the ties before them."""
        self.explain(self.cues_before(index), mention.path)
        self.used.add(index)

    def add(self, conditions: Sequence[Condition]) -> None:
        """Take conditions; two of one kind on one field would mean two rows."""
        for condition in conditions:
            if any(condition.key == other.key for other in self.conditions):
                raise Stuck("both", condition.said or condition.path[-1])
            self.conditions.append(condition)

    def mention(self, position: int) -> Mention | None:
        """Return the mention at a place, if one is there."""
        found = self.at(position)
        return found if isinstance(found, Mention) else None

    def is_holder(self, position: int) -> bool:
        """Tell whether a value may belong to a mention: related rows, or a field of texts."""
        found = self.at(position)
        if not isinstance(found, Mention) or found.is_subject or position in self.used:
            return False
        return found.field is None or not is_amount(found.field)
