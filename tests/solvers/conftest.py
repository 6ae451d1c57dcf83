"""Back ends that misbehave on purpose, installed as a plug-in would be."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leaveout.solvers import registry

Install = Callable[..., Path]


@pytest.fixture
def fresh_registry() -> Iterator[None]:
    """Forget what an earlier test installed, before and after."""
    for cached in (registry._plugins, registry._plugin_class):
        cached.cache_clear()
    yield
    for cached in (registry._plugins, registry._plugin_class):
        cached.cache_clear()


@pytest.fixture
def install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_registry: None
) -> Iterator[Install]:
    """Install a distribution that provides solvers: its name, its module's text, its points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules: list[str] = []

    def make(distribution: str, source: str, **points: str) -> Path:
        module = distribution.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {module}:{target}" for name, target in points.items()]
        (metadata / "entry_points.txt").write_text("\n".join(["[leaveout.solvers]", *lines, ""]))
        for cached in (registry._plugins, registry._plugin_class):
            cached.cache_clear()
        return tmp_path

    yield make
    for module in modules:
        sys.modules.pop(module, None)


FAULTY = """
    import os, signal, time
    from leaveout.errors import SolverError
    from leaveout.solvers import Feature, Licence, Outcome, Solver, Status

    class Faulty(Solver):
        package, distribution = "json", "faulty"
        features, terms = frozenset({Feature.TIME_LIMIT}), Licence("none")
        name = "faulty"

        def solve(self, problem, settings=None):
            return self.act(problem) or Outcome(Status.OPTIMAL, None, 0.0)

    class Crash(Faulty):
        name = "crash"
        def act(self, problem):
            if problem.offset:
                os.write(2, b"the vendor's last words\\n")
                os._exit(7)

    class Sleep(Faulty):
        name = "sleep"
        def act(self, problem):
            time.sleep(3600)

    class Limit(Faulty):
        name = "limit"
        def solve(self, problem, settings=None):
            return Outcome(Status.OPTIMAL, None, 0.0, message=str(settings.time_limit))

    class Spawn(Faulty):
        name = "spawn"
        def act(self, problem):
            import subprocess
            child = subprocess.Popen(["sleep", "3600"])
            with open(os.environ["LEAVEOUT_TEST_PIDS"], "w") as file:
                file.write(f"{os.getpid()} {child.pid}")
            child.wait()

    class Refuse(Faulty):
        name = "refuse"
        def act(self, problem):
            raise SolverError("no licence for this: buy one")

    class Bug(Faulty):
        name = "bug"
        def act(self, problem):
            raise ZeroDivisionError("oops")

    class Noise(Faulty):
        name = "noise"
        def act(self, problem):
            os.write(1, b"vendor banner\\n" * 1000)
            print("vendor log", flush=True)

    class Interrupted(Faulty):
        name = "interrupted"
        def act(self, problem):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
"""


@pytest.fixture
def faulty(install: Install) -> Path:
    """Install one solver for each way to misbehave."""
    return install(
        "faulty",
        FAULTY,
        crash="Crash",
        sleep="Sleep",
        limit="Limit",
        spawn="Spawn",
        refuse="Refuse",
        bug="Bug",
        noise="Noise",
        interrupted="Interrupted",
    )
