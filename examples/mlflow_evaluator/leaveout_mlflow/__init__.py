"""An evaluator of MLflow: verifies a specification, and logs verdicts, bounds and the report."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models.evaluation import EvaluationArtifact, EvaluationResult, ModelEvaluator

import leaveout
from leaveout.verifier.page import Page, document, load
from leaveout.verifier.report import write_json

__all__ = ["LeaveoutEvaluator", "ReportArtifact", "log_report", "metrics_of"]

_FOLDER = "leaveout"
_OPTIONS = ("spec", "time", "engine", "data")


class LeaveoutEvaluator(ModelEvaluator):
    """``mlflow.models.evaluate(..., evaluators="leaveout", evaluator_config={"spec": ...})``.

    What is verified is what the specification names; the model that MLflow evaluates is not looked
    at. Its rows are: how many of the answers to them owe nothing to any one training record.
    """

    name = "leaveout"

    @classmethod
    def can_evaluate(cls, *, model_type: Any, evaluator_config: Any, **kwargs: Any) -> bool:
        """Whether there is a specification, and a model that answers with labels."""
        return model_type == "classifier" and bool((evaluator_config or {}).get("spec"))

    def evaluate(
        self,
        *,
        model_type: Any,
        dataset: Any,
        run_id: str,
        evaluator_config: Any,
        model: Any = None,
        extra_metrics: Any = None,
        custom_artifacts: Any = None,
        predictions: Any = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Verify, log, and return what was logged.

        Raises
        ------
        MlflowException
            If an option is unknown.
        LeaveoutError
            If the specification or a file it names cannot be used.
        """
        config = dict(evaluator_config)
        unknown = sorted(set(config) - set(_OPTIONS))
        if unknown:
            raise MlflowException.invalid_parameter_value(
                f"leaveout: unknown option {unknown[0]!r}; known are {', '.join(_OPTIONS)}"
            )
        report = leaveout.verify(
            config["spec"],
            time=config.get("time"),
            engine=config.get("engine", "native"),
            data=dataset.features_data if config.get("data", True) else None,
        )
        return log_report(report, run_id)


class ReportArtifact(EvaluationArtifact):
    """``RESULT.json`` as `leaveout.Report`."""

    def _load_content_from_file(self, local_artifact_path: str) -> leaveout.Report:
        (run,) = load([str(local_artifact_path)])
        return run.report

    def _save(self, output_artifact_path: str) -> None:
        write_json(self.content, Path(output_artifact_path))


def log_report(report: leaveout.Report, run_id: str) -> EvaluationResult:
    """Log a report to a run: metrics, ``leaveout/result.json`` and ``leaveout/report.html``.

    Parameters
    ----------
    report : leaveout.Report
    run_id : str
    """
    client, metrics = MlflowClient(), metrics_of(report)
    for name, value in metrics.items():
        client.log_metric(run_id, name, value)
    with tempfile.TemporaryDirectory() as folder:
        result, page = Path(folder) / "result.json", Path(folder) / "report.html"
        write_json(report, result)
        page.write_text(document(Page(load([str(result)]))), encoding="utf-8")
        for each in (result, page):
            client.log_artifact(run_id, str(each), _FOLDER)
    uri = f"runs:/{run_id}/{_FOLDER}/result.json"
    artifacts = {"leaveout_result": ReportArtifact(uri, report)}
    return EvaluationResult(metrics=metrics, artifacts=artifacts, run_id=run_id)


def metrics_of(report: leaveout.Report) -> dict[str, float]:
    """Return the numbers of a report, by names that MLflow takes.

    How many statements are proved, refuted and unknown; the bounds of each result; and of rows
    that were given, the share of the answers that owe nothing to any one record.
    """
    verdicts = [each.verdict for each in report]
    metrics = {
        f"leaveout/{verdict}": float(verdicts.count(verdict))
        for verdict in ("proved", "refuted", "unknown")
    }
    for result in report:
        name = f"leaveout/{_plain(result.name)}"
        if result.label is not None:
            name += f"/{_plain(result.label_name or str(result.label))}"
        ends = {"lower": result.lower, "upper": result.upper}
        metrics |= {f"{name}/{end}": value for end, value in ends.items() if value is not None}
    for answers in report.answers:
        free = sum(state == "owes nothing" for state in answers.states)
        metrics["leaveout/share_that_owes_nothing"] = free / len(answers.states)
    return metrics


def _plain(text: str) -> str:
    """Return a name with nothing but what names of metrics may have."""
    return re.sub(r"[^\w. -]", "_", text, flags=re.ASCII)
