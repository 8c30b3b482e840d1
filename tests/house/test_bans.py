"""No short cuts past the types, the errors or the import graph."""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

RULES = {
    "future-annotations": "breaks Strawberry resolvers and SQLModel relations",
    "any": "say Json, object, a TypeVar or a Protocol",
    "getattr": "a literal name is an attribute access",
    "cast": "say in a comment why the type holds",
    "except": "only where user code or a whole task ends",
    "local-import": "hides a dependency until it fails",
}

# Where all that escapes is caught: each call into the user's code, and the end of a whole task.
CATCHERS = {
    ("app/engine.py", "turn"),
    ("app/postgres.py", "_commit"),
    ("app/postgres.py", "_run_in_savepoint"),
    ("app/runs.py", "_work"),
    ("app/socket.py", "go_on"),
    ("app/sqlite.py", "_commit"),
    ("app/sqlite.py", "_run_in_savepoint"),
    ("providers/loading.py", "_attempt"),
    ("providers/model.py", "_step"),
    ("schema/errors.py", "guarded"),
    ("schema/errors.py", "mapped"),
    ("schema/faults.py", "blaming"),
}

# Slow to import, or not there without their extra.
LAZY = {"alembic", "asyncpg", "joserfc", "redis", "tortoise"}
LAZY_FILES = {"providers/lite.py"}

BROAD = {"Exception", "BaseException"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Found:
    """A rule broken on a line."""

    line: int
    rule: str


def comments(text: str) -> set[int]:
    """Give the numbers of the lines that have a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def name_of(node: ast.AST) -> str:
    """Give the last part of a dotted name: `typing.cast` is a `cast`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def is_typing(function: ast.expr) -> bool:
    """True for `cast` and `typing.cast`, and not for SQL's, `sa.cast`."""
    match function:
        case ast.Attribute(value=ast.Name(id=module)):
            return module == "typing"
        case _:
            return True


def is_broad(node: ast.expr | None) -> bool:
    match node:
        case None:
            return True
        case ast.Tuple(elts=parts):
            return any(is_broad(part) for part in parts)
        case _:
            return name_of(node) in BROAD


@dataclass(frozen=True, slots=True)
class Checker:
    """Walks one file, knowing the function it is in."""

    path: str
    comments: set[int]

    def walk(self, node: ast.AST, function: str | None = None) -> Iterator[Found]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, FUNCTIONS) else function
            for rule in self.broken_by(child, inner):
                yield Found(child.lineno if isinstance(child, (ast.stmt, ast.expr)) else 0, rule)
            if isinstance(child, ast.ExceptHandler) and self.catches(child.type, inner):
                yield Found(child.lineno, "except")
            yield from self.walk(child, inner)

    def broken_by(self, node: ast.AST, function: str | None) -> Iterator[str]:
        match node:
            case ast.ImportFrom(module=module, names=names):
                imported = {alias.name for alias in names}
                if module == "__future__" and "annotations" in imported:
                    yield "future-annotations"
                if module in {"typing", "typing_extensions"} and "Any" in imported:
                    yield "any"
                if function and self.is_hidden(module or ""):
                    yield "local-import"
            case ast.Import(names=names):
                if function and any(self.is_hidden(alias.name) for alias in names):
                    yield "local-import"
            case ast.Attribute(value=ast.Name(id="typing" | "typing_extensions"), attr="Any"):
                yield "any"
            case ast.Call():
                yield from self.broken_by_call(node, function)
            case _:
                pass

    def broken_by_call(self, call: ast.Call, function: str | None) -> Iterator[str]:
        match name_of(call.func), call.args:
            case "getattr", [_, ast.Constant(), *_]:
                yield "getattr"
            case "cast", [_, _] if (
                is_typing(call.func) and not {call.lineno, call.lineno - 1} & self.comments
            ):
                yield "cast"
            case "suppress", classes if any(self.catches(item, function) for item in classes):
                yield "except"
            case "import_module" | "__import__", [ast.Constant(value=str(module)), *_] if (
                self.is_hidden(module)
            ):
                yield "local-import"
            case _:
                pass

    def catches(self, what: ast.expr | None, function: str | None) -> bool:
        return is_broad(what) and (self.path, function) not in CATCHERS

    def is_hidden(self, module: str) -> bool:
        return self.path not in LAZY_FILES and module.split(".")[0] not in LAZY


def judge(path: str, text: str) -> list[Found]:
    """Tell what is broken, by line."""
    said = comments(text) if "cast(" in text else set[int]()
    found = set(Checker(path, said).walk(ast.parse(text)))
    return sorted(found, key=lambda item: (item.line, item.rule))


def test_no_file_takes_a_short_cut(sources: dict[str, str]) -> None:
    broken = [
        f"{path}:{found.line} {found.rule}: {RULES[found.rule]}"
        for path, text in sources.items()
        for found in judge(path, text)
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("from __future__ import annotations", ["future-annotations"]),
        ("from typing import Any, cast", ["any"]),
        ("import typing\nx: typing.Any", ["any"]),
        ("getattr(x, 'y', None)", ["getattr"]),
        ("getattr(x, name)", []),
        ("cast('int', x)", ["cast"]),
        ("typing.cast('int', x)", ["cast"]),
        ("sa.cast(column, kind)", []),
        ("typing.cast('int', x)  # rows of this column are whole", []),
        ("# rows of this column are whole\ncast('int', x)", []),
        ("try: pass\nexcept Exception: pass", ["except"]),
        ("try: pass\nexcept: pass", ["except"]),
        ("try: pass\nexcept (OSError, BaseException): pass", ["except"]),
        ("try: pass\nexcept* Exception: pass", ["except"]),
        ("try: pass\nexcept OSError: pass", []),
        ("with contextlib.suppress(Exception): pass", ["except"]),
        ("def f():\n import json", ["local-import"]),
        ("def f():\n from app import main", ["local-import"]),
        ("async def f():\n if x:\n  import os.path as p", ["local-import"]),
        ("class C:\n import json", []),
        ("def f():\n from tortoise.context import X", []),
        ("import_module('app.main')", ["local-import"]),
        ("importlib.import_module(name)", []),
    ],
)
def test_each_short_cut_is_found(text: str, rules: list[str]) -> None:
    assert [found.rule for found in judge("app/x.py", text)] == rules


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("app/engine.py", "async def turn():\n try: pass\n except Exception: pass"),
        ("providers/lite.py", "def f():\n import litellm"),
    ],
)
def test_a_place_made_for_it_may(path: str, text: str) -> None:
    assert judge(path, text) == []
    assert judge("schema/x.py", text)
