#!/bin/bash
# Refuse, before the clock runs, an instance whose query or networks cannot be read.
# Arguments: version string "v1", category, ONNX file, VNN-LIB file.
set -euo pipefail

if [ "${1:-}" != v1 ] || [ $# -lt 4 ]; then
    echo "expected: $0 v1 CATEGORY ONNX VNNLIB" >&2
    exit 1
fi
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mapfile -d '' -t networks < <(networks_of "$3")
"$bin/python" - "$4" "${networks[@]}" <<'PYTHON'
import sys

from leaveout.errors import LeaveoutError
from leaveout.specs.vnnlib import load_query

try:
    load_query(sys.argv[1], [given for given in sys.argv[2:] if given != "--network"])
except LeaveoutError as error:
    sys.exit(f"leaveout: {error}")
PYTHON
