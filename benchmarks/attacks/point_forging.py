"""Forge certificates of claims over points: trees, forms, regions, members and files."""

from __future__ import annotations

from typing import Any

import numpy as np

from attacks.certificate_content import Content
from attacks.forging import FORGERIES, Forgery

__all__ = ["POINT_FORGERIES"]

_TREES = (
    "lowered", "raised_targets", "dropped", "unproved", "no_errors", "multipliers", "wild_splits",
    "crooked_sets", "wrong_numbers",
)  # fmt: skip
"""Those of leaks that are of trees alone."""


def _claim(content: Content) -> dict[str, Any]:
    found: dict[str, Any] = content.manifest["claims"][0]
    return found


def _lower(rng: np.random.Generator, content: Content, least: float) -> None:
    if rng.random() < 0.7:
        FORGERIES["lowered"](rng, content, least)


def moved_points(rng: np.random.Generator, content: Content, least: float) -> None:
    """State other boxes, another origin, or rows that are not listed."""
    claim = _claim(content)
    box = claim["points"][int(rng.integers(len(claim["points"])))]
    at = int(rng.integers(len(box["lower"])))
    width = box["upper"][at] - box["lower"][at] + 1e-3
    match int(rng.integers(7)):
        case 0:
            box["upper"][at] += float(rng.choice([0.5, 2.0, 1e4])) * width
        case 1:
            box["lower"][at] -= float(rng.choice([0.5, 2.0, 1e4])) * width
        case 2:
            box["lower"][at], box["upper"][at] = box["upper"][at] + 1.0, box["lower"][at]
        case 3:
            box["lower"][at] = float(rng.choice([np.nan, -np.inf, -1e39]))
        case 4:
            box["choices"] = box["choices"][1:]
        case 5:
            for case in claim["cases"]:
                shift = float(rng.choice([-1.0, 1.0, -1e30, 1e-3]))
                case["origin"] = [v + shift for v in case["origin"]]
        case _:
            for case in claim["cases"]:
                case["near"] = not case["near"]
    _lower(rng, content, least)


def other_forms(rng: np.random.Generator, content: Content, least: float) -> None:
    """Change, drop, double or exchange forms, sides and sums."""
    claim = _claim(content)
    case = claim["cases"][int(rng.integers(len(claim["cases"])))]
    forms = [*case["goals"], *case["conditions"]]
    form = forms[int(rng.integers(len(forms)))]
    match int(rng.integers(9)):
        case 0:
            form["constant"] += float(rng.choice([1e-6, 1e-3, 1.0, -1.0, 1e199, np.nan]))
        case 1:
            for key in ("features", "scores"):
                form[key] = [[*term[:2], float(rng.normal())] for term in form[key]]
        case 2:
            key = str(rng.choice(["features", "scores"]))
            form[key] = [*form[key], [0, 0, 1.0]]
        case 3 if case["conditions"]:
            case["conditions"].pop()
        case 4:
            case["goals"], case["conditions"] = case["goals"][::-1], case["conditions"][::-1]
        case 5:
            case["inside"] = [] if case["inside"] else [[0, 0, 0]]
        case 6:
            case["sums"] = [[k, k] for k in range(len(forms))]
        case 7:
            form["strict"] = not form["strict"]
        case _:
            claim["cases"].append(copy_of(case))
    _lower(rng, content, least)


def copy_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case with its goals turned."""
    turned = [
        {**form, "scores": [[a, j, -c] for a, j, c in form["scores"]]} for form in case["goals"]
    ]
    return {**case, "goals": turned}


def other_kind(rng: np.random.Generator, content: Content, least: float) -> None:
    """Say that the claim is of another kind: decided, of the reals, of another tree or name."""
    claim = _claim(content)
    match int(rng.integers(5)):
        case 0:
            claim["decides"] = not claim["decides"]
        case 1:
            claim["reals"] = not claim["reals"]
        case 2:
            claim["tree"] = str(rng.choice(["tree1", "", "manifest"]))
        case 3:
            claim["decides"], claim["upper"] = True, -float(rng.choice([1e-300, 1.0]))
        case _:
            content.manifest["format"] = int(rng.choice([0, 1, 3]))
    _lower(rng, content, least)


def other_networks(rng: np.random.Generator, content: Content, least: float) -> None:
    """Name other files, points, members and families."""
    claim = _claim(content)
    applications = claim["applications"]
    each = applications[int(rng.integers(len(applications)))]
    family = next((e["family"] for e in applications if e["family"]), None)
    match int(rng.integers(8)):
        case 0:
            each["point"] = int(rng.choice([-1, 0, 1, 2]))
        case 1:
            applications.reverse()
        case 2:
            each["network"] = applications[0]["network"]
        case 3:
            each["family"], each["member"] = None, None
        case 4:
            each["family"], each["member"] = family, None
        case 5:
            each["family"] = family
            each["member"] = int(rng.choice([-1, 0, 1, 2, 2**40]))
        case 6 if each["family"]:
            moved = each["family"]["members"] + int(rng.choice([-1, 1]))
            each["family"] = {**each["family"], "members": moved}
        case _:
            each["network"] = {**each["network"], "kind": "family"}
    _lower(rng, content, least)


_OWN: tuple[Forgery, ...] = (moved_points, other_forms, other_kind, other_networks)

POINT_FORGERIES = {name: FORGERIES[name] for name in _TREES} | {
    each.__name__: each for each in _OWN
}
"""By name."""
