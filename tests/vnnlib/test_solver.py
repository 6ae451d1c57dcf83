"""The command line that the standard asks of solvers."""

import numpy as np
import onnx
import pytest

from leaveout.models import load_network
from leaveout.verifier.cli import run as run_leaveout
from leaveout.verifier.cli.solver import run_solver
from leaveout.version import VERSION

from support import networks

QUERY = """\
(vnnlib-version <2.0>)
(declare-network f
  (declare-input X {type} [1,3])
  (declare-hidden H {type} [1,4] "h0")
  (declare-output Y {type} [3]))
(declare-network g (equal-to f)
  (declare-input A {type} [1,3])
  (declare-output B {type} [3]))
(assert (and (<= 0 X[0,0] 1) (<= 0 X[0,1] 1) (<= 0 X[0,2] 1)))
(assert (and (== A[0,0] X[0,0]) (== A[0,1] (* 0.5 X[0,1])) (== A[0,2] 5e-1)))
(assert (> (+ H[0,0] H[0,1] H[0,2] H[0,3]) {least}))
"""


@pytest.fixture
def folder(tmp_path, network, monkeypatch):
    onnx.save(network.model, tmp_path / "net.onnx")
    for name, least in [("sat", "-1.0"), ("unsat", "1e3")]:
        text = QUERY.format(type="float32", least=least)
        (tmp_path / f"{name}.vnnlib").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SUPPORTED = {
    "--onnx-opset-versions": lambda lines: int(lines[0]) < int(lines[1]) and len(lines) == 2,
    "--onnx-element-types": lambda lines: set(lines) == {"float32", "real"},
    "--onnx-operators": lambda lines: {"Gemm", "Relu", "Conv"} < set(lines),
    "--vnnlib-versions": lambda lines: lines == ["1.0", "2.0"],
    "--hidden-node-theories": lambda lines: lines == ["NH", "H"],
    "--multiple-input-output-theories": lambda lines: lines == ["SIO"],
    "--multiple-network-theories": lambda lines: lines == ["SNET", "MENET", "MINET", "MNET"],
    "--multiple-node-comparison-theories": lambda lines: lines == ["SNC", "MNC"],
    "--arithmetic-complexity-theories": lambda lines: lines == ["BND", "OUTC", "LIN"],
    "--optimised-disjunctive-reasoning": lambda lines: lines == ["false"],
    "--serialise-assignments": lambda lines: lines == ["true"],
}  # fmt: skip
"""Of the eleven capabilities that a solver must tell, what the answer is like."""


@pytest.mark.parametrize("capability", SUPPORTED)
def test_capabilities(capability, capsys):
    assert run_solver(["supports", capability]) == 0
    told = capsys.readouterr()
    assert SUPPORTED[capability](told.out.splitlines())
    assert not told.err


def test_name_and_version_are_one_line_each(capsys):
    assert run_solver(["--name"]) == 0
    assert capsys.readouterr().out == "leaveout\n"
    assert run_solver(["--version"]) == 0
    assert capsys.readouterr().out == f"{VERSION}\n"


def test_every_operator_that_is_told_is_read_somewhere():
    """None is told that the reader does not know."""
    from leaveout.models.onnx.rewrites import REWRITES
    from leaveout.models.onnx.table import OPERATORS
    from leaveout.verifier.cli.solver import CAPABILITIES

    known = {*OPERATORS, *(each.operator for each in REWRITES)}
    assert set(CAPABILITIES["--onnx-operators"]()) == known - {"LogSoftmax"}


def test_unsat(folder, capsys):
    assert run_solver(["verify", "unsat.vnnlib", "--network", "f=net.onnx"]) == 0
    assert capsys.readouterr().out == "unsat\n"


def read_back(lines):
    """Return the variables of the command line's format."""
    found = {}
    for line in lines:
        if line[0].isalpha():
            name, kind, shape = line.split()
            values = found[name] = (kind, shape, [])
        else:
            values[2].append(float(line))
    return found


def test_a_counter_example_holds_all_that_is_declared_in_order(folder, capsys):
    assert run_solver(["verify", "sat.vnnlib", "--network", "f=net.onnx"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "sat"
    found = read_back(lines)
    assert list(found) == ["X", "H", "Y", "A", "B"]
    assert [found[name][1] for name in found] == ["[1,3]", "[1,4]", "[3]", "[1,3]", "[3]"]
    assert {each[0] for each in found.values()} == {"float32"}
    net = load_network("net.onnx")
    for point, score in ("XY", "AB"):
        expected = net.runner().scores(np.asarray([found[point][2]]))[0]
        assert found[score][2] == expected.tolist()
    weights, bias = (net.parameters[each] for each in list(net.parameters)[:2])
    hidden = np.maximum(0, np.asarray(found["X"][2]) @ weights.reshape(3, 4) + bias)
    assert found["H"][2] == pytest.approx(hidden, abs=1e-6)
    assert sum(found["H"][2]) > -1
    assert found["A"][2] == pytest.approx([found["X"][2][0], found["X"][2][1] / 2, 0.5], abs=1e-6)


@pytest.mark.parametrize("option", ["--serialise-assignments", "--assignments"])
def test_a_counter_example_in_files(folder, capsys, option):
    given = ["verify", "sat.vnnlib", "--network", "f=net.onnx", option, "deep/folder"]
    assert run_solver(given) == 0
    assert capsys.readouterr().out == "sat\n"
    files = sorted(path.name for path in (folder / "deep/folder").iterdir())
    assert files == ["A.pb", "B.pb", "H.pb", "X.pb", "Y.pb"]
    found = {}
    for name in files:
        proto = onnx.TensorProto.FromString((folder / "deep/folder" / name).read_bytes())
        found[name[0]] = onnx.numpy_helper.to_array(proto)
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert {name: array.shape for name, array in found.items()} == {
        "X": (1, 3), "H": (1, 4), "Y": (3,), "A": (1, 3), "B": (3,),
    }  # fmt: skip
    scores = load_network("net.onnx").runner().scores(found["X"])[0]
    assert found["Y"].tolist() == scores.tolist()


def test_out_of_time_is_said_in_the_words_of_the_standard(folder, capsys, monkeypatch):
    import types

    import leaveout.verifier.points.query as decider

    given = types.SimpleNamespace(verdict="unknown", reason="time", points=None, scores=None)
    monkeypatch.setattr(decider, "decide", lambda query, **options: given)
    assert run_solver(["verify", "unsat.vnnlib", "--network", "f=net.onnx"]) == 0
    assert capsys.readouterr().out == "timed-out\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "sat.vnnlib"],
        ["verify", "sat.vnnlib", "--network", "h=net.onnx"],
        ["verify", "no.vnnlib", "--network", "f=net.onnx"],
        ["verify", "sat.vnnlib", "--network", "f=net.onnx", "--network", "g=net.onnx"],
        ["verify", "sat.vnnlib", "--network", "f=net.onnx", "--timeout", "1.5"],
        ["verify", "sat.vnnlib", "--network", "f=net.onnx", "--assignments", "net.onnx"],
        ["supports", "--hidden-nodes-theories"],
        ["supports"],
    ],
)
def test_errors_go_to_standard_error(folder, capsys, arguments, snapshot):
    assert run_solver(arguments) == 2
    told = capsys.readouterr()
    assert not told.out
    assert told.err == snapshot
    assert told.err.count("\n") == 1


def test_a_float64_query_needs_a_cure(folder, capsys, snapshot):
    (folder / "wide.vnnlib").write_text(QUERY.format(type="float64", least="0.0"))
    assert run_solver(["verify", "wide.vnnlib", "--network", "f=net.onnx"]) == 2
    assert capsys.readouterr().err == snapshot


def test_hidden_nodes_leave_no_certificate(folder, capsys, snapshot):
    given = ["vnnlib", "unsat.vnnlib", "--network", "f=net.onnx", "--certificate", "c.cert"]
    assert run_leaveout(given) == 2
    assert capsys.readouterr().err == snapshot
    assert not (folder / "c.cert").exists()


def test_one_output_leaves_a_certificate(tmp_path, capsys, monkeypatch, snapshot):
    onnx.save(networks.dense(np.random.default_rng(0), (2, 4, 1)), tmp_path / "one.onnx")
    text = (
        "(vnnlib-version <2.0>)(declare-network f (declare-input X float32 [2])"
        "(declare-output Y float32 []))(assert (and (<= 0 X[0] X[1] 1) (>= Y 0)))"
    )
    (tmp_path / "q.vnnlib").write_text(text)
    monkeypatch.chdir(tmp_path)
    given = ["vnnlib", "q.vnnlib", "--network", "one.onnx", "--certificate", "q.cert"]
    assert run_leaveout(given) == 0
    assert capsys.readouterr().out == "unsat\n"
    assert run_leaveout(["check", "q.cert"]) == 0
    told = capsys.readouterr().out
    assert "accepted" in told
    # What relates the inputs is a part of the claim, and what follows of it the range.
    assert "-x[0] + x[1] >= 0" in told
    assert told == snapshot
