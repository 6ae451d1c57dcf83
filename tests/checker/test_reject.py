"""Falsified certificates are rejected, whatever was changed."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest

from leaveout.errors import CertificateError, LeaveoutError, RejectedError
from leaveout.models import Family, save_family_file
from leaveout.models.replay import with_parameters
from leaveout.verifier.certify import trees
from leaveout.verifier.certify.check import check

from support.cases import BruteForce
from support.certificates import Content, Written, write
from support.depth import STRIDE, enough, rounds

Change = tuple[str, Callable[[Content], None]]

SEEDS = (8, 23, 31, 4)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> list[Written]:
    folder = tmp_path_factory.mktemp("falsified")
    return [write(folder / str(seed), seed, ties=True, nodes=100) for seed in SEEDS]


def put(name: str, at, value) -> Callable[[Content], None]:
    def change(content: Content) -> None:
        content.arrays[name] = content.arrays[name].copy()
        content.arrays[name][at] = value

    return change


def changes_of_tree(content: Content, tree: str, worst: float) -> Iterator[Change]:
    arrays = {
        k.removeprefix(f"{tree}."): v for k, v in content.arrays.items() if k.startswith(tree)
    }
    result = next(r for r in content.manifest["results"] if r["tree"] == tree)
    upper, count = result["upper"], len(arrays["ident"])
    parent, kind = arrays["parent"], arrays["kind"]
    leaves = np.setdiff1d(np.arange(count), parent)
    for leaf in leaves[:: max(1, len(leaves) // 6)]:
        yield f"leaf {leaf} dropped", lambda c, leaf=leaf: c.drop(tree, int(leaf))
    # With discrete inputs a leaf may hold no input at all, whatever its multipliers prove.
    discrete = bool(content.manifest["questions"][0]["box"]["choices"])
    lower = [worst - 1e-3, worst - 0.5, -0.1]
    # Without a leak, less may be true, too.
    for lowered in () if worst <= 0 else lower if discrete else [*lower, 0.9 * upper - 1e-3]:
        yield f"upper {lowered}", lambda c, v=lowered: result_of(c, tree).update(upper=v)
    for label in {-1, 99, (result["label"] + 1) % 2}:
        if label != result["label"]:
            yield f"label {label}", lambda c, v=label: result_of(c, tree).update(label=v)
    for node in {0, count // 2, count - 1}:
        yield "target not a number", put(f"{tree}.target", node, np.nan)
        yield "parent behind", put(f"{tree}.parent", node, count)
        yield "unknown kind", put(f"{tree}.kind", node, 7)
    for own in (1, 3):
        split = np.flatnonzero(kind == own)
        if split.size:
            node = split[len(split) // 2]
            yield "both children on one side", put(f"{tree}.side", parent == parent[node], 0)
            yield "another index", put(f"{tree}.index", node, 10**6)
            if own == 1:
                moved = arrays["point"][node] + 1e-3
                yield "point moved in one child", put(f"{tree}.point", node, moved)
            else:
                other = (arrays["index"][node] + 1) % 8
                yield "another neuron in one child", put(f"{tree}.index", node, other)
    yield "rival", put(f"{tree}.index", 0, result["label"])
    yield "a member twice", put(f"{tree}.members", 0, arrays["members"][-1] + 50)
    yield "a member out of range", put(f"{tree}.members", 0, -1)
    yield "set left out", put(f"{tree}.offsets", -1, arrays["offsets"][-1] - 1)
    yield "array left out", lambda c: c.arrays.pop(f"{tree}.cz")
    for name in ("cz", "share", "parent", "point"):

        def cut(c: Content, name: str = f"{tree}.{name}") -> None:
            c.arrays[name] = (
                c.arrays[name].reshape(-1)[:-1] if len(c.arrays[name]) else (np.zeros(3, np.int8))
            )

        yield f"shape of {name}", cut
        yield (
            f"type of {name}",
            lambda c, name=f"{tree}.{name}": c.arrays.update(
                {name: c.arrays[name].astype(np.float16)}
            ),
        )
    for what, change in changes_of_proofs(arrays, tree, result["label"]) if worst > 0 else ():
        # Hints have no force of their own: one that is none may not carry a false claim.
        def both(c: Content, change: Callable[[Content], None] = change) -> None:
            change(c)
            result_of(c, tree).update(upper=worst - 1e-3)

        yield what, both


def changes_of_proofs(arrays: dict[str, np.ndarray], tree: str, label: int) -> Iterator[Change]:
    for node in np.flatnonzero(arrays["proof"] >= 0)[:4]:
        row = int(arrays["proof"][node])
        for name in ("cz", "cd", "t", "share"):
            yield f"{name} not a number", put(f"{tree}.{name}", row, np.nan)
            yield f"{name} infinite", put(f"{tree}.{name}", row, np.inf)
        yield "t negative", put(f"{tree}.t", row, -1.0 - arrays["t"][row])
        yield "shares below 1", put(f"{tree}.share", row, 0.9 * arrays["share"][row])
        yield "share of its own label", put(f"{tree}.share", (row, label), 1.0)
        yield "proof of nothing", put(f"{tree}.proof", node, len(arrays["t"]))
        yield "t huge", put(f"{tree}.t", row, 1e6)
        yield "cz negated", put(f"{tree}.cz", row, -5 * arrays["cz"][row] - 1)
        yield "cz scaled", put(f"{tree}.cz", row, 40 * arrays["cz"][row] + 40)
        yield "cd negated", put(f"{tree}.cd", row, -5 * arrays["cd"][row] - 40)
    yield "no proof", put(f"{tree}.proof", slice(None), -1)
    yield "errors left out", put(f"{tree}.error", slice(None), 0.0)
    yield "targets raised", put(f"{tree}.target", slice(None), 1e6)


def result_of(content: Content, tree: str) -> dict:
    return next(r for r in content.manifest["results"] if r["tree"] == tree)


def changes_of_manifest(content: Content) -> Iterator[Change]:
    def question(key: str, **values: object) -> Callable[[Content], None]:
        return lambda c: c.manifest["questions"][0][key].update(values)

    box = content.manifest["questions"][0]["box"]
    yield "hash of the network", question("network", sha256="0" * 64)
    yield "hash of the family", question("family", sha256="0" * 64)
    yield "path of the network", question("network", path="nowhere.onnx")
    yield "kind of the family", question("family", kind="folder")
    yield "a larger box", question("box", upper=[v + 0.5 for v in box["upper"]])
    yield "a box that reaches below", question("box", lower=[v - 0.5 for v in box["lower"]])
    yield "an empty box", question("box", upper=[v - 9.0 for v in box["upper"]])
    yield "another dimension", question("box", upper=[*box["upper"], 1.0])
    members = content.manifest["questions"][0]["members"]
    yield "one member fewer", lambda c: c.manifest["questions"][0].update(members=members - 1)
    yield "members more", lambda c: c.manifest["questions"][0].update(members=50)
    yield "another format", lambda c: c.manifest.update(format=5)
    yield "no results", lambda c: c.manifest.update(results=[])
    yield "no such question", lambda c: c.manifest["results"][0].update(question=3)
    yield "no such tree", lambda c: c.manifest["results"][0].update(tree="tree9")
    yield "a field left out", lambda c: c.manifest["results"][0].pop("upper")


def refused(path) -> bool:
    try:
        check(path)
    except (RejectedError, CertificateError, LeaveoutError) as error:
        assert "\n" not in str(error)
        return True
    return False


@pytest.fixture
def as_it_is(monkeypatch):
    """What a certificate does not prove by itself is not proved by splitting either."""
    monkeypatch.setattr(trees, "SPLITS", 0)


def test_falsified_certificates_are_rejected(certificates, as_it_is):
    count, missed = 0, []
    for written in certificates:
        content = Content.of(written.path)
        falsified = written.path.with_name("false.cert")
        trees = [result["tree"] for result in content.manifest["results"]]
        listed = [*changes_of_manifest(content)]
        worst = BruteForce.of(written.instance, 4000).best
        for tree in trees:
            label = result_of(content, tree)["label"]
            listed += changes_of_tree(content, tree, worst[label])
        for what, change in listed[::STRIDE]:
            changed = Content.of(written.path)
            change(changed)
            changed.save(falsified)
            count += 1
            if not refused(falsified):
                missed.append((written.path.parent.name, what))
        for kept in (0.0, 0.3, 0.7, 0.99):
            raw = written.path.read_bytes()
            falsified.write_bytes(raw[: int(kept * len(raw))])
            count += 1
            if not refused(falsified):
                missed.append((written.path.parent.name, f"truncated to {kept}"))
        with zipfile.ZipFile(written.path) as archive:
            entries = [info for info in archive.infolist() if info.compress_size > 64]
        for info in entries[:8]:
            # In the middle of an array; a file's own bookkeeping has bytes nobody reads.
            at = info.header_offset + 30 + len(info.filename) + info.compress_size // 2
            falsified.write_bytes(raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :])
            count += 1
            if not refused(falsified):
                missed.append((written.path.parent.name, f"byte {at}"))
    assert not missed, missed
    assert count >= enough(200)


def test_changed_weights_are_rejected_even_with_their_own_hash(tmp_path):
    """Where a changed network or family truly leaks above the claim, no proof of it is accepted."""
    tried = 0
    for seed in SEEDS:
        written = write(tmp_path / str(seed), seed, ties=True, nodes=100)
        folder, instance = written.path.parent, written.instance
        rng = np.random.default_rng(seed)
        original = (folder / "full.onnx").read_bytes(), (folder / "family.npz").read_bytes()
        for attempt in range(rounds(30)):
            (folder / "full.onnx").write_bytes(original[0])
            (folder / "family.npz").write_bytes(original[1])
            if attempt % 2:
                own = {
                    k: v + 0.5 * rng.normal(size=v.shape).astype(np.float32)
                    for k, v in instance.network.parameters.items()
                }
                model = with_parameters(instance.network.model, own)
                onnx.save(model, folder / "full.onnx")
            else:
                shaken = {k: v.copy() for k, v in instance.family.parameters.items()}
                for value in shaken.values():
                    value[-1] += 0.5 * rng.normal(size=value.shape[1:]).astype(np.float32)
                family = Family(shaken, instance.family.removed, instance.family.manifest)
                save_family_file(folder / "family.npz", family)
            worst = BruteForce.of(reread(folder, instance), 2000).best
            content = Content.of(written.path)
            if all(w <= r["upper"] for w, r in zip(worst, content.manifest["results"])):
                continue
            for key, name in (("network", "full.onnx"), ("family", "family.npz")):
                digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
                content.manifest["questions"][0][key]["sha256"] = digest
            content.save(folder / "false.cert")
            tried += 1
            with pytest.raises(RejectedError):
                check(folder / "false.cert")
    assert tried >= enough(20)


def reread(folder, instance):
    from leaveout.bab import make_instance
    from leaveout.models import load_family, load_network

    network = load_network(folder / "full.onnx")
    return make_instance(network, load_family(folder / "family.npz", network), instance.box)
