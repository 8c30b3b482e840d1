"""What a project's own code raises while it is set up, told with the line that raised it."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from types import FrameType

from schema.errors import ConfigurationError

_ROOMS = frozenset({"app", "planned", "providers", "schema"})
_INSTALLED = frozenset({"site-packages", "dist-packages"})


@contextmanager
def blaming(id: str, problem: str, fix: str, *, module: str = "") -> Generator[None]:
    """Run code of a project, such as ``module``: what it raises becomes a ConfigurationError.

    Shape: ``problem (NameError: name 'Part' is not defined, in shop/chat.py line 12). fix``. Where
    a line is named, the fix is to correct it. A ConfigurationError goes on as it is.
    """
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:
        line = project_line(error, module)
        told = f"{problem} ({_said(error)}{line})."
        raise ConfigurationError(id, told, "Correct the code there." if line else fix) from error


def project_line(error: BaseException, module: str = "") -> str:
    """Name the line of a project that raised an error, as ", in shop/chat.py line 12"; else "".

    The project is what is not installed, and the package of ``module``.
    """
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return _line(error.filename, error.lineno or 1)
    package = module.partition(".")[0]
    frames = [(f, line) for f, line in walk_tb(error.__traceback__) if _is_projects(f, package)]
    return _line(frames[-1][0].f_code.co_filename, frames[-1][1]) if frames else ""


def _said(error: Exception) -> str:
    """Name an exception with its first line; further ones may quote what it was given."""
    text = (error.msg if isinstance(error, SyntaxError) else str(error)).strip()
    name = type(error).__name__
    return f"{name}: {text.splitlines()[0].rstrip('.')}" if text else name


def _is_projects(frame: FrameType, package: str) -> bool:
    file = frame.f_code.co_filename
    own = str(frame.f_globals.get("__name__")).partition(".")[0]
    if file.startswith("<") or own in _ROOMS:
        return False
    is_others = own in sys.stdlib_module_names or not _INSTALLED.isdisjoint(Path(file).parts)
    return own == package or not is_others


def _line(file: str, line: int) -> str:
    path, here = Path(file), Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f", in {shown} line {line}"
