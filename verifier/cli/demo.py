"""``leaveout demo``: the bundled example, and what to do with it."""

from __future__ import annotations

import sys
from importlib.resources import as_file, files
from pathlib import Path

from leaveout.verifier.cli.parameters import argument


def demo(
    folder: Path = argument(
        "Where to write it; a new folder.", default=Path("leaveout-demo"), metavar="FOLDER"
    ),
) -> None:
    """Write an example: 569 patients, a network, and 569 networks retrained without one each.

    It prints the commands that prove what one patient's record can change, show it, and serve
    labels of a logistic regression of the same table.

    For example: leaveout demo, then the commands it prints

    Exit status: 0 done, 2 the folder exists or cannot be written.
    """
    import shlex
    import shutil

    from leaveout.errors import LeaveoutError
    from leaveout.files import partial_folder, put_folder, refuse_unwritten

    with refuse_unwritten(LeaveoutError, folder):
        if folder.exists():
            raise LeaveoutError(f"{folder}: exists already; name a new folder")
    with (
        refuse_unwritten(LeaveoutError, folder),
        as_file(files("leaveout") / "example") as example,
        partial_folder(folder.parent) as partial,
    ):
        for name in ("breast_cancer.spec", "patients.csv"):
            shutil.copyfile(example / name, partial / name)
        shutil.copytree(example / "family", partial / "family")
        put_folder(partial, folder)
    sys.stdout.write(
        f"cd {shlex.quote(str(folder))}\n"
        "leaveout verify breast_cancer.spec --json result.json\n"
        "leaveout report result.json --data patients.csv -o report.html\n"
        "leaveout linear train patients.csv --label diagnosis -o logistic\n"
        "leaveout verify logistic/linear.spec\n"
        "leaveout guard logistic --epsilon 0.2 patients.csv -o labels.csv\n"
    )
