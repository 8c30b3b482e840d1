"""The code that settings name as "pkg.mod:attribute" or "pkg.mod.attribute", imported.

Source: design.md 6.
"""

import difflib
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from schema import Managers
from schema.errors import ConfigurationError
from schema.faults import blaming

_FIX = 'Give it as "module:attribute", importable from the working directory.'


def load_object(name: str, path: str, *, id: str = "E002", fix: str = _FIX) -> object:
    """Import what the setting ``name`` names as "pkg.mod:attribute" or "pkg.mod.attribute".

    Raises: ConfigurationError with the reason, whatever the module itself raises included, and with
    the line that raised it; one that it raises itself goes on as it is.
    """
    module, colon, attribute = path.partition(":")
    if not colon:
        module, _, attribute = path.rpartition(".")
    if not module or not attribute:
        problem = f"FRONTDESK_{name.upper()}={path} names no module with an attribute."
        raise ConfigurationError(id, problem, fix)
    problem = f"FRONTDESK_{name.upper()}={path} can't be imported"
    with blaming(id, problem, fix, module=module):
        found: object = import_module(module)
        for part in attribute.split("."):
            found = _attribute(found, part)
        return found


def load_callable(name: str, value: object) -> Callable[..., object] | None:
    """Return what the setting ``name`` has called: ``value``, or what is found at that path.

    Raises: ConfigurationError E002 with the reason.
    """
    if value is None:
        return None
    found = load_object(name, value) if isinstance(value, str) else value
    if not callable(found):
        shown = value if isinstance(value, str) else type(value).__name__
        raise ConfigurationError(
            "E002", f"FRONTDESK_{name.upper()}={shown} can't be called.", "Name a function."
        )
    return found


def load_managers(path: str | None) -> Managers:
    """Import the managers named by the setting ``managers``.

    Raises: ConfigurationError E002 with the reason.
    """
    if path is None:
        raise ConfigurationError(
            "E002",
            "FRONTDESK_MANAGERS is not set.",
            'Set it to your managers, e.g. "shop.chat:managers", or try `frontdesk demo` or '
            "`frontdesk chat --demo toy`.",
        )
    try:
        found = load_object("managers", path)
    except ConfigurationError:
        _refuse_module(path)
        raise
    if not isinstance(found, Managers):
        _refuse_module(path)
        raise ConfigurationError(
            "E002", f"FRONTDESK_MANAGERS={path} is no Managers.", "Name a `schema.Managers`."
        )
    return found


def _attribute(holder: object, name: str) -> object:
    try:
        return getattr(holder, name)
    except AttributeError as error:
        public = [known for known in dir(holder) if not known.startswith("_")]
        closest = difflib.get_close_matches(name, public, n=1)
        if not closest:
            raise
        raise AttributeError(f"{error}, the closest one is {closest[0]}") from error


def _refuse_module(path: str) -> None:
    """Say of a path that names a module, and nothing in it, what is missing.

    Raises: ConfigurationError E002 if it is such a path, also when the module can't be imported.
    """
    package = path.rpartition(".")[0]
    is_dotted = all(part.isidentifier() for part in path.split("."))
    if not is_dotted or (package and package not in sys.modules):
        return
    try:
        is_module = find_spec(path) is not None
    except (ImportError, ValueError):  # what it is in is no package, or has not been imported
        is_module = False
    if not is_module:
        return
    problem = f"FRONTDESK_MANAGERS={path} names a module, and not the managers in it"
    fix = f"Make some there, as managers = Managers(), and name them: {path}:managers."
    with blaming("E002", problem, fix, module=path):
        found = vars(import_module(path)).items()
    names = [f"{path}:{name}" for name, value in found if isinstance(value, Managers)]
    if names:
        fix = f"Name them: {' or '.join(names)}."
    raise ConfigurationError("E002", f"{problem}.", fix)
