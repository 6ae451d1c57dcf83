#!/bin/bash
# Decide one instance and write the answer.
# Arguments: version string "v1", category, ONNX file, VNN-LIB file, results file, seconds.
set -uo pipefail

if [ "${1:-}" != v1 ] || [ $# -lt 6 ]; then
    echo "expected: $0 v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT" >&2
    exit 1
fi
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

results=$5
mapfile -d '' -t networks < <(networks_of "$3")
rm -f "$results"
"$bin/leaveout" vnnlib "$4" "${networks[@]}" --time "$6" --result "$results"
# What cannot be read, or ends in a crash, leaves no file.
[ -s "$results" ] || echo error >"$results"
# The answer is in the file; a status other than 0 would count as a crash.
exit 0
