#!/bin/sh
# Make the ballots that six.spec is about, and the bounds its guard rests on.
set -e
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
split="../breast_cancer/patients.csv --label diagnosis --test-share 0.3"
leaveout partition $split --parts 20 -o "$work/edits"
leaveout partition $split --parts 40 --method ss_dpa -o "$work/relabels"
mv "$work/edits/ballots.npz" edits.npz
mv "$work/relabels/ballots.npz" relabels.npz
leaveout verify ../breast_cancer/breast_cancer.spec --bounds ../breast_cancer/family/bounds.npz
