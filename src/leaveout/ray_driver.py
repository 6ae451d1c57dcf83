"""The process that talks to Ray.

When the head is lost, Ray kills any connected process with stack traces on standard error, perhaps
after an endless wait. So the connection is in a process other than the user's; it reports to its
parent every few seconds that the cluster answers.
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

_BEAT = 2.0  # seconds between two signs of life
_STARTING = "300"  # seconds allowed for starting Ray's processes on a busy machine

Say = Callable[[object], None]
"""Sends a message to the parent; safe to call from any thread."""


@dataclass(frozen=True)
class Connect:
    """Connect to a cluster, or start one."""

    address: str  # empty to start one here
    cpus: int  # cores of a cluster started here
    store: int  # bytes of its object store
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
    """The process cannot continue, for the given reason."""

    why: str


@dataclass(frozen=True)
class Over:
    """Ends a role; another may follow."""


@dataclass(frozen=True)
class Close:
    """Disconnects from the cluster; sent only when no role runs."""


class Role(ABC):
    """A task of the connected process, until it is given another."""

    @abstractmethod
    def serve(self, ray: Any, inbox: queue.SimpleQueue[object], say: Say) -> None:
        """Serve the parent until it sends `Over`."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its name."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def this_machine(ray: Any) -> str:
    """Return the name of this machine, in messages about a Ray worker."""
    return f"{platform.node()} ({ray.util.get_node_ip_address()})"


def main() -> None:
    """Serve the parent over the standard descriptors, which libraries cannot use then."""
    os.environ.setdefault("RAY_raylet_start_wait_time_s", _STARTING)
    requests, replies = own_channel()
    one_write = threading.Lock()

    def say(message: object) -> None:
        with one_write:
            write_frame(replies, message)

    connect = read_frame(requests, Connect)
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
    # This process ends with its parent, and so does a cluster that it started.
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
        # Workers with a runtime environment take twice as long to start.
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
            # It is shutting down or gone; silence tells the parent.
            return
        time.sleep(_BEAT)


if __name__ == "__main__":
    # Under its importable name, so that messages have the classes the parent knows.
    from leaveout import ray_driver

    ray_driver.main()
