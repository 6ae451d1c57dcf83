"""Leave-one-out as an attack of SACRO-ML: which training records show in the answers asked for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sacroml.attacks.attack import Attack
from sacroml.attacks.factory import registry
from sacroml.attacks.target import Target

from leaveout import __version__
from leaveout.verifier.guard.hinges import decisions
from leaveout.verifier.guard.loading import load_subject


class LeaveOneOutAttack(Attack):
    """Who knows all other records compares the answers with and without one, labels only.

    Parameters
    ----------
    folder : str
        What ``leaveout guard`` could serve: a network with its family and bounds, a forest, a
        linear model, or boosted trees with their members.
    output_dir : str
    write_report : bool
    """

    def __init__(self, folder: str, output_dir: str = "outputs", write_report: bool = True) -> None:
        super().__init__(output_dir=output_dir, write_report=write_report)
        self.folder = folder

    def __str__(self) -> str:
        return "Leave-one-out Attack"

    @classmethod
    def attackable(cls, target: Target) -> bool:
        """Return whether there are questions to ask."""
        return target.X_test is not None and len(target.X_test) > 0

    def _attack(self, target: Target) -> dict[str, Any]:
        subject = load_subject(Path(self.folder))
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "asked.npz", X_test=np.asarray(target.X_test))
            found = decisions(subject, Path(folder) / "asked.npz")
        records = len(subject.unit_names)
        shown = len(np.unique(np.concatenate([*found.turned_by, np.empty(0, np.int64)])))
        # A record shows by some answer, or the two models give the same ones: then it is a guess.
        advantage = shown / records
        self.attack_metrics = [
            {
                "AUC": (1 + advantage) / 2,
                "ACC": (1 + advantage) / 2,
                "Advantage": advantage,
                "n_records": records,
                "n_records_shown": shown,
                "n_answers": len(found.labels),
                "n_answers_that_hinge": int(found.hinge.sum()),
            }
        ]
        output = self._make_report(target)
        self._write_report(output)
        return output

    def _construct_metadata(self) -> None:
        super()._construct_metadata()
        (own,) = self.attack_metrics
        self.metadata["global_metrics"] = {**own, "leaveout_version": __version__}

    def _get_attack_metrics_instances(self) -> dict[str, Any]:
        (own,) = self.attack_metrics
        return {"attack_instance_logger": {"instance_0": own}}

    def _make_pdf(self, output: dict[str, Any]) -> None:
        """Return nothing: the PDFs of SACRO-ML speak of attacks that are trained."""


registry["leaveoneout"] = LeaveOneOutAttack
