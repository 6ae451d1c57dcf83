"""Certificates made from the inside to prove nothing: none is accepted, whatever it asks."""

from __future__ import annotations

import hashlib

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel.networks import Descent
from leaveout.models import save_family_file
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run

from support.cases import question
from support.certificates import Content
from support.snapshots import passages

LABELS, WIDTH = 2, 2
SMALL = st.sampled_from([0.0, 1e-30, 1e-12, 1e-9, 1e-7, 3e-5, 1.0, -1.0])


def hollow(folder, box, *, apart=False):
    """Return a certificate whose roots have no multipliers: only an empty region excuses that.

    With ``apart`` every root is split into a child of the first member and one of the others.
    """
    parts = {}
    for key, name in (("network", "full.onnx"), ("family", "family.npz")):
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        parts[key] = {"path": name, "sha256": digest, "kind": key}
    results, arrays = [], {}
    for label in range(LABELS):
        tree = f"tree{label}"
        results.append(
            {"question": 0, "name": "bound", "label": label, "upper": -1e9, "tree": tree}
        )
        count = 3 if apart else 1
        whole = np.zeros(count, np.int64)
        arrays |= {
            f"{tree}.ident": np.arange(count),
            f"{tree}.parent": np.array([-1, 0, 0][:count]),
            f"{tree}.kind": np.array([0, 2, 2][:count], np.int8),
            f"{tree}.index": np.array([1 - label, 0, 0][:count]),
            f"{tree}.side": np.array([0, 0, 1][:count]),
            f"{tree}.point": whole.astype(float),
            f"{tree}.target": whole - 2e9,
            f"{tree}.error": whole + 1e300,
            f"{tree}.tie": whole + 1e300,
            f"{tree}.claim": whole - 1e9,
            f"{tree}.proof": whole - 1,
            f"{tree}.group": np.array([0, 1, 2][:count]),
            f"{tree}.members": np.array([0, 1, 2, 0, 1, 2][: 6 if apart else 3]),
            f"{tree}.offsets": np.array([0, 3, 4, 6][: 4 if apart else 2]),
            f"{tree}.cz": np.zeros((0, 8), np.float32),
            f"{tree}.cd": np.zeros((0, 8), np.float32),
            f"{tree}.t": np.zeros(0, np.float32),
            f"{tree}.share": np.zeros((0, LABELS)),
        }
    manifest = {
        "format": 1, "leaveout": "0", "spec": "s", "text": "",
        "questions": [{**parts, "members": 3, "box": box}], "results": results,
    }  # fmt: skip
    return Content(manifest, arrays)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a network of two inputs and two labels, and a family of three."""
    folder = tmp_path_factory.mktemp("forged")
    made = next(
        each
        for each in (question(seed, spread=0.1) for seed in range(1000))
        if (each.network.inputs, each.labels, len(each.family)) == (WIDTH, LABELS, 3)
    )
    onnx.save(made.network.model, folder / "full.onnx")
    save_family_file(folder / "family.npz", made.family)
    return folder


def outcome(folder, content):
    """Return why a certificate is not accepted."""
    path = folder / "forged.cert"
    content.save(path)
    with pytest.raises((RejectedError, CertificateError)) as caught:
        check(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def box_of(lower, upper, *choices):
    listed = [{"columns": list(columns), "values": values} for columns, values in choices]
    return {"lower": lower, "upper": upper, "choices": listed}


@st.composite
def honest_boxes(draw):
    """Draw boxes that hold points, with listed values at any scale beside the lower bound."""
    low = draw(st.sampled_from([-1.0, -1e3, -1e9, -3e30, 0.0, 1e-9]))
    high = draw(st.sampled_from([1.0, 1e3]))
    numbers = SMALL.map(lambda v: float(np.float32(min(max(v, low), high))))
    numbers = numbers.filter(lambda v: low <= v <= high)
    width = draw(st.sampled_from([1, 2]))
    row = st.lists(numbers, min_size=width, max_size=width)
    columns = draw(st.permutations(range(WIDTH)))[:width]
    return box_of(
        [low] * WIDTH, [high] * WIDTH, (columns, draw(st.lists(row, min_size=1, max_size=4)))
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(box=honest_boxes(), apart=st.booleans())
def test_a_box_that_holds_a_point_is_never_taken_for_empty(folder, box, apart):
    content = hollow(folder, box, apart=apart)
    assert "by the claimed" in outcome(folder, content)


@pytest.mark.parametrize(
    "box",
    [
        box_of([0, 0], [1, 1], ([0], [[2.0]])),
        box_of([0, 0], [1, 1], ([0], [[0.5], [2.0]])),
        box_of([-1e3, 0], [1e3, 1], ([0], [[-1e3 - 2**-12]])),
        box_of([0, 0], [1, 1], ([0, 0], [[0.0, 1.0]])),
        box_of([0, 0], [1, 1], ([0], [[0.0]]), ([0], [[1.0]])),
        box_of([0, 0], [1, 1], ([0, 1], [[0.0, 0.0]]), ([1], [[1.0]])),
        box_of([0, 0], [1, 1], ([2], [[0.0]])),
        box_of([0, 0], [1, 1], ([-1], [[0.0]])),
        box_of([0, 0], [1, 1], ([], [[]])),
        box_of([0, 0], [1, 1], ([2**62], [[0.0]])),
        box_of([0, 0], [1, 1], ([0], [])),
        box_of([0, 0], [1, 1], ([0], [[0.0], [0.0, 1.0]])),
        box_of([0, 0], [1, 1], ([0], [[0.1]])),
        box_of([0, 0], [1, 1], ([0], [[1e39]])),
        box_of([0, 1], [1, 0]),
        box_of([-1e39, 0], [1, 1]),
        box_of([0], [1]),
        box_of([], []),
    ],
)
def test_a_box_that_no_question_has_is_rejected(folder, box, snapshot):
    assert outcome(folder, hollow(folder, box)) == snapshot


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("offsets", [0, 2**63 - 1, -(2**63) + 1, 3], "sets of members"),
        ("offsets", [0, -5, 4, 6], "sets of members"),
        ("offsets", [3], "sets of members"),
        ("offsets", [], "sets of members"),
        ("members", [0, 0, 1, 1, 2, 2], "root that does not cover"),
        ("members", [0, 1, 2, 0, 1, 1], "do not partition"),
        ("members", [0, 1, 2, 0, 1, -1], "member that does not exist"),
        ("parent", [-1, 1, 0], "does not come after its parent"),
        ("parent", [-1, -1, 0], "must have a parent"),
        ("parent", [-(2**63), 0, 0], "does not come after its parent"),
        ("index", [0, 0, 0], "does not exist|one per case"),
        ("group", [0, 1, 7], "sets of members"),
        ("group", [0, -1, 2], "must list members"),
        ("kind", np.array([0, 2, 9], np.int8), "unknown kind"),
        ("kind", np.array([0, 2, 1], np.int8), "must list members|different kinds"),
        ("proof", [0, 0, 0], "proof that does not exist"),
        ("point", [0.0, np.nan, 0.0], "not finite"),
        ("error", [np.inf, 0.0, 0.0], "not finite"),
    ],
)
def test_a_tree_that_covers_less_is_rejected(folder, name, values, why):
    content = hollow(folder, box_of([0, 0], [1, 1]), apart=True)
    known = content.arrays[f"tree0.{name}"]
    content.arrays[f"tree0.{name}"] = np.asarray(values, known.dtype)
    assert any(part in outcome(folder, content) for part in why.split("|"))


@pytest.mark.parametrize("parent", [2, 7])
def test_parts_of_a_node_that_comes_later_are_rejected(folder, parent):
    content = hollow(folder, box_of([0, 0], [1, 1]), apart=True)
    short = {f"tree0.{name}" for name in ("ident", "claim")}
    content.arrays = {key: each for key, each in content.arrays.items() if key not in short}
    content.manifest["format"] = 3
    content.arrays["tree0.parent"] = np.array([-1, 0, parent])
    # The second part is what others leave of its parent's members.
    content.arrays |= {"tree0.members": np.arange(4) % 3, "tree0.offsets": np.array([0, 3, 4, 4])}
    assert "come after its parent" in outcome(folder, content)


@pytest.mark.parametrize("path", ["../other/full.onnx", "/etc/passwd", "inner/../../full.onnx"])
def test_a_certificate_opens_nothing_outside_its_folder(folder, path, snapshot):
    content = hollow(folder, box_of([0, 0], [1, 1]))
    content.manifest["questions"][0]["network"]["path"] = path
    message = outcome(folder, content)
    assert message == snapshot
    assert "--network" in message


def test_a_link_does_not_lead_out_of_the_folder(folder, snapshot):
    (folder / "inner").symlink_to("/etc")
    content = hollow(folder, box_of([0, 0], [1, 1]))
    content.manifest["questions"][0]["network"]["path"] = "inner/passwd"
    assert outcome(folder, content) == snapshot


@pytest.mark.parametrize("name", ["bound\naccepted", "\x1b[2Jbound", "bound\r"])
def test_names_that_would_steer_a_terminal_are_refused(folder, name, snapshot):
    content = hollow(folder, box_of([0, 0], [1, 1]))
    content.manifest["results"][0]["name"] = name
    assert outcome(folder, content) == snapshot


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_a_bound_that_is_no_number_proves_nothing(folder, number, snapshot):
    """Whatever of the arithmetic fails: such a bound is below every claim, and above none."""
    content = hollow(folder, box_of([0, 0], [1, 1]))
    content.save(folder / "forged.cert")
    real = Descent.forms

    def broken(*given):
        slopes, constant = real(*given)
        return slopes, np.full_like(constant, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Descent, "forms", broken)
        with pytest.raises(RejectedError) as told:
            check(folder / "forged.cert")
        assert str(told.value) == snapshot


def test_what_an_accepted_claim_is_about_is_printed_whole(tmp_path, capsys, snapshot):
    from support.files import write_question

    text = (
        'let N = network("full.onnx")\nlet F = family("family.npz")\n'
        "let X = grid(box(0, 1), at = 0, values = [0, 0.25, 1e-9])\n\n"
        "find bound: least b per label such that\n"
        "    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)\n"
    )
    spec = write_question(tmp_path, text=text)
    assert run(["verify", str(spec), "--certificate", str(tmp_path / "proof.cert")]) in {0, 3}
    capsys.readouterr()
    assert run(["check", str(tmp_path / "proof.cert")]) == 0
    out = capsys.readouterr().out
    value = float(np.float32(1e-9))
    assert passages(out, "0.25") == snapshot
    assert f"{value!r}" in out
    for name in ("full.onnx", "family.npz"):
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() in out
        assert str(tmp_path / name) in out
