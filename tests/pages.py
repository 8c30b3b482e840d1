"""The pages that people read, README.md and docs/*.md, by their code blocks.

Tests run what the pages show: each takes a block by `block`, and tests/house/test_blocks.py finds
the blocks that none takes.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", *sorted(f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md")))
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between two fences; the language is "" where none is named."""

    language: str
    text: str


def blocks(text: str) -> list[Block]:
    """Give the code blocks of a page's text, in their order."""
    return [Block(*found) for found in _FENCED.findall(text)]


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def block(page: str, language: str, containing: str) -> str:
    """Give the one block of a page that is in a language and contains a text."""
    found = [b.text for b in blocks(read(page)) if b.language == language and containing in b.text]
    assert len(found) == 1, f"{page} has {len(found)} blocks of {language} with {containing!r}"
    return found[0]


def write(folder: Path, text: str) -> str:
    """Write a block into the file that its first line names, and give that name."""
    name = text.split(maxsplit=2)[1]
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
    return name


def shell(text: str) -> tuple[str, ...]:
    """Give the command that runs a block of shell, with the programs of these tests."""
    return ("bash", "-ec", f'PATH="{Path(sys.executable).parent}:$PATH"\n{text}')


def server(text: str) -> tuple[str, ...]:
    """Give the command that runs a block whose last line serves, with arguments added to that."""
    *before, last = text.rstrip().splitlines()
    return (*shell("\n".join([*before, f'exec {last} "$@"'])), "bash")


def settings(text: str) -> dict[str, str]:
    """Read a block of lines `FRONTDESK_NAME=value`; names of others, such as keys, stay out."""
    found = re.findall(r"^FRONTDESK_(\w+)=(?:'(.*)'|(.*))$", text, re.MULTILINE)
    return {name.lower(): quoted or plain for name, quoted, plain in found}
