"""What a sample says of all rows, beside what the first 500 rows say of themselves.

    leaveout train adult_lucid21.npz --sample 3000 --seed 1 --batch 1024 -o adult3000
    python benchmarks/sampling_adult.py adult3000
    python benchmarks/sampling_adult.py adult3000 --members 500 --time 600 --shares 0.002,0.01

The trained folder is not asked: its network and family are copied, so that what the copy is asked
does not count as a look at the original. Bounds are for each label; "says it of" is which rows a
bound is about. Times are of all searches of a specification, processor time with that of workers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from leaveout.models import Family, load_family_file, save_family_file
from leaveout.verifier.report import Report
from leaveout.verifier.run import verify

_CLAIM = "forall x in X, M in F{but}: confidence(N, x) > b => label(M, x) == label(N, x)"


def lets(folder: Path) -> str:
    """Return the lets of the specification that training wrote."""
    lines = (folder / "idp.spec").read_text().splitlines()
    return "\n".join(each for each in lines if each.startswith("let ")) + "\n"


def copied(trained: Path, folder: Path, members: int | None) -> None:
    """Copy a trained folder; with ``members`` the first so many, as members of no sample."""
    folder.mkdir()
    shutil.copy(trained / "full.onnx", folder)
    if members is None:
        shutil.copy(trained / "family.npz", folder)
        return
    family = load_family_file(trained / "family.npz").first(members)
    manifest = structs.replace(family.manifest, sample=None)
    save_family_file(
        folder / "family.npz", Family(dict(family.parameters), family.removed, manifest)
    )


def timed(
    spec: Path, text: str, seconds: float, workers: int | None
) -> tuple[Report, float, float]:
    """Verify a specification; return its report, seconds of the clock and of processors."""
    spec.write_text(text)
    before, begun = sum(os.times()[:4]), time.perf_counter()
    report = verify(spec, time=seconds, workers=workers)
    return report, time.perf_counter() - begun, sum(os.times()[:4]) - before


def rows_of(report: Report, wall: float, processor: float, about: Sequence[str]) -> None:
    """Print a row a statement: its bounds, label by label, and which rows they are about."""
    names = list(dict.fromkeys(each.name for each in report.results))
    for name, said in zip(names, about, strict=True):
        ends = ", ".join(
            f"{each.label}: "
            + ("-" if each.upper is None else f"{each.upper:.4f}")
            + ("" if each.verdict == "proved" else f" (lower {each.lower:.4f})")
            for each in report[name]
        )
        print(f"| {said} | {ends} | {wall:.0f} | {processor:.0f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trained", type=Path, help="a folder of leaveout train --sample")
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--time", type=float, default=600.0, help="seconds a specification")
    parser.add_argument("--shares", default="0.002,0.005,0.01")
    parser.add_argument("--workers", type=int)
    given = parser.parse_args()
    head, shares = lets(given.trained), given.shares.split(",")
    family = load_family_file(given.trained / "family.npz")
    drawn = family.manifest.sample
    if drawn is None:
        parser.error(f"{given.trained}: its members are not a sample")
    some = f"{given.members} rows that were left out, and no other"
    print("| says it of | b is at most, by label | seconds | of processors |")
    print("|---" * 4 + "|")
    with tempfile.TemporaryDirectory() as made:
        first, sample = Path(made) / "first", Path(made) / "sample"
        copied(given.trained, first, given.members)
        certain = f"{head}find bound: least b per label such that {_CLAIM.format(but='')}\n"
        rows_of(*timed(first / "a.spec", certain, given.time, given.workers), [some])
        copied(given.trained, sample, None)
        asked = [
            f"find bound{i}: least b per label such that {_CLAIM.format(but=f' but {share}')} "
            "with confidence 0.95\n"
            for i, share in enumerate(shares)
        ]
        report, wall, processor = timed(
            sample / "a.spec", head + "".join(asked), given.time, given.workers
        )
        about = []
        for i, share in enumerate(shares):
            facts = (
                dict(report[f"bound{i}"][0].facts[0].facts) if report[f"bound{i}"][0].facts else {}
            )
            about.append(
                f"all {drawn.rows:,} rows but {int(float(share) * drawn.rows):,} ({share}), "
                f"at 0.95; "
                f"{facts.get('above', '-')} of {drawn.size:,} above"
            )
        rows_of(report, wall, processor, about)
        for note in report.notes:
            print(f"note: {note}")


if __name__ == "__main__":
    main()
