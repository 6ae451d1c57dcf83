"""Serve a guard over HTTP from one process, until it is told to end."""

from __future__ import annotations

import ipaddress
import logging.config
import os
import signal
import socket
from types import FrameType
from typing import Any

import uvicorn

from leaveout.errors import GuardError
from leaveout.verifier.guard.guard import Guard
from leaveout.verifier.guard.server_about import start_line
from leaveout.verifier.guard.server_app import MOST_BYTES, MOST_ROWS, application
from leaveout.verifier.guard.server_protocol import StrictProtocol

__all__ = ["application", "serve"]

_EXPOSED = (
    "--host %s: whoever reaches this machine may ask, in plain HTTP and without a password; put a "
    "proxy that asks for one in front, or listen on 127.0.0.1"
)


def serve(
    guard: Guard,
    host: str = "127.0.0.1",
    port: int = 8000,
    pad: float = 0.05,
    *,
    most_rows: int = MOST_ROWS,
    most_bytes: int = MOST_BYTES,
) -> None:
    """Answer over HTTP until Ctrl-C or SIGTERM; requests under way are answered first.

    What it does is told on standard error: a line at the start, then one a request, with neither
    what was asked nor what was answered.

    Parameters
    ----------
    guard : Guard
        Closed by the caller.
    host, port
        Where to listen; port 0 takes a free one, which the first line tells.
    pad, most_rows, most_bytes
        See `application`.

    Raises
    ------
    GuardError
        If the address is in use, or the pad or the memory cannot be used.
    """
    with _listening(host, port) as listening:
        app = application(guard, pad=pad, most_rows=most_rows, most_bytes=most_bytes)
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=StrictProtocol,
            ws="none",
            lifespan="on",
            server_header=False,
            proxy_headers=False,
            log_config=_LOGGING,
        )
        if not _is_loopback(listening):
            logging.getLogger("leaveout.guard").warning(
                _EXPOSED, host or listening.getsockname()[0]
            )
        address = _address(host, listening)
        line = start_line(guard, address, app.state.pace, most_rows)
        _Server(config, line).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Tells when it answers, and ends where others would die of the signal once more."""

    def __init__(self, config: uvicorn.Config, line: str) -> None:
        super().__init__(config)
        self._line = line

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            logging.getLogger("leaveout.guard").info(self._line)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves the threads of the application to themselves
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End once all requests under way are answered; on a second Ctrl-C, at once."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Where the protocol is not named, asyncio leaves Nagle's algorithm on: 40 ms an answer.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        raise GuardError(
            f"{host}:{port}: cannot be listened on: {_reason(error)}; choose another --host or "
            "--port"
        ) from None
    return listening


def _is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can reach it; of a host by name, whatever it stands for."""
    address = ipaddress.ip_address(listening.getsockname()[0].partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _address(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}"


_LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "leaveout: %(message)s"},
        "access": {
            "()": "uvicorn.logging.AccessFormatter",
            "fmt": '%(asctime)s %(client_addr)s "%(request_line)s" %(status_code)s',
            "use_colors": False,
        },
    },
    "handlers": {
        "plain": {"class": "logging.StreamHandler", "formatter": "plain"},
        "access": {"class": "logging.StreamHandler", "formatter": "access"},
    },
    "loggers": {
        "leaveout.guard": {"handlers": ["plain"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["plain"], "level": "WARNING", "propagate": False},
        "uvicorn.access": {"handlers": ["access"], "level": "INFO", "propagate": False},
    },
}
