"""Certificates of leaks of forests: written, accepted, and rejected where they are forged."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest
from rich.console import Console

from leaveout.errors import CertificateError, RejectedError
from leaveout.models.forest import DareForestClassifier
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.output import print_parts
from leaveout.verifier.cli.result_table import checked_parts
from leaveout.verifier.run import verify

from support.certificates import Content
from support.depth import enough, rounds
from support.forest_files import SPEC, rows, write_forests


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaks")
    write_forests(folder)
    (folder / "s.spec").write_text(SPEC)
    report = verify(folder / "s.spec", certificate=folder / "s.cert")
    assert not [note for note in report.notes if "not in the certificate" in note]
    (folder / "verdicts").write_text(" ".join(each.verdict for each in report.results))
    return folder


def test_every_statement_is_in_the_certificate_and_accepted(folder, snapshot):
    assert (folder / "verdicts").read_text().split() == ["proved"] * 6 + ["refuted"]
    found = check(folder / "s.cert")
    names = [(each.name, each.label) for each in found]
    # The bounds that are sought prove what is guaranteed too.
    assert names[:2] == [("bound, sure", 0), ("bound, sure", 1)]
    assert {name for name, _ in names[2:]} == {"apart", "learnt", "alike", "differ"}
    console = Console(width=100, record=True, file=io.StringIO())
    print_parts(checked_parts(found), console)
    assert console.export_text() == snapshot


def test_claims_are_close_to_what_is_found(folder):
    report = verify(folder / "s.spec")
    found = {(each.name, each.label): each for each in check(folder / "s.cert")}
    for result in report.results[:2]:
        claim = found["bound, sure", result.label].upper
        assert result.upper <= claim <= result.upper + 1e-9
        assert claim <= 0.95


def forged(folder, alter, path=None):
    content = Content.of(folder / "s.cert")
    alter(content)
    where = path or folder / "forged.cert"
    content.save(where)
    return check(where)


def arrays(content, name="bound", label=0):
    """Return the arrays of a claim, copied in their places."""
    result = next(
        each
        for each in content.manifest["forests"]["results"]
        if name in each["name"] and each["label"] == label
    )
    found = {}
    for key in ("size", "feature", "value"):
        content.arrays[f"{result['proof']}.{key}"] = content.arrays[
            f"{result['proof']}.{key}"
        ].copy()
        found[key] = content.arrays[f"{result['proof']}.{key}"]
    found["prefix"], found["result"] = result["proof"], result
    return found


def put(content, found, key, value):
    content.arrays[f"{found['prefix']}.{key}"] = value


def split_nodes(found):
    return np.flatnonzero(found["feature"] >= 0)


def cut_tree(place):
    """Make a leaf of a node, what is below it gone: all of its boxes then are in one."""

    def alter(content):
        found = arrays(content)
        feature, size = found["feature"], found["size"]
        node = split_nodes(found)[place]
        end, waiting = node, 1
        while waiting:
            waiting += 1 if feature[end] >= 0 else -1
            end += 1
        below = feature[node:end] >= 0
        first = int((feature[:node] >= 0).sum())
        owner = int(np.searchsorted(np.cumsum(size), node, side="right"))
        size[owner] -= end - node - 1
        put(
            content,
            found,
            "feature",
            np.concatenate((feature[:node], [-1], feature[end:])).astype(np.int32),
        )
        value = found["value"]
        put(content, found, "value", np.concatenate((value[:first], value[first + below.sum() :])))

    return alter


def at_array(key, place, change, name="bound", label=0):
    def alter(content):
        found = arrays(content, name, label)
        found[key][place] = change(found[key][place])

    return alter


def at_question(key, change, number=0):
    def alter(content):
        part = content.manifest["forests"]["questions"][number]
        part[key] = change(part[key])

    return alter


def at_result(key, change, number=0):
    def alter(content):
        part = content.manifest["forests"]["results"][number]
        part[key] = change(part[key])

    return alter


def at_box(side, feature, value):
    def change(box):
        values = list(box[side])
        values[feature] = value
        return box | {side: values}

    return at_question("box", change)


def replace_array(key, change, name="bound", label=0):
    def alter(content):
        found = arrays(content, name, label)
        put(content, found, key, change(found[key]))

    return alter


def drop_array(key):
    def alter(content):
        del content.arrays[f"{arrays(content)['prefix']}.{key}"]

    return alter


def swapped(content):
    """Give each of two labels the trees of the other."""
    one, two = (arrays(content, label=label) for label in (0, 1))
    one["result"]["proof"], two["result"]["proof"] = two["prefix"], one["prefix"]


def without_a_row(content):
    found = arrays(content)
    put(content, found, "size", found["size"][:-1])


def without_a_tree(content):
    found = arrays(content)
    put(content, found, "size", found["size"][1:])
    put(content, found, "feature", found["feature"][found["size"][0] :])


LOWER = [0.5, 0.9, 0.99, 0.999999]

FORGERIES = {
    **{f"bound times {each}": at_result("upper", lambda v, e=each: v * e) for each in LOWER},
    **{f"bound 1 times {each}": at_result("upper", lambda v, e=each: v * e, 1) for each in LOWER},
    "bound below the witness": at_result("upper", lambda v: v - 1e-9),
    "other bound below": at_result("upper", lambda v: v - 1e-9, 1),
    "no leak at all": at_result("upper", lambda v: -1e-9),
    "negative": at_result("upper", lambda v: -5.0),
    "label 2": at_result("label", lambda v: 2),
    "label -1": at_result("label", lambda v: -1),
    "trees swapped": swapped,
    "no trees": at_result("proof", lambda v: "nothing"),
    "other trees": at_result("proof", lambda v: "proof1"),
    **{f"cut {i}": cut_tree(i) for i in range(12)},
    **{f"leaf split {i}": at_array("feature", i, lambda v: 0 if v < 0 else -1) for i in range(8)},
    **{f"feature {i}": at_array("feature", i, lambda v: 3 if v >= 0 else 7) for i in range(6)},
    "feature far": at_array("feature", 0, lambda v: 2**30),
    "split at NaN": at_array("value", 0, lambda v: np.nan),
    "split at infinity": at_array("value", 0, lambda v: np.inf),
    **{f"no split {i}": at_array("value", i, lambda v: -9.0) for i in range(4)},
    **{f"size {i}": at_array("size", i, lambda v: v + 1) for i in range(4)},
    "size 0": at_array("size", 0, lambda v: 0),
    "size negative": at_array("size", 0, lambda v: -1),
    "without a row": without_a_row,
    "without a tree": without_a_tree,
    "value short": replace_array("value", lambda v: v[:-1]),
    "value long": replace_array("value", lambda v: np.append(v, 1.0)),
    "node missing": replace_array("feature", lambda v: v[:-1]),
    "all leaves": replace_array("feature", lambda v: np.full_like(v, -1)),
    "all splits": replace_array("feature", lambda v: np.zeros_like(v)),
    "other type": replace_array("feature", lambda v: v.astype(np.int64)),
    "wide": replace_array("value", lambda v: v.astype(np.float32)),
    "two ranks": replace_array("size", lambda v: v[None]),
    "no sizes": drop_array("size"),
    "no features": drop_array("feature"),
    "no values": drop_array("value"),
    "box narrower and empty": at_box("upper", 1, -1.0),
    "box infinite": at_box("upper", 1, 1e300),
    "box of two": at_question("box", lambda box: box | {"lower": box["lower"][:2]}),
    "listed outside": at_question(
        "box", lambda box: box | {"choices": [{"columns": [0], "values": [[9.0]]}]}
    ),
    "listed twice": at_question("box", lambda box: box | {"choices": box["choices"] * 2}),
    "one member more": at_question("members", lambda v: v + 1),
    "one member": at_question("members", lambda v: 1),
    "wrong digest": at_question("forest", lambda v: v | {"sha256": "0" * 64}),
    "another forest": at_question("forest", lambda v: v | {"path": "other.npz"}),
    "a pair": at_question("other", lambda v: {"path": "copy.npz", "sha256": "", "kind": "file"}),
    "deletions of the pair": at_question("other", lambda v: None, 1),
    "pair digest": at_question("other", lambda v: v | {"sha256": "f" * 64}, 1),
    "pair of others": at_question("other", lambda v: v | {"path": "learnt.npz"}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_certificate_is_rejected(folder, name):
    with pytest.raises(RejectedError):
        forged(folder, FORGERIES[name])


@pytest.mark.parametrize(
    "alter",
    [
        at_question("forest", lambda v: v | {"path": "nowhere.npz"}),
        at_question("forest", lambda v: v | {"path": "../forest.npz"}),
        at_question("forest", lambda v: v | {"kind": "network"}),
        at_result("question", lambda v: 7),
        at_result("name", lambda v: "a\nb"),
        at_result("upper", lambda v: "much"),
    ],
)
def test_what_cannot_be_read_is_refused(folder, alter):
    with pytest.raises((CertificateError, RejectedError)):
        forged(folder, alter)


def test_random_changes_prove_nothing_that_is_false(folder):
    truth = {
        (each.name, each.label): each.lower
        for each in verify(folder / "s.spec").results
        if each.name == "bound"
    }
    rng = np.random.default_rng(0)
    accepted = 0
    for _ in range(rounds(150)):
        label = int(rng.integers(2))
        claimed = float(truth["bound", label] * rng.uniform(0.6, 1.2))

        def alter(content, label=label, claimed=claimed):
            found = arrays(content, label=label)
            found["result"]["upper"] = claimed
            for _ in range(int(rng.integers(1, 4))):
                key = ["feature", "value"][rng.integers(2)]
                at = int(rng.integers(len(found[key])))
                if key == "feature" and found[key][at] >= 0:
                    found[key][at] = rng.integers(3)
                elif key == "value":
                    step = rng.choice([0.0, 1e-16, 0.01, 0.5])
                    found[key][at] = np.nextafter(found[key][at] + step, rng.choice([-9, 9]))

        try:
            forged(folder, alter)
        except RejectedError:
            continue
        accepted += 1
        assert claimed >= truth["bound", label]
    assert accepted > enough(5)


def altered_file(folder, tmp_path, change):
    """Write the forest with other arrays, its digest right, and check the certificate of it."""
    for each in folder.iterdir():
        if each.suffix in (".npz", ".cert"):
            (tmp_path / each.name).write_bytes(each.read_bytes())
    change(tmp_path / "forest.npz")
    content = Content.of(tmp_path / "s.cert")
    digest = hashlib.sha256((tmp_path / "forest.npz").read_bytes()).hexdigest()
    for part in content.manifest["forests"]["questions"]:
        part["forest"]["sha256"] = digest
    for part in content.manifest["values"]["files"]:
        if part["path"] == "forest.npz":
            part["sha256"] = digest
    content.save(tmp_path / "s.cert")
    return check(tmp_path / "s.cert")


def test_a_forest_that_its_rows_do_not_give_has_no_deletions(folder, tmp_path, snapshot):
    from dataclasses import replace

    from leaveout.models.forest.files import load_ensemble, save_ensemble

    def change(path):
        held = load_ensemble(path)
        tree = held.trees[2]
        threshold = tree.threshold.copy()
        # An ulp: every row goes where it went.
        threshold[0] = np.nextafter(threshold[0], 9.0)
        trees = (*held.trees[:2], replace(tree, threshold=threshold), *held.trees[3:])
        save_ensemble(replace(held, trees=trees), path)

    with pytest.raises(RejectedError) as told:
        altered_file(folder, tmp_path, change)
    assert str(told.value) == snapshot


def test_another_forest_needs_another_proof(folder, tmp_path):
    def change(path):
        X, y = rows()
        DareForestClassifier(8, k=5, max_depth=4, random_state=1).fit(X, y).save(path)

    with pytest.raises(RejectedError):
        altered_file(folder, tmp_path, change)


def same_arrays(content, function="alike"):
    place = {"alike": ".0.feature", "differ": ".x"}[function]
    name = next(each for each in content.arrays if each.endswith(place))
    return name.removesuffix(place)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_false_witness_of_a_difference_is_rejected(folder, place):
    def alter(content):
        prefix = same_arrays(content, "differ")
        x = content.arrays[f"{prefix}.x"].copy()
        x[place] = [0.5, 7.0, np.nan][place]
        content.arrays[f"{prefix}.x"] = x

    with pytest.raises(RejectedError):
        forged(folder, alter)


def test_forests_that_differ_are_not_proved_to_be_the_same(folder):
    def alter(content):
        prefix = same_arrays(content, "differ")
        del content.arrays[f"{prefix}.x"]
        own = same_arrays(content, "alike")
        for name in list(content.arrays):
            if name.startswith(f"{own}."):
                content.arrays[name.replace(f"{own}.", f"{prefix}.")] = content.arrays[name]
        for part in content.manifest["values"]["statements"]:
            part["verdict"] = "proved"

    with pytest.raises(RejectedError):
        forged(folder, alter)


def test_nothing_left_decides_nothing(folder, snapshot):
    def alter(content):
        for function in ("alike", "differ"):
            prefix = same_arrays(content, function)
            for name in list(content.arrays):
                if name.startswith(f"{prefix}."):
                    del content.arrays[name]

    with pytest.raises(RejectedError) as told:
        forged(folder, alter)
    assert str(told.value) == snapshot
