"""The rows of LUCID's evaluation: data, recipes, and the figures the paper reports.

Kabaha and Drachsler-Cohen, *Guarding the Privacy of Label-Only Access to Neural Network
Classifiers via iDP Verification*, Table 1 and section 7. Those networks are another training run,
of all members of each set; bounds depend on the run, so the figures are for orientation only.
"""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.models.train import Recipe

__all__ = ["FILES", "HARDWARE", "ROWS", "Figure", "Row", "chosen"]

HARDWARE = "2 x 64 cores (AMD EPYC 7713), 32 workers, Gurobi 11"


@dataclass(frozen=True)
class Figure:
    """What the paper reports of one label: the bound, and hours of computing it."""

    bound: float
    hours: float


@dataclass(frozen=True)
class Row:
    """One family of the paper's evaluation.

    Attributes
    ----------
    data, network : str
    figures : tuple of Figure or None
        A label each; None where the paper has none.
    """

    data: str
    network: str
    figures: tuple[Figure | None, Figure | None] = (None, None)

    @property
    def name(self) -> str:
        """As in ``--only``."""
        return f"{self.data}/{self.network}"

    @property
    def folder(self) -> str:
        """Where its family lies in ``--out``."""
        return f"{self.data}_{self.network}"

    @property
    def file(self) -> str:
        """The data file."""
        return FILES[self.data]

    def recipe(self, seed: int) -> Recipe:
        """Return the paper's recipe: 50 epochs, batches of 1024 (Crypto: 100)."""
        batch = 100 if self.data == "crypto" else 1024
        if self.network == "cnn":
            return Recipe(cnn=True, epochs=50, batch=batch, seed=seed)
        return Recipe(layers=LAYERS[self.network], epochs=50, batch=batch, seed=seed)


FILES = {
    "crypto": "crypto_lucid7.npz",
    "twitter": "twitter_lucid15.npz",
    "adult": "adult_lucid21.npz",
    "credit": "credit_lucid23.npz",
}

LAYERS = {"2x50": (50, 50), "2x100": (100, 100), "4x30": (30, 30, 30, 30)}

_FIGURES = {
    "crypto/2x50": (Figure(1.78, 0.1), Figure(2.95, 0.07)),
    "crypto/2x100": (Figure(2.02, 1.1), Figure(2.86, 1.0)),
    "crypto/4x30": (Figure(4.23, 0.1), Figure(6.12, 0.1)),
    "twitter/2x50": (Figure(0.51, 1.6), Figure(0.54, 3.7)),
    "twitter/2x100": (Figure(0.86, 4.9), Figure(0.96, 5.5)),
    "adult/2x50": (Figure(0.55, 2.9), Figure(0.63, 3.0)),
    "adult/2x100": (Figure(0.93, 4.3), Figure(0.91, 4.1)),
    "adult/cnn": (Figure(0.29, 0.2), Figure(0.52, 0.1)),
    "credit/2x50": (Figure(0.33, 5.8), Figure(0.34, 6.5)),
    "credit/2x100": (Figure(0.42, 4.4), Figure(0.44, 3.1)),
    "credit/cnn": (Figure(0.75, 0.3), Figure(0.57, 0.2)),
}

ROWS = tuple(
    Row(data, network, _FIGURES.get(f"{data}/{network}", (None, None)))
    for data in FILES
    for network in (*LAYERS, "cnn")
)


def chosen(names: str | None) -> list[Row]:
    """Return the rows that a comma-separated list names; a set alone names all its rows.

    Raises
    ------
    ValueError
        If a name is unknown; the message lists those known.
    """
    if names is None:
        return list(ROWS)
    wanted = [name.strip() for name in names.split(",")]
    known = {row.name for row in ROWS} | set(FILES)
    for name in wanted:
        if name not in known:
            raise ValueError(f"--only: no row {name!r}; rows: {', '.join(r.name for r in ROWS)}")
    return [row for row in ROWS if row.name in wanted or row.data in wanted]
