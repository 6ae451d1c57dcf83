"""The style sheet: contrast of every colour in both schemes, and nothing from elsewhere."""

from __future__ import annotations

import re
from importlib import resources

import pytest

FOLDER = resources.files("leaveout.verifier.page")
SHEETS = ("chart", "style", "print")
CHART, STYLE, PRINT = (FOLDER.joinpath(f"{name}.css").read_text("utf-8") for name in SHEETS)
TEXT, SHAPE = 4.5, 3.0
VERDICTS = ("proved", "refuted", "unknown")
CURVES = tuple(f"c{i}" for i in range(6))


def schemes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", CHART, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+);", block)) for block in blocks)
    return {"light": light, "dark": light | dark}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(colour: str, ground: str, opacity: float) -> str:
    parts = [
        round(opacity * int(colour[i : i + 2], 16) + (1 - opacity) * int(ground[i : i + 2], 16))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read(scheme):
    colours = schemes()[scheme]
    for ground in ("page", "panel"):
        for name in ("text", "muted", "link", *VERDICTS, *CURVES):
            assert contrast(colours[name], colours[ground]) >= TEXT, (name, ground)
    assert contrast(colours["text"], colours["code"]) >= TEXT
    for name in VERDICTS:
        assert contrast(colours[name], colours[f"{name}-soft"]) >= TEXT, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_of_curves_can_be_read_on_bands(scheme):
    colours = schemes()[scheme]
    opacity = float(re.search(r"\.between \{[^}]*opacity: ([.\d]+)", CHART)[1])
    for name in CURVES:
        for band in CURVES:
            ground = mixed(colours[band], colours["panel"], opacity)
            assert contrast(colours[name], ground) >= SHAPE, (name, band)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shapes_can_be_seen(scheme):
    colours = schemes()[scheme]
    for ground in ("page", "panel"):
        assert contrast(colours["edge"], colours[ground]) >= SHAPE


def test_dark_is_for_screens_and_paper_stays_light():
    assert "@media screen and (prefers-color-scheme: dark)" in CHART
    assert "@media print" in PRINT
    assert "--page: #ffffff" in PRINT
    assert not re.search(r"url\(|@import|@font-face", CHART + STYLE + PRINT)


def test_a_style_sheet_cannot_end_its_element():
    assert not set("<&") & set(CHART + STYLE + PRINT)


def test_the_first_page_is_a_sheet_of_its_own_and_sheets_are_numbered():
    assert re.search(r"\.first \{[^}]*break-after: page", PRINT)
    assert '"Page " counter(page) " of " counter(pages)' in PRINT


def test_what_is_folded_away_on_paper_is_said_on_paper_only():
    hidden = re.search(
        r"\n  ([^{}]*)\{ display: none; \}\n  \.on-paper \{ display: block; \}", PRINT
    )
    assert hidden is not None
    for part in ("details", "#courses", ".statement pre", ".evidence", ".range"):
        assert part in hidden[1]
    assert ".on-paper { display: none; }" in STYLE
