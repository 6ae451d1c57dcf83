"""Run a page as its reader would: save what it says to save, type what it says to type."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from docs.pages import Block

from support import children

PORT = "8000"

_SAVED = re.compile(r"[Ss]ave this as `([^`]+)`")
_COMPILING = "leaveout: compiling, once"
_TIMED = re.compile(r"\bseconds$")


@dataclass
class Reader:
    """Somebody who follows a page in a folder.

    Attributes
    ----------
    folder : Path
    skipped : container of str
        Commands that are not typed.
    """

    folder: Path
    skipped: dict[str, str]
    port: str = field(default_factory=lambda: str(free_port()))
    servers: list[subprocess.Popen] = field(default_factory=list)

    def follow(self, block: Block) -> str | None:
        """Do what a block says; return what is wrong with what came out."""
        if block.kind in {"python", "spec"}:
            saved = _SAVED.search(block.before)
            if saved:
                (self.folder / saved[1]).write_text(block.text)
            return None
        if block.kind != "console":
            return None
        for command, expected in steps(block.text):
            wrong = None if command in self.skipped else self._typed(command, expected)
            if wrong:
                return f"{block}: $ {command}\n{wrong}"
        return None

    def _typed(self, command: str, expected: str) -> str | None:
        command, expected = command.replace(PORT, self.port), expected.replace(PORT, self.port)
        if "--serve" in command:
            return self._served(command, expected)
        done = children.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment(),
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            return f"exit status {done.returncode}\n{done.stdout}"
        return different(expected, done.stdout) if expected else None

    def _served(self, command: str, expected: str) -> str | None:
        """Start a server on a free port, and wait until it has said what the page shows."""
        command = f"{command} --port {self.port}"
        log = self.folder / "server.log"
        with log.open("w") as stream:
            self.servers.append(
                children.start(
                    ["bash", "-c", f"exec {command}"],
                    cwd=self.folder,
                    env=environment(),
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                )
            )
        children.wait_until(
            lambda: (
                different(expected, log.read_text()) is None or self.servers[-1].poll() is not None
            ),
            f"what the page shows of $ {command}",
        )
        return different(expected, log.read_text())

    def leave(self) -> None:
        """End the servers that were started."""
        for server in self.servers:
            children.end(server)


@contextmanager
def reading(folder: Path, skipped: dict[str, str]) -> Iterator[Reader]:
    reader = Reader(folder, skipped)
    try:
        yield reader
    finally:
        reader.leave()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """Return the environment of the command line: the programs beside this Python first."""
    programs = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with the output that is shown below it."""
    joined = re.sub(r"\\\n\s*", "", text)
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command.strip(), output


def different(expected: str, found: str) -> str | None:
    """Return how two outputs differ: words and whole numbers exactly, decimals by a hundredth.

    Line breaks do not matter, nor what comes in the place of three dots at the end. Not compared
    are times, and the place where a leak was found: there may be others as good.
    """
    # Nor whether anything had to be compiled before.
    found = "".join(line for line in found.splitlines(True) if not line.startswith(_COMPILING))
    wanted, got = _words(expected), _words(found)
    if wanted[-1:] == ["..."]:
        wanted.pop()
        got = got[: len(wanted)]
    for index, (one, other) in enumerate(zip(wanted, got, strict=False)):
        if not _alike(one, other):
            return f"word {index}: {one} on the page, {other} came out\n{found}"
    if len(wanted) != len(got):
        return f"{len(wanted)} words on the page, {len(got)} came out\n{found}"
    return None


def _words(text: str) -> list[str]:
    lines, timed = [], False
    for line in text.splitlines():
        if _TIMED.search(line):
            timed = True
        elif not line.strip():
            timed = False
        elif timed:
            line = line.rsplit(maxsplit=1)[0]
        lines.append(re.sub(r"^(seconds +)[\d.]+$", r"\1", line))
    joined = " ".join(" ".join(lines).split())
    joined = re.sub(r"where x is \([^)]*\)", "where x is ()", joined)
    return joined.split()


def _alike(one: str, other: str) -> bool:
    pattern = r"-?\d+\.\d+(?:e-?\d+)?"
    if re.sub(pattern, "#", one) != re.sub(pattern, "#", other):
        return False
    pairs = zip(re.findall(pattern, one), re.findall(pattern, other), strict=True)
    return all(abs(float(a) - float(b)) <= 0.01 * max(abs(float(a)), 1e-9) for a, b in pairs)
