"""What certificates of forests take: their size, and the time to check them, on this machine.

    python benchmarks/forest_certificates.py [--seconds 60] [SIZE]...

A SIZE is rows:features:trees:depth:share. For each a forest is trained on synthetic data, the
bounds of all its rows' deletions are proved with a certificate, and that is checked. Times are
processor time, which others on the machine do not lengthen; what is compiled is compiled before.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from sklearn.datasets import make_classification

from leaveout.models.forest import DareForestClassifier
from leaveout.verifier import verify
from leaveout.verifier.certify.check import check
from leaveout.verifier.warm_up import KERNELS

_SIZES = ("569:5:50:10:0.1", "2000:10:50:10:1", "5000:10:50:10:0.1", "20000:20:50:10:0.1")


def measure(size: str, seconds: float, folder: Path) -> str:
    """Return a line of the table."""
    rows, features, trees, depth = map(int, size.split(":")[:4])
    share = float(size.split(":")[4])
    X, y = make_classification(
        rows, features, n_informative=features - 1, n_redundant=0, flip_y=0.02, random_state=0
    )
    forest = DareForestClassifier(trees, k=5, max_depth=depth, q=share, random_state=0)
    forest.fit(X, y).save(folder / "forest.npz")
    low, high = X.min(axis=0).tolist(), X.max(axis=0).tolist()
    (folder / "s.spec").write_text(
        f'let T = forest("forest.npz") let F = leave_one_out(T) let X = box({low}, {high}) '
        "find bound: least b per label such that "
        "forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)"
    )
    begun = time.process_time()
    report = verify(folder / "s.spec", certificate=folder / "s.cert", time=seconds)
    proved = time.process_time() - begun
    if not (folder / "s.cert").exists():
        return f"| {size} | {'; '.join(report.notes)} |"
    begun = time.process_time()
    found = check(folder / "s.cert")
    checked = time.process_time() - begun
    bounds = " ".join(f"[{each.lower:.3f}, {each.upper:.3f}]" for each in report.results)
    size_kb = (folder / "s.cert").stat().st_size / 1e3
    leaves = sum(each.leaves for each in found)
    cells = f"{bounds} | {proved:.1f} s | {size_kb:,.0f} kB | {leaves:,} | {checked:.1f} s"
    return f"| {size} | {cells} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("sizes", nargs="*", metavar="SIZE", default=_SIZES)
    given = parser.parse_args()
    KERNELS["forest_leaks"]()
    print("| rows:features:trees:depth:share | bounds | verify | certificate | boxes | check |")
    print("|---|---|---|---|---|---|")
    for size in given.sizes or _SIZES:
        with TemporaryDirectory() as folder:
            print(measure(size, given.seconds, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
