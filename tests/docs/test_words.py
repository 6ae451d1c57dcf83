"""One thought has one name: words that were given up for the field's own do not come back."""

import io
import keyword
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ROOMS = ("bab", "encoders", "models", "solvers", "specs", "verifier", "src", "benchmarks", "docs")

RETIRED = {
    "blur": "rounding", "blurs": "rounding", "blurred": "rounding", "gauge": "rounding",
    "gauged": "rounding", "scout": "attack", "scouting": "attack", "climb": "ascent",
    "climbs": "ascent", "climbed": "ascent", "climbing": "ascent", "polish": "refine",
    "polished": "refine", "anneal": "smoothing", "annealed": "smoothing", "crew": "pool",
    "crews": "pool", "parcel": "payload", "parcels": "payload", "tension": "neuron score",
    "tensions": "neuron score", "betrayed": "contradicted", "torn": "failed",
    "stuck": "unresolved", "grove": "forest state", "groves": "forest state", "quest": "question",
}  # fmt: skip
"""Words, and what to say instead; in names and in prose."""

THEIRS = {"verifier/guard/server_gate.py": {"gauge"}, "benchmarks/house.py": {"torn"}}
"""Words that a file needs: a type of Prometheus, a participle among others."""

NAMES = {"lead": "margin", "leads": "margin", "site": "worker", "team": "coordinator"}
"""Words of everyday prose that are no names of anything in the code."""


def files(*endings: str) -> list[Path]:
    """Every file of the project's own, by git, in the rooms that readers see."""
    listed = subprocess.run(
        ["git", "ls-files", *ROOMS, "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = [ROOT / name for name in listed.stdout.splitlines() if name.endswith(endings)]
    return [file for file in found if file.is_file() and file.name != "CHANGELOG.md"]


def parts(name: str) -> list[str]:
    """Split a name where it is joined: by underscores and capitals."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names(source: str) -> set[str]:
    """Every name of a module, in parts."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    given = {
        t.string for t in tokens if t.type == tokenize.NAME and not keyword.iskeyword(t.string)
    }
    return {part for name in given for part in parts(name)}


def retired(text: str, *, code: bool) -> dict[str, str]:
    """Return the retired words of a text, and what to say instead."""
    found = {word: RETIRED[word] for word in re.findall(r"[a-z]+", text.lower()) if word in RETIRED}
    if code:
        found |= {word: NAMES[word] for word in names(text) if word in NAMES}
        found |= {word: RETIRED[word] for word in names(text) if word in RETIRED}
    return found


@pytest.mark.parametrize("room", [*ROOMS, "."])
def test_retired_words_stay_out_of_names_and_prose(room):
    folder = ROOT / room
    wrong = {}
    for file in files(".py", ".md"):
        here = file.parent == ROOT if room == "." else folder in file.parents
        if here:
            code = file.suffix == ".py" and room != "docs"
            name = str(file.relative_to(ROOT))
            found = retired(file.read_text(encoding="utf-8"), code=code)
            found = {word: say for word, say in found.items() if word not in THEIRS.get(name, ())}
            if found:
                wrong[name] = found
    assert not wrong


def test_retired_words_are_seen_in_every_guise():
    assert retired("class LeakGauge:\n    pass\n", code=True) == {"gauge": "rounding"}
    assert retired("own_lead = 1\n", code=True) == {"lead": "margin"}
    assert retired("# What float32 blurs.\n", code=True) == {"blurs": "rounding"}
    assert retired("Roads lead there.", code=False) == {}
    assert retired("def upgrade(): ...\n", code=True) == {}


def test_rooms_of_one_floor_have_names_of_their_own():
    """Nobody has to ask which of two rooms, or of a room and a module beside it, is meant."""
    for floor in ("bab", "encoders", "models", "solvers", "specs", "verifier"):
        rooms = [file.parent.name for file in (ROOT / floor).rglob("__init__.py")]
        assert len(rooms) == len(set(rooms)), floor
        modules = {file.stem for file in (ROOT / floor).glob("*.py")}
        assert not modules & set(rooms), floor
