"""The recipe: how samples are split among members, and how members are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.ballots import Against, Method
from leaveout.models.votes.learners import (
    TORCH,
    Learner,
    default_learner,
    make_learner,
    parse_value,
)
from leaveout.models.votes.samples import NO_LABEL, Samples, hash_samples, is_text, spread_offsets
from leaveout.partition_options import BY_NAME, CHANGES, SCHEMES, SURVIVORS

Way: TypeAlias = Method | Literal["boosted"]

_MOST_MEMBERS = 100_000
_MOST_SEED = 2**32 - 1
_LONGEST_KEY = 64
_MOST_EXACT_TO = 1000


@dataclass(frozen=True, kw_only=True)
class PartRecipe:
    """Everything that determines the ballots except the samples.

    Its values are those of the options of ``leaveout partition`` with the same names, but for:

    Attributes
    ----------
    learner : Learner
        As `make_learner` makes it.
    features : tuple of str
        The transformers' names.
    feature_settings : tuple of (str, str, object)
        Transformer, parameter and value.
    merge_duplicates : bool
        SS-DPA: rows of the same sample go to one part and count as one relabel (Levine and Feizi,
        appendix G) instead of being refused.
    hash_reads_label : bool
        Let a sample's part depend on its label; then a relabel reaches two parts. For comparison
        only.

    Raises
    ------
    TrainingError
        If a value is outside its range; the message names the flag and its allowed values.
    """

    parts: int = 50
    method: Way = "dpa"
    spread: int = 1
    families: int = 1
    learner: Learner = field(default_factory=default_learner)
    features: tuple[str, ...] = ()
    feature_settings: tuple[tuple[str, str, object], ...] = ()
    merge_duplicates: bool = False
    scale: bool = False
    scores: bool = True
    seed: int = 0
    hash_key: str = ""
    hash_reads_label: bool = False
    survive: Against | None = None
    exact_to: int | None = None

    def __post_init__(self) -> None:
        if self.method not in SCHEMES:
            raise TrainingError(f"--method {self.method}: expected one of {', '.join(SCHEMES)}")
        if self.parts < (2 if self.survive is None else 1):
            raise TrainingError(
                f"--parts {self.parts}: expected at least 2; with one part, a single edit could "
                "change every answer, unless the member itself survives some: --survive"
            )
        if self.spread < 1:
            raise TrainingError(f"--spread {self.spread}: expected a whole number of at least 1")
        if self.families < 1:
            raise TrainingError(
                f"--families {self.families}: expected a whole number of at least 1"
            )
        for name, is_set in (
            ("spread", self.spread > 1),
            ("families", self.families > 1),
            ("features", self.features or self.feature_settings),
            ("duplicates", self.merge_duplicates),
        ):
            if is_set and (refused := BY_NAME[name].refuse(self.method)):
                raise TrainingError(refused)
        if self.learner.semi_supervised and self.method != "ss_dpa":
            raise TrainingError(
                f"--learner {self.learner.name} is trained on all samples, so one edit would "
                "reach every member; it is for --method ss_dpa, where the attacker controls "
                "only labels"
            )
        if self.classifiers > _MOST_MEMBERS:
            raise TrainingError(
                f"--parts {self.parts}: {self.classifiers:,} classifiers; expected at most "
                f"{_MOST_MEMBERS:,}"
            )
        if not 0 <= self.seed <= _MOST_SEED - self.classifiers:
            raise TrainingError(
                f"--seed {self.seed}: expected a whole number from 0 to "
                f"{_MOST_SEED - self.classifiers}; classifier i has the seed plus i"
            )
        if not is_text(self.hash_key):
            raise TrainingError(f"--hash-key {self.hash_key!r}: is not UTF-8 text; choose another")
        if len(self.hash_key.encode()) > _LONGEST_KEY:
            raise TrainingError(f"--hash-key: longer than {_LONGEST_KEY} bytes; shorten it")
        if self.method == "ss_dpa" and self.hash_reads_label:
            raise TrainingError("SS-DPA assigns parts by rank; its partition does not read labels")
        if self.scale and self.learner.surviving is not None:
            raise TrainingError(
                f"--scale: the learner {self.learner.name} uses features unchanged, so that its "
                "claims about changed rows hold; scale the data file instead"
            )
        if self.copies > 1 and self.learner.surviving is not None:
            raise TrainingError(
                f"--method {self.method}: the classifiers of a member differ by their seed, but "
                f"the learner {self.learner.name} uses no randomness; use --method dpa"
            )
        if self.survive is not None:
            self._check_survive(self.survive)
        elif self.exact_to is not None:
            raise TrainingError(
                f"--exact-to {self.exact_to} needs --survive, which names the attack; drop it, "
                "or add e.g. --survive removals"
            )

    @property
    def members(self) -> int:
        """The number of members."""
        spread = self.spread if self.method == "finite_aggregation" else 1
        return self.parts * spread * self.families

    @property
    def copies(self) -> int:
        """The number of classifiers per member."""
        return self.spread if self.method == "boosted" else 1

    @property
    def classifiers(self) -> int:
        """The number of trained classifiers."""
        return self.members * self.copies

    @property
    def vote(self) -> Method:
        """The voting method."""
        return "dpa" if self.method == "boosted" else self.method

    @property
    def searched_to(self) -> int | None:
        """The most changes for which thresholds are searched; None if they are counted."""
        survivor = self.learner.survivor
        if self.survive is None or survivor is None or survivor.searched_to is None:
            return None
        return survivor.searched_to if self.exact_to is None else self.exact_to

    def _check_survive(self, against: Against) -> None:
        flag, learner = f"--survive {against}", self.learner.survivor
        if against not in CHANGES:
            raise TrainingError(f"{flag}: expected one of {', '.join(CHANGES)}")
        if self.method == "ss_dpa":
            raise TrainingError(
                f"{flag}: members of --method ss_dpa read the samples of all parts, which "
                "thresholds do not cover; use --method dpa"
            )
        if self.method != "dpa":
            raise TrainingError(
                f"{flag}: with --method {self.method} one change reaches several members, whose "
                "thresholds are not counted together; use --method dpa"
            )
        if learner is None:
            raise TrainingError(
                f"{flag}: it is not known how many changes {self.learner.name} survives; use "
                f"--learner {' or '.join(SURVIVORS)}"
            )
        if against not in learner.survives:
            raise TrainingError(
                f"{flag}: of the learner {self.learner.name} only {' and '.join(learner.survives)} "
                f"are counted; use --survive {' or '.join(learner.survives)}, or --learner nearest"
            )
        if against == "relabels" and self.hash_reads_label:
            raise TrainingError(
                f"{flag}: the hash reads labels, so a relabelled row moves to another part"
            )
        if self.exact_to is not None and learner.searched_to is None:
            raise TrainingError(
                f"--exact-to {self.exact_to}: all thresholds of {self.learner.name} are exact; "
                "drop it"
            )
        if self.exact_to is not None and not 1 <= self.exact_to <= _MOST_EXACT_TO:
            raise TrainingError(
                f"--exact-to {self.exact_to}: expected a whole number from 1 to {_MOST_EXACT_TO:,}"
            )


ABSENT = -1
"""The part of a row on which no member is trained."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The members' shares of the training rows."""

    base: NDArray[np.int64]  # shape (rows,)
    offsets: tuple[int, ...]
    members: int
    further: NDArray[np.int64]  # shape (rows, families - 1)
    ranks: NDArray[np.int64]  # shape (rows,)
    repeated: int  # rows whose sample another row has, too

    def reached_members(self, row: int) -> tuple[int, ...]:
        """Return the members a row reaches, in ascending order."""
        if self.base[row] == ABSENT:
            return ()
        spread = [(int(self.base[row]) + o) % self.members for o in self.offsets]
        return tuple(sorted([*spread, *self.further[row].tolist()]))

    def order(self, y: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the rows of all members, sorted by values, then by label."""
        order = np.lexsort((y, self.ranks))
        kept: NDArray[np.int64] = order[self.base[order] != ABSENT]
        return kept

    def rows(self, y: NDArray[np.int32]) -> tuple[NDArray[np.int64], ...]:
        """Return each member's rows, sorted by values, then by label."""
        order = self.order(y)
        shares: list[NDArray[np.int64]] = []
        chosen = np.zeros(self.members, dtype=bool)
        for member in range(self.members):
            chosen[:] = False
            chosen[[(member - offset) % self.members for offset in self.offsets]] = True
            among = chosen[self.base[order]] | (self.further[order] == member).any(axis=1)
            shares.append(order[among])
        return tuple(shares)


def divide(samples: Samples, recipe: PartRecipe) -> Partition:
    """Assign rows to members by the recipe's scheme.

    DPA: a hash of the sample modulo the number of parts (Levine and Feizi, equation 1). Finite
    Aggregation: the same over more members, each row reaching several of them. Hash bagging: the
    same several times over, each with a different hash function (Chen et al. 2022). SS-DPA: the
    rank of the sample among the distinct samples, modulo the number of parts (equation 7); there a
    row with an unknown label still counts as a sample; otherwise a relabel would shift the ranks of
    others.

    Raises
    ------
    TrainingError
        With SS-DPA, if two rows have the same sample and such rows are not merged.
    """
    ranks = samples.ranks()
    times = np.bincount(ranks)
    further = np.zeros((samples.rows, recipe.families - 1), np.int64)
    repeated = int((times[ranks] > 1).sum())
    if recipe.method == "ss_dpa":
        if repeated and not recipe.merge_duplicates:
            sample = int(np.argmax(times > 1))
            first, second = (int(row) for row in np.flatnonzero(ranks == sample)[:2])
            raise TrainingError(
                f"{samples.source}: training rows {first} and {second} (counting from 0) are the "
                f"same sample, {repeated:,} rows share their sample; SS-DPA requires distinct "
                "samples: pass --duplicates merge, which counts all labels of one sample as one "
                "relabel"
            )
        base = ranks % recipe.parts
    else:
        words = samples.words if recipe.hash_reads_label else None
        contents = samples.homes or samples.keys
        hashes = hash_samples(contents, recipe.hash_key, words)
        width = recipe.parts if recipe.method == "hash_bagging" else recipe.members
        base = (hashes % np.uint64(width)).astype(np.int64)
        for family in range(1, recipe.families):
            hashes = hash_samples(contents, recipe.hash_key, words, family)
            own = (hashes % np.uint64(width)).astype(np.int64)
            further[:, family - 1] = family * width + own
    if not recipe.learner.keeps_unlabelled:
        base = np.where(samples.y == NO_LABEL, ABSENT, base)
    offsets: tuple[int, ...] = (0,)
    if recipe.method == "finite_aggregation":
        offsets = spread_offsets(recipe.members, recipe.spread, recipe.seed)
    return Partition(base, offsets, recipe.members, further, ranks, repeated)


def split_settings(
    texts: Sequence[str], transformers: Sequence[str]
) -> tuple[dict[str, object], tuple[tuple[str, str, object], ...]]:
    """Parse settings such as ``max_depth=5`` and ``PCA.n_components=20``."""
    own: dict[str, object] = {}
    shared: dict[tuple[str, str], object] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise TrainingError(f"--set {text}: expected NAME=VALUE, e.g. --set max_depth=5")
        owner, dot, parameter = name.rpartition(".")
        if not dot:
            if name in own:
                raise TrainingError(f"--set {text}: {name!r} is set twice; set it once")
            own[name] = parse_value(value)
            continue
        if owner not in transformers:
            raise TrainingError(
                f"--set {text}: {owner!r} is not one of --features "
                f"({', '.join(transformers) or 'there are none'})"
            )
        if (owner, parameter) in shared:
            raise TrainingError(f"--set {text}: {name!r} is set twice; set it once")
        shared[owner, parameter] = parse_value(value)
    return own, tuple((owner, name, value) for (owner, name), value in sorted(shared.items()))


def recipe_of(options: dict[str, Any]) -> PartRecipe:
    """Return the recipe of the options of ``leaveout partition``, all by name.

    Raises
    ------
    TrainingError
        If one is outside its range, or needs another.
    """
    given = dict(options)
    for name in ("spread", "families"):
        if given[name] is None:
            refused = BY_NAME[name].refuse(given["method"])
            given[name] = 1 if refused else BY_NAME[name].usual
    duplicates, features = given.pop("duplicates"), given.pop("features")
    if duplicates not in {None, "refuse", "merge"}:
        raise TrainingError(f"--duplicates {duplicates}: expected refuse or merge")
    names = () if features is None else tuple(name.strip() for name in features.split(","))
    learner, torch = given.pop("learner"), {name: given.pop(name) for name in ("layers", "epochs")}
    own, shared = split_settings(given.pop("settings") or [], names)
    for name, value in torch.items():
        if value is None:
            continue
        if learner != TORCH:
            raise TrainingError(f"--{name} needs --learner {TORCH}; drop it, or pass that learner")
        if name in own:
            raise TrainingError(f"--{name} and --set {name} set the same value; drop one")
        own[name] = value
    return PartRecipe(
        learner=make_learner(learner, own),
        features=names,
        feature_settings=shared,
        merge_duplicates=duplicates == "merge",
        **given,
    )
