"""Finds managers by words: which of them a question is about, best first.

A word is a run of letters and digits of any script; ``ProjectParts`` and ``project_parts`` are
project, part. Words are compared without regard to letter case, accents (``Größe`` is grosse) and
plural: ``ies`` becomes ``y``, ``es`` falls where the singular hisses (``boxes``, ``statuses``),
else ``s`` falls, and a few irregular plurals are known. A word hits where it stands as a whole; a
word that stands nowhere hits, for less, where the words nearest to it stand.
Source: design.md 4, data tools.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Literal
from unicodedata import category, normalize

from rapidfuzz import process
from rapidfuzz.distance import OSA

from schema.managers import Manager

Reason = Literal["name", "alias", "field", "relation", "description", "catalogue"]

_MAX_FOUND = 10
_MAX_QUERY = 1_000
_MAX_GUESSES = 16
"""Words of a query that may be misspelled; each of them is compared with all known words."""

_WEIGHTS: Mapping[Reason, float] = {
    "name": 1.0,
    "alias": 0.95,
    "field": 0.6,
    "relation": 0.55,
    "description": 0.4,
}
_NEARNESS = (1.0, 0.75, 0.5)
"""How much a hit counts, by the number of slips between the word asked for and the one found."""
_LEAST = 0.01
"""The score of the weakest hit, since 0 is the catalogue's."""
_TIE = 1e-6
"""What a word of a name counts against it until it is asked for: it settles equal scores."""


# --- words ----------------------------------------------------------------------------------------

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z0-9]+")
_ACCENT = re.compile("[\u0300-\u036f]")
_WHOLE = str.maketrans(
    {"æ": "ae", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ł": "l", "ø": "o", "œ": "oe", "þ": "th"}
)
"""Latin letters that are not a plain letter and an accent to Unicode, but are to people."""

_IRREGULAR: Mapping[str, str] = {
    "analyses": "analysis",
    "buses": "bus",
    "children": "child",
    "cookies": "cookie",
    "criteria": "criterion",
    "feet": "foot",
    "indices": "index",
    "matrices": "matrix",
    "men": "man",
    "movies": "movie",
    "people": "person",
    "shelves": "shelf",
    "women": "woman",
}
_HISSING = re.compile(r"(ss|sh|ch|x|zz|\w\w[^ao]us)es$")

_STOP_WORDS = frozenset(
    """
    a about access all an and any are as ask at available be by can content could count
    data database do does each every everything exist find for from get give had has have
    help hold how i in information is it know list lookup manager many me model most much
    my no of on one or our overview please query record row see show some store table tell
    than that the their there these they thing this those to us use want was we were what
    when where which who why will with would you your
    """.split()
)

_Words = tuple[str, ...]


def _words(text: str) -> _Words:
    """The words of a text, each in the form in which words are compared."""
    return tuple([_singular(word) for word in _split(_CAMEL.sub(" ", text))])


_known_words = lru_cache(maxsize=16_384)(_words)
"""For texts of managers: they come again in every index that is narrowed from another."""


def _split(text: str) -> list[str]:
    """Split into words without letter case and accents.

    Accents go from Latin, Greek and Cyrillic letters only: other scripts write vowels as marks.
    """
    if text.isascii():
        return _WORD.findall(text.lower())
    apart = normalize("NFKD", normalize("NFKC", text).casefold()).translate(_WHOLE)
    whole = normalize("NFC", _ACCENT.sub("", apart))
    return "".join(map(_part_of_word, whole)).split()


def _part_of_word(char: str) -> str:
    """A letter, digit or mark; nothing for what only says how to write them; else a space."""
    kind = category(char)
    return char if kind[0] in "LNM" else "" if kind == "Cf" else " "


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word in _STOP_WORDS:
        return word
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if _HISSING.search(word) else word[:-1]


# --- search ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hit:
    """A manager that was found: ``score`` is above 0 up to 1, ``reason`` its best place.

    Both are 0 and "catalogue" where nothing was found and the managers are listed instead.
    """

    manager: Manager
    score: float
    reason: Reason


_Places = dict[int, Reason]
"""The best place of a word in each manager that has it, by the manager's number."""


@dataclass(frozen=True, slots=True)
class _Match:
    """A word of the query that hits; ``rarity`` is what a hit in a name counts.

    A word that many managers share says less about each of them.
    """

    places: _Places
    rarity: float
    nearness: float

    def gain(self, reason: Reason) -> float:
        return self.rarity * self.nearness * _WEIGHTS[reason]


class Search:
    """Finds among ``managers``, which are in the order of the catalogue."""

    def __init__(self, managers: Sequence[Manager]) -> None:
        self._managers = managers
        self._joined = _joined_names(managers)
        self._lengths = {len(words) for words in self._joined}
        relating = frozenset(number for same in self._joined.values() for number in same)
        self._common = _common_names(managers)
        self._places = _places(managers, relating, _STOP_WORDS - self._common)
        self._starts = [-_TIE * len(_known_words(manager.name)) for manager in managers]
        self._by_length = defaultdict[int, list[str]](list)
        for word in self._places:
            self._by_length[len(word)].append(word)

    def find(self, query: str) -> list[Hit]:
        """Rank managers by the words of ``query``; without a hit, list the catalogue's beginning.

        A name that only joins other managers' whole names, as ProjectPart joins Project and Part,
        counts as a name only where its words stand together in the query. A query without words
        finds nothing.
        """
        words = _words(query[:_MAX_QUERY])
        asked = [w for w in dict.fromkeys(words) if w not in _STOP_WORDS or w in self._common]
        matches = dict(self._matches(asked))
        if not matches:
            listed = self._managers[:_MAX_FOUND] if words else ()
            return [Hit(manager, 0.0, "catalogue") for manager in listed]
        meant = self._together(words)
        scores = self._scores(matches, meant)
        best = heapq.nlargest(_MAX_FOUND, range(len(scores)), key=scores.__getitem__)
        possible = sum(match.rarity for match in matches.values())
        return [
            Hit(self._managers[n], max(_LEAST, round(scores[n] / possible, 2)), reason)
            for n in best
            if (reason := _best_place(n, matches, meant))
        ]

    def _scores(self, matches: Mapping[str, _Match], meant: Mapping[int, _Words]) -> list[float]:
        """The sum of gains of each manager; ``heapq`` and the order of names settle the rest."""
        scores = self._starts.copy()
        for match in matches.values():
            gains = {reason: match.gain(reason) for reason in _WEIGHTS}
            gains["name"] += _TIE
            for number, reason in match.places.items():
                scores[number] += gains[reason]
        for number, words in meant.items():
            for word in words:
                if match := matches.get(word):
                    scores[number] += _TIE + match.gain("name") - match.gain(match.places[number])
        return scores

    def _matches(self, asked: Iterable[str]) -> Iterator[tuple[str, _Match]]:
        guesses = 0
        for word in asked:
            places, slips = self._places.get(word), 0
            if places is None and guesses < _MAX_GUESSES:
                guesses += 1
                places, slips = self._near(word)
            if places:
                rarity = log(1 + len(self._managers) / len(places))
                yield word, _Match(places, rarity, _NEARNESS[slips])

    def _near(self, word: str) -> tuple[_Places, int]:
        """The places of the words that differ least from an unknown one, and by how many slips.

        A slip is a letter more, less or other, or two swapped. Words of 4 to 7 letters may have
        one, longer ones two; up to 5 letters the first is right. Numbers are not guessed.
        """
        if len(word) <= 3 or any(char.isdigit() for char in word):
            return {}, 0
        most = 1 if len(word) <= 7 else 2
        found: dict[int, list[str]] = defaultdict(list)
        for length in range(len(word) - most, len(word) + most + 1):
            known = self._by_length.get(length, ())
            for near, slips, _ in process.extract(
                word, known, scorer=OSA.distance, score_cutoff=most, limit=None
            ):
                if len(word) > 5 or near[0] == word[0]:
                    found[int(slips)].append(near)
        if not found:
            return {}, 0
        slips = min(found)
        return _merged(self._places[near] for near in found[slips]), slips

    def _together(self, words: _Words) -> Mapping[int, _Words]:
        """The managers whose joined names stand in ``words``, with the words of the name."""
        runs = (words[at : at + length] for at in range(len(words)) for length in self._lengths)
        return {number: run for run in runs for number in self._joined.get(run, ())}


def _best_place(
    number: int, matches: Mapping[str, _Match], meant: Mapping[int, _Words]
) -> Reason | None:
    """The best place at which a manager is hit, if it is."""
    if number in meant:
        return "name"
    places: list[Reason] = [m.places[number] for m in matches.values() if number in m.places]
    return max(places, key=_WEIGHTS.__getitem__, default=None)


def _merged(several: Iterable[_Places]) -> _Places:
    merged: _Places = {}
    for places in several:
        for number, reason in places.items():
            known = merged.get(number)
            if known is None or _WEIGHTS[known] < _WEIGHTS[reason]:
                merged[number] = reason
    return merged


def _name_words(manager: Manager) -> _Words:
    return tuple(word for word in _known_words(manager.name) if word != "manager")


def _joined_names(managers: Sequence[Manager]) -> Mapping[_Words, list[int]]:
    """By their words, the managers whose names are whole names of others, one after the other."""
    names = [_name_words(manager) for manager in managers]
    whole, joined = frozenset(names), defaultdict[_Words, list[int]](list)
    for number, words in enumerate(names):
        reached = {0}
        for end in range(1, len(words) + 1):
            parts = (words[start:end] for start in reached)
            if any(part in whole and part != words for part in parts):
                reached.add(end)
        if words and len(words) in reached:
            joined[words].append(number)
    return dict(joined)


def _places(
    managers: Sequence[Manager], relating: frozenset[int], ignored: frozenset[str]
) -> Mapping[str, _Places]:
    """For each word that is not ``ignored`` the managers that have it, each with its best place.

    The words of the names in ``relating`` say what these relate, so they count as relations. Names
    and aliases of several words are found by one word as well.
    """
    found = defaultdict[str, _Places](dict)
    for number, manager in enumerate(managers):
        name, *aliases = map(_known_words, (manager.name, *manager.aliases))
        found["".join(name)][number] = "name"
        for alias in aliases:
            found["".join(alias)].setdefault(number, "alias")
        texts: tuple[tuple[Reason, Iterable[_Words]], ...] = (
            ("name", () if number in relating else (name,)),
            ("alias", aliases),
            ("field", map(_known_words, manager.fields)),
            ("relation", (name, *map(_known_words, manager.links))),
            ("description", map(_known_words, (manager.description, manager.use_when))),
        )
        for reason, several in texts:
            for words in several:
                for word in words:
                    found[word].setdefault(number, reason)
    return {word: places for word, places in found.items() if word not in ignored}


def _common_names(managers: Sequence[Manager]) -> frozenset[str]:
    """Stop words that count after all, because some name or alias has no other words."""
    texts = [frozenset(_known_words(text)) for m in managers for text in (m.name, *m.aliases)]
    return frozenset[str]().union(*(t for t in texts if t <= _STOP_WORDS)) - {"manager"}
