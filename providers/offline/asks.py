"""What kind of thing a message is, told from its words alone: a question, a greeting, a request.

Only questions in English about what is on record are read any further.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from providers.offline.english import (
    CHANGES,
    CHANGING,
    FOREIGN,
    GREETINGS,
    LINKS,
    MORE,
    OTHERS,
    POLITE,
    PRONOUNS,
    THANKS,
    TRADES,
    TRAITS,
)

Intent = Literal[
    "list",
    "count",
    "exists",
    "greeting",
    "thanks",
    "help",
    "change",
    "follow",
    "foreign",
    "several",
]

Lean = Literal["", "change", "rows", "more", "other", "open"]
"""How a message leans on an earlier question.

Not at all; with something else in it; on the rows it found; for more of them; in a way that can't
be followed; or perhaps, since it opens like the end of a sentence.
"""

_SEVERAL = re.compile(
    r"\w\s*\?\s+(and\s+|also\s+)*(how|what|which|who|when|where|list|show|count|is|are|do|does)\b"
    r"|\w\s+\w+\s*,?\s+and\s+(how|what|which|who|when|where)\b",
    re.IGNORECASE,
)
_YES_OR_NO = frozenset("is are do does did has have was were any".split())
_COUNTING = {("how", "many"), ("number", "of"), ("in", "total")}
_ASKING = frozenset("which what whose who".split())
_MORE = frozenset("more next rest".split())
_HOW_MANY = frozenset("how many in total altogether exactly all".split())


def intent_of(words: Sequence[str]) -> Intent:
    """Tell the intent of a message from its lower-case words, save small talk."""
    if _is_foreign(words):
        return "foreign"
    if _asks_change(words):
        return "change"
    pairs = set(pairwise(words))
    if pairs & _COUNTING or words[:1] == ["count"]:
        return "count"
    return "exists" if words and words[0] in _YES_OR_NO else "list"


def asks_several(text: str) -> bool:
    """Tell two questions in one message, of which only one would be answered, from one."""
    return _SEVERAL.search(text) is not None


def small_talk(words: Sequence[str]) -> Intent:
    """Tell what a message without content is: a greeting, thanks, or a call for help."""
    if THANKS & set(words):
        return "thanks"
    return "greeting" if words and words[0] in GREETINGS else "help"


def _is_foreign(words: Sequence[str]) -> bool:
    letters = [c for word in words for c in word if c.isalpha()]
    other = sum(ord(c) > 0x24F for c in letters)
    if letters and other * 2 > len(letters):
        return True
    strange = [word for word in words if word.strip("¿¡") in FOREIGN or word[:1] in {"¿", "¡"}]
    return bool(strange) and (strange[0] == words[0] or len(strange) > 1)


def _asks_change(words: Sequence[str]) -> bool:
    """Tell "please delete it" from "which flights were cancelled": the verb opens the sentence."""
    for position, word in enumerate(words):
        if word in CHANGES:
            behind = words[position + 1] if position + 1 < len(words) else ""
            # "Email of Anna", "order by price" and "purchase price of parts" ask for no change.
            is_noun = behind == "of" or (word in TRADES and behind in TRAITS)
            is_noun = is_noun or (word, behind) == ("order", "by")
            return not is_noun and not _ASKING & set(words[:position])
        if word not in POLITE:
            break
    # "List the parts; delete them": a further sentence with a request of its own.
    return any(
        before in {";", "then"} and word in CHANGES for before, word in pairwise(words)
    ) and not _ASKING & set(words)


def lean_of(words: Sequence[str]) -> Lean:
    """Tell how a message leans on an earlier one, from its lower-case words."""
    if words and set(words) <= _MORE | POLITE and _MORE & set(words):
        return "more"
    if _has(words, (("how", "many"),)) and set(words) <= _HOW_MANY | POLITE:
        return "change"
    if _has(words, MORE):
        return "more"
    if _has(words, OTHERS):
        return "other"
    opens = bool(words) and words[0] in LINKS
    if _has(words, PRONOUNS) and not (opens and (words[0] == "only" or words[1:2] == ["those"])):
        return "rows"
    is_part = opens or _has(words, CHANGING) or words[-1:] == ["ones"]
    return "change" if is_part else ""


def _has(words: Sequence[str], phrases: Sequence[tuple[str, ...]]) -> bool:
    return any(
        tuple(words[start : start + len(phrase)]) == phrase
        for phrase in phrases
        for start in range(len(words))
    )
