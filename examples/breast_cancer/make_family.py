"""Make the bundled family: scikit-learn's breast-cancer data, a few features, a small network.

It needs ``pip install 'leaveout[train]'``; it writes the patients as ``patients.csv`` beside it and
calls ``leaveout train``, which gives the same bytes every time on the same kind of machine.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from sklearn.datasets import load_breast_cancer

HERE = Path(__file__).parent
FEATURES = ("mean texture", "worst radius", "worst concave points")
RECIPE = ["--layers", "8,8", "--epochs", "50", "--batch", "50", "--seed", "0"]


def write_patients(path: Path) -> None:
    """Write one line a patient: the chosen features in their own units, and the diagnosis."""
    data = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    columns = [names.index(feature) for feature in FEATURES]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*FEATURES, "diagnosis"])
        for row, target in zip(data.data, data.target, strict=True):
            writer.writerow([*(repr(float(row[c])) for c in columns), data.target_names[target]])


def main() -> None:
    """Write the data, train N and its 569 members."""
    patients = HERE / "patients.csv"
    write_patients(patients)
    command = [sys.executable, "-m", "leaveout", "train", str(patients)]
    subprocess.run(
        [*command, "--label", "diagnosis", *RECIPE, "-o", str(HERE / "family")], check=True
    )
    # The specification beside this script asks more than the one training writes.
    (HERE / "family" / "idp.spec").unlink()


if __name__ == "__main__":
    main()
