"""A Ray cluster for tests: several nodes on this machine, in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import children

# Ports are given, so that a node waits for nobody to find one. One line in, one line out.
PROGRAM = """
import os, socket, sys
from ray.cluster_utils import Cluster

def settings(cpus):
    return dict(num_cpus=cpus, object_store_memory=100 * 2**20, include_dashboard=False,
                include_log_monitor=False, metrics_agent_port=port(), runtime_env_agent_port=port())

def port():
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]

cluster = Cluster(initialize_head=True, head_node_args=settings(int(sys.argv[1])))
print(cluster.address, flush=True)
nodes = []
for line in sys.stdin:
    word, *variables = line.split()
    if word == "add":
        nodes.append(cluster.add_node(
            env_vars=dict(each.split("=") for each in variables), **settings(1)))
    elif word == "remove":
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    print(" ".join(
        str(each.process.pid)
        for node in ([cluster.head_node] if word == "head" else nodes)
        for name in ("raylet", "gcs_server")
        for each in node.all_processes.get(name, [])), flush=True)
"""

# Says so once a block is finished.
TRAINING = """
import sys
from leaveout.errors import LeaveoutError
from leaveout.models.train import Recipe, run
from leaveout.models.train.report import progress_bar
data, out, epochs = sys.argv[1:]
held = []
def hold(progress):
    if progress.note:
        print(progress.note, file=sys.stderr, flush=True)
    if progress.finished and not held:
        held.append(progress)
        print("there", flush=True)
try:
    run(data, out, recipe=Recipe(layers=(20, 20), epochs=int(epochs), batch=4), block=4,
        workers=2, executor="ray", device="cpu", on_progress=hold)
except LeaveoutError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""

# Says so once something is bounded, and at the end what came of it.
SEARCH = """
import sys
import numpy as np
from leaveout.bab import make_instance
from leaveout.bab.native.leaks import search
from leaveout.bab.native.options import NativeOptions
from leaveout.encoders import Box
from leaveout.models.onnx.file import network_from
sys.path.insert(0, sys.argv[1])
from support import networks
from support.cases import family_of
rng = np.random.default_rng(5)
network = network_from(networks.dense(rng, (8, 40, 40, 2), 0.8), "random")
instance = make_instance(network, family_of(rng, network, 60, 0.05), Box(np.zeros(8), np.ones(8)))
held = []
def tell(progress):
    if progress.solved and not held:
        held.append(progress)
        print("there", flush=True)
result = search(instance, 1, NativeOptions(workers=2, executor="ray"), progress=tell)
print(result.reason, "|", result.detail)
print(result.witness is not None and result.lower <= result.upper <= held[0].upper)
"""

# Says each statement of which something is bounded, and waits for a line; at the end its verdict.
VERIFY = """
import sys
from leaveout.verifier.run import verify
seen = set()
def tell(name, progress):
    if progress.solved and name not in seen:
        seen.add(name)
        print(name, flush=True)
        sys.stdin.readline()
for each in verify(sys.argv[1], workers=2, executor="ray", progress=tell).results:
    print(each.name, each.verdict, "|", each.reason)
"""


class RayCluster:
    """A cluster on this machine.

    Attributes
    ----------
    address : str
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = self._read()

    def _read(self) -> str:
        line = self._process.stdout.readline()
        assert line, "the cluster did not start"
        return line.strip()

    def _ask(self, words: str) -> list[int]:
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return [int(each) for each in self._read().split()]

    def add(self, **variables: str) -> None:
        """Add a node of one core, in whose environment these variables are."""
        self._ask(" ".join(["add", *(f"{name}={value}" for name, value in variables.items())]))

    def remove(self) -> None:
        """Take away the node that was added last."""
        self._ask("remove")

    def kill_head(self) -> None:
        """Kill the processes of the head."""
        for pid in self._ask("head"):
            os.kill(pid, signal.SIGKILL)

    def workers(self, name: str) -> list[int]:
        """Return the processes of the head's node that are at something of this name."""
        raylets = set(self._ask("head"))
        return [
            pid
            for raylet in raylets
            for pid in children.children(raylet)
            if f"ray::{name}" in command(pid)
        ]


def command(pid: int) -> str:
    """Return how a process was started, or what it calls itself."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@contextmanager
def ray_cluster(cpus: int = 2) -> Iterator[RayCluster]:
    """Start a cluster of one node, and end it."""
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "disabled",
        "RAY_raylet_start_wait_time_s": "300",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(cpus)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        yield RayCluster(process)
    finally:
        # The nodes end with the process that started them.
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_training(data: Path, out: Path, epochs: int) -> subprocess.Popen[str]:
    """Start a training on Ray, and wait until a block is finished."""
    return _there([sys.executable, "-c", TRAINING, data, out, epochs])


def start_search() -> subprocess.Popen[str]:
    """Start a long search on Ray, and wait until it is under way."""
    return _there([sys.executable, "-c", SEARCH, Path(__file__).parents[1]])


def start_verify(spec: Path) -> subprocess.Popen[str]:
    """Start a run of a specification on Ray."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return children.start([sys.executable, "-c", VERIFY, spec], **pipes)


def _there(command: list[object]) -> subprocess.Popen[str]:
    process = children.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "there\n", process.stderr.read()
    return process
