"""Learners of members: scikit-learn classifiers by name, a small network, or built-in ones."""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leaveout.errors import TrainingError
from leaveout.models.train.recipe import Recipe, parse_layers
from leaveout.models.votes.survival import make_surviving
from leaveout.models.votes.survival.learner import SurvivingLearner
from leaveout.names import hint
from leaveout.partition_options import SURVIVORS, Survivor

TORCH = "torch"
_DEFAULT = "RandomForestClassifier"
_DEFAULT_TREES = 10
_SET_HERE = {"random_state": "--seed", "n_jobs": "--workers"}
_TORCH_BATCH = 16
_TORCH_SETTINGS = ("layers", "epochs", "batch", "learning_rate", "weight_decay", "dropout")


@dataclass(frozen=True)
class Learner:
    """A learner with settings checked by `make_learner`."""

    name: str
    settings: tuple[tuple[str, object], ...] = ()
    semi_supervised: bool = False
    prototype: Any = field(default=None, repr=False, compare=False)
    surviving: SurvivingLearner | None = None

    @property
    def survivor(self) -> Survivor | None:
        """What a learner that survives changes declares."""
        return SURVIVORS.get(self.name)

    @property
    def keeps_unlabelled(self) -> bool:
        """Whether a row whose label is unknown stays in its part, so that no relabel moves it."""
        return self.survivor is not None and self.survivor.keeps_unlabelled

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.settings)})"

    def estimator(self, seed: int) -> Any:
        """Return the scikit-learn classifier with random state ``seed``, on one thread."""
        from sklearn.base import clone

        return _seed_estimator(clone(self.prototype), seed)

    def recipe(self, seed: int) -> Recipe:
        """Return the recipe of a network."""
        return Recipe(**{**dict(self.settings), "seed": seed})  # type: ignore[arg-type]


def default_learner() -> Learner:
    """Return a small forest: quick to train, with equal votes on any processor."""
    from sklearn.ensemble import RandomForestClassifier

    prototype = _seed_estimator(RandomForestClassifier(n_estimators=_DEFAULT_TREES), 0)
    return Learner(_DEFAULT, (("n_estimators", _DEFAULT_TREES),), prototype=prototype)


def make_learner(name: str | None = None, settings: Mapping[str, object] | None = None) -> Learner:
    """Return a learner by name, with checked settings.

    Parameters
    ----------
    name : str or None
        None for `default_learner`, with ``settings`` besides its own.
    settings : mapping or None
        By parameter name. For a classifier that wraps another one, ``estimator`` is the name of the
        inner one, and ``estimator__x`` its parameter ``x``.

    Raises
    ------
    TrainingError
        If the learner or a parameter does not exist, or a value is out of range.
    """
    given = dict(settings or {})
    if name is None and not given:
        return default_learner()
    if name is None:
        name, given = _DEFAULT, {"n_estimators": _DEFAULT_TREES, **given}
    if name == TORCH:
        return _torch_learner(given)
    if name in SURVIVORS:
        surviving, whole = make_surviving(name, given)
        return Learner(name, whole, surviving=surviving)
    kind = _find_estimator(name, "classifier", "--learner")
    required = [
        parameter.name
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is inspect.Parameter.empty and parameter.name not in given
    ]
    semi = kind.__module__.startswith("sklearn.semi_supervised")
    if semi and "estimator" in inspect.signature(kind).parameters and "estimator" not in given:
        required.append("estimator")
    if required:
        cure = f"e.g. --set {required[0]}=LogisticRegression"
        if required[0] != "estimator":
            cure = "which cannot be set here; use another learner"
        raise TrainingError(f"--learner {name}: needs its parameter {required[0]!r}, {cure}")
    return Learner(name, tuple(sorted(given.items())), semi, _make_estimator(kind, given, 0))


def make_transformer(name: str, settings: Mapping[str, object], seed: int) -> Any:
    """Return an unsupervised transformer from scikit-learn."""
    from sklearn.utils import get_tags

    kind = _find_estimator(name, "transformer", "--features")
    if not hasattr(kind, "transform"):
        raise TrainingError(f"--features {name}: cannot transform rows that it was not fitted on")
    transformer = _make_estimator(kind, dict(settings), seed, "--features")
    if get_tags(transformer).target_tags.required:
        raise TrainingError(
            f"--features {name}: reads labels, so one relabel would reach every member; use an "
            "unsupervised one, e.g. PCA"
        )
    return transformer


def parse_value(text: str) -> object:
    """Parse a setting: a number, True, False, None, a tuple, or any other word as text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _find_estimator(name: str, kind: str, flag: str) -> type[Any]:
    """Return the scikit-learn class with a name."""
    from sklearn.utils import all_estimators

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known: dict[str, type[Any]] = dict(all_estimators(type_filter=kind))
    if name not in known:
        options = [*known, *([TORCH, *SURVIVORS] if flag == "--learner" else [])]
        raise TrainingError(
            f"{flag} {name}: scikit-learn has no {kind} with that name{hint(name, options)}"
        )
    return known[name]


def _make_estimator(
    kind: type[Any], settings: dict[str, object], seed: int, flag: str = "--learner"
) -> Any:
    place = f"{flag} {kind.__name__}"
    inner = {
        name: _find_estimator(str(value), "classifier", f"--set {name}=")()
        for name, value in settings.items()
        if name == "estimator" or name.endswith("__estimator")
    }
    first = {name: value for name, value in settings.items() if "__" not in name}
    try:
        known = list(inspect.signature(kind).parameters)
        for name in first:
            if name in _SET_HERE:
                raise TrainingError(f"--set {name}: is set by {_SET_HERE[name]}; drop it")
            if name not in known:
                raise TrainingError(
                    f"--set {name}: {kind.__name__} has no parameter {name!r}{hint(name, known)}"
                )
        estimator = kind(**{name: inner.get(name, value) for name, value in first.items()})
        for name in sorted(set(settings) - set(first)):
            if name.rpartition("__")[2] in _SET_HERE:
                here = _SET_HERE[name.rpartition("__")[2]]
                raise TrainingError(f"--set {name}: is set by {here}; drop it")
            estimator.set_params(**{name: inner.get(name, settings[name])})
    except (TypeError, ValueError, AttributeError) as error:
        raise TrainingError(f"{place}: {_first_line(error)}") from None
    _validate(place, estimator)
    return _seed_estimator(estimator, seed)


def _seed_estimator(estimator: Any, seed: int) -> Any:
    """Set all nested random states to ``seed``, and all job counts to at most 1."""
    fixed: dict[str, object] = {}
    for name, value in estimator.get_params(deep=True).items():
        last = name.rpartition("__")[2]
        if last == "random_state":
            fixed[name] = seed
        elif last == "n_jobs" and isinstance(value, int):
            # None means 1 already, and some learners no longer accept other values.
            fixed[name] = 1
    return estimator.set_params(**fixed)


def _validate(place: str, estimator: Any) -> None:
    from sklearn.utils._param_validation import InvalidParameterError

    try:
        estimator._validate_params()
    except InvalidParameterError as error:
        raise TrainingError(f"{place}: {_first_line(error)}") from None


def _torch_learner(given: dict[str, object]) -> Learner:
    aliases = {"lr": "learning_rate"}
    settings = {aliases.get(name, name): value for name, value in given.items()}
    for name in settings:
        if name not in _TORCH_SETTINGS:
            raise TrainingError(
                f"--set {name}: the torch learner has no setting {name!r}"
                f"{hint(name, _TORCH_SETTINGS)}; it has {', '.join(_TORCH_SETTINGS)}"
            )
    # Parts are small: a whole table's batch size would mean one step per epoch.
    settings.setdefault("batch", _TORCH_BATCH)
    layers = settings.get("layers")
    if layers is not None:
        parts: Sequence[object] = layers if isinstance(layers, tuple) else (layers,)
        settings["layers"] = parse_layers(
            layers if isinstance(layers, str) else ",".join(map(str, parts))
        )
    try:
        Recipe(**settings)  # type: ignore[arg-type]
    except TypeError:
        raise TrainingError(
            "--learner torch: a setting has the wrong type; expected numbers, e.g. --set epochs=200"
        ) from None
    try:
        import torch
    except ImportError:
        raise TrainingError("--learner torch needs torch: pip install 'leaveout[train]'") from None
    del torch
    return Learner(TORCH, tuple(sorted(settings.items())))


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())
