"""The words that people search for, and the page that each must lead to.

They become index entries, which the site's search ranks as it does titles.
"""

from __future__ import annotations

__all__ = ["WORDS", "entries"]

WORDS = {
    "add-function": ("plug-in", "plugin", "extension"),
    "add-kernel": ("CUDA", "kernel plug-in"),
    "add-solver": ("solver plug-in", "CPLEX"),
    "attack": ("membership inference", "MIA"),
    "compare": ("onnxmltools", "skl2onnx", "export"),
    "data-protection": ("GDPR", "EDPB", "NIST", "OWASP", "compliance"),
    "evidence": (
        "signature",
        "SARIF",
        "CycloneDX",
        "audit trail",
        "in-toto",
        "sign",
        "auditor",
        "public key",
    ),
    "forest-rows": ("random forest",),
    "forget": ("right to be forgotten", "erasure", "delete a person"),
    "integrations": ("GitHub Action", "pytest", "pre-commit", "MLflow", "continuous integration"),
    "linear": ("scorecard", "logistic regression", "linear SVM", "spline"),
    "operations": ("Kubernetes", "Docker", "Prometheus", "backup", "production"),
    "own-model": ("PyTorch", "scikit-learn", "sklearn", "Keras", "ONNX", "TensorFlow"),
    "poisoning": ("poisoning", "label flipping", "DPA", "bagging"),
    "privacy": ("epsilon", "differential privacy", "DP-SGD", "iDP"),
    "sampling": ("confidence level", "sample size"),
    "seeds": ("LUCID", "DaRE", "paper", "reproduce"),
    "sharded": ("SISA", "adaptive deletion"),
    "specs": ("fairness", "robustness", "monotonicity"),
    "tables": ("missing values", "NaN", "CSV", "categorical"),
    "tutorial": ("quick start", "getting started"),
    "trees": ("XGBoost", "LightGBM", "CatBoost", "EBM", "gradient boosting"),
    "unlearning": ("machine unlearning", "p-value", "hypothesis test"),
    "vnnlib": ("VNN-COMP", "ACAS Xu"),
}
"""By page, without its ending. A page may be found by other words, too."""


def entries(page: str) -> str:
    """Return a page's index entries, as MyST."""
    words = WORDS.get(page)
    return f"\n```{{index}} {', '.join(words)}\n```\n" if words else ""
