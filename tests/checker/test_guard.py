"""That a guard noises every leak, proved again: true bounds are accepted, too low ones never."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

import leaveout
from leaveout.errors import LeaveoutError, RejectedError
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run
from leaveout.verifier.guard.access import load_bounds, save_bounds

from support import networks
from support.certificates import Content
from support.children import HANGS
from support.depth import rounds
from support.guards import make_folder

CLAIM = 'let A = access("served")\nguarantee private: idp(A, epsilon = 0.2)\n'
SERVED = ("full.onnx", "family.npz", "bounds.npz")
FORGERIES = rounds(240)


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    """Return a folder with what a guard serves, and a certificate of the claim about it."""
    folder = tmp_path_factory.mktemp("guard")
    model = networks.dense(np.random.default_rng(5), (2, 6, 5, 3))
    served = make_folder(folder / "served", model, seed=5, members=8, spread=0.05)
    (folder / "a.spec").write_text(CLAIM)
    report = leaveout.verify(folder / "a.spec", time=HANGS, certificate=folder / "a.cert")
    assert report.results[0].verdict == "proved"
    return served, folder


@pytest.fixture
def copied(proved, tmp_path):
    """Return what can be changed of it: the question, the folder and the certificate's content."""
    shutil.copytree(proved[1], tmp_path, dirs_exist_ok=True)
    return proved[0], tmp_path, Content.of(tmp_path / "a.cert")


def lowered(folder, content, change):
    """Change the bounds, and have the certificate be about the changed ones."""
    path = folder / "served" / "bounds.npz"
    bounds = load_bounds(path)
    save_bounds(path, replace(bounds, upper=change(bounds.upper)))
    digested(folder, content)


def digested(folder, content):
    """Have the certificate be about the folder as it is."""
    sums = [hashlib.sha256((folder / "served" / each).read_bytes()).hexdigest() for each in SERVED]
    lines = [f"{digest}  {name}\n" for digest, name in zip(sums, SERVED, strict=True)]
    (file,) = content.manifest["values"]["files"]
    file["sha256"] = hashlib.sha256("".join(lines).encode()).hexdigest()
    content.save(folder / "a.cert")


def test_bounds_that_hold_are_accepted(proved, snapshot):
    (found,) = check(proved[1] / "a.cert")
    said = " ".join(found.subject.rests_on())
    assert said == snapshot


def test_the_command_says_what_is_claimed(proved, capsys):
    assert run(["check", str(proved[1] / "a.cert")]) == 0
    assert "private" in capsys.readouterr().out


def test_other_files_are_named(copied):
    _, folder, _ = copied
    for name in SERVED:
        path = folder / "served" / name
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        with pytest.raises(LeaveoutError, match="served"):
            check(folder / "a.cert")
        path.write_bytes(before)
    assert check(folder / "a.cert")


@pytest.mark.parametrize("factor", [0.97, 0.5, 0.0])
def test_bounds_below_a_leak_are_never_accepted(copied, factor):
    """The trees are those of bounds that hold: of these they prove nothing."""
    _, folder, content = copied
    lowered(folder, content, lambda upper: factor * upper)
    with pytest.raises(RejectedError):
        check(folder / "a.cert")


def test_a_member_moved_to_a_lower_bound_is_seen(copied):
    _, folder, content = copied

    def move(upper):
        changed = upper.copy()
        changed[:, int(np.argmax(upper.max(axis=0)))] = upper.min()
        return changed

    lowered(folder, content, move)
    with pytest.raises(RejectedError):
        check(folder / "a.cert")


@pytest.mark.parametrize(
    "change",
    [
        lambda upper: np.full_like(upper, np.nan),
        lambda upper: -upper - 1.0,
        lambda upper: np.full_like(upper, np.inf),
        lambda upper: upper[:, :-1],
        lambda upper: upper.T,
    ],
)
def test_what_is_no_bound_is_refused(copied, change, snapshot):
    _, folder, content = copied
    lowered(folder, content, change)
    with pytest.raises(RejectedError) as told:
        check(folder / "a.cert")
    assert str(told.value) == snapshot


def test_a_claim_without_a_proof_or_about_no_epsilon_is_refused(copied, snapshot):
    _, folder, content = copied
    bare = Content(content.manifest, {k: v for k, v in content.arrays.items() if "tree" not in k})
    bare.save(folder / "a.cert")
    with pytest.raises(RejectedError) as told:
        check(folder / "a.cert")
    assert str(told.value) == snapshot
    claim = content.manifest["values"]["statements"][0]["claim"]
    claim["given"]["epsilon"]["value"] = "0"
    content.save(folder / "a.cert")
    with pytest.raises(RejectedError, match="epsilon"):
        check(folder / "a.cert")


def _mutated(rng, arrays, name):
    """Change one array from the inside."""
    array = arrays[name].copy()
    flat = array.reshape(-1)
    way = int(rng.integers(6))
    at = int(rng.integers(flat.size)) if flat.size else 0
    if not flat.size:
        array = np.zeros((1, *array.shape[1:]), array.dtype)
    elif way == 0:
        flat[at] = 0
    elif way == 1:
        flat[at] = -flat[at] - 1
    elif way == 2 and array.dtype.kind == "i":
        flat[at] = np.iinfo(array.dtype).max
    elif way == 2:
        flat[at] = rng.choice([1e30, np.nan, np.inf, 1e-30])
    elif way == 3:
        array = array[:-1]
    elif way == 4:
        flat[:] = flat[rng.permutation(flat.size)]
    else:
        array = np.concatenate([array, array[-1:]])
    arrays[name] = array


def test_forged_proofs_of_bounds_too_low_are_rejected(copied):
    """A known leak is above a bound, so that whatever the trees hold must be rejected."""
    served, folder, content = copied
    side = np.linspace(0, 1, 40, dtype=np.float32)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    _, leaks = served.truth(points)
    scores = np.sort(served.instance.network.runner().scores(points), axis=1)
    worst = float((scores[:, -1] - scores[:, -2])[leaks].max())
    assert worst > 0
    lowered(folder, content, lambda upper: np.minimum(upper, 0.9 * worst))
    bounds = load_bounds(folder / "served" / "bounds.npz").upper
    assert bounds.max() < worst
    names = [name for name in content.arrays if ".tree" in name]
    rng = np.random.default_rng(3)
    for _ in range(FORGERIES):
        arrays = dict(content.arrays)
        for name in [each for each in names if each.endswith((".target", ".claim"))]:
            arrays[name] = np.minimum(arrays[name], rng.choice([bounds.max(), bounds.min(), -1.0]))
        for name in rng.choice(names, int(rng.integers(1, 4)), replace=False):
            _mutated(rng, arrays, str(name))
        Content(content.manifest, arrays).save(folder / "a.cert")
        with pytest.raises(LeaveoutError) as caught:
            check(folder / "a.cert")
        assert "\n" not in str(caught.value)
