"""What a module exports is there and named once; ruff keeps the names in order."""

import ast
from importlib import import_module

import pytest

import providers
import schema

ROOMS = ("app/", "planned/", "providers/", "schema/")


def exported(text: str) -> list[str] | None:
    """Give the names of a module's ``__all__``; None if it has none."""
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return ast.literal_eval(value)
            case _:
                pass
    return None


def test_exported_names_are_there_and_named_once(sources: dict[str, str]) -> None:
    seen = 0
    for path, text in sources.items():
        if not path.startswith(ROOMS) or (names := exported(text)) is None:
            continue
        seen += 1
        module = import_module(path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
        missing = [name for name in names if name not in vars(module)]
        assert not missing, f"{path} exports {missing}"
        assert len(names) == len(set(names)), path
    assert seen


def test_what_a_project_imports_from_a_room_is_exported() -> None:
    """The names of the documented surface; one that goes breaks projects."""
    assert set(schema.__all__) == {
        "Actor",
        "Managers",
        "Page",
        "ToolContext",
        "ToolFailed",
        "ToolRetry",
    }
    assert set(providers.__all__) >= {"BaseLLMProvider", "LiteLLMProvider", "Unavailable"}


@pytest.mark.parametrize(
    ("text", "names"), [("x = 1", None), ('__all__ = ["a", "b"]', ["a", "b"]), ("", None)]
)
def test_exports_are_read_from_the_text(text: str, names: list[str] | None) -> None:
    assert exported(text) == names
