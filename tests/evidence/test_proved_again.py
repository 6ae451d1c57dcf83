"""What a certificate contradicts is rejected; what it proves, and no more, is said to be proved."""

from __future__ import annotations

import msgspec
import numpy as np
import onnx
import pytest

from leaveout import verify
from leaveout.models import load_family, load_network
from leaveout.models.replay import with_parameters
from leaveout.specs import parse
from leaveout.verifier.cli.app import run
from leaveout.verifier.evidence.folder import EvidenceFolder

from support.attested import Attested, make_evidence, refused
from support.files import BOUND, write_question
from support.snapshots import passages


def _lie(attested, change) -> None:
    """Change the results and what is attested of them alike: only the certificate tells."""
    attested.reseal(change)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["results"][0].update(lower=50.0, upper=51.0),
        lambda r: r["results"][0].update(members=9),
        lambda r: r["results"][0]["box"].update(upper=[2.0] * 3),
        lambda r: r["results"][0].update(label=7),
        lambda r: r["results"].pop(0),
        lambda r: r["results"].pop(),
        lambda r: r["results"][0].update(label_name="benign"),
    ],
)
def test_results_that_the_certificate_contradicts_are_rejected(attested, capsys, change, snapshot):
    _lie(attested, change)
    assert refused(attested, capsys) == snapshot


def test_a_claim_about_another_file_than_the_statement_names_is_rejected(
    attested, capsys, snapshot
):
    def rename(called):
        assert called == ["F"]
        called[:] = ["H"]

    attested.reseal(lambda r: rename(r["files"][3]["called"]))
    assert refused(attested, capsys) == snapshot


VOTES = """\
param most = 1
let V = ballots("ballots.npz")
let D = dpa(V)
guarantee some: certified_accuracy(D, edits = most) >= 0.1 and not 1 > 2
find radius: greatest r such that certified_accuracy(D, edits = r) >= 0.2
guarantee each: forall z in test_points(V): radius(D, z) >= 0 or -1 < 0
"""


@pytest.fixture
def voted(tmp_path, monkeypatch):
    """Return evidence of statements about votes, signed."""
    from leaveout.models.votes import Ballots, write_ballots
    from leaveout.verifier.evidence.signing import make_keys

    monkeypatch.chdir(tmp_path)
    votes = np.random.default_rng(2).integers(0, 2, (9, 7)).astype(np.int32)
    write_ballots(Ballots(votes, votes[:, 0], 2), tmp_path / "ballots.npz")
    (tmp_path / "votes.spec").write_text(VOTES)
    make_keys(tmp_path / "me")
    command = ["verify", "votes.spec", "--set", "most=2", "--evidence", "proof", "--key", "me.key"]
    assert run(command) == 0
    return Attested(tmp_path)


def test_statements_about_values_are_proved_again(voted, capsys, snapshot):
    assert voted.check() == 0
    said = capsys.readouterr().out
    for name in ("some", "radius", "each"):
        assert said == snapshot
        assert f"{name}" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (">= 0.1 ", ">= 0.10001 "),
        (">= 0.1 ", "> 0.1 "),
        ("not 1 > 2", "not 1 > 3"),
        (" and ", " or "),
        ("guarantee some: ", "guarantee some: 1 > 0 and "),
        ("certified_accuracy(D, edits = r) >= 0.2", "certified_accuracy(D, edits = r) >= 0.3"),
        ("-1 < 0", "1 < 0"),
        ("most = 1", "most = 3"),
        ("dpa(V)", "ss_dpa(V)"),
    ],
)
def test_a_certificate_of_another_claim_under_the_same_name_is_rejected(
    voted, capsys, old, new, snapshot
):
    if "ss_dpa" in new:
        voted.respec("edits", "relabels", "votes.spec")
    voted.reseal(lambda r: r.update(notes=[]))
    voted.respec(old, new, "votes.spec")
    assert refused(voted, capsys) == snapshot


def test_without_the_file_that_the_text_names_nothing_is_proved_again(voted, capsys, snapshot):
    voted.reseal(lambda r: r.update(files=[e for e in r["files"] if e["kind"] != "ballots"]))
    assert voted.check() == 3
    said = capsys.readouterr().out
    assert said == snapshot


def test_a_file_under_another_name_of_its_own_is_no_file_of_the_text(voted, capsys, snapshot):
    (voted.folder / "alias").mkdir()

    def alias(result):
        next(e for e in result["files"] if e["kind"] == "ballots")["path"] = "alias/../ballots.npz"

    voted.reseal(alias)
    assert voted.check() == 0
    capsys.readouterr()
    (voted.folder / "votes.npz").write_bytes((voted.folder / "ballots.npz").read_bytes())

    def rename(result):
        next(e for e in result["files"] if e["kind"] == "ballots")["path"] = "votes.npz"

    voted.reseal(rename)
    assert refused(voted, capsys) == snapshot


def test_results_with_two_values_of_one_name_are_rejected(attested, capsys):
    path = attested.proof / "result.json"
    text = path.read_text()
    path.write_text(text.replace("{", '{"spec": "x", ', 1))
    attested.redigest("result.json", path)
    assert attested.check() == 2
    assert "spec" in capsys.readouterr().err


def test_two_specifications_are_rejected(attested, capsys, snapshot):
    (attested.folder / "b.spec").write_text("guarantee easy: 1 > 0\n")
    attested.reseal(
        lambda r: r["files"].append(
            {"path": "b.spec", "kind": "specification", "sha256": "", "called": []}
        )
    )
    assert refused(attested, capsys) == snapshot


def test_no_specification_is_rejected(attested, capsys, snapshot):
    attested.reseal(lambda r: r["files"].pop(0))
    assert refused(attested, capsys) == snapshot


@pytest.mark.parametrize("kind", ["weights", "member", "file"])
def test_a_file_that_the_text_does_not_name_is_rejected(attested, capsys, kind, snapshot):
    (attested.folder / "w.bin").write_bytes(b"0")
    attested.reseal(
        lambda r: r["files"].append({"path": "w.bin", "kind": kind, "sha256": "", "called": []})
    )
    assert refused(attested, capsys) == snapshot


@pytest.mark.parametrize(
    "lets",
    [
        "let X = box(0, 2)",
        "let X = grid(box(0, 1), at = [0], values = [[0], [1]])",
        "let X = box([0, 0, 0], [1, 1, 0.5])",
    ],
)
def test_a_certificate_of_other_inputs_than_the_text_has_is_rejected(
    attested, capsys, lets, snapshot
):
    attested.respec("let X = box(0, 1)", lets, "test.spec")
    assert refused(attested, capsys) == snapshot
    # Who tells it as the text has it contradicts the certificate.
    told = msgspec.to_builtins(verify(attested.folder / "test.spec", workers=1).results)
    attested.reseal(lambda r: [a.update(box=b["box"]) for a, b in zip(r["results"], told)])
    assert refused(attested, capsys) == snapshot


def test_networks_whose_weights_lie_beside_them_are_compared_too(
    tmp_path, monkeypatch, capsys, snapshot
):
    folder = tmp_path / "weights"
    folder.mkdir()
    make_evidence(folder, before=lambda: _apart(folder / "full.onnx"))
    monkeypatch.chdir(folder)
    evidence = Attested(folder)
    kinds = [each["annotations"]["kind"] for each in evidence.statement()["subject"]]
    assert "weights" in kinds
    assert evidence.check() == 0
    model = onnx.load(folder / "full.onnx")
    for item in model.graph.initializer:
        value = onnx.numpy_helper.to_array(item)
        item.CopyFrom(onnx.numpy_helper.from_array((value * 2).astype(value.dtype), item.name))
    (folder / "full.onnx").unlink()
    (folder / "full.data").unlink()
    _apart(folder / "full.onnx", model)
    evidence.reseal()
    capsys.readouterr()
    assert evidence.check() == 1
    assert capsys.readouterr().err == snapshot


def _apart(path, model=None):
    """Save a network with its weights in another file."""
    found = onnx.load(path) if model is None else model
    path.unlink(missing_ok=True)
    onnx.save_model(found, path, save_as_external_data=True, location="full.data", size_threshold=0)


def test_a_sentence_that_says_more_than_its_statement_is_rejected(voted, capsys, snapshot):
    voted.reseal(lambda r: r["statements"][0].update(sentence="nobody can change anything"))
    assert refused(voted, capsys) == snapshot


def test_training_rows_that_the_files_are_not_of_are_rejected(attested, capsys, snapshot):
    attested.reseal(lambda r: r["training"][0].update(rows=10**6))
    assert refused(attested, capsys) == snapshot


def test_a_statement_that_the_specification_has_otherwise_is_rejected(voted, capsys, snapshot):
    def change(result):
        said = result["statements"][0]
        said["text"] = said["text"].replace(">= 0.1", ">= 0.2")

    voted.reseal(change)
    assert refused(voted, capsys) == snapshot


def test_a_bound_below_what_the_certificate_proves_is_not_called_proved_again(
    attested, capsys, snapshot
):
    _lie(attested, lambda r: r["results"][0].update(lower=0.0, upper=0.01))
    assert attested.check() == 3
    said = capsys.readouterr().out
    assert passages(said, "0.87852", "3") == snapshot


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["results"][0].update(lower=r["results"][0]["upper"], witness=None),
        lambda r: r["results"][0]["witness"].update(x=[0.5] * 3),
        lambda r: r["results"][0]["witness"].update(member=10**6),
        lambda r: r["results"][2].update(witness=None),
        lambda r: r["results"][2]["witness"].update(x=[0.5]),
        lambda r: r["results"][2]["witness"].update(x=[7.0] * 3),
    ],
)
def test_what_is_told_of_a_leak_that_does_not_replay_is_not_proved_again(
    attested, capsys, change, snapshot
):
    _lie(attested, change)
    assert attested.check() == 3
    assert passages(capsys.readouterr().out, "3") == snapshot


def test_bounds_that_are_far_apart_are_not_called_closed(attested, capsys, snapshot):
    """As far apart, a find is unknown."""

    def change(result):
        result["results"][0].update(lower=0.0, witness=None)

    _lie(attested, change)
    assert attested.check() == 3
    assert passages(capsys.readouterr().out, "3") == snapshot


def test_a_certificate_of_another_run_is_rejected(attested, capsys, snapshot):
    text = (attested.folder / "test.spec").read_text()
    other = attested.folder / "third.spec"
    other.write_text(text.partition("include")[0].replace("find bound", "find another"))
    path = attested.proof / "certificate.npz"
    assert run(["verify", str(other), "--workers", "1", "--certificate", str(path)]) == 0
    capsys.readouterr()
    attested.redigest("certificate.npz", path)
    assert refused(attested, capsys) == snapshot


ABOVE = (
    "guarantee above: forall x in X, M in F: confidence(N, x) > 50 => label(M, x) == label(N, x)"
)
SEVERAL = f"""\
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)
find bound: least b per label such that
    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)
{ABOVE}
guarantee one:
    forall x in X, M in F: confidence(N, x, label = 0) >= 60 => label(M, x) == label(N, x)
"""


@pytest.fixture
def several(attested) -> Attested:
    """Return evidence of a find per label and of guarantees that one search proves with it."""
    (attested.folder / "several.spec").write_text(SEVERAL)
    command = ["verify", "several.spec", "--workers", "1", "--evidence", "proof"]
    assert run([*command, "--key", "me.key"]) == 0
    return attested


def test_guarantees_beside_a_find_are_proved_again(several, capsys, snapshot):
    capsys.readouterr()
    assert several.check() == 0
    assert passages(capsys.readouterr().out, "4") == snapshot


@pytest.mark.parametrize(
    ("text", "is_leak"),
    [
        ("guarantee above: forall x in X, M in F: label(M, x) == label(N, x)", True),
        (
            "guarantee above: forall x in X, M in F: "
            "confidence(N, x) > 0.001 => label(M, x) == label(N, x)",
            True,
        ),
        ("guarantee above: forall x in X: confidence(N, x) > 50 => label(N, x) == 0", False),
        ("guarantee above: 1 == 1", False),
    ],
)
def test_more_than_the_certificate_proves_is_not_called_proved_again(
    several, capsys, text, is_leak, snapshot
):
    _restate(several, text)
    capsys.readouterr()
    assert several.check() == 1
    said = capsys.readouterr().err
    assert said == snapshot

    path = several.folder / "several.spec"
    path.write_text(SEVERAL.replace(ABOVE, text))
    about = {} if is_leak else {"members": 0, "box": {"lower": [], "upper": []}}
    if "forall" in text and not is_leak:
        about.pop("box")
    several.reseal(lambda r: r["results"][2].update(about))
    several.retell("several.spec")
    if not is_leak:
        assert refused(several, capsys) == snapshot
        return
    assert several.check() == 3
    said = capsys.readouterr().out
    assert said == snapshot
    assert passages(said, "3") == snapshot


def _restate(evidence, text, field="text") -> None:
    def change(record):
        record[field] = text

    evidence.reresult(lambda r: change(next(s for s in r["statements"] if s["name"] == "above")))
    evidence.restate(
        lambda s: change(next(p for p in s["predicate"]["statements"] if p["name"] == "above"))
    )


def test_definitions_that_the_specification_does_not_have_are_rejected(several, capsys, snapshot):
    lets = ['let N = network("full.onnx")', 'let F = family("family.npz")']
    _restate(several, [*lets, "let X = box(0, 2)"], "definitions")
    assert refused(several, capsys) == snapshot


@pytest.mark.parametrize("given", [(), ("--set", "T=0.95")])
def test_params_are_as_they_were_set(several, capsys, given, snapshot):
    text = SEVERAL.partition("find")[0] + (
        "param T = 0.9\nguarantee set: forall x in X, M in F: "
        "confidence(N, x) > T => label(M, x) == label(N, x)\n"
    )
    (several.folder / "several.spec").write_text(text)
    command = ["verify", "several.spec", "--workers", "1", "--evidence", "proof", *given]
    assert run([*command, "--key", "me.key"]) == 0
    capsys.readouterr()
    assert several.check() == 0
    assert passages(capsys.readouterr().out, "1") == snapshot


def test_a_param_that_was_set_otherwise_is_told(voted, capsys, snapshot):
    assert voted.check() == 0
    assert passages(capsys.readouterr().out, "2") == snapshot


def test_definitions_are_told_in_full(voted, capsys, snapshot):
    voted.reseal(lambda r: r["statements"][0].update(definitions=[]))
    assert refused(voted, capsys) == snapshot


def test_a_sentence_of_another_version_is_not_believed(voted, capsys, snapshot):
    def change(result):
        result["leaveout"] = "0.0.1"
        result["statements"][0]["sentence"] = "No record of any person can ever change any answer."

    voted.reseal(change)
    assert voted.check() == 3
    assert capsys.readouterr().out == snapshot


def test_a_bound_of_a_guarantee_that_is_not_proved_is_named(several, capsys, snapshot):
    several.reseal(lambda r: r["results"][2].update(lower=0.0, upper=1e-4, witness=None))
    assert several.check() == 0
    assert passages(capsys.readouterr().out, "0.0001") == snapshot


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize(
    "names",
    [
        ("{own}/full.onnx", "{own}/family.npz"),
        ("{own}/./full.onnx", "sub/../family.npz"),
        ("../{name}/full.onnx", "{own}/members"),
    ],
)
def test_however_files_are_named_honest_evidence_is_proved_again(
    tmp_path, monkeypatch, capsys, names, built
):
    monkeypatch.chdir(tmp_path)
    write_question(tmp_path)
    (tmp_path / "sub").mkdir()
    network = load_network(tmp_path / "full.onnx")
    (tmp_path / "members").mkdir()
    members = load_family(tmp_path / "family.npz", network)
    for at in range(len(members)):
        own = {name: value[0] for name, value in members.take([at]).items()}
        onnx.save(with_parameters(network.model, own), tmp_path / "members" / f"{at}.onnx")
    full, family = (each.format(own=tmp_path, name=tmp_path.name) for each in names)
    text = BOUND.replace("full.onnx", full).replace("family.npz", family)
    (tmp_path / "s.spec").write_text(text)
    with EvidenceFolder.open(tmp_path / "proof", "native", None) as folder:
        given = parse(text) if built else tmp_path / "s.spec"
        folder.write(verify(given, workers=1, certificate=folder.certificate))
    assert run(["check", "proof"]) == 0, capsys.readouterr()


@pytest.mark.parametrize("threshold", [0.7, 1.5])
def test_a_guarantee_over_listed_inputs_is_proved_again(tmp_path, monkeypatch, capsys, threshold):
    monkeypatch.chdir(tmp_path)
    listed = "grid(box(0, 1), at = [0, 1], values = [[0, 1], [1, 0]])"
    claim = f"confidence(N, x) > {threshold} => label(M, x) == label(N, x)"
    head = BOUND.partition("find")[0].replace("box(0, 1)", listed)
    write_question(tmp_path, seed=4, text=f"{head}guarantee g: forall x in X, M in F: {claim}\n")
    assert run(["verify", "test.spec", "--workers", "1", "--evidence", "proof"]) == 0
    assert run(["check", "proof"]) == 0, capsys.readouterr()


@pytest.fixture
def refuted(attested) -> Attested:
    """Return evidence of a guarantee of one network that has a counter-example."""
    (attested.folder / "points.spec").write_text(
        'let N = network("full.onnx")\nlet X = box(0, 1)\n'
        "guarantee never: forall x in X: score(N, x, 0) - score(N, x, 1) > 1000\n"
        "find most: greatest b such that forall x in X: score(N, x, 0) - score(N, x, 1) >= b\n"
    )
    command = ["verify", "points.spec", "--workers", "1", "--evidence", "proof"]
    assert run([*command, "--key", "me.key"]) == 1
    return attested


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("scores", lambda e: e["scores"].update({"N(x)": [s + 0.01 for s in e["scores"]["N(x)"]]})),
        ("scores", lambda e: e["scores"].update({"N(x)": e["scores"]["N(x)"][:1]})),
        ("scores", lambda e: e.update(scores={})),
        ("scores", lambda e: e["scores"].update({"M(x)": e["scores"]["N(x)"]})),
        ("label", lambda e: e["labels"].update({"N(x)": 1 - e["labels"]["N(x)"]})),
        ("labels", lambda e: e.update(labels={})),
        ("words", lambda e: e.update(words=e["words"].replace("answers 1", "answers 0") + " ")),
        ("words", lambda e: e.update(words="")),
        ("label_names", lambda e: e.update(label_names=["cat", "dog"])),
    ],
)
def test_what_an_example_tells_is_what_the_network_does(refuted, capsys, what, change):
    assert refuted.check() == 0
    capsys.readouterr()
    _lie(refuted, lambda result: change(result["results"][0]["example"]))
    assert f"has {what}" in refused(refuted, capsys)


def test_a_find_over_points_cannot_be_refuted(refuted, capsys):
    _lie(refuted, lambda result: result["results"][1].update(verdict="refuted"))
    capsys.readouterr()
    assert "it is a find" in refused(refuted, capsys)
