"""The program: ``leaveout``, or ``python -m leaveout``."""

from __future__ import annotations

import signal
import sys
from types import FrameType

__all__ = ["main"]

_INTERRUPTED = 130


def _terminate(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; an interrupt at any moment ends it in one line."""
    try:
        # A polite request to end is answered as Ctrl-C is: with the best bounds so far.
        signal.signal(signal.SIGTERM, _terminate)
        from leaveout.verifier.cli import run

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("leaveout: interrupted\n")
        code = _INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
