"""A reader who follows a page to the letter, in an empty folder."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from typer.testing import CliRunner

from app.cli.command import application
from tests.tutorials.pages import Command, Deed, Text, steps_of

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:8000"
NODE = ("npm", "npx", "node")
_PLAIN = re.compile(r"stable-arena (?:[^|&;<>$]|\$\w)*")
_SECONDS = 300


class Reader:
    """Follows a page. What starts with npm, npx or node is passed over, unless `node` asks for it.

    Every command is a process. `in_process`: those of the project run in this one, and a service runs at the port.
    """

    def __init__(self, folder: Path, port: int, *, in_process: bool = False, node: bool = False) -> None:
        self.folder, self.address = folder / "empty", f"127.0.0.1:{port}"
        self.commands = 0
        self._state, self._in_process, self._node = folder / "variables", in_process, node
        self._service: subprocess.Popen[str] | None = None
        self.folder.mkdir()
        self._state.touch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._service is not None:
            self._service.terminate()
            self._service.communicate(timeout=_SECONDS)

    def follow(self, page: str, deeds: Mapping[str, Callable[[Self], None]] | None = None) -> None:
        """Do what the page says, and check what every command prints."""
        for step in steps_of(page.replace(ADDRESS, self.address)):
            match step:
                case Text(name, text):
                    with (self.folder / name).open("a", encoding="utf-8") as file:
                        file.write(text)
                case Deed(name):
                    (deeds or {})[name](self)
                case Command(line) if line.split()[0] not in NODE or self._node:
                    self._check(step)

    def _check(self, command: Command) -> None:
        self.commands += 1
        if re.match(r"stable-arena serve\b", command.line):
            assert command.prints(self._serve(command.line)), command
            return
        said, code = self.run(command.line)
        assert command.prints(said), f"$ {command.line}\n{said}"
        assert (code != 0) == command.fails, f"$ {command.line}\nexit {code}\n{said}"

    def run(self, line: str) -> tuple[str, int]:
        """Run a line of the shell; return what it printed, and its exit code."""
        if self._in_process and _PLAIN.fullmatch(line):
            words, _ = self._shell(f"printf '%s\\0' {line}")
            done = CliRunner().invoke(application, words.split("\0")[1:-1])
            return done.output, done.exit_code
        return self._shell(line)

    def _shell(self, line: str) -> tuple[str, int]:
        keeping = f"set -a; . {self._state}; {line}\ncode=$?; export -p >{self._state}; exit $code"
        ran = subprocess.run(
            ["bash", "-c", keeping], cwd=self.folder, env=self._environment(), check=False, timeout=_SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        return ran.stdout, ran.returncode

    def _serve(self, line: str) -> str:
        """Start the service, or take the one that runs; return what it says once it answers."""
        if self._in_process:
            return f"http://{self.address}"
        self._service = subprocess.Popen(
            ["bash", "-c", f"exec {line}"], cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE, text=True
        )
        assert self._service.stdout is not None
        return self._service.stdout.readline()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CLONE": str(ROOT),
            **self._packages(),
            "STABLE_ARENA_SERVER__PORT": self.address.rpartition(":")[2],
        }

    def _packages(self) -> dict[str, str]:
        """Have pip install into a folder of the test, with what the project has already."""
        folder = str(self.folder.with_name("packages"))
        given = {"TARGET": folder, "NO_INDEX": "1", "NO_DEPS": "1", "NO_BUILD_ISOLATION": "0"}
        return {"PYTHONPATH": folder} | {f"PIP_{name}": value for name, value in given.items()}
