"""Check a built wheel: every package and data file is in it, and it imports from elsewhere."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = (
    "leaveout/example/breast_cancer.spec",
    "leaveout/example/family/bounds.npz",
    "leaveout/example/family/family.npz",
    "leaveout/example/family/full.onnx",
    "leaveout/example/patients.csv",
    "leaveout/py.typed",
    "leaveout/specs/text/grammar.lark",
    "leaveout/verifier/page/chart.css",
    "leaveout/verifier/page/print.css",
    "leaveout/verifier/page/style.css",
    "leaveout/verifier/report.schema.json",
)


def expected() -> set[str]:
    """Every module under the folders that make up the package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    files = {f"leaveout/{file.name}" for file in (ROOT / "src/leaveout").glob("*.py")}
    for package, folder in settings["package-dir"].items():
        if package:
            base = package.replace(".", "/")
            inner = (ROOT / folder).rglob("*.py")
            files |= {f"{base}/{file.relative_to(ROOT / folder).as_posix()}" for file in inner}
    return files | set(DATA)


def main(folder: Path) -> int:
    """Return 0 if the one wheel of leaveout in ``folder`` is complete and imports."""
    (wheel,) = folder.glob("leaveout-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    found = {name for name in names if ".dist-info/" not in name}
    missing, extra = sorted(expected() - found), sorted(found - expected())
    missing += [] if any(name.endswith("licenses/LICENSE") for name in names) else ["LICENSE"]
    for name in missing:
        sys.stdout.write(f"missing from the wheel: {name}\n")
    for name in extra:
        sys.stdout.write(f"unexpected in the wheel: {name}\n")
    with tempfile.TemporaryDirectory() as elsewhere:
        code = (
            f"import sys; sys.path.insert(0, {str(wheel.resolve())!r}); "
            "import leaveout, leaveout.verifier.cli, leaveout.models.train; "
            f"assert {wheel.name!r} in leaveout.__file__, leaveout.__file__"
        )
        failed = subprocess.run([sys.executable, "-c", code], cwd=elsewhere, check=False).returncode
    sys.stdout.write(f"{wheel.name}: {len(found)} files\n")
    return 1 if missing or extra or failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
