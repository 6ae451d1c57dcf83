"""Claims over trees that answer a number and no label."""

from __future__ import annotations

import numpy as np
import xgboost

import leaveout


def test_the_least_bound_of_a_regression_is_found_and_shown(tmp_path):
    X = np.arange(40.0)[:, None]
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2, n_jobs=1).fit(X, X[:, 0])
    model.save_model(tmp_path / "model.json")
    (tmp_path / "top.spec").write_text(
        'let T = trees("model.json")\n'
        "find top: least b such that forall x in box(0, 40): score(T, x) <= b\n"
    )
    (found,) = leaveout.verify(tmp_path / "top.spec")
    greatest = model.predict(X).max()
    assert found.verdict == "proved" and found.lower <= greatest <= found.upper + 1e-4
    assert found.example.labels == {} and "T(x) returns" in found.example.words
