"""A run of MLflow holds the verdicts, the bounds and the report; skipped without MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

mlflow = pytest.importorskip("mlflow")
pd = pytest.importorskip("pandas")

EXAMPLE = Path(__file__).parents[2] / "breast_cancer"


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the patients, and let runs be kept in a folder of this test."""
    # A database would need more than mlflow-skinny.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.create_experiment("test", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("test")
    frame = pd.read_csv(EXAMPLE / "patients.csv")
    return frame.assign(prediction=frame["diagnosis"])


def evaluate(rows: Any, **config: Any) -> Any:
    """Evaluate what was predicted, by leaveout alone."""
    return mlflow.models.evaluate(
        data=rows,
        predictions="prediction",
        targets="diagnosis",
        model_type="classifier",
        evaluators="leaveout",
        evaluator_config=config,
    )


def test_a_run_holds_verdicts_bounds_and_the_report(rows: Any, tmp_path: Path) -> None:
    """They are the numbers that `leaveout.verify` gives."""
    spec = EXAMPLE / "breast_cancer.spec"
    with mlflow.start_run() as run:
        found = evaluate(rows, spec=str(spec))
    (result,) = found.artifacts.values()
    report = result.content
    assert {each.verdict for each in report} == {"proved"}
    kept = mlflow.get_run(run.info.run_id).data.metrics
    assert kept == found.metrics
    assert kept["leaveout/proved"] == len(report)
    assert kept["leaveout/refuted"] == kept["leaveout/unknown"] == 0
    by_name = {f"leaveout/bound/{each.label_name}/upper": each.upper for each in report["bound"]}
    assert by_name.items() <= kept.items()
    free = sum(state == "owes nothing" for state in report.answers[0].states)
    assert kept["leaveout/share_that_owes_nothing"] == free / len(rows) > 0.9
    (folder,) = (tmp_path / "artifacts").glob("*/artifacts/leaveout")
    assert json.loads((folder / "result.json").read_text())["leaveout"]
    assert (folder / "report.html").read_text().startswith("<!")
    found.save(str(tmp_path / "saved"))
    again = mlflow.models.EvaluationResult.load(str(tmp_path / "saved"))
    assert again.artifacts["leaveout_result"].content == report


def test_without_rows_only_the_specification_counts(rows: Any) -> None:
    """And an option that there is not is refused by name."""
    spec = str(EXAMPLE / "breast_cancer.spec")
    with mlflow.start_run():
        found = evaluate(rows.drop(columns="mean texture"), spec=spec, data=False)
    assert "leaveout/share_that_owes_nothing" not in found.metrics
    with mlflow.start_run(), pytest.raises(mlflow.MlflowException, match="unknown option 'tiem'"):
        evaluate(rows, spec=spec, tiem=1)


def test_a_file_that_is_missing_is_said_in_one_line(rows: Any, tmp_path: Path) -> None:
    """Nothing is logged as proved."""
    from leaveout.errors import LeaveoutError

    with mlflow.start_run() as run, pytest.raises(LeaveoutError):
        evaluate(rows, spec=str(tmp_path / "gone.spec"))
    assert not mlflow.get_run(run.info.run_id).data.metrics
