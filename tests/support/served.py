"""A guard over HTTP, in a thread or as the command line serves it, and someone who asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.server import StrictProtocol
from leaveout.verifier.guard.server_app import application, process_application
from leaveout.verifier.guard.server_gate import counter_count
from leaveout.verifier.guard.server_processes import Shared
from leaveout.verifier.guard.server_settings import ServeSettings

from support import children

JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Reply:
    """What came back, and how long that took."""

    status: int
    body: bytes
    headers: dict[str, str]
    seconds: float

    @property
    def said(self) -> Any:
        return json.loads(self.body)


class Asker:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=children.HANGS)
        self._connection.connect()
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(
        self, body: Any, path: str = "/label", method: str = "POST", headers: dict = JSON
    ) -> Reply:
        start = time.perf_counter()
        self.send(body, path, method, headers)
        return self.reply(start)

    def send(
        self, body: Any, path: str = "/label", method: str = "POST", headers: dict = JSON
    ) -> None:
        """Ask without waiting for the reply."""
        given = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._connection.request(method, path, given, headers)

    def reply(self, start: float = 0.0) -> Reply:
        """Wait for the reply to what was sent; ``start`` is when that was."""
        response = self._connection.getresponse()
        content = response.read()
        seconds = time.perf_counter() - start
        named = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, content, named, seconds)

    def get(self, path: str) -> Reply:
        return self.ask(None, path, "GET", {})

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def in_thread(
    guard: Guard, pad: float = 0.0, settings: ServeSettings | None = None, **limits: int
) -> Iterator[int]:
    """Serve in a thread; yield the port. With settings, unpadded, as they say."""
    if settings is None:
        app = application(guard, pad=pad, **limits)
    else:
        app = process_application(guard, settings, None, Shared(1, counter_count()))
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http=StrictProtocol,
            log_config=None,
            access_log=False,
            timeout_keep_alive=int(children.HANGS),
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


class Process:
    """``leaveout guard --serve``, and what it writes; its log is read so that it never waits."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "leaveout", "guard", str(folder), "--epsilon", "0.5"]
        self.process = children.start(
            [*command, "--serve", "--port", "0", *options], stderr=subprocess.PIPE
        )
        assert self.process.stderr is not None
        self._log: list[str] = []
        self.line = ""
        for line in self.process.stderr:
            if " answers for " in line:
                self.line = line
                break
            self._log.append(line)
        self._reader = threading.Thread(target=self._log.extend, args=[self.process.stderr])
        self._reader.start()

    @property
    def port(self) -> int:
        found = re.search(r"http://127\.0\.0\.1:(\d+) ", self.line)
        assert found, self.line + self.log()
        return int(found.group(1))

    def under_way(self) -> None:
        """Wait until whatever was sent before is under way: what is sent later is answered."""
        asker = Asker(self.port)
        assert asker.get("/health").status == 200
        asker.close()

    def told(self) -> None:
        """Wait until it was told to end: it takes no connections any more."""

        def refused() -> bool:
            try:
                Asker(self.port).close()
            except ConnectionError:
                return True
            return False

        children.wait_until(refused, "a server that takes no more connections", self.process)

    def log(self) -> str:
        """Wait until it has ended, and return the rest of what it wrote."""
        self.process.wait(children.HANGS)
        self._reader.join()
        return "".join(self._log)


@contextlib.contextmanager
def process(folder: Path, *options: str) -> Iterator[Process]:
    """Run ``leaveout guard --serve``, and end it."""
    started = Process(folder, *options)
    try:
        yield started
    finally:
        started.process.kill()
        started.log()
