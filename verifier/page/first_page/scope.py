"""What the results cover and do not cover, in plain words and the table's units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from leaveout.specs import Call, Node, Text
from leaveout.specs.text.expressions import walk
from leaveout.verifier.amounts import count_noun, percent, written_number
from leaveout.verifier.page.markup import clean
from leaveout.verifier.page.model import Page, Run
from leaveout.verifier.page.spec_text import Written
from leaveout.verifier.points.sentences import NOUNS
from leaveout.verifier.records import BoxRecord, ColumnRecord, ModelRecord

TOPICS = (
    "leaks",
    "guard",
    "pair",
    "changes",
    "votes",
    "service",
    "deletions",
    "stored",
    "same",
    "audit",
    "other",
)
"""What statements are about."""

_COLUMNS = 6  # columns whose ranges stand on the first page
_WORDS = 6  # values of a column that are listed there

_RIGHT = "Whether the answers given in use are correct, and whether the model is fit for that use."
_MORE = "For statements about one record: what changes if two or more are left out at once"
_SEVERAL = ", such as all records of a person with several"
_SCORES = "Scores or probabilities shown with an answer."
_TRAINED = (
    "Whether each model without a record was trained as its file says: such models are taken as "
    "they are."
)
_OTHERS = "Training records that were never left out, if there are any."
_NOT_COVERED = {
    "leaks": (
        _SCORES,
        "Models trained on other data, with other settings or from another random start.",
    ),
    "pair": (_SCORES,),
    "changes": (
        _SCORES,
        "Models trained on other data, with other settings or from another random start.",
    ),
    "votes": ("Answers to other rows than the test rows, and larger changes than those named.",),
    "service": ("What was disclosed before a record was deleted, and copies kept elsewhere.",),
    "deletions": ("Deletions that are not listed, and copies of the data kept elsewhere.",),
    "audit": ("Attacks that were not tried.",),
}
_CHANGES = (
    "For statements about several records, other labels or one record more: these changes of the "
    "training table, where the linear model is otherwise fitted in the same way."
)
_TOGETHER = frozenset({"leaks", "guard"})
_VOTES = (
    "For models that vote: their answers to the test rows of the named files, whichever "
    "training records change."
)


@dataclass(frozen=True)
class Scope:
    """What the results cover and do not cover."""

    covered: tuple[str, ...]  # sentences
    not_covered: tuple[str, ...]  # sentences


def scope(page: Page, topics: Iterable[str]) -> Scope:
    """Return the scope of a page's results."""
    about = [each for each in TOPICS if each in set(topics)]
    covered = [*_covered_records(page), *_inputs(page)]
    if "votes" in about:
        covered.append(_VOTES)
    if _TOGETHER & {*about} or _groups(page) - {""}:
        covered += _definitions(page)
    if "changes" in about:
        covered.append(_CHANGES)
    if {"leaks", "pair", "changes"} & {*about}:
        covered.append(
            "Confidence is the score of an answer minus the next best score; it is not a "
            "probability."
        )
    levels = {each.confidence for each in page.statements if each.confidence is not None}
    covered += [
        (
            f"“With {percent(level)} confidence”: such a measurement leads to a false sentence "
            f"with probability at most {written_number(round(1 - level, 12), up=True)}."
        )
        for level in sorted(levels)
    ]
    missing = [_RIGHT] if about else []
    alone = "" in _groups(page)
    missing += [f"{_MORE}{_SEVERAL * alone}."] if _TOGETHER & {*about} else []
    missing += ["Inputs outside the named ranges."] if page.boxes else []
    missing += [line for each in about for line in _NOT_COVERED.get(each, ())]
    missing += _uncovered_records(page)
    read = (each.kind for run in page.runs for each in run.report.files)
    taken = any(each.model == "network" for each in _models(page)) or "family" in read
    missing += [_TRAINED] if taken else []
    missing += [_OTHERS] if _TOGETHER & {*about} and not _models(page) else []
    columns = (column for model in _models(page) for column in model.columns)
    ends = ((each.zero, each.one) for each in columns if each.zero is not None)
    # A page without names knows no columns.
    if any(each != (0, 1) for each in ends) or (not page.named and _models(page)):
        missing.append(
            "What the smallest and largest value of a column reveal: all models share them, "
            "computed from all records."
        )
    return Scope(_once(covered), _once(missing))


def _once(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lines))


def _models(page: Page) -> list[ModelRecord]:
    return [each for run in page.runs for each in run.report.models if each.members]


def _groups(page: Page) -> set[str]:
    """Return the columns whose rows leave together; empty names are rows that leave alone."""
    found = {each.group for run in page.runs for each in run.report.training}
    return found or {""}


def _definitions(page: Page) -> list[str]:
    """Return what a record is."""
    return [
        f"A record is all that the training table has about one “{clean(group)}”: its rows leave "
        "together."
        if group
        else "A record is one row of the training table."
        for group in sorted(_groups(page))
    ]


def _covered_records(page: Page) -> list[str]:
    """Return sentences on the records whose absence is covered."""
    found = []
    for model in _models(page):
        which = count_noun(model.members, "training record")
        if model.rows is not None and model.rows > model.members:
            which = f"{model.members:,} of {count_noun(model.rows, 'training record')}"
        how = "trained in the same way: the same recipe, settings and random start"
        if model.model == "linear":
            how = "fitted in the same way, with the inputs encoded as they are"
        noun = NOUNS[model.model]
        found.append(f"Leaving out any one of {which}, where the {noun} is otherwise {how}.")
    return found


def _uncovered_records(page: Page) -> list[str]:
    """Return sentences on the records that were never left out."""
    found = []
    for run in page.runs:
        certain = {each.name for each in run.report.results if each.confidence is None}
        for model in run.report.models:
            if not model.members or model.rows is None or model.rows <= model.members:
                continue
            others = count_noun(model.rows - model.members, "training record")
            found.append(
                f"The other {others}, none of which was left out."
                if certain & {*model.statements}
                else (
                    f"Which of the other {others} are exceptions: nothing is known about them "
                    "except what the randomly drawn records show about all."
                )
            )
    return found


def _inputs(page: Page) -> list[str]:
    """Return sentences on the covered inputs, in the table's units where known."""
    found = []
    for box, number in page.boxes.items():
        which = f"Range {number} of inputs" if len(page.boxes) > 1 else "Inputs"
        named = ranges_of(box, columns_of(page.runs, box))
        if named:
            more = len(named) - _COLUMNS
            rest = f"; and {more} more, listed in the details" if more > 0 else ""
            found.append(f"{which}: {'; '.join(named[:_COLUMNS])}{rest}.")
        else:
            found.append(f"{which}: {_plainly(box, page.shows(box))}.")
    return found


def columns_of(runs: Iterable[Run], box: BoxRecord) -> tuple[ColumnRecord, ...]:
    """Return the columns shared by the models of all results about a box."""
    about = {
        model.columns
        for run in runs
        for result in run.report.results
        if result.box == box
        for model in run.report.models
        if result.name in model.statements
    }
    return about.pop() if len(about) == 1 else ()


def ranges_of(box: BoxRecord, columns: tuple[ColumnRecord, ...]) -> list[str]:
    """Return a phrase per column on the covered values; empty if columns do not fit."""
    width = len(box.lower)
    if [at for column in columns for at in column.at] != list(range(width)):
        return []
    return [_range(box, column) for column in columns]


def _range(box: BoxRecord, column: ColumnRecord) -> str:
    listed = [each for each in box.choices if set(each.columns) & set(column.at)]
    if column.zero is None or column.one is None:
        return _category(box, column)
    unit = f" {column.unit}" if column.unit else ""
    (at,) = column.at
    # What a column without a spread reads as is the same for every feature.
    ends = sorted(_in_units(column, each[at]) for each in (box.lower, box.upper))
    low, high = (written_number(end, up=up) for end, up in zip(ends, (True, False), strict=True))
    if float(low) > float(high):
        # So narrow that both are rounded past each other.
        low, high = (f"{end:.12g}" for end in ends)
    if listed:
        place = listed[0].columns.index(at)
        values = sorted({row[place] for row in listed[0].values})
        if len(values) <= _WORDS:
            shown = ", ".join(written_number(_in_units(column, each)) for each in values)
            return f"{column.name} {shown}{unit}"
        return f"{column.name} one of {len(values):,} values from {low} to {high}{unit}"
    return f"{column.name} {low}{unit}" if low == high else f"{column.name} {low} to {high}{unit}"


def _in_units(column: ColumnRecord, feature: float) -> float:
    assert column.zero is not None
    assert column.one is not None
    value = column.zero + feature * (column.one - column.zero)
    # The last digits are of the conversion, not of the range.
    return float(f"{value:.12g}")


def _category(box: BoxRecord, column: ColumnRecord) -> str:
    own = [each for each in box.choices if set(column.at) <= set(each.columns)]
    if not own:
        return f"{column.name} any mixture of {len(column.categories):,} categories"
    places = [own[0].columns.index(at) for at in column.at]
    taken = {tuple(row[place] for place in places) for row in own[0].values}
    names = [
        name
        for at, name in enumerate(column.categories)
        if tuple(float(at == other) for other in range(len(column.at))) in taken
    ]
    if len(names) < len(taken):
        return f"{column.name} as listed in the details"
    if len(names) > _WORDS:
        return f"{column.name} one of {len(names):,} categories"
    return f"{column.name} {' or '.join(names)}"


def _plainly(box: BoxRecord, shown: bool) -> str:
    sides = set(zip(box.lower, box.upper, strict=True))
    listed = sum(len(each.columns) for each in box.choices)
    some = f", {listed:,} of them listed values only" if listed else ""
    count = count_noun(len(box.lower), "number")
    if not shown:
        return f"{count} as the model reads them, each in a range left out of this page{some}"
    if len(sides) == 1:
        ((low, high),) = sides
        ends = f"{written_number(low, up=True)} to {written_number(high)}"
        return f"any {count} from {ends}, as the model reads them{some}"
    return f"{count} as the model reads them, each in a range listed in the details{some}"


SHORT = 12
"""Digits of a digest on the first page."""

_ROLES: Mapping[str, str] = {
    "network": "network",
    "forest": "forest",
    "linear": "linear model",
    "trees": "trees",
    "ballots": "models that vote",
    "service": "service",
    "audit": "audited models",
}
"""By what the results call the kind of a model's file, what it is."""

_CALLS = {**_ROLES, "sharded": "service", "access": "guard"}
"""By the function that reads a model, what it is."""

_OTHER_FILES: Mapping[str, str] = {
    "family": "models each trained without one record",
    "member": "network trained without a record",
    "columns": "columns of the model's table",
    "bounds": "bounds of the guard",
    "rows": "records named",
    "given rows": "rows given",
}
"""The same of other files that are not called by their kind."""


@dataclass(frozen=True)
class NamedFile:
    """A file with its name, kind and digest."""

    role: str  # what it is
    name: str  # its path, as short as it can be told from others
    digest: str = ""  # its sha256, in hexadecimal; empty where it is not known


def named_files(page: Page, everything: bool = False) -> tuple[NamedFile, ...]:
    """Return the files a page was made from: specifications and results."""
    found: list[NamedFile] = []
    for run in page.runs:
        found.append(NamedFile("results", run.name, run.digest))
        digest = run.report.spec_sha256 or run.specification.digest
        found.append(NamedFile("specification", spec_name(run), digest))
        found += [
            NamedFile(_ROLES.get(each.kind) or _OTHER_FILES.get(each.kind, each.kind), each.path,
                      each.sha256)
            for each in run.report.files
            if everything and each.kind != "specification"
        ]  # fmt: skip
    return tuple(dict.fromkeys(found))


def models(page: Page) -> tuple[NamedFile, ...]:
    """Return the models of the statements, as far as results or specification name them."""
    found: dict[NamedFile, None] = {}
    for run in page.runs:
        kept = [
            NamedFile(_ROLES[each.kind], short(each.path), each.sha256)
            for each in run.report.files
            if each.kind in _ROLES
        ]
        read = (each for one in run.statements for each in _read(one.written))
        known = (NamedFile(each.model, short(each.file)) for each in run.report.models)
        found |= dict.fromkeys(kept or [*read] or [*known])
    return tuple(found)


def of_model(page: Page, file: str) -> str:
    """Return whose rows or answers they are, on a page of several models."""
    return f" of {clean(short(file))}" if len(models(page)) > 1 else ""


def spec_name(run: Run) -> str:
    """Return the name of a run's specification."""
    first = clean(run.report.spec.partition("\n")[0])
    built = "\n" in run.report.spec or (first.startswith("<") and first.endswith(">"))
    return "built in Python" if built else short(first)


def _read(written: Written | None) -> list[NamedFile]:
    nodes: tuple[Node, ...] = ()
    if written is not None:
        nodes = (written.statement, *written.definitions)
    found = []
    for node in walk(*nodes):
        if isinstance(node, Call) and node.function in _CALLS:
            path = next((each for each in node.arguments if isinstance(each, Text)), None)
            if path is not None:
                found.append(NamedFile(_CALLS[node.function], short(path.value)))
    return found


def short(path: str) -> str:
    """Return the end of a path: the file and its folder."""
    return "/".join(PurePath(path).parts[-2:]) if "/" in path else path
