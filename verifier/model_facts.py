"""What is in a file of any model that leaveout reads, in some lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from leaveout.errors import ModelError
from leaveout.files import MODEL, open_file, refuse_unread
from leaveout.kernel.model import LinearModel
from leaveout.kernel.trees import Ensemble
from leaveout.models.archive import archive_names, read_archive
from leaveout.models.ballots import Ballots, read_ballots
from leaveout.models.family import Family, load_family_file
from leaveout.models.linear.file import is_linear, load_linear
from leaveout.models.matrices import Sparse
from leaveout.models.onnx.file import Network, load_network
from leaveout.models.onnx.reader import TREES
from leaveout.models.trees.reading import is_library_text, read_trees
from leaveout.verifier.amounts import count_noun
from leaveout.written import first_few

if TYPE_CHECKING:
    import networkx as nx

    from leaveout.models.forest import Forest

Shown: TypeAlias = "Network | Ensemble | Forest | LinearModel | Family | Ballots | TreeMembers"
"""What can be in a file."""


@dataclass(frozen=True)
class TreeMembers:
    """Members of trees, which can be read only beside the trees of all rows."""

    members: int
    trees: int


def read_any(path: Path) -> Shown:
    """Read a model's file of any kind."""
    if path.is_dir():
        names = sorted(each.name for each in path.iterdir() if each.suffix in {".npz", ".onnx"})
        raise ModelError(
            f"{path}: is a folder; name a file in it: {', '.join(names[:9]) or 'it has no model'}"
        )
    with refuse_unread(ModelError, path), open_file(path, MODEL) as stream:
        start = stream.read(64)
    if start.startswith(b"PK"):
        return _read_archive(path)
    if is_library_text(start):
        return read_trees(path)
    if path.suffix.lower() == ".csv":
        return read_ballots(path)
    try:
        return load_network(path)
    except ModelError as refusal:
        if TREES not in str(refusal):
            raise
        return read_trees(path)


def _read_archive(path: Path) -> Shown:
    names = set(archive_names(path, ModelError))
    if {"ballots", "truth"} <= names:
        return read_ballots(path)
    if is_linear(path):
        return load_linear(path)
    if {"roots", "values", "base"} <= names:
        return read_trees(path)
    if {"trees", "starts", "removed"} <= names:
        arrays = read_archive(path, ModelError)
        return TreeMembers(len(arrays["removed"]), len(arrays["trees"]))
    if {"feature", "threshold"} <= names:
        from leaveout.models.forest import read_forest

        return read_forest(path)
    if "removed" in names:
        return load_family_file(path)
    raise ModelError(
        f"{path}: holds no model that leaveout reads, but {', '.join(sorted(names)[:6])}; name an "
        "ONNX file, trees, a forest, a linear model, a family or ballots"
    )


def facts(found: Shown, name: str) -> list[str]:
    """Return some lines about anything but a network."""
    kinds: dict[type, Callable[[Any, str], Iterator[str]]] = {
        Ensemble: _trees,
        LinearModel: _linear,
        Family: _family,
        Ballots: _ballots,
        TreeMembers: _members,
    }
    return list(kinds.get(type(found), _forest)(found, name))


def _members(found: TreeMembers, name: str) -> Iterator[str]:
    yield f"{name}: {found.members:,} members of trees, {found.trees:,} trees in all"


def _trees(trees: Ensemble, name: str) -> Iterator[str]:
    nodes = trees.nodes
    count = len(nodes.roots) - 1
    yield f"{name}: {trees.source}, {count_noun(count, 'tree')}, {trees.features} features"
    yield _answers(trees.labels, f"a regression, link {trees.link}")
    yield f"{len(nodes.feature):,} nodes, {len(nodes.values):,} leaves"
    kind = "float32" if trees.single else "float64"
    yield f"scores are sums in {kind}{'' if trees.ordered else ', in an order of the library'}"


def _answers(labels: Sequence[str], otherwise: str) -> str:
    if not labels:
        return otherwise
    return f"{count_noun(len(labels), 'label')}: {first_few(labels, 9)}"


def _linear(model: LinearModel, name: str) -> Iterator[str]:
    yield f"{name}: a linear model ({model.kind}) of {len(model.X):,} rows, {model.inputs} inputs"
    yield _answers(model.labels, "a regression")
    columns = model.coefficients.shape[1]
    yield f"{columns} design columns, the intercept's included; penalty {model.penalty.max():g}"
    if model.groups is not None:
        yield f"rows of one {model.groups.column} leave together"


def _forest(forest: Forest, name: str) -> Iterator[str]:
    from leaveout.models.forest import DareForestClassifier

    if isinstance(forest, DareForestClassifier):
        held = forest.ensemble()
        trees, classes = [each.feature for each in held.trees], held.classes
        kind = f"a forest of {len(held.names):,} rows, any of which can be deleted"
    else:
        trees, classes = [each.feature for each in forest.scored.trees], forest.scored.classes
        kind = f"scikit-learn's {forest.kind}, which only answers"
    yield f"{name}: {kind}, {count_noun(len(trees), 'tree')}, {forest.n_features_in_} features"
    yield _answers([str(each) for each in classes], "no labels")
    nodes, leaves = sum(map(len, trees)), sum(int((each < 0).sum()) for each in trees)
    yield f"{nodes:,} nodes, {leaves:,} leaves"


def _family(family: Family, name: str) -> Iterator[str]:
    weights = sum(each[0].size for each in family.parameters.values())
    yield f"{name}: a family of {count_noun(len(family), 'member')} with {weights:,} weights each"
    data, sample = family.manifest.data, family.manifest.sample
    if data is not None:
        yield f"of {data.rows:,} {'rows' if not data.group else f'groups ({data.group})'}"
        yield _answers(data.labels, f"{len(data.minimum)} features")
    if sample is not None:
        yield f"its rows are a sample of {sample.size:,} of {sample.rows:,}"
    for key, stack in family.parameters.items():
        yield f"{key}  {_shape(stack.shape[1:])}"


def _ballots(ballots: Ballots, name: str) -> Iterator[str]:
    yield (
        f"{name}: ballots of {count_noun(ballots.parts, 'member')} on {ballots.points:,} test "
        f"points, {count_noun(ballots.labels, 'label')}"
    )
    right = float((ballots.votes == ballots.truth[:, None]).mean())
    yield f"{100 * right:.1f} % of single votes are right"
    has = [key for key in ("scores", "thresholds") if getattr(ballots, key) is not None]
    yield f"with {' and '.join(has)}" if has else "without scores and thresholds"


def _shape(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "1"


def network_facts(network: Network, graph: nx.DiGraph) -> list[str]:
    """Return lines about a network, its first a title, from the graph of its operators."""
    from leaveout.models.onnx.network_graph import constant_parts, residual_blocks

    nodes = dict(graph.nodes(data=True))
    layers = network.stack.layers
    neurons = sum(layer.width for layer in layers[:-1])
    lines = [
        f"{Path(network.source).name}: {network.inputs:,} inputs, {network.labels} labels, "
        f"{neurons:,} neurons",
        "",
        *_table(
            ("operator", "name", "shape", "weights", "read as"),
            [
                (
                    node["operator"],
                    node["name"],
                    "" if node["shape"] is None else _shape(node["shape"]),
                    f"{node['parameters']:,}" if node["parameters"] else "",
                    "dropped" if node["kind"] == "dropped" else ", ".join(node["read_as"]),
                )
                for node in nodes.values()
                if node["kind"] != "constant"
            ],
        ),
    ]
    constants = sum(node["kind"] == "constant" for node in nodes.values())
    said = []
    if constants:
        parts = len(constant_parts(graph))
        said.append(
            f"{count_noun(constants, 'operator')} compute constants when the file is read"
            + (f", in {count_noun(parts, 'connected part')}" if parts else "")
        )
    for start, end in residual_blocks(graph):
        said.append(f"branches from {nodes[start]['name']} to {nodes[end]['name']}")
    said += [f"note: {note}" for note in network.graph.notes]
    return [*lines, *([""] * bool(said)), *said, *_cost(network)]


def _cost(network: Network) -> Iterator[str]:
    """Yield the layers that a network is verified in, and what they take."""
    rows, total, memory = [], 0, 0
    layers = network.stack.layers
    for at, layer in enumerate(layers, 1):
        matrices = layer.weights.values()
        entries = sum(each.size for each in matrices)
        sparse = any(isinstance(each, Sparse) for each in matrices)
        total += entries
        memory += layer.bias.nbytes + sum(
            each.values.nbytes + each.columns.nbytes + each.starts.nbytes
            if isinstance(each, Sparse)
            else each.nbytes
            for each in matrices
        )
        reads = ", ".join("input" if source == 0 else str(source) for source in layer.weights)
        last = at == len(layers)
        kept = "as entries" if sparse else "written out"
        rows.append((str(at), f"{layer.width:,}{' scores' * last}", reads, f"{entries:,}", kept))
    yield ""
    yield from _table(("layer", "neurons", "reads", "entries", "kept"), rows)
    yield ""
    yield (
        f"verified in {count_noun(len(layers), 'layer')}: {total:,} entries of matrices, "
        f"{-(-memory // 2**10):,} KiB a network"
    )


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table, without columns that are empty."""
    kept = [at for at in range(len(titles)) if any(row[at] for row in rows)]
    wide = [max(len(row[at]) for row in (titles, *rows)) for at in kept]
    for row in (titles, *rows):
        yield "  ".join(row[at].ljust(n) for at, n in zip(kept, wide, strict=True)).rstrip()
