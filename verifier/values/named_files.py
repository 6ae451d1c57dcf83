"""Networks, families and input sets that calls name, each read beside a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx

from leaveout.models import Family, Network
from leaveout.models.replay import with_parameters
from leaveout.specs import Call, CheckedSpec, Expression, Name
from leaveout.specs.typing.infer import brief
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.values.reachable import network_calls


@dataclass(frozen=True)
class NamedFiles:
    """Finds the network that determines how a file is read, and reads the file."""

    spec: CheckedSpec
    resolver: Resolver

    def includes(self, node: Expression, bound: Mapping[str, object], *kinds: object) -> bool:
        """Return whether a node is a built-in family or input set, read by a network."""
        if isinstance(node, Name) and node.name in bound:
            return False
        call = self.resolver.value(node)
        built_in = isinstance(call, Call) and self.resolver.function(call).decider is None
        return built_in and self.spec.type_of(node) in kinds

    def network(self, node: Expression, beside: Iterable[object]) -> Network:
        """Return the network that determines how a family or input set is read."""
        for value in beside:
            if isinstance(value, Network):
                return value
        paths = {str(self.resolver.value(call)): call for call in network_calls(self.spec)}
        if len(paths) != 1:
            raise self.resolver.fail(
                node,
                f"which network {brief(node)} belongs to is not known",
                "it is known where the network is another argument, or the only one of the file",
            )
        return self.resolver.network(next(iter(paths.values())))

    def reader(self, node: Expression, beside: Iterable[object]) -> InputReader:
        """Return the reader of an input set, for a forest beside it or a network."""
        values = list(beside)
        for value in values:
            features = getattr(value, "n_features_in_", None)
            if isinstance(features, int):
                return InputReader(self.resolver, features, "forest")
        return InputReader(self.resolver, self.network(node, values).inputs)


def members(network: Network, family: Family) -> Iterator[Network]:
    """Yield the members as separate networks."""
    for i in range(len(family)):
        parameters = {name: stack[0] for name, stack in family.take([i]).items()}
        model: onnx.ModelProto = with_parameters(network.model, parameters)
        yield Network(f"member {i} of {family.source or network.source}", model, network.graph)
