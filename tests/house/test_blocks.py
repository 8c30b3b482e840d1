"""Every code block of README.md and docs/*.md is run by a test.

A test says which by `block(page, language, containing)` of tests/pages.py, with texts as they are.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest
from pages import PAGES, Block, blocks, read


@dataclass(frozen=True, slots=True)
class Taken:
    """A block as a test asks for it."""

    page: str
    language: str
    containing: str

    def is_of(self, page: str, block: Block) -> bool:
        return (self.page, self.language) == (
            page,
            block.language,
        ) and self.containing in block.text


def taken_in(text: str) -> Iterator[Taken]:
    """Find what the tests and fixtures of a file take, and do something with."""
    for function in ast.parse(text).body:
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        marks = " ".join(map(ast.unparse, function.decorator_list))
        if "skip" in marks or not (function.name.startswith("test_") or "fixture" in marks):
            continue
        unused = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Expr)}
        for node in ast.walk(function):
            match node:
                case ast.Call(
                    func=ast.Name(id="block"),
                    args=[
                        ast.Constant(value=str(page)),
                        ast.Constant(value=str(language)),
                        ast.Constant(value=str(containing)),
                    ],
                ) if id(node) not in unused:
                    yield Taken(page, language, containing)
                case _:
                    pass


def untaken(page: str, text: str, taken: Iterable[Taken]) -> list[str]:
    """Name the blocks of a page that are none of the taken ones, by how they begin."""
    return [
        f"{page}: {block.language} {block.text.splitlines()[0]}"
        for block in blocks(text)
        if not any(one.is_of(page, block) for one in taken)
    ]


def unread(text: str) -> list[str]:
    """Give the lines that open or close a block which `blocks` does not see."""
    without = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^.*(?:```|~~~).*$|^(?: {4}|\t).*\S.*$", without, re.MULTILINE)


def test_every_block_is_run_by_a_test(sources: dict[str, str]) -> None:
    tests = re.compile(r"tests/.*(?:test_\w+|conftest)\.py")
    taken = [
        one for path, text in sources.items() if tests.fullmatch(path) for one in taken_in(text)
    ]
    assert [line for page in PAGES for line in untaken(page, read(page), taken)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_seen(page: str) -> None:
    assert unread(read(page)) == []


PAGE = "Do:\n\n```sh\nmake demo\n```\n\nYou see:\n\n```\nid: 5\n```\n"


@pytest.mark.parametrize(
    ("test", "left"),
    [
        ("def test_a(): run(block('p.md', 'sh', 'demo')); see(block('p.md', '', 'id'))", []),
        ("async def test_a(): run(block('p.md', 'sh', 'demo'))", ["p.md:  id: 5"]),
        ("@mark(block('p.md', '', 'id: '))\ndef test_a(x): run(x)", ["p.md: sh make demo"]),
        ("@fixture\ndef a(): return block('p.md', '', 'id')", ["p.md: sh make demo"]),
        ("def a(): run(block('p.md', 'sh', 'make'))", ["p.md: sh make demo", "p.md:  id: 5"]),
        ("x = block('p.md', 'sh', 'make')", ["p.md: sh make demo", "p.md:  id: 5"]),
        ("def test_a(): block('p.md', 'sh', 'm')", ["p.md: sh make demo", "p.md:  id: 5"]),
        ("def test_a(): run(block(P, 'sh', 'm'))", ["p.md: sh make demo", "p.md:  id: 5"]),
        (
            "@skip\ndef test_a(): run(block('p.md', '', 'i'))",
            ["p.md: sh make demo", "p.md:  id: 5"],
        ),
        ("def test_a(): run(block('p.md', 'sh', 'id'))", ["p.md: sh make demo", "p.md:  id: 5"]),
        ("def test_a(): run(block('q.md', 'sh', 'make'))", ["p.md: sh make demo", "p.md:  id: 5"]),
    ],
)
def test_a_block_that_no_test_runs_would_be_found(test: str, left: list[str]) -> None:
    assert untaken("p.md", PAGE, list(taken_in(test))) == left


@pytest.mark.parametrize("text", ["~~~\nx\n~~~", "- a\n  ```sh\n  x\n  ```", "```sh -x\ny\n```"])
def test_a_block_in_another_form_would_be_found(text: str) -> None:
    assert unread(text)
    assert blocks(text) == []


def test_an_indented_block_would_be_found() -> None:
    assert unread("Do:\n\n    make demo\n") == ["    make demo"]
