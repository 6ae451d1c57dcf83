"""Run a script in a process that may allocate only so much."""

from __future__ import annotations

import sys

from support import children

_LIMIT = """
import resource, sys

{imports}
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) for line in status if line.startswith("VmData:")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (used + int(sys.argv[1]),) * 2)
{script}
"""


def run_limited(imports: str, script: str, room: int, *arguments: str) -> str:
    """Run ``script`` after ``imports``, with ``room`` bytes beyond what the imports hold.

    What is mapped read-only does not count. ``sys.argv[2:]`` are the ``arguments``; returns what
    the script printed.
    """
    code = _LIMIT.format(imports=imports, script=script)
    done = children.run([sys.executable, "-c", code, str(room), *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout
