"""How long an answer takes tells nothing, once it is padded."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from leaveout.verifier.guard import Guard

from support.guards import points_of
from support.served import JSON, Asker, in_thread, process


def times(port: int, kinds: dict[int, np.ndarray], seed: int) -> dict[int, list[float]]:
    """Ask for inputs of several kinds, in random order, over one connection."""
    asker = Asker(port)
    asker.ask({"x": kinds[1][0].tolist()})
    jobs = [(kind, x.tolist()) for kind, X in kinds.items() for x in X]
    taken: dict[int, list[float]] = {kind: [] for kind in kinds}
    for at in np.random.default_rng(seed).permutation(len(jobs)):
        kind, x = jobs[at]
        reply = asker.ask({"x": x})
        assert reply.status == 200
        taken[kind].append(reply.seconds)
    asker.close()
    return taken


def told_apart(taken: dict[int, list[float]]) -> float:
    return float(ks_2samp(taken[1], taken[3]).pvalue)


def test_times_do_not_tell_leaks_from_others_once_padded(leaky, tmp_path):
    """Of first answers, which are written to the disk: the most that a tier can differ.

    The order is random, so that whatever else the machine does meets both alike. Where nothing
    differs it fails with a chance of 1e-4 squared; with pads off it finds less than 1e-9. Answers
    that miss their time may tell, as is documented: where there are some, the pad is too short for
    the machine, and a longer one is tried.
    """
    with Guard.load(leaky.folder, 0.5, memory=tmp_path / "m") as guard:
        kinds = {1: points_of(guard, 1, 300), 3: points_of(guard, 3, 300)}

    def asked(pad: float, seed: int) -> tuple[dict[int, list[float]], bool]:
        options = ["--pad", str(pad), "--memory", str(tmp_path / f"{pad}-{seed}")]
        with process(leaky.folder, *options) as served:
            taken = times(served.port, kinds, seed)
            served.process.terminate()
            return taken, "missed their deadline" in served.log()

    assert any(told_apart(asked(0.0, seed)[0]) < 1e-9 for seed in range(4))
    told = 0
    for attempt, pad in enumerate((0.02, 0.02, 0.05, 0.1, 0.2)):
        taken, missed = asked(pad, attempt)
        assert min(map(min, taken.values())) >= pad
        if told_apart(taken) > 1e-4:
            return
        told += not missed
        assert told < 2, "padded times tell which inputs leak"
    pytest.fail("padded times tell which inputs leak, or the machine is too busy to be asked")


def test_refusals_are_padded_too(leaky, tmp_path):
    with (
        Guard.load(leaky.folder, 0.5, memory=tmp_path / "m") as guard,
        in_thread(guard, pad=0.05, most_rows=10) as port,
    ):
        asker = Asker(port)
        for body, headers in [
            (b"[", JSON), ({"x": [0]}, JSON), ({"x": [0, 7]}, JSON), ({"x": [0, 1]}, {}),
            ({"X": [[0, 1]] * 11}, JSON), ({"x": [0, 1]}, JSON),
        ]:  # fmt: skip
            assert asker.ask(body, headers=headers).seconds >= 0.05
        asker.close()
