"""A module or a function that grows past its limit is two things: split it by concern."""

import ast
from collections.abc import Iterator

import pytest

MODULE_LINES = 600
FUNCTION_LINES = 60
PARAMETERS = 7
NESTING = 4

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
BLOCKS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count what a caller may give; `self` and `cls` are not given."""
    spec = function.args
    named = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    own = named[:1] in (["self"], ["cls"])
    return len(named) - own + len(spec.kwonlyargs) + sum(map(bool, (spec.vararg, spec.kwarg)))


def nesting(node: ast.AST) -> int:
    """Measure the deepest stack of blocks below a node, inner functions not counted in.

    An `elif` continues its `if`.
    """
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPES):
            continue
        continues = (
            isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        )
        opens = isinstance(child, BLOCKS) and not continues
        deepest = max(deepest, opens + nesting(child))
    return deepest


def oversized(path: str, text: str) -> Iterator[str]:
    lines = len(text.splitlines())
    if lines > MODULE_LINES:
        yield f"{path}: {lines} lines"
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, FUNCTIONS):
            continue
        measures = {
            "lines": ((node.end_lineno or node.lineno) - node.lineno + 1, FUNCTION_LINES),
            "parameters": (parameters(node), PARAMETERS),
            "levels of nesting": (nesting(node), NESTING),
        }
        for what, (measured, limit) in measures.items():
            if measured > limit:
                yield f"{path}:{node.lineno} {node.name}: {measured} {what}"


def test_modules_and_functions_stay_within_their_limits(sources: dict[str, str]) -> None:
    found = [line for path, text in sources.items() for line in oversized(path, text)]
    assert not found, "\n".join(found)


def _nested(levels: int) -> str:
    steps = ["for a in b:", "if a:", "with a:", "try:", "while a:"][:levels]
    body = [" " * (depth + 1) + step for depth, step in enumerate(steps)]
    ends = [" " * 4 + "finally: pass"] if levels > 3 else []
    return "\n".join(["def f(b):", *body, " " * (levels + 1) + "pass", *ends])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n" * 600, []),
        ("x = 1\n" * 601, ["m.py: 601 lines"]),
        ("def f():\n" + "    x = 1\n" * 59, []),
        ("async def f():\n" + "    x = 1\n" * 60, ["m.py:1 f: 61 lines"]),
        ("class C:\n    def f(self, a, b, c, d, e, *f, g): ...", []),
        ("def f(a, b, c, d, /, e, *f, g, **h): ...", ["m.py:1 f: 8 parameters"]),
        (_nested(4), []),
        (_nested(5), ["m.py:1 f: 5 levels of nesting"]),
        ("def f(x):\n if x: pass\n" + " elif x: pass\n" * 9, []),
        ("def f(x):\n if x:\n  def g():\n   if x:\n    if x:\n     if x:\n      if x: pass", []),
    ],
)
def test_what_is_too_big_is_found(text: str, found: list[str]) -> None:
    assert list(oversized("m.py", text)) == found
