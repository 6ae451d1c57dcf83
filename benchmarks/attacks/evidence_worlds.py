"""Small folders of files, and specifications about them, of which evidence is made and forged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.models import save_family_file
from leaveout.models.votes import Ballots, write_ballots

from attacks.claims import Claims, ask, spec_of
from attacks.questions import family_of, random_members, random_question, spec_box, write_files

__all__ = ["WORLDS", "World"]

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class World:
    """Files, and what is asked about them.

    Attributes
    ----------
    write : callable
        Writes the files into a folder, from a seed alone.
    draw : callable
        Draws the text of a specification whose statement is called ``g``, from the same seed and
        a generator.
    """

    write: Callable[[Path, int], None]
    draw: Callable[[int, np.random.Generator], str]


def _pick(rng: np.random.Generator, *choices: object) -> str:
    return str(choices[int(rng.integers(len(choices)))])


def _write_leaks(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = random_question(rng)
    write_files(case, folder)
    other = {**case, "members": random_members(rng, case["net"])}
    save_family_file(folder / "other.npz", family_of(other))


def _draw_leaks(seed: int, rng: np.random.Generator) -> str:
    box = random_question(np.random.default_rng(seed))["box"]
    small = {**box, "tables": [], "upper": box["lower"]}
    bare = {**box, "tables": []}
    text = _pick(rng, spec_box(box), spec_box(box), spec_box(bare), spec_box(small))
    family = _pick(rng, "family.npz", "family.npz", "other.npz")
    label = _pick(rng, "", "", ", label = 0")
    head = (
        f'let N = network("full.onnx")\nlet F = family("{family}")\nlet X = {text}\n'
    )  # fmt: skip
    claim = f"forall x in X, M in F: confidence(N, x{label}) > {{}} => label(M, x) == label(N, x)"
    match _pick(rng, "guarantee", "find", "per label", "no premise"):
        case "guarantee":
            return f"{head}guarantee g: {claim.format(_pick(rng, 0, 1e-4, 0.01, 0.3, 1, 60))}\n"
        case "find":
            return f"{head}find g: least b such that {claim.format('b')}\n"
        case "per label":
            each = claim.replace(label, "") if label else claim
            return f"{head}find g: least b per label such that {each.format('b')}\n"
        case _:
            return f"{head}guarantee g: forall x in X, M in F: label(M, x) == label(N, x)\n"


def _write_points(folder: Path, seed: int) -> None:
    Claims.write(Claims().make(np.random.default_rng(seed)), folder)


def _draw_points(seed: int, rng: np.random.Generator) -> str:
    return spec_of(ask(rng, Claims().make(np.random.default_rng(seed))))


def _write_samples(folder: Path, seed: int) -> None:
    from support.samples import write_sample

    write_sample(folder, seed=seed % 7)


def _draw_samples(seed: int, rng: np.random.Generator) -> str:
    from support.samples import CLAIM, HEAD

    head = HEAD.replace("box(0, 1)", _pick(rng, "box(0, 1)", "box(0, 0.5)", "box(0.25, 0.25)"))
    share, level = _pick(rng, 0.25, 0.34, 0.5), _pick(rng, 0.5, 0.6, 0.8)
    if rng.random() < 0.5:
        ask_for = f"find g: least b such that {CLAIM.format(share, 'b')}"
    else:
        ask_for = f"guarantee g: {CLAIM.format(share, _pick(rng, 0.001, 0.02, 0.1, 1))}"
    return f"{head}{ask_for} with confidence {level}\n"


def _write_forests(folder: Path, seed: int) -> None:
    from support.forest_files import write_forests

    write_forests(folder)


def _draw_forests(seed: int, rng: np.random.Generator) -> str:
    box = _pick(rng, "box([0, 0, 0], [3, 1, 1])", "box([0, 0, 0], [1, 1, 1])", "box(0.5, 0.75)")
    head = (
        'let T = forest("forest.npz")\nlet U = forest("other.npz")\n'
        f'let K = forest("learnt.npz")\nlet F = leave_one_out(T)\nlet X = {box}\n'
    )
    share = _pick(rng, 0, 0.05, 0.2, 0.5, 0.95)
    other = _pick(rng, "U", "K", "T")
    return head + _pick(
        rng,
        "find g: least b per label such that forall x in X, M in F: "
        "confidence(T, x) > b => label(M, x) == label(T, x)\n",
        f"guarantee g: forall x in X, M in F: confidence(T, x) > {share} => "
        "label(M, x) == label(T, x)\n",
        "find g: least b such that forall x in X: confidence(T, x) > b => "
        "label(U, x) == label(T, x)\n",
        f"guarantee g: forall x in X: confidence(T, x) > {share} => label(K, x) == label(T, x)\n",
        f"guarantee g: same_function(T, {other}, X)\n",
    )


def _write_votes(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for name in ("ballots", "other"):
        truth = rng.integers(0, 2, 8)
        right = rng.random((8, 9)) < rng.choice([0.6, 0.9])
        votes = np.where(right, truth[:, None], 1 - truth[:, None])
        write_ballots(Ballots(votes.astype(np.int32), truth, 2), folder / f"{name}.npz")


def _draw_votes(seed: int, rng: np.random.Generator) -> str:
    scheme = _pick(rng, "dpa", "dpa", "ss_dpa")
    unit = "relabels" if scheme == "ss_dpa" else _pick(rng, "edits", "removals", "insertions")
    head = f'let V = ballots("{_pick(rng, "ballots", "other")}.npz")\nlet D = {scheme}(V)\n'
    share, count = _pick(rng, 0.2, 0.5, 0.7, 0.9), _pick(rng, 1, 2, 3)
    kind = _pick(rng, "certified_accuracy", "collective_accuracy")
    if rng.random() < 0.3:
        return f"{head}find g: greatest r such that certified_accuracy(D, {unit} = r) >= {share}\n"
    return f"{head}guarantee g: {kind}(D, {unit} = {count}) >= {share}\n"


def _write_deletion(folder: Path, seed: int) -> None:
    shutil.copytree(_EXAMPLES / "deletion", folder, dirs_exist_ok=True)


def _draw_deletion(seed: int, rng: np.random.Generator) -> str:
    return _pick(
        rng,
        'let S = sharded("service.toml")\n'
        f"guarantee g: unlearns(S, updates = {_pick(rng, 'adaptive', 'oblivious')}, "
        f"alpha = {_pick(rng, 0.001, 0.1, 1, 3)}, beta = {_pick(rng, 1e-3, 1e-9)}, gamma = 1e-3)\n",
        'let T = forest("forest.npz")\n'
        'guarantee g: forall z in points("deletions.csv"): unlearn(T, z) == retrain(T, z)\n',
        'let T = forest("forest.npz")\nguarantee g: caches_sound(T)\n',
        'let A = audit("audit.npz")\n'
        f"guarantee g: membership_advantage(A) <= {_pick(rng, 0.05, 0.2, 0.5)} "
        f"with confidence {_pick(rng, 0.5, 0.95)}\n",
    )


def _write_guards(folder: Path, seed: int) -> None:
    from support import networks
    from support.guards import make_folder

    model = networks.dense(np.random.default_rng(5), (2, 4, 2))
    make_folder(folder / "served", model, seed=5, members=3, spread=0.05)


def _draw_guards(seed: int, rng: np.random.Generator) -> str:
    epsilon = _pick(rng, 0.01, 0.2, 1)
    return f'let A = access("served")\nguarantee g: idp(A, epsilon = {epsilon})\n'


WORLDS = {
    "leaks": World(_write_leaks, _draw_leaks),
    "points": World(_write_points, _draw_points),
    "samples": World(_write_samples, _draw_samples),
    "forests": World(_write_forests, _draw_forests),
    "votes": World(_write_votes, _draw_votes),
    "deletion": World(_write_deletion, _draw_deletion),
    "guards": World(_write_guards, _draw_guards),
}
