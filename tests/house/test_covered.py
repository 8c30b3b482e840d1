"""Which bug cases, promises and contract items have a test: covered.txt lists them and grows."""

import re
from pathlib import Path

import pytest

_MARK = re.compile(r"mark\.covers\(([^)]*)\)")
_NUMBER = re.compile(r"H\d\d|P\d\d|C7-\d+")


def covered(text: str) -> set[str]:
    """Give the numbers that the markers in a file's text name."""
    return {number for mark in _MARK.findall(text) for number in re.findall(r'"([^"]*)"', mark)}


@pytest.fixture
def found(sources: dict[str, str]) -> set[str]:
    tests = (text for path, text in sources.items() if path != "tests/house/test_covered.py")
    return set[str]().union(*map(covered, tests))


def test_each_number_once_covered_has_a_test(found: set[str]) -> None:
    listed = Path(__file__).with_name("covered.txt").read_text("utf-8").split()
    assert found - {*listed} == set(), "add it to tests/house/covered.txt"
    assert {*listed} - found == set(), "the last test of it is gone"
    assert len(listed) == len({*listed})


def test_a_marker_has_numbers_and_nothing_else(found: set[str]) -> None:
    assert [number for number in found if not _NUMBER.fullmatch(number)] == []


def test_all_numbers_of_a_marker_are_read() -> None:
    text = '@pytest.mark.covers("H01", "P40")\n@pytest.mark.covers(\n    "C7-3",\n)\n'
    assert covered(text) == {"H01", "P40", "C7-3"}
