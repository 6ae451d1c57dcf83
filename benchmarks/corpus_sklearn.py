"""scikit-learn's networks as skl2onnx writes them, for `corpus`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["sklearn_models"]


def sklearn_models(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write each network; yields the maker and the file."""
    for name, *case in _cases():
        path = folder / f"sklearn_{name}.onnx"
        if not path.exists():
            _write(path, *case)
        yield "skl2onnx", path


def _cases() -> Iterator[tuple[Any, ...]]:
    for opset in (11, 14, 17, 21):
        yield f"binary_{opset}", "binary", (), {}, {"target_opset": opset}
        yield f"three_{opset}", "three", (), {}, {"target_opset": opset}
    yield "words", "words", (), {}, {}
    yield "deep", "three", (), {"hidden_layer_sizes": (8, 8, 8)}, {}
    yield "linear", "three", (), {"activation": "identity"}, {}
    for target in ("binary", "three", "words"):
        yield f"no_zipmap_{target}", target, (), {}, {"options": {"zipmap": False}}
        yield f"scaled_{target}", target, ("standard",), {}, {}
        yield f"minmax_{target}", target, ("minmax",), {}, {}
    yield "columns", "three", (), {}, {"options": {"zipmap": "columns"}}
    yield "regressor", "number", (), {}, {}
    yield "regressor_deep", "number", (), {"hidden_layer_sizes": (6, 6)}, {}
    yield "regressor_scaled", "number", ("standard",), {}, {}
    yield "regressor_two", "numbers", (), {}, {}
    yield "robust", "three", ("robust",), {}, {}
    # Refused: no piecewise linear function, no network, another precision.
    yield "tanh", "three", (), {"activation": "tanh"}, {}
    yield "logistic", "binary", (), {"activation": "logistic"}, {}
    yield "logistic_regression", "three", ("only",), {}, {}
    yield "double", "three", ("double",), {}, {}


def _write(
    path: Path, target: str, steps: tuple[str, ...], given: dict[str, Any], options: dict[str, Any]
) -> None:
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

    scalers = {"standard": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}
    rng = np.random.default_rng(len(path.name))
    x = rng.normal(size=(200, 6)).astype(np.float32)
    z = x @ rng.normal(size=6) + x[:, 0] * x[:, 1]
    y = {
        "binary": (z > 0).astype(int),
        "three": np.digitize(z, [-1, 1]),
        "words": np.where(z > 0, "yes", "no"),
        "number": z,
        "numbers": np.stack([z, -2 * z + x[:, 2]], axis=1),
    }[target]
    kind = MLPRegressor if target.startswith("number") else MLPClassifier
    settings = {"hidden_layer_sizes": (8,), "max_iter": 60, "random_state": 0, **given}
    model = LogisticRegression() if "only" in steps else kind(**settings)
    chosen = [scalers[step]() for step in steps if step in scalers]
    whole = make_pipeline(*chosen, model) if chosen else model
    whole.fit(x, y)
    if options.get("options"):
        options = {**options, "options": {id(whole): options["options"]}}
    sample = x[:1].astype(np.float64) if "double" in steps else x[:1]
    path.write_bytes(to_onnx(whole, sample, **options).SerializeToString())
