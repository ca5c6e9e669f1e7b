"""A page of the documents as what its reader does: files to write, commands with what they print, and deeds.

- A block whose first line begins with `$ ` has commands, each with all that it prints. `…` stands for anything in a
  line, and alone in a line for any lines. A command goes on in the next line after `\\`.
- A block with a `title="NAME"` is a file. Further blocks of this title are added to it.
- `<!-- reader: DEED -->` is done by the test: what people do in a browser.

Other blocks are examples, and only looked at: no program is one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PART = re.compile(
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$|^<!-- reader: (?P<deed>[\w-]+) -->$',
    re.DOTALL | re.MULTILINE,
)
PROGRAMS = ("sh", "bash", "console", "python", "ts", "js")


@dataclass(frozen=True)
class Text:
    """A piece of a file."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A line for the shell, and the lines that the page shows below it."""

    line: str
    shown: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether the page shows a refusal."""
        return any(line.startswith("error:") for line in self.shown)

    def prints(self, said: str) -> bool:
        """Return whether what a command said is what the page shows."""
        pattern = "".join(
            r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".+") + r"\n" for line in self.shown
        )
        return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in said.splitlines())) is not None


@dataclass(frozen=True)
class Deed:
    """What the test does in the reader's place."""

    name: str


def steps_of(page: str) -> Iterator[Text | Command | Deed]:
    """Yield what the reader does, in order."""
    for part in _PART.finditer(page):
        if part["deed"]:
            yield Deed(part["deed"])
        elif part["title"]:
            yield Text(part["title"], part["body"])
        elif part["body"].startswith("$ "):
            yield from _commands(part["body"])
        else:
            assert part["language"] not in PROGRAMS, part["body"]


def _commands(block: str) -> Iterator[Command]:
    for whole in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, shown = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", whole, re.DOTALL).groups()  # type: ignore[union-attr]
        yield Command(line, tuple(one.rstrip() for one in shown.splitlines()))
