#!/bin/bash
# Install leaveout into a virtual environment beside these scripts.
# Arguments: version string "v1".
set -euo pipefail

if [ "${1:-}" != v1 ]; then
    echo "expected the version string v1, got '${1:-}'" >&2
    exit 1
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
"${PYTHON:-python3}" -m venv "$here/.venv"
"$here/.venv/bin/pip" install --upgrade pip
"$here/.venv/bin/pip" install "$root"
"$here/.venv/bin/leaveout" --version
