"""User settings ``NAME=VALUE``, sorted by what they apply to."""

from __future__ import annotations

from collections.abc import Sequence

from leaveout.errors import TrainingError
from leaveout.models.votes.learners import TORCH, parse_value


def split_settings(
    texts: Sequence[str], transformers: Sequence[str]
) -> tuple[dict[str, object], tuple[tuple[str, str, object], ...]]:
    """Parse settings such as ``max_depth=5`` and ``PCA.n_components=20``."""
    own: dict[str, object] = {}
    shared: dict[tuple[str, str], object] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise TrainingError(f"--set {text}: expected NAME=VALUE, as in --set max_depth=5")
        owner, dot, parameter = name.rpartition(".")
        if not dot:
            if name in own:
                raise TrainingError(f"--set {text}: {name!r} is set twice; set it once")
            own[name] = parse_value(value)
            continue
        if owner not in transformers:
            raise TrainingError(
                f"--set {text}: {owner!r} is none of --features "
                f"({', '.join(transformers) or 'there are none'})"
            )
        if (owner, parameter) in shared:
            raise TrainingError(f"--set {text}: {name!r} is set twice; set it once")
        shared[owner, parameter] = parse_value(value)
    return own, tuple((owner, name, value) for (owner, name), value in sorted(shared.items()))


def torch_settings(
    learner: str | None, layers: str | None, epochs: int | None, own: dict[str, object]
) -> dict[str, object]:
    """Return the settings from the flags of the torch learner."""
    given: dict[str, object] = {"layers": layers, "epochs": epochs}
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if learner != TORCH:
            raise TrainingError(f"--{name} is of --learner {TORCH}; drop it, or name that learner")
        if name in own:
            raise TrainingError(f"--{name} and --set {name} say the same twice; drop one")
    return chosen
