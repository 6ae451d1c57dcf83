"""Draw how much each patient's row can change a logistic regression, against its leverage.

python benchmarks/leverage.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from histogram import EXAMPLE
from numpy.typing import NDArray

from leaveout.kernel.design import Region
from leaveout.models.linear.family import bound_members, refine
from leaveout.models.linear.file import load_linear
from leaveout.models.linear.training import train_linear
from leaveout.verifier.page.markup import tag
from leaveout.verifier.page.plot import axes, chart_frame, linear, picture

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SIZE = 620, 300


def measured() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return each patient's leverage and largest shift, and whether the model is wrong there."""
    with tempfile.TemporaryDirectory() as folder:
        train_linear(EXAMPLE / "patients.csv", Path(folder) / "m", label="diagnosis", test_share=0)
        model = load_linear(Path(folder) / "m" / "linear.npz")
    family = bound_members(model)
    family = refine(family, np.arange(len(family)))
    at = family.parts[0].at
    region = Region.of(model.design, np.zeros(model.inputs), np.ones(model.inputs))
    score = family.output(0)
    low, high = family.shift_bounds(region, score, 0, len(family), family.slack_over(score, region))
    leverage = at.curve[:, 0] * at.gram[:, 0, 0]
    return leverage, np.maximum(-low, high), model.answers(model.X) != model.y


def draw(path: Path) -> None:
    """Draw a dot a patient."""
    leverage, shift, wrong = measured()
    x = linear(0.0, float(leverage.max()), "leverage: the row's share of the curvature")
    y = linear(0.0, float(shift.max()), "largest shift of the log-odds, proved")
    frame = chart_frame(x, y, SIZE)
    dots = []
    for at, own, is_wrong in sorted(zip(leverage, shift, wrong, strict=True), key=lambda d: d[2]):
        left, top = frame.at(float(at), float(own))
        style = "marks c1" if is_wrong else "marks c0"
        dots.append(tag("circle", cx=f"{left:.1f}", cy=f"{top:.1f}", r=3, class_=style))
    said = f"{int(wrong.sum())} of {len(wrong)} patients are answered wrong"
    words = tag("text", said, x=340, y=110, class_="label c1")
    chart = tag("svg", axes(frame, *dots, words), x=14, y=10, width=SIZE[0] + 20, height=SIZE[1])
    path.write_text(f"{picture(SIZE[0] + 40, SIZE[1] + 20, said, chart)}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=PICTURES / "leverage.svg")
    draw(parser.parse_args().to)
