"""What ``leaveout partition`` can be told: schemes, learners that survive changes, and options.

Each is declared once, with its default, its help and whom it is for. Nothing is imported that the
start of a command line would feel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMES = {
    "dpa": "certifies against inserted or removed rows",
    "boosted": "dpa whose members are --spread classifiers of one part",
    "ss_dpa": "certifies against changed labels only; members may learn from all samples without "
    "labels",
    "finite_aggregation": "dpa with K times --spread members, each row reaching --spread of them",
    "hash_bagging": "all rows are divided among K members --families times, each time by another "
    "hash",
}
"""How rows reach members, and what it is good for."""

CHANGES = ("edits", "insertions", "removals", "relabels")
"""What members survive; edits are insertions and removals mixed."""


@dataclass(frozen=True)
class Setting:
    """A setting of a learner: a whole number from 1 to ``most``."""

    default: int
    most: int
    meaning: str


@dataclass(frozen=True)
class Survivor:
    """A learner whose members know how many changes they survive."""

    meaning: str
    settings: Mapping[str, Setting]
    survives: tuple[str, ...]
    searched_to: int | None = None  # every set of up to so many changes is tried, by default
    passes: int = 1  # over its rows' values, to train it once
    keeps_unlabelled: bool = False  # a row whose label is unknown stays in its part
    most_labels: int | None = None  # with which members know it; None: any number
    most_rows: int | None = None  # of a part, for time or for whole numbers below 2**63

    @property
    def words(self) -> str:
        """What it is, and its settings."""
        if not self.settings:
            return self.meaning
        settings = (
            f"{name}={each.default}, {each.meaning}" for name, each in self.settings.items()
        )
        return f"{self.meaning} (--set {'; '.join(settings)})"


SURVIVORS: dict[str, Survivor] = {
    "kernel": Survivor(
        "least squares with a Gaussian kernel",
        {
            "gamma": Setting(1, 1_000_000, "its sharpness"),
            "penalty": Setting(1, 1_000_000, "of squared coefficients"),
        },
        ("relabels",),
        keeps_unlabelled=True,
        most_labels=2,
        most_rows=5_000,
    ),
    "logistic": Survivor(
        "logistic regression",
        {"penalty": Setting(1, 1_000_000, "of squared coefficients")},
        ("removals", "relabels"),
        searched_to=1,
        passes=50,
    ),
    "nearest": Survivor(
        "nearest neighbours", {"k": Setting(5, 1_000_000, "how many vote")}, CHANGES
    ),
    "ridge": Survivor(
        "least squares",
        {"penalty": Setting(1, 1_000_000, "of squared coefficients")},
        ("relabels",),
        keeps_unlabelled=True,
        most_labels=2,
    ),
    "tree": Survivor(
        "a shallow tree",
        {
            "depth": Setting(2, 8, "levels of splits"),
            "leaf": Setting(1, 1_000_000, "the fewest rows on a side"),
        },
        ("removals", "relabels"),
        searched_to=2,
        most_rows=5_000,
    ),
}


def _and(names: tuple[str, ...]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class Option:
    """An option of the command; its name is that of a field of `PartRecipe`, if it is for one."""

    name: str
    group: str
    help: str
    kind: Any = field(default=str | None)
    default: Any = None
    metavar: str | None = None
    shown: str | bool = False  # the default in words; True: as it is
    flag: str = ""  # where it is not the name
    schemes: tuple[str, ...] = ()  # it needs one of them
    why: str = ""  # it needs one
    usual: int = 1  # a number's value where a scheme takes it

    @property
    def flags(self) -> str:
        """How it is written, as typer declares it."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    def refuse(self, method: str) -> str | None:
        """Return why a scheme cannot take it, and the cure."""
        if not self.schemes or method in self.schemes:
            return None
        needed = " or ".join(self.schemes)
        return f"{self.flags} needs --method {needed}{self.why}; drop one, or pass both"


_KEPT = tuple(name for name, each in SURVIVORS.items() if each.keeps_unlabelled)
_MOVED = tuple(name for name, each in SURVIVORS.items() if not each.keeps_unlabelled)
_SEARCHED = tuple(name for name, each in SURVIVORS.items() if each.searched_to)
_ROWS, _SCHEME, _TRAINING, _MEMBERS, _OUTPUT = "Rows", "Scheme", "Training", "Members", "Output"

OPTIONS = (
    Option("test", _ROWS, "Test rows, with the same columns.", Path | None, metavar="CSV"),
    Option(
        "test_share", _ROWS,
        "Hold out this share of the rows instead, chosen by each row's hash, independent of the "
        "other rows.",
        float | None, metavar="SHARE",
    ),
    Option(
        "labels", _ROWS,
        "All possible labels; rows with any other label reach no member, or with --learner "
        f"{' or '.join(_KEPT)} vote for none. Without it, the labels of the file are used, and "
        "certificates assume that edits add none.",
        metavar="A,B,...",
    ),
    Option(
        "bad_rows", _ROWS,
        "What to do with unreadable rows: too many or too few cells, an open quote, bytes that are "
        "not text, no label; in an NPZ, values that are not finite. skip: each line is a row, and "
        "is skipped independently of the others. refuse: certificates assume that edits add none.",
        str, "refuse", "refuse|skip", True,
    ),
    Option(
        "encoding", _ROWS,
        "A table whose rows determine, for every part, how columns become features: their ranges "
        "and categories come from no other rows. It may be the one of --test. With a CSV, "
        f"--survive of {_and(_MOVED)} needs it, because otherwise a changed row moves the others "
        "of its part.",
        Path | None, metavar="CSV",
    ),
    Option(
        "parts", _SCHEME,
        "Number of parts; a member sees about 1/K of the rows. More parts give larger certificates "
        "and weaker members.",
        int, 50, "K", True,
    ),
    Option(
        "method", _SCHEME,
        " ".join(f"{name}: {meaning}." for name, meaning in SCHEMES.items()),
        str, "dpa", "|".join(SCHEMES), True,
    ),
    Option(
        "spread", _SCHEME,
        "finite_aggregation: members that each row reaches; boosted: classifiers per part.",
        int | None, metavar="D", shown="4", schemes=("finite_aggregation", "boosted"), usual=4,
    ),
    Option(
        "families", _SCHEME, "hash_bagging: how many times all rows are divided.",
        int | None, metavar="F", shown="4", schemes=("hash_bagging",), usual=4,
    ),
    Option(
        "features", _SCHEME,
        "ss_dpa: unsupervised scikit-learn transformers, fitted on all samples, e.g. "
        "StandardScaler,PCA.",
        metavar="A,B,...", schemes=("ss_dpa",),
        why=": fitted on all samples, they would carry an edit to every member",
    ),
    Option(
        "duplicates", _SCHEME,
        "ss_dpa: what to do if two rows are the same sample. merge: they go to one part, and any "
        "change of their labels counts as one relabel.",
        metavar="refuse|merge", shown="refuse", schemes=("ss_dpa",),
        why=": elsewhere each row is a separate edit",
    ),
    Option(
        "hash_key", _SCHEME,
        "Determines which part a sample belongs to; it is recorded, so it is not a secret.",
        str, "", "TEXT", "none",
    ),
    Option(
        "learner", _TRAINING,
        "A scikit-learn classifier by name; torch: a small ReLU network, whose batch, lr, "
        "weight_decay and dropout are set with --set; or one that survives changes: "
        + "; ".join(f"{name}: {each.words}" for name, each in SURVIVORS.items()) + ".",
        metavar="NAME", shown="RandomForestClassifier with n_estimators=10",
    ),
    Option(
        "settings", _TRAINING,
        "A parameter of the learner, e.g. max_depth=5, or of one of --features, e.g. "
        "PCA.n_components=20. May be repeated.",
        list[str] | None, metavar="NAME=VALUE", flag="--set",
    ),
    Option(
        "layers", _TRAINING, "With --learner torch: widths of the hidden ReLU layers.",
        metavar="WIDTHS", shown="50,50",
    ),
    Option(
        "epochs", _TRAINING, "With --learner torch: passes over a part.", int | None, shown="50"
    ),
    Option(
        "scale", _TRAINING, "Standardise features within each part.", bool, False, flag="--scale"
    ),
    Option(
        "seed", _TRAINING, "Seed of member 0; member i has the seed plus i.", int, 0, shown=True
    ),
    Option(
        "workers", _TRAINING, "Number of processes; affects speed only.", int | None,
        shown="one per core",
    ),
    Option(
        "survive", _MEMBERS,
        "Also compute for each member how many changes of this one kind within its part its vote "
        "survives, which makes certificates larger. Of "
        + "; of ".join(f"{name}: {_and(each.survives)}" for name, each in SURVIVORS.items())
        + " (edits are insertions and removals mixed). For dpa only; poisoning.spec then asks "
        "about this kind.",
        metavar="|".join(CHANGES),
    ),
    Option(
        "exact_to", _MEMBERS,
        f"With --survive of {_and(_SEARCHED)}: every set of up to R changed rows is tried, which "
        "takes about n^R members of a part with n rows; a vote that no such set changes survives "
        "R. Other members are counted at any number.",
        int | None, metavar="R",
        shown=", ".join(f"{SURVIVORS[name].searched_to} of {name}" for name in _SEARCHED),
    ),
    Option(
        "scores", _MEMBERS, "Store the members' scores, which run-off elections need.", bool, True,
        shown=True, flag="--scores/--no-scores",
    ),
    Option(
        "onnx", _OUTPUT, "Write the members as ONNX where possible.", bool, True, shown=True,
        flag="--onnx/--no-onnx",
    ),
    Option(
        "undefended", _OUTPUT,
        "Also train one model on all rows, to see how much accuracy the partition costs. It runs "
        "last and may take as long as all members.",
        bool, True, shown=True, flag="--undefended/--no-undefended",
    ),
)  # fmt: skip
"""All but those about reading a CSV, which other commands have, too."""

BY_NAME: Mapping[str, Option] = {each.name: each for each in OPTIONS}
