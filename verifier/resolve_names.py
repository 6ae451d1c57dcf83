"""From names in a specification to numbers, networks, families, forests and linear models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from leaveout.errors import (
    FamilyError,
    ForestError,
    LeaveoutError,
    LinearError,
    ModelError,
    TreesError,
    cause,
)
from leaveout.models import Family, Manifest, Network, load_family, load_network
from leaveout.specs import (
    Call,
    CheckedSpec,
    Expression,
    Function,
    Let,
    Name,
    Node,
    Spec,
    Text,
    check,
    expand,
    params,
    parse,
    with_params,
)
from leaveout.specs.table import is_built_in
from leaveout.specs.table.listed import Unknown
from leaveout.specs.table.signatures import Bound, bind
from leaveout.specs.text.errors import Slip, error_in_file, error_in_source
from leaveout.specs.text.expressions import constant
from leaveout.specs.text.parse import decode_text, read_bytes, with_text
from leaveout.specs.types import INPUTS, Type
from leaveout.specs.typing.params import Value, value_text

if TYPE_CHECKING:
    from leaveout.kernel.model import LinearModel
    from leaveout.models.forest import Forest
    from leaveout.models.trees.family import TreeFamily
    from leaveout.models.trees.model import TreeModel

T = TypeVar("T")


class Resolver:
    """Evaluates closed expressions, reading each file once."""

    def __init__(self, spec: CheckedSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._loaded: dict[
            tuple[object, ...], Any
        ] = {}  # by function, path, and what it is read with
        self._first: dict[int, Network] = {}
        self.notes: list[str] = []

    def fail(self, node: Node, wrong: str, cure: str = "") -> LeaveoutError:
        """Return the error that points at ``node`` in the specification."""
        return self.slip_error(Slip(node.at, wrong, cure))

    def slip_error(self, slip: Slip) -> LeaveoutError:
        """Return the error that shows a slip in the specification."""
        return error_in_source(self._spec.source, slip)

    @property
    def lets(self) -> Mapping[str, Let]:
        """Every defined name, in order."""
        return self._spec.lets

    def function(self, call: Call) -> Function:
        """Return the function of a call."""
        return self._spec.functions[call.function]

    def bound_arguments(self, call: Call) -> Bound:
        """Return the arguments of a call by parameter name."""
        return bind(call, self.function(call))

    @contextmanager
    def answering_for(self, call: Call) -> Iterator[None]:
        """Attribute any exception within to a call of a plug-in's function."""
        try:
            yield
        except (LeaveoutError, Slip, Unknown):
            raise
        except (Exception, SystemExit) as error:
            if is_built_in(call.function):
                raise
            text = cause(error)
            raise self.fail(call, f"plug-in function '{call.function}' failed: {text}") from error

    def type_of(self, node: Expression) -> Type:
        """Return the type of an expression of the specification."""
        return self._spec.type_of(node)

    def value(self, node: Expression) -> Expression:
        """Return the expression that a name stands for."""
        while isinstance(node, Name) and node.name in self._spec.lets:
            node = self._spec.lets[node.name].value
        return node

    def number(self, node: Expression) -> float | None:
        """Return the value of a constant expression; None if not constant."""
        try:
            return constant(node, self.value)
        except Slip as slip:
            raise self.slip_error(slip) from None

    def network(self, node: Expression) -> Network:
        """Load the network of an expression."""

        def read(path: Path) -> Network:
            network = load_network(path)
            known = (each for each in self._first.values() if each.computes_as(network))
            self._first[id(network)] = next(known, network)
            self.notes += [f"{network.source}: {note}" for note in network.graph.notes]
            return network

        return self._load(node, "network", read)

    def first_alike(self, node: Expression) -> Network:
        """Return the first network of which an expression's is an exact copy."""
        return self._first[id(self.network(node))]

    def family(self, node: Expression, network: Network) -> Family:
        """Load the family of an expression, or a family's for a network."""
        call = self.value(node)
        if self.is_network(node):
            other = self.network(node)
            if other.architecture != network.architecture:
                raise self.fail(call, f"{other.source} and {network.source} differ in architecture")
            stacked = {
                k: np.asarray(v, dtype=np.float32)[None] for k, v in other.parameters.items()
            }
            return Family(stacked, np.zeros(1, np.int64), Manifest())
        return self._load(node, "family", lambda path: load_family(path, network), network.source)

    def _load(
        self, node: Expression, function: str, read: Callable[[Path], T], *given: object
    ) -> T:
        """Read the file of an expression, once with what is given."""
        path = self._path(node, function)
        key = (function, path, *given)
        if key not in self._loaded:
            try:
                self._loaded[key] = read(path)
            except (ModelError, FamilyError, ForestError, LinearError, TreesError) as error:
                raise self.fail(self.value(node), str(error)) from None
        return cast("T", self._loaded[key])

    def forest(self, node: Expression) -> Forest:
        """Load the forest of an expression."""
        # Its libraries are loaded once there is a forest.
        from leaveout.models.forest import read_forest

        return self._load(node, "forest", read_forest)

    def forest_file(self, node: Expression) -> Path:
        """Return the file of a forest."""
        return self._path(node, "forest")

    def linear(self, node: Expression) -> LinearModel:
        """Load the linear model of an expression."""
        from leaveout.models.linear.file import load_linear

        return self._load(node, "linear", load_linear)

    def trees(self, node: Expression) -> TreeModel:
        """Load the tree ensemble of an expression."""
        from leaveout.models.trees.model import TreeModel
        from leaveout.models.trees.reading import read_trees

        return self._load(node, "trees", lambda path: TreeModel(path, read_trees(path)))

    def tree_members(self, node: Expression, whole: TreeModel) -> tuple[Path, TreeFamily]:
        """Load the family of an expression, of a whole model."""
        from leaveout.kernel.files import digest_of
        from leaveout.models.archive import holds_archive
        from leaveout.models.trees.family import read_tree_family

        def read(path: Path) -> TreeFamily:
            if not holds_archive(path, TreesError):
                raise TreesError(
                    f"{path}: is no file of members; leaveout trees train DATA -o DIR makes one, "
                    "DIR/members.npz"
                )
            return read_tree_family(path, whole.ensemble, digest_of(whole.path))

        return self._path(node, "members"), self._load(node, "members", read)

    def linear_file(self, node: Expression) -> Path:
        """Return the file of a linear model."""
        return self._path(node, "linear")

    def is_forest(self, node: Expression) -> bool:
        """Return whether an expression is a single forest."""
        call = self.value(node)
        return isinstance(call, Call) and call.function == "forest"

    def is_network(self, node: Expression) -> bool:
        """Return whether an expression is a single network."""
        call = self.value(node)
        return isinstance(call, Call) and call.function == "network"

    def is_inputs(self, node: Expression) -> bool:
        """Return whether an expression is an input set."""
        return self._spec.type_of(node) == INPUTS

    def file(self, node: Expression) -> Path:
        """Return the file of a network or a family."""
        return self._path(node, "network" if self.is_network(node) else "family")

    def path(self, text: Text) -> Path:
        """Return the path of a file named in the specification."""
        return self._folder / text.value

    def _path(self, node: Expression, function: str) -> Path:
        call = self.value(node)
        if not (isinstance(call, Call) and call.function == function):
            given = self.bound_arguments(call).get("path") if isinstance(call, Call) else None
            cure = f"write: {function}({given})" if isinstance(given, Text) else ""
            raise self.fail(node, f"expected {function}(...) here", cure)
        path = self.value(self.bound_arguments(call)["path"])
        if not isinstance(path, Text) or not path.value:
            raise self.fail(call, f'{function} needs a quoted path: {function}("...")')
        return self.path(path)


@dataclass(frozen=True)
class Reading:
    """A specification ready to be decided."""

    checked: CheckedSpec
    folder: Path  # what relative paths are relative to
    text: str
    notes: tuple[str, ...]  # the value of each param
    digest: str  # sha256 of the file, in hexadecimal; empty for a tree

    def resolver(self) -> Resolver:
        """Return the resolver of the specification's expressions."""
        return _Resolver(self.checked, self.folder)


class _Resolver(Resolver):
    """A resolver whose errors also point into included files."""

    def slip_error(self, slip: Slip) -> LeaveoutError:
        """Return the error that shows a slip in any of the files."""
        return error_in_file(self._spec.source, slip)


def read_spec(
    spec: Path | str | Spec,
    folder: Path | str | None = None,
    values: Mapping[str, Value] | None = None,
    allowed: Sequence[Path] = (),
) -> Reading:
    """Read a specification and what it includes, set its params, and check it."""
    file = None if isinstance(spec, Spec) else Path(spec)
    if isinstance(spec, Spec):
        parsed, digest = with_text(spec), ""
    else:
        data = read_bytes(spec)
        parsed, digest = parse(decode_text(data, str(spec)), str(spec)), sha256(data).hexdigest()
    base = Path(folder) if folder is not None else Path() if file is None else file.parent
    written = expand(parsed, base, file, allowed)
    tree = with_params(written, values or {})
    same = tree is written and not tree.source.included
    before, now = params(written), params(tree)
    notes = (
        f"param {name} = {value_text(value)}"
        + (f", not {value_text(before[name])} as written" if value != before[name] else "")
        for name, value in now.items()
    )
    text = tree.source.text if same else str(tree)
    return Reading(check(tree), base, text, tuple(notes), digest)
