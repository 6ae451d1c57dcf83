"""The process that talks to Ray.

A process that is connected to a cluster is ended by Ray's own code when the head is lost, with
stack traces on its standard error, and may wait for ever before. So it is not the user's: it tells
its parent every few seconds that the cluster answers, and dies alone.
"""

from __future__ import annotations

import os
import platform
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leaveout.frames import follow, own_channel, read_frame, write_frame

_BEAT = 2.0
"""Seconds between two signs of life."""

_STARTING = "300"
"""Seconds that Ray's processes may take to start on a busy machine."""

Say = Callable[[object], None]
"""Sends the parent a message; any thread may."""


@dataclass(frozen=True)
class Connect:
    """Connect to a cluster, or start one."""

    address: str  # empty: start one here
    cpus: int  # of a cluster of one's own: cores, bytes of its object store
    store: int  # of a cluster of one's own: cores, bytes of its object store
    variables: dict[str, str]


@dataclass(frozen=True)
class Alive:
    """The cluster answers, with its current resources."""

    cpus: int
    gpus: int


@dataclass(frozen=True)
class Connected(Alive):
    """The first sign of life."""


@dataclass(frozen=True)
class Broken:
    """It cannot continue, for a one-line reason."""

    why: str


@dataclass(frozen=True)
class Over:
    """A role is over; another may follow."""


@dataclass(frozen=True)
class Close:
    """Disconnect from the cluster; not sent before a role is over."""


class Role(ABC):
    """The work of the process once connected, until given another role."""

    @abstractmethod
    def serve(self, ray: Any, inbox: queue.SimpleQueue[object], say: Say) -> None:
        """Serve the parent until it sends `Over`."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def this_machine(ray: Any) -> str:
    """Return the name of a Ray worker's machine for messages."""
    return f"{platform.node()} ({ray.util.get_node_ip_address()})"


def main() -> None:
    """Serve the parent over the standard descriptors, hidden from libraries."""
    os.environ.setdefault("RAY_raylet_start_wait_time_s", _STARTING)
    requests, replies = own_channel()
    one_write = threading.Lock()

    def say(message: object) -> None:
        with one_write:
            write_frame(replies, message)

    connect = read_frame(requests, Connect)
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
    # It ends with its parent, and so does a cluster that it started.
    follow(requests, object, inbox.put)
    try:
        import ray

        _connect(ray, connect)
        say(Connected(*_resources(ray)))
        threading.Thread(target=_beat, args=(ray, say), daemon=True).start()
        while not isinstance(message := inbox.get(), Close):
            if isinstance(message, Role):
                message.serve(ray, inbox, say)
        ray.shutdown()
    except Exception as error:
        say(Broken(f"{type(error).__name__}: {first_line(error)}"))


def _connect(ray: Any, connect: Connect) -> None:
    settings: dict[str, Any] = {
        "address": connect.address,
        "runtime_env": {"env_vars": connect.variables},
    }
    if not connect.address:
        # Workers with an environment of their own take twice as long to start.
        settings = {
            "address": "local",
            "num_cpus": connect.cpus,
            "object_store_memory": connect.store,
            "include_dashboard": False,
        }
    ray.init(
        **settings,
        log_to_driver=False,
        configure_logging=False,
    )


def _resources(ray: Any) -> tuple[int, int]:
    found = ray.cluster_resources()
    return int(found.get("CPU", 0)), int(found.get("GPU", 0))


def _beat(ray: Any, say: Say) -> None:
    """Poll the head; fall silent when it does not answer."""
    while True:
        try:
            say(Alive(*_resources(ray)))
        except Exception:
            # It is being shut down, or gone: silence says it.
            return
        time.sleep(_BEAT)


if __name__ == "__main__":
    # Under its importable name, so that messages have the classes the parent knows.
    from leaveout import ray_driver

    ray_driver.main()
