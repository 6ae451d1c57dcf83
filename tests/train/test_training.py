"""A run: what it leaves, that its bytes are reproducible, and what it refuses."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.models import load_family
from leaveout.models.family import Manifest, load_family_file
from leaveout.models.onnx.file import load_network
from leaveout.models.onnx.signature import is_of_architecture
from leaveout.models.train import Recipe, encoding_of, run
from leaveout.models.train.architecture import count_parameters, layers_of, parameter_shapes
from leaveout.models.train.blocks import Blocks, write_block
from leaveout.models.train.data import read_data
from leaveout.models.train.draws import initial_weights
from leaveout.models.train.export import scores, write_family
from leaveout.models.train.recipe import ACTIVATIONS

from support import children

RECIPE = Recipe(layers=(9, 5), epochs=3, batch=8)
FILES = ["family.npz", "full.onnx", "idp.spec"]

needs_torch = pytest.mark.usefixtures("torch", "here")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train on a small table, for tests that only look at the outcome."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("trained")
    table = folder / "shop.csv"
    lines = [
        f"{i % 7},{'abc'[i % 3]},{i * i % 5},{'yes' if i % 7 > 3 else 'no'}" for i in range(40)
    ]
    table.write_text("visits,month,pages,bought\n" + "\n".join(lines) + "\n")
    seen = []
    report = run(
        table,
        folder / "out",
        label="bought",
        recipe=RECIPE,
        block=7,
        workers=2,
        device="cpu",
        on_progress=seen.append,
    )
    return table, report, seen


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())}


def test_a_run_leaves_three_files_and_nothing_else(trained):
    _, report, _ = trained
    assert sorted(path.name for path in report.directory.iterdir()) == FILES
    assert sorted(path.name for path in report.files) == FILES
    assert (report.rows, report.features, report.labels, report.members) == (40, 5, 2, 40)


def test_the_family_matches_the_network_and_knows_where_it_comes_from(trained):
    table, report, _ = trained
    network = load_network(report.directory / "full.onnx")
    family = load_family_file(report.directory / "family.npz")
    assert list(family.parameters) == list(network.parameters)
    for name, value in network.parameters.items():
        assert family.parameters[name].shape == (40, *value.shape)
        assert family.parameters[name].dtype == np.float32
        assert not (family.parameters[name] == value).all()
    assert family.removed.tolist() == list(range(40))
    data = read_data(table, "bought")
    assert is_of_architecture(family.manifest.architecture, network.model)
    assert family.manifest.data == data.facts()
    assert family.manifest.seed == 0
    assert encoding_of(family.manifest) == data.encoding
    expected = {"epochs": 3, "batch": 8, "layers": [9, 5], "device": "cpu", "dropout": 0}
    assert expected.items() <= family.manifest.recipe.items()


def test_accuracy_is_that_of_the_network_on_all_rows(trained):
    table, report, _ = trained
    data = read_data(table, "bought")
    found = scores((report.directory / "full.onnx").read_bytes(), data.X).argmax(axis=1)
    assert report.train_accuracy == np.mean(found == data.y)
    assert report.test_accuracy is None


def test_progress_only_grows_and_ends_with_all_networks(trained):
    _, _, seen = trained
    work = [progress.work for progress in seen]
    assert work == pytest.approx(sorted(work))
    assert seen[0].work == 0
    assert (seen[-1].finished, seen[-1].work, seen[-1].networks) == (41, 41, 41)


def test_the_specification_names_data_and_files(trained):
    _, report, _ = trained
    assert (report.directory / "idp.spec").read_text() == (
        "# what any one record of shop.csv can change\n"
        'let N = network("full.onnx")\n'
        'let F = family("family.npz")\n'
        "let X0 = box(0, 1)\n"
        "let X1 = integers(X0, at = 0, zero = 0, one = 6)  # visits: 0 to 6\n"
        "let X2 = one_hot(X1, at = [1, 2, 3])  # month\n"
        "let X = integers(X2, at = 4, zero = 0, one = 4)  # pages: 0 to 4\n"
        "\n"
        "find bound: least b per label such that\n"
        "    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)\n"
    )


def test_the_same_command_again_says_it_is_complete_and_touches_nothing(trained):
    table, report, _ = trained
    before = {path: path.stat().st_mtime_ns for path in report.files}
    again = run(table, report.directory, label="bought", recipe=RECIPE, block=3, device="cpu")
    assert again.complete_before
    assert again.train_accuracy == report.train_accuracy
    assert {path: path.stat().st_mtime_ns for path in report.files} == before


def test_another_run_in_a_finished_directory_is_refused(trained, snapshot):
    table, report, _ = trained
    before = contents(report.directory)
    other = Recipe(layers=(9, 5), epochs=4, batch=8, seed=2)
    with pytest.raises(TrainingError) as told:
        run(table, report.directory, label="bought", recipe=other, device="cpu")
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        run(table, report.directory, label="bought", recipe=RECIPE, members=5, device="cpu")
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        run(table, report.directory, label="month", recipe=RECIPE, device="cpu")
    assert str(told.value) == snapshot
    assert contents(report.directory) == before


@pytest.mark.parametrize("recipe", [RECIPE, Recipe(cnn=True, epochs=2)], ids=["dense", "cnn"])
@pytest.mark.usefixtures("torch")
def test_block_and_workers_change_no_byte(blobs, tmp_path, recipe):
    found = []
    for index, (block, workers) in enumerate([(64, 1), (7, 2)]):
        out = tmp_path / str(index)
        run(blobs, out, recipe=recipe, block=block, workers=workers, device="cpu", members=20)
        found.append(contents(out))
    assert all(other == found[0] for other in found)


@needs_torch
def test_the_first_members_of_a_short_family_are_those_of_a_long_one(blobs, tmp_path):
    for members in (3, 9):
        run(blobs, tmp_path / str(members), recipe=RECIPE, members=members, workers=1, device="cpu")
    short, long = (load_family_file(tmp_path / str(n) / "family.npz") for n in (3, 9))
    for name, stack in short.parameters.items():
        assert np.array_equal(stack, long.parameters[name][:3])
    whole = [(tmp_path / str(n) / "full.onnx").read_bytes() for n in (3, 9)]
    assert whole[0] == whole[1]


@needs_torch
def test_a_box_of_the_data_is_given_where_the_data_leaves_the_unit_box(tmp_path):
    X = np.array([[0.0, -3.5], [0.25, 9.0], [1.0, 0.1]], dtype=np.float32)
    np.savez(tmp_path / "wide.npz", X=X, y=np.array([0, 1, 0]))
    run(tmp_path / "wide.npz", tmp_path / "out", recipe=RECIPE, members=1, workers=1, device="cpu")
    lines = (tmp_path / "out" / "idp.spec").read_text().splitlines()
    assert "let X = box([0.0, -3.5], [1.0, 9.0])" in lines
    assert any(line.startswith("# some rows lie outside [0, 1]") for line in lines)


@needs_torch
def test_training_that_diverges_is_an_error_and_leaves_nothing(tmp_path, snapshot):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", X=rng.random((20, 3)) * 1e30, y=np.arange(20) % 2)
    with pytest.raises(TrainingError) as told:
        run(tmp_path / "d.npz", tmp_path / "out", recipe=RECIPE, workers=1, device="cpu")
    assert str(told.value) == snapshot
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"members": 62},
        {"members": 0},
        {"block": 0},
        {"workers": -1},
        {"device": "tpu"},
        {"label": "ill"},
    ],
)
@needs_torch
def test_bad_settings_write_nothing(blobs, tmp_path, change, snapshot):
    with pytest.raises(TrainingError) as told:
        run(blobs, tmp_path / "out", **{"device": "cpu", **change})
    assert str(told.value) == snapshot
    assert not (tmp_path / "out").exists()


@needs_torch
@pytest.mark.parametrize("name", [each for each in ACTIVATIONS if each != "relu"])
def test_networks_of_smooth_activations_are_read_with_their_families(blobs, tmp_path, name):
    recipe = Recipe(layers=(4, 3), epochs=1, activation=name)
    run(blobs, tmp_path / "out", recipe=recipe, members=2, workers=1)
    network = load_network(tmp_path / "out" / "full.onnx")
    assert [each.kinds is not None for each in network.stack.layers] == [True, True, False]
    family = load_family(tmp_path / "out" / "family.npz", network)
    assert family.manifest.recipe["activation"] == name
    assert len(family) == 2


def test_the_convolutions_need_five_features(tmp_path, snapshot):
    np.savez(tmp_path / "d.npz", X=np.eye(4), y=np.arange(4) % 2)
    with pytest.raises(TrainingError) as told:
        run(tmp_path / "d.npz", tmp_path / "out", recipe=Recipe(cnn=True))
    assert str(told.value) == snapshot


@needs_torch
def test_an_output_that_is_not_ours_is_left_alone(blobs, tmp_path, snapshot):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(TrainingError) as told:
        run(blobs, tmp_path / "file", recipe=RECIPE)
    assert str(told.value) == snapshot
    (tmp_path / "full.onnx").write_text("mine")
    with pytest.raises(TrainingError) as told:
        run(blobs, tmp_path, recipe=RECIPE)
    assert str(told.value) == snapshot
    (tmp_path / "family.npz").write_text("mine")
    with pytest.raises(TrainingError) as told:
        run(blobs, tmp_path, recipe=RECIPE)
    assert str(told.value) == snapshot
    assert (tmp_path / "full.onnx").read_text() == "mine"


def test_without_torch_one_line_says_what_to_install(blobs, tmp_path, monkeypatch, snapshot):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(TrainingError) as caught:
        run(blobs, tmp_path / "out")
    assert str(caught.value) == snapshot
    assert caught.value.exit_code == 2


def test_no_module_imports_torch_before_training_starts():
    program = (
        "import importlib, pkgutil, sys, leaveout.models.train as t, leaveout.verifier.cli.train\n"
        "for m in pkgutil.iter_modules(t.__path__):\n"
        "    importlib.import_module(f'{t.__name__}.{m.name}')\n"
        "assert 'torch' not in sys.modules"
    )
    children.run([sys.executable, "-c", program], check=True)


def test_a_family_is_assembled_in_little_more_memory_than_it_takes(tmp_path):
    layers = layers_of(Recipe(), 15, 2)
    size, members = count_parameters(layers), 3000
    blocks = Blocks(tmp_path, size)
    rng = np.random.default_rng(0)
    for start in range(0, members + 1, 100):
        stop = min(start + 100, members + 1)
        write_block(tmp_path, start, stop, rng.random((stop - start, size), dtype=np.float32))
    assert blocks.missing_ranges(members + 1, 64) == []
    tracemalloc.start()
    write_family(
        tmp_path / "family.npz", parameter_shapes(layers), blocks, np.arange(members), Manifest()
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 4 * size * members
    family = load_family_file(tmp_path / "family.npz")
    assert np.array_equal(
        family.parameters["layers.2.bias"][99], blocks.read(range(100, 200))[0, -2:]
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": (5, 0)}, "--layers 5,0"),
        ({"activation": "ReLU"}, "--activation ReLU"),
        ({"epochs": 0}, "--epochs 0"),
        ({"batch": -1}, "--batch -1"),
        ({"learning_rate": 0.0}, "--lr 0.0"),
        ({"learning_rate": float("nan")}, "--lr nan"),
        ({"weight_decay": -1.0}, "--weight-decay -1.0"),
        ({"weight_decay": float("nan")}, "--weight-decay nan"),
        ({"dropout": 1.0}, "--dropout 1.0"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_a_recipe_outside_its_range_is_refused_by_flag(change, said):
    with pytest.raises(TrainingError, match=said):
        Recipe(**change)


def test_a_recipe_survives_json():
    recipe = Recipe(cnn=True, seed=7, dropout=0.25)
    assert msgspec.json.decode(msgspec.json.encode(recipe), type=Recipe) == recipe
    assert len(initial_weights(layers_of(recipe, 9, 2), 7)) == 4


@needs_torch
def test_crypto_trains_to_the_accuracy_of_the_paper(shared, tmp_path):
    data = shared("crypto_lucid7.npz")
    report = run(data, tmp_path / "out", members=1, workers=1, device="cpu")
    assert report.test_accuracy > 0.99


@needs_torch
def test_a_family_is_extended_to_the_bytes_of_one_run(blobs, tmp_path, snapshot):
    short, long = tmp_path / "short", tmp_path / "long"
    settings = {"recipe": RECIPE, "workers": 1, "device": "cpu"}
    run(blobs, long, members=12, **settings)
    run(blobs, short, members=5, block=2, **settings)
    seen = []
    report = run(blobs, short, members=12, block=3, on_progress=seen.append, **settings)
    assert (seen[0].finished, report.members, report.complete_before) == (6, 12, False)
    assert contents(short) == contents(long)
    with pytest.raises(TrainingError) as told:
        run(blobs, short, members=5, **settings)
    assert str(told.value) == snapshot


@needs_torch
def test_what_cannot_be_extended_is_left_alone(blobs, tmp_path, snapshot):
    settings = {"recipe": RECIPE, "workers": 1, "device": "cpu"}
    out = tmp_path / "out"
    run(blobs, out, members=5, **settings)
    (out / "full.onnx").write_bytes(b"damaged")
    before = contents(out)
    with pytest.raises(TrainingError) as told:
        run(blobs, out, members=12, **settings)
    assert str(told.value) == snapshot
    assert contents(out) == before


TABLE = "patient,dose,ward,ill\n" + "".join(
    f"P-{row:04},{row * row % 11},{'AB'[row % 2]},{row % 3 % 2}\n" for row in range(30)
)


@needs_torch
def test_names_of_rows_and_units_are_kept_and_are_no_features(tmp_path, snapshot):
    table = tmp_path / "ward.csv"
    table.write_text(TABLE)
    settings = {"label": "ill", "recipe": RECIPE, "workers": 1, "device": "cpu", "members": 2}
    out = tmp_path / "out"
    report = run(table, out, identity="patient", units={"dose": "mg"}, **settings)
    assert report.features == 3
    manifest = load_family_file(out / "family.npz").manifest
    assert manifest.data.ids[:2] == ("P-0000", "P-0001")
    assert len(manifest.data.ids) == 30
    assert manifest.data.units == {"dose": "mg"}
    assert [column.name for column in encoding_of(manifest).columns] == ["dose", "ward"]
    with pytest.raises(TrainingError) as told:
        run(table, out, identity="patient", units={"dose": "g"}, **settings)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "change",
    [
        {"identity": "pateint"},
        {"identity": "dose"},
        {"identity": "ill"},
        {"units": {"doze": "mg"}},
        {},
    ],
)
def test_names_that_are_none_are_refused(tmp_path, change, snapshot):
    table = tmp_path / "ward.csv"
    table.write_text(TABLE)
    with pytest.raises(TrainingError) as told:
        run(table, tmp_path / "out", label="ill", **change)
    assert str(told.value) == snapshot
    assert not (tmp_path / "out").exists()


def test_the_manifest_of_an_older_version_is_read():
    old = b'{"data":{"sha256":"","rows":2,"minimum":[0],"maximum":[1],"labels":["a","b"]}}'
    facts = msgspec.json.decode(old, type=Manifest).data
    assert (facts.ids, facts.units, facts.labels) == ((), {}, ("a", "b"))
