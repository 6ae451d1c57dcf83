"""DaRE forests as a scikit-learn classifier (Brophy and Lowd, ICML 2021)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.cores import cores
from leaveout.errors import ForestError
from leaveout.models.forest.audit import ensemble_difference, first_unsound
from leaveout.models.forest.files import LARGEST, load_ensemble, save_ensemble
from leaveout.models.forest.plain import Ensemble, Groups, PlainTree, Rows, Settings
from leaveout.models.forest.state import ForestState
from leaveout.models.scikit import (
    BaseEstimator,
    ClassifierMixin,
    check_classification_targets,
    check_is_fitted,
    check_random_state,
    validate_data,
)
from leaveout.models.train.encoding import is_missing_value

_WEIGHTS = frozenset(("class_weight", "sample_weight"))


def settings_of(parameters: Mapping[str, Any], attributes: int) -> Settings:
    """Return a forest's settings; a seed is drawn if none is given."""
    criterion, depth = parameters["criterion"], parameters["max_depth"]
    if criterion not in ("gini", "entropy"):
        raise ForestError(f"criterion must be 'gini' or 'entropy', not {criterion!r}")
    return Settings(
        trees=_whole("n_estimators", parameters["n_estimators"], 1),
        depth=None if depth is None else _whole("max_depth", depth, 1),
        thresholds=_whole("k", parameters["k"], 1),
        attributes=_attributes(parameters["max_features"], attributes),
        random_depth=_whole("d_rmax", parameters["d_rmax"], 0),
        least=_whole("min_samples_split", parameters["min_samples_split"], 2),
        criterion=criterion,
        seed=_seed(parameters["random_state"]),
        share=_share(parameters["q"]),
    )


def refuse_weights(given: Iterable[str]) -> None:
    """Refuse sample or class weights, with the reason."""
    weights = sorted(_WEIGHTS.intersection(given))
    if weights:
        raise ForestError(
            f"{', '.join(weights)}: not supported; a forest caches whole numbers of rows, so a "
            "row cannot weigh more or less than one"
        )


def threads(jobs: object) -> int:
    """Return the thread count for ``n_jobs``: -1 all cores, -2 all but one, and so on."""
    if jobs is None:
        return 1
    if isinstance(jobs, Integral) and jobs < 0:
        return max(1, cores() + 1 + int(jobs))
    return _whole("n_jobs", jobs, 1)


def _share(value: object) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and 0.0 < float(value) <= 1.0:
        return float(value)
    raise ForestError(f"q must be a share of the trees in (0, 1], not {value!r}")


def _seed(state: Any) -> int:
    if not isinstance(state, Integral):
        return int(check_random_state(state).randint(2**63, dtype=np.int64))
    seed = int(state)
    if not 0 <= seed < 2**63:
        raise ForestError(f"random_state must be in 0 to 2^63 - 1, not {seed}")
    return seed


def _attributes(chosen: object, attributes: int) -> int:
    """Return how many attributes a greedy node considers."""
    if chosen is None:
        return attributes
    if chosen == "sqrt":
        return max(1, math.isqrt(attributes))
    if chosen == "log2":
        return max(1, attributes.bit_length() - 1)
    if isinstance(chosen, Integral) and not isinstance(chosen, bool):
        return min(_whole("max_features", chosen, 1), attributes)
    if isinstance(chosen, float) and 0.0 < chosen <= 1.0:
        return max(1, int(chosen * attributes))
    raise ForestError(
        "max_features must be 'sqrt', 'log2', None, a whole number of at least 1, or a fraction "
        f"in (0, 1], not {chosen!r}"
    )


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) < 2**31:
        return int(value)
    raise ForestError(f"{name} must be a whole number of at least {least}, not {value!r}")


def names_of(rows: Rows) -> NDArray[np.int64]:
    """Return row names as an array."""
    if _of_pandas(rows):
        raise ForestError(
            "rows are named by their position in the data first fitted, not by a DataFrame's "
            f"index: instead of this {type(rows).__name__}, pass numpy.flatnonzero(mask)"
        )
    names: NDArray[np.int64] = np.atleast_1d(np.asarray(rows))
    if names.dtype.kind == "b":
        raise ForestError(
            "rows are named by whole numbers: for a mask, pass numpy.flatnonzero(mask)"
        )
    return names.astype(np.int64) if not names.size else names


_NO_CELLS = np.empty(0, np.str_)


def group_cells(groups: Iterable[object], rows: int) -> NDArray[np.str_]:
    """Return the group of each row as a word."""
    cells = [str(each).strip() for each in groups]
    if len(cells) != rows:
        raise ForestError(f"groups has {len(cells)} names, but X has {rows} rows")
    for row, cell in enumerate(cells):
        if is_missing_value(cell, among_numbers=True) or "\0" in cell:
            raise ForestError(f"groups[{row}] is {cell!r}; expected the name of a group")
    return np.array(cells, np.str_)


def warn_of_index(X: object, stacklevel: int) -> None:
    """Warn if a DataFrame's index differs from the row positions."""
    if not _of_pandas(X) or not hasattr(X, "index"):
        return
    index = np.asarray(X.index)
    if index.dtype.kind not in "iu" or not np.array_equal(index, np.arange(len(index))):
        warnings.warn(
            "rows are named by their position in the fitted data, 0, 1, 2, ..., not by the "
            "index of this DataFrame",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _of_pandas(value: object) -> bool:
    """Return whether a value is a pandas object, without importing pandas."""
    return any(each.__module__.partition(".")[0] == "pandas" for each in type(value).__mro__)


_FITTED = frozenset(("feature_names_in_", "n_features_in_", "state_"))


class DareForestClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A random forest from which rows can be deleted exactly.

    The forest is a function of its settings, its seed and the rows it holds, so that after any
    deletions and additions it equals, bit for bit, the one trained from scratch on what is left.
    There is no bootstrap; `docs/forest.md` says how the trees are drawn. Arrays that are given are
    neither kept nor changed. Threads may share a forest: changes take turns, and each answer is of
    the forest before a change or after it. A change that an error or Ctrl-C ends has happened or
    has not.

    Parameters
    ----------
    n_estimators : int
    max_depth : int or None
        Deepest level of a leaf; None: until leaves are pure.
    k : int
        Valid thresholds sampled an attribute in a greedy node.
    d_rmax : int
        How many levels from the root hold random nodes: they change rarely, and predict less well.
    max_features : "sqrt", "log2", int, float or None
        How many attributes that are not constant a greedy node considers: a function of their
        number p, a number, a fraction of p, or all.
    criterion : "gini" or "entropy"
    min_samples_split : int
        Rows a node needs to be split.
    random_state : int, RandomState or None
        The seed; anything but a whole number draws one when fitted.
    n_jobs : int or None
        Threads over trees; no result depends on it. -1: all cores; -2: all but one; and so on.
    q : float
        The share of the trees that hold a row, in (0, 1]: each is in ceil(q n_estimators) of them,
        which a hash of its values and label chooses. Less makes deletions faster.
    lazy : bool
        Whether what a deletion or an addition makes otherwise is grown when a prediction comes to
        it, or `settle` is called, and not at once; no result depends on it.

    Attributes
    ----------
    classes_ : ndarray
        The labels of the rows held, ascending.
    n_features_in_ : int
    seed_ : int
        The seed in use.
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int | None = 20,
        k: int = 10,
        d_rmax: int = 0,
        max_features: str | int | float | None = "sqrt",
        criterion: str = "gini",
        min_samples_split: int = 2,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        q: float = 1.0,
        lazy: bool = False,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.k = k
        self.d_rmax = d_rmax
        self.max_features = max_features
        self.criterion = criterion
        self.min_samples_split = min_samples_split
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.q = q
        self.lazy = lazy

    def set_params(self, **params: Any) -> Self:
        """Set parameters. ``n_jobs`` and ``lazy`` take effect at once, others at the next ``fit``.

        Raises
        ------
        ForestError
            If weights are among them.
        ValueError
            If there is no such parameter.
        """
        refuse_weights(params)
        super().set_params(**params)
        return self

    # A forest trained on the same rows is equal, but it can be changed: no hash.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, DareForestClassifier):
            return NotImplemented
        return hasattr(self, "state_") and hasattr(other, "state_") and self.equals(other)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        groups: Iterable[object] | None = None,
        **unsupported: object,
    ) -> Self:
        """Train on rows ``X``, which are named 0, 1, 2, ... from then on.

        Rows are named by their position in ``X``, never by the index of a DataFrame; where that
        index is another numbering, a ``UserWarning`` says so.

        Parameters
        ----------
        X, y : array-like
        groups : iterable, optional
            What each row belongs to, such as a patient: all rows of one leave together.

        Raises
        ------
        ForestError
            If a setting or a value is not usable, or weights are given.
        """
        if unsupported:
            refuse_weights(unsupported)
            raise TypeError(f"fit does not accept {next(iter(unsupported))!r}")
        # What is known of the features stays that of the forest, should this one not be trained.
        trained = type(self)(**self.get_params(deep=False))
        values, labels = trained._check(X, y, first=True)
        names = np.arange(len(values), dtype=np.int64)
        warn_of_index(X, stacklevel=2)
        classes, codes = np.unique(labels, return_inverse=True)
        settings = settings_of(self.get_params(deep=False), values.shape[1])
        leaving = None
        if groups is not None:
            column = str(getattr(groups, "name", None) or "group")
            leaving = Groups(column, group_cells(groups, len(values)))
        y_codes, count = codes.astype(np.int32), len(names)
        rows = Ensemble(settings, classes, names, values, y_codes, (), count, leaving)
        trained.state_ = ForestState(rows, threads(self.n_jobs))
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update({name: vars(trained)[name] for name in _FITTED & vars(trained).keys()})
        return self

    def rows_of(self, group: object) -> NDArray[np.int64]:
        """Return the names of all rows of a group."""
        found = self._state().rows_of(str(group).strip())
        if found is None:
            raise ForestError("the forest was fitted without groups")
        return found

    def delete(self, rows: Rows, *, part: bool = False) -> Self:
        """Delete rows by name, leaving exactly the forest of the remaining rows.

        Parameters
        ----------
        rows : int or sequence of int
            Positions in the data first fitted, not what a DataFrame's index calls them, or names
            returned by ``add``; no deletion shifts them. All are deleted, or on an error none.
        part : bool
            Whether a group may keep other rows; see `rows_of`.

        Raises
        ------
        ForestError
            If one was never there, is deleted already or is named twice, no row would be left, or
            rows are given as a mask or with an index of pandas.
        """
        self._state().forget(names_of(rows), part)
        return self

    def add(
        self, X: ArrayLike, y: ArrayLike, *, groups: Iterable[object] | None = None
    ) -> NDArray[np.int64]:
        """Add rows, with their ``groups`` as of ``fit``; return their names, the next integers.

        Raises
        ------
        ForestError
            If a value is not usable.
        """
        state = self._state()
        values, labels = self._check(X, y, first=False)
        if (labels.dtype.kind in "biuf") != (state.classes.dtype.kind in "biuf"):
            raise ForestError("labels must have the type that the forest was fitted with")
        if (groups is None) != (state.rows_of("") is None):
            wanted = "without groups" if groups is not None else "with groups: pass groups="
            raise ForestError(f"the forest was fitted {wanted}")
        cells = _NO_CELLS if groups is None else group_cells(groups, len(values))
        return state.learn(values, labels, cells)

    def unlearn(self, rows: Rows) -> Self:
        """Return a copy with rows deleted, named as for ``delete``, maybe part of a group."""
        return self._with(ForestState(self._state().plain())).delete(rows, part=True)

    def retrain(self, rows: Rows = ()) -> Self:
        """Return a forest retrained from scratch without some rows; names are kept."""
        return self._with(ForestState(self._state().without(names_of(rows)), threads(self.n_jobs)))

    def refuse_part(self, rows: Rows) -> None:
        """Raise `ForestError` if rows are only some of a group."""
        self._state().refuse_part(names_of(rows))

    def deletion_cost(self, row: int) -> int:
        """Return how many rows, over all trees, one deletion would regrow.

        The measure of the paper's worst-of-1000 adversary (section 4.1).
        """
        return self._state().cost(row)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the mean over trees of the label shares in each row's leaf."""
        return self._shares(X)[0]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label with the greatest mean share; ties go to the smallest."""
        shares, classes = self._shares(X)
        labels: NDArray[Any] = classes[np.argmax(shares, axis=1)]
        return labels

    def settle(self) -> Self:
        """Grow all nodes that ``lazy`` left pending; no answer changes.

        It can be called by a thread in the background: it lets predictions and changes take their
        turns, and an interruption leaves what is grown by then.
        """
        self._state().settle()
        return self

    def equals(self, other: DareForestClassifier) -> bool:
        """Return whether two fitted forests hold the same rows and are bit-identical."""
        return self.difference(other) is None

    def difference(self, other: object) -> str | None:
        """Return a sentence on the first difference of two fitted forests, or None."""
        if not isinstance(other, DareForestClassifier):
            return f"one is an exact forest, the other is a {type(other).__name__}"
        return ensemble_difference(self.ensemble(), other.ensemble())

    def ensemble(self) -> Ensemble:
        """Return the forest and its rows as plain arrays."""
        return self._state().plain()

    def memory(self) -> dict[str, int]:
        """Return the bytes used by structure, decision statistics, leaf lists and data."""
        return self._state().sizes()

    def save(self, path: str | Path) -> None:
        """Write the forest to one file, atomically.

        Raises
        ------
        ForestError
            If it cannot be written, or the labels are neither numbers nor text.
        """
        save_ensemble(self.ensemble(), Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a forest from a file.

        Raises
        ------
        ForestError
            If the file cannot be read, is damaged or of another version.
        """
        return cls.of(load_ensemble(Path(path)))

    @classmethod
    def of(cls, ensemble: Ensemble) -> Self:
        """Return the forest of plain arrays."""
        settings = ensemble.settings
        forest = cls(
            settings.trees, max_depth=settings.depth, k=settings.thresholds,
            d_rmax=settings.random_depth, max_features=settings.attributes,
            criterion=settings.criterion, min_samples_split=settings.least,
            random_state=settings.seed, q=settings.share,
        )  # fmt: skip
        forest.n_features_in_ = ensemble.X.shape[1]
        forest.state_ = ForestState(ensemble)
        return forest

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels of the rows held, in ascending order."""
        return self._state().classes

    @property
    def seed_(self) -> int:
        """The seed in use."""
        return self._state().settings.seed

    @property
    def rows_(self) -> NDArray[np.int64]:
        """The names of the rows held, in ascending order."""
        return self._state().rows()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if "state_" in state:
            # In plain form, so that a copy holds nothing of a row that was deleted.
            state["state_"] = state["state_"].plain()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        ensemble = state.pop("state_", None)
        super().__setstate__(state)
        if ensemble is not None:
            self.state_ = ForestState(ensemble)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "state_")

    def _check(
        self, X: ArrayLike, y: ArrayLike, first: bool
    ) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return rows and labels as arrays fit for training."""
        values, labels = validate_data(
            self, X, y, dtype=np.float64, reset=first, ensure_min_samples=1,
            ensure_all_finite="allow-nan",
        )  # fmt: skip
        check_classification_targets(labels)
        if np.any(np.abs(values) >= LARGEST):
            raise ForestError("a value is too large: absolute values must be below 2^1000")
        return values, labels

    def _shares(self, X: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.generic]]:
        """Return label shares and the labels, from one state of the forest."""
        state = self._state()
        if self._is_checked(X):
            return state.shares(np.asarray(X))
        values: NDArray[np.float64] = validate_data(
            self, X, dtype=np.float64, order="C", reset=False, ensure_all_finite="allow-nan"
        )
        # Kernels would be compiled once more for arrays that cannot be written.
        return state.shares(np.require(values, requirements="W"))

    def _is_checked(self, X: ArrayLike) -> bool:
        """Return whether an array needs no conversion and no warning."""
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == self.n_features_in_
            and X.flags.c_contiguous
            and X.flags.writeable
            and not hasattr(self, "feature_names_in_")
            and not np.isinf(X).any()
        )

    def _state(self) -> ForestState:
        if not hasattr(self, "state_"):
            check_is_fitted(self)
        state: ForestState = self.state_
        # What no result depends on takes effect at once; the rest when the forest is next fitted.
        state.jobs, state.lazy = threads(self.n_jobs), bool(self.lazy)
        return state

    def _with(self, state: ForestState) -> Self:
        """Return a copy of this estimator with another forest state."""
        other = type(self)(**self.get_params(deep=False))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        other.state_ = state
        return other


def caches_sound(forest: DareForestClassifier) -> str | None:
    """Recompute every cached statistic from the rows; return the first error, or None."""
    return first_unsound(forest.ensemble())


def first_difference(a: DareForestClassifier, b: DareForestClassifier) -> str | None:
    """Return the first tree, node and statistic in which two forests differ, or None."""
    return a.difference(b)


def trees_of(forest: DareForestClassifier) -> tuple[PlainTree, ...]:
    """Return the trees as plain arrays, nodes in preorder."""
    return forest.ensemble().trees
