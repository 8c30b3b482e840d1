"""What is ranked by its rows, as it stands before a superlative: "which supplier has the most"."""

from providers.offline.asked import Measure
from providers.offline.columns import agent_of, coarser, group_of, is_done_by, parts_of_date
from providers.offline.english import AGENTS, singular
from providers.offline.frame import Frame, Stuck
from providers.offline.parse import Cue, Number
from providers.offline.ranking import Read, Top
from providers.offline.segment import Mention, Value
from providers.offline.terms import PARTS

_TIES = frozenset({"of", "with", "by", "for", "in"})


class Heads:
    """Takes heads of one frame as the groups that are ``read``."""

    def __init__(self, frame: Frame, read: Read) -> None:
        self.frame = frame
        self.read = read

    def rank(self, top: Top, measure: Measure) -> None:
        """Find what is ranked by its rows: "which supplier", "who" or "which day"."""
        if self.before(top.at):
            self.take_before(top.at)
        elif measure.field is None and top.at == 1 and (verb := self._verb(top.at)):
            self.take_as(agent_of(self.frame, verb), 0)
        elif found := self._part_before(top.at):
            at, part = found
            self.frame.used.update(range(at, top.at))
            self._count(at)
            self.read.groups += parts_of_date(self.frame, part, "")
            self.read.is_headed = True
            self.read.present.append(self.read.groups[-1].path)

    def take(self, at: int) -> None:
        """Mark a mention as placed, with the plain ties before it and the relation it is of."""
        self.frame.used.add(at)
        mention = self.frame.mention(at)
        for before in self.frame.cues_before(at):
            cue = self.frame.segments[before]
            if isinstance(cue, Cue) and cue.kind in _TIES:
                self.frame.used.add(before)
        for index, other in enumerate(self.frame.segments[:at]):
            if mention and isinstance(other, Mention) and other.target and other.path:
                if mention.field and mention.path[:-1] == other.path:
                    self.frame.used.add(index)

    def before(self, index: int) -> Mention | None:
        """Return what stands before "with the most flights" or "by average delay", to be ranked."""
        at = index - 1 - (self._verb(index) is not None)
        while isinstance(tie := self.frame.at(at), (Cue, Number)) or at in self.frame.used:
            if isinstance(tie, Cue) and tie.kind not in _TIES:
                return None
            at -= 1
        found = self.frame.mention(at)
        return found if found and not found.is_subject and at not in self.frame.used else None

    def take_as(self, mention: Mention, at: int) -> None:
        """Take what is to be ranked as the group."""
        group = group_of(self.frame, mention)
        self.take(at)
        self.read.groups += [*coarser(self.frame, group), group]
        self.read.is_headed = True
        path = group.path if mention.path == group.path else group.path[:-1]
        if path != group.path or group.field.nullable:
            # "The supplier with the most parts" is one, and not the lack of one.
            self.read.present.append(path)

    def take_before(self, index: int) -> None:
        """Take what stands before a place as the group. Raises: Stuck at a verb of another kind."""
        at, verb = index - 1, self._verb(index)
        if verb:
            self.frame.used.add(at)
            at -= 1
        while self.frame.mention(at) is None:
            self.frame.used.add(at)
            at -= 1
        mention = self.frame.mention(at)
        if mention and verb and not is_done_by(self.frame, verb, mention.path):
            raise Stuck("unread", verb.text)
        self._count(at)
        assert mention is not None
        self.take_as(mention, at)

    def _verb(self, index: int) -> Cue | None:
        """Return the verb in "supplier delivers the most parts", which stands before "most"."""
        found = self.frame.at(index - 1)
        if isinstance(found, Value) and found.said.isalpha() and found.said.islower():
            found = Cue(found.said, found.said)
        if isinstance(found, Mention) and found.field and found.words[0] in AGENTS:
            # "Placed" is what customers do, though a column placed_on has the word.
            found = Cue(found.words[0], found.words[0])
        is_verb = isinstance(found, Cue) and (found.is_verb or found.kind == "use")
        return found if isinstance(found, Cue) and is_verb else None

    def _part_before(self, index: int) -> tuple[int, str] | None:
        """Find "day" in "which day had the most orders", where no field is a day."""
        at = index - 1
        if isinstance(tie := self.frame.at(at), Cue) and not tie.is_verb:
            at -= 1
        found = self.frame.at(at)
        said = found.said if isinstance(found, Value) else ""
        # Behind a number it looks like a unit: "the two days".
        name = singular(found.kind if isinstance(found, Cue) else said)
        return (at, name) if name in PARTS else None

    def _count(self, at: int) -> None:
        """Take how many are asked for, where a number stands before what is ranked."""
        number = self.frame.at(at - 1)
        if isinstance(number, Number) and is_whole(number) and self.read.top:
            self.frame.used.add(at - 1)
            self.read.top.count = int(number.value)


def is_whole(number: Number) -> bool:
    """Tell whether a number may be how many are asked for."""
    return number.value > 0 and not number.more and not number.unit and number.text.isalnum()
