#!/usr/bin/env bash
# Install the wheel of leaveout-check beside numpy alone, and prove a certificate with it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 out=build/leaveout-check certificate=tests/checker/written/proof.cert
alone() { env -u PYTHONPATH "$@"; }
rm -rf "$out" && mkdir -p "$out"
"$bin/python" -m venv "$out/venv"
alone "$out/venv/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt dist/leaveout_check-*.whl
"$bin/leaveout" check "$certificate" --record "$out/answers.npz" --bundle "$out/claim.zip" > /dev/null
alone "$out/venv/bin/leaveout-check" "$certificate" "$out/answers.npz"
alone "$out/venv/bin/leaveout-check" "$out/claim.zip"
# Nothing else than numpy may be there, and nothing is proved without answers.
others=$(alone "$out/venv/bin/pip" list --format freeze | cut -d= -f1 | grep -vxE 'numpy|leaveout-check|pip|setuptools' || true)
test -z "$others" || { echo "leaveout-check needs $others"; exit 1; }
if alone "$out/venv/bin/leaveout-check" "$certificate" "$certificate" 2> /dev/null; then
	echo "leaveout-check proves a certificate without answers"; exit 1
fi
