"""Keras networks by its own export and by tf2onnx, for `corpus`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["keras_models"]


def keras_models(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write each network in both ways; yields the exporter and the file."""
    for number, (name, build) in enumerate(_cases()):
        for kind in ("keras export", "tf2onnx"):
            path = folder / f"{kind.replace(' ', '_')}_{name}.onnx"
            if not path.exists():
                _write(path, build, kind, number)
            yield kind, path


def _write(path: Path, build: Callable[[Any, Any], Any], kind: str, number: int) -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(number)
    net = build(keras, keras.layers)
    shape = net.input_shape[1:]
    rng = np.random.default_rng(number)
    # Statistics of batch normalisation, and biases, as after training.
    net(rng.normal(size=(8, *shape)).astype("float32"), training=True)
    net.set_weights(
        [w + np.float32(0.1) * np.abs(rng.normal(size=w.shape)) for w in net.get_weights()]
    )
    if kind == "keras export":
        net.export(str(path), format="onnx", verbose=False)
        return
    import tf2onnx

    signature = [tf.TensorSpec((None, *shape), tf.float32, name="x")]
    opset = (11, 13, 15, 17, 18)[number % 5]
    function = tf.function(lambda x: net(x, training=False), input_signature=signature)
    tf2onnx.convert.from_function(
        function, input_signature=signature, opset=opset, output_path=str(path)
    )


def _chain(shape: tuple[int, ...], *layers: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda keras, L: keras.Sequential([L.Input(shape), *(each(L) for each in layers)])


def _cases() -> Iterator[tuple[str, Callable[[Any, Any], Any]]]:
    dense, image = partial(_chain, (6,)), partial(_chain, (10, 10, 1))
    relu, three = lambda L: L.Dense(10, activation="relu"), lambda L: L.Dense(3)
    flat, conv = lambda L: L.Flatten(), lambda L: L.Conv2D(3, 3, activation="relu")
    yield "dense", dense(relu, three)
    yield "dense_softmax", dense(relu, lambda L: L.Dense(3, activation="softmax"))
    yield "dense_sigmoid", dense(relu, lambda L: L.Dense(1, activation="sigmoid"))
    yield "many_sigmoids", dense(relu, lambda L: L.Dense(4, activation="sigmoid"))
    yield "regressor", dense(relu, lambda L: L.Dense(1))
    yield "leaky", dense(lambda L: L.Dense(8), lambda L: L.LeakyReLU(), three)
    yield "prelu", dense(lambda L: L.Dense(8), lambda L: L.PReLU(), three)
    yield "relu6", dense(lambda L: L.Dense(8), lambda L: L.ReLU(max_value=6.0), three)
    yield "hard_sigmoid", dense(lambda L: L.Dense(8, activation="hard_sigmoid"), three)
    yield "dropout", dense(relu, lambda L: L.Dropout(0.4), three)
    yield "batch_norm", dense(relu, lambda L: L.BatchNormalization(), three)
    yield (
        "batch_norm_before",
        dense(
            lambda L: L.Dense(8, use_bias=False),
            lambda L: L.BatchNormalization(),
            lambda L: L.ReLU(),
            three,
        ),
    )
    yield "scaled", dense(lambda L: L.Rescaling(1 / 255), relu, three)
    yield "adapted", _adapted
    yield "cnn", image(conv, flat, three)
    yield "cnn_max", image(conv, lambda L: L.MaxPooling2D(2), conv, flat, three)
    yield "cnn_average", image(conv, lambda L: L.AveragePooling2D(2), flat, three)
    yield (
        "cnn_same",
        image(lambda L: L.Conv2D(3, 3, strides=2, padding="same", activation="relu"), flat, three),
    )
    yield "cnn_global", image(conv, lambda L: L.GlobalAveragePooling2D(), three)
    yield "cnn_global_max", image(conv, lambda L: L.GlobalMaxPooling2D(), three)
    yield (
        "cnn_batch_norm",
        image(
            lambda L: L.Conv2D(3, 3),
            lambda L: L.BatchNormalization(),
            lambda L: L.ReLU(),
            lambda L: L.MaxPooling2D(),
            flat,
            three,
        ),
    )
    yield (
        "cnn_depthwise",
        image(
            lambda L: L.DepthwiseConv2D(3),
            lambda L: L.ReLU(6.0),
            lambda L: L.Conv2D(4, 1),
            lambda L: L.GlobalAveragePooling2D(),
            three,
        ),
    )
    yield "cnn_separable", image(lambda L: L.SeparableConv2D(4, 3, activation="relu"), flat, three)
    yield (
        "vgg",
        image(
            lambda L: L.Conv2D(4, 3, padding="same", activation="relu"),
            lambda L: L.MaxPooling2D(),
            lambda L: L.Conv2D(6, 3, padding="same", activation="relu"),
            lambda L: L.MaxPooling2D(),
            flat,
            relu,
            lambda L: L.Dropout(0.5),
            lambda L: L.Dense(4, activation="softmax"),
        ),
    )
    yield "cnn_padded", image(lambda L: L.ZeroPadding2D(1), conv, flat, three)
    yield (
        "cnn_1d",
        lambda k, L: k.Sequential(
            [
                L.Input((16, 2)),
                L.Conv1D(4, 3, activation="relu"),
                L.MaxPooling1D(2),
                L.Flatten(),
                L.Dense(3),
            ]
        ),
    )
    yield "residual", _residual
    yield "joined", _joined
    # Refused: no piecewise linear function.
    yield "swish", dense(lambda L: L.Dense(8, activation="swish"), three)
    yield "elu", dense(lambda L: L.Dense(8, activation="elu"), three)


def _adapted(keras: Any, layers: Any) -> Any:
    import numpy as np

    scale = layers.Normalization()
    scale.adapt(np.random.default_rng(0).normal(3.0, 2.0, size=(64, 6)).astype("float32"))
    return keras.Sequential(
        [layers.Input((6,)), scale, layers.Dense(8, activation="relu"), layers.Dense(3)]
    )


def _residual(keras: Any, layers: Any) -> Any:
    x = layers.Input((6,))
    h = layers.Dense(6, activation="relu")(x)
    return keras.Model(x, layers.Dense(3)(layers.ReLU()(layers.Add()([x, h]))))


def _joined(keras: Any, layers: Any) -> Any:
    x = layers.Input((6,))
    h = layers.Dense(6, activation="relu")(x)
    return keras.Model(x, layers.Dense(3)(layers.Concatenate()([x, layers.Maximum()([x, h])])))
