"""``leaveout audit attack``: membership attacks on a model, beside what is proved of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from leaveout.verifier.cli.options import ADOPT, SEED
from leaveout.verifier.cli.output import align, lines, say_notes, write_out
from leaveout.verifier.cli.parameters import argument, flag, option
from leaveout.verifier.cli.progress import counter_bar

if TYPE_CHECKING:
    from leaveout.verifier.audits.attacks import Attack, Range
    from leaveout.verifier.guard.attack import Asked, Found


def attack(
    folder: Path = argument(
        "A network with its family, a forest, a linear model, or boosted trees with their members.",
        metavar="DIR",
    ),
    data: Path = option(
        "Rows with labels: those that the model was trained on, and others like them. A CSV with "
        "the training table's columns, or an NPZ with X_train, y_train, X_test and y_test.",
        default=...,
        metavar="CSV|NPZ",
    ),
    named: str = option(
        "Column of the CSV that names training rows, or groups, as the training table does, or by "
        "their numbers from 0; rows with another name are others.",
        "--id",
        default="",
        metavar="COLUMN",
        shown="the training table's, or rows are found by what they hold",
    ),
    epsilon: float | None = option(
        "Also attack the answers of a guard of this epsilon; none is drawn or stored."
    ),
    references: int = option(
        "Most models with a row that its likelihood ratio is taken from.", default=64
    ),
    seed: int = SEED,
    output: Path | None = option("Write all numbers.", "-o", "--output", metavar="JSON"),
    names: bool = flag(
        "--names", "Say what the rows most at risk are called: personal data, perhaps."
    ),
    adopt: bool = ADOPT,
) -> None:
    """Measure how well attacks tell the rows that a model was trained on from others.

    The models without one row each, which the folder has, are the attacker's references; nothing is
    trained. Measured are a likelihood ratio, the loss and the label alone, each with 95 %
    intervals, beside what is proved of answers with labels alone.

    For example: leaveout audit attack clinic --data rows.csv --epsilon 0.2 -o attack.json

    Exit status: 0 whatever is found, 2 bad input.
    """  # fmt: skip
    from leaveout.errors import GuardError
    from leaveout.files import write_whole
    from leaveout.kernel.files import digest_of
    from leaveout.verifier.guard.attack import attack as find
    from leaveout.verifier.guard.attack import read_asked
    from leaveout.verifier.guard.loading import model_files
    from leaveout.verifier.guard.reference_models import load_references
    from leaveout.verifier.guard.subject import GuardSettings

    if output is not None and output.exists():
        raise GuardError(f"-o {output}: exists; name a new file")
    if output is not None and not output.absolute().parent.is_dir():
        raise GuardError(f"-o {output}: no such folder; create it first")
    if seed < 0:
        raise GuardError(f"--seed {seed}: expected at least 0")
    if references < 2:
        raise GuardError(f"--references {references}: expected at least 2")
    if epsilon is not None:
        GuardSettings(epsilon)
    with counter_bar("loading", "rows") as show:
        known = load_references(folder, *([] if show is None else [show]), adopt=adopt)
    asked = read_asked(known, data, named)
    with counter_bar("asking", "questions") as show:
        found = find(known, asked, epsilon=epsilon, count=references, seed=seed, progress=show)
    if output is not None:
        digests = {"data": digest_of(data)}
        digests |= {each.name: digest_of(each) for each in model_files(folder)}
        write_whole(output, _json_of(found, asked, digests, names))
    file = "" if output is None else lines([("file", str(output))]) + "\n"
    unit = "group" if known.subject.group else "row"
    write_out(_table(found, asked, unit, names) + file)
    say_notes(known.subject.notes)


def _json_of(found: Found, asked: Asked, digests: dict[str, str], names: bool) -> bytes:
    from leaveout.verifier.audits.attacks import ONE_IN

    said = asdict(found) | {"told_by": asked.told, "sha256": digests}
    said["known_name_other_contents"] = asked.changed
    for each in (*said["others_attacks"], *said["same_rows"]):
        each["accuracy"] = [(1 + end) / 2 for end in each["advantage"]]
        called = (f"TPR at FPR {1 / each:g}" for each in ONE_IN)
        each["rates"] = dict(zip(called, each["rates"], strict=False))  # none of labels
    for each in said["risks"] if not names else ():
        del each["unit"]
    return json.dumps(said, indent=1).encode() + b"\n"


def _table(found: Found, asked: Asked, unit: str, names: bool) -> str:
    rows = [["training rows, or others?", "AUC", "TPR at 1 % FPR", "at 0.1 %", "accuracy"]]
    rows += map(_cells, found.others_attacks)
    if not found.others_attacks:
        rows.append(["(no others in --data)", "", "", "", ""])
    rows.append([f"with the {unit}, or without?", "", "", "", ""])
    rows += map(_cells, found.same_rows)
    said = [("models", f"{found.models:,} without one {unit} each; {found.references:,} with it")]
    said.append(("rows", f"{found.members:,} trained on, {found.others:,} others"))
    if found.unclear:
        why = "copies, or no model lacks them"
        said.append(("", f"{found.unclear:,} more trained on, left aside: {why}"))
    if asked.changed:
        said.append(("", f"known name but other contents, counted as others: {asked.changed:,}"))
    said.append(("told by", asked.told))
    own, kept = "row" if unit == "row" else f"row's {unit}", found.members - found.noised
    said += [
        ("scores", f"differ without the {own}: {_share(found.scores_differ)} of rows"),
        ("labels", f"differ without the {own}: {_share(found.labels_differ)} of rows"),
        ("proved", f"{kept:,} of {found.members:,} labels hinge on no {unit}"),
    ]
    if found.guarded is not None:
        value, low, high = found.guarded.advantage
        told = f"advantage of one answer {value:.4g} on these rows, proved: at most"
        said += [
            (f"epsilon {found.guarded.epsilon:g}", f"{told} {found.guarded.bound:.4g}"),
            ("", f"on further rows like these: between {low:.4g} and {high:.4g}"),
        ]
    for at, each in enumerate(found.risks[:3]):
        who = each.unit if names else each.place.rpartition(", ")[2]
        turns = ", another label" * each.turned
        told = f"{who}: its label's probability {each.with_row:.3g}, without it {each.without:.3g}"
        said.append(("most at risk" * (at == 0), told + turns))
    return "\n".join(align(rows, str.ljust)) + "\n" + lines(said) + "\n"


def _cells(each: Attack) -> list[str]:
    accuracy = tuple((1 + end) / 2 for end in each.advantage)
    rates = [_number(rate) for rate in each.rates] or ["-", "-"]
    return [f"  {each.name}", _number(each.auc), *rates, _number(accuracy)]


def _number(found: Range | tuple[float, ...] | None) -> str:
    if found is None:
        return "-"
    value, low, high = found
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _share(found: Range) -> str:
    return f"{found.value:.2%}, between {found.low:.2%} and {found.high:.2%}"
