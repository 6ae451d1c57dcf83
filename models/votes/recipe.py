"""The recipe: how samples are split among members, and what trains a member."""

from __future__ import annotations

from dataclasses import dataclass, field

from leaveout.errors import TrainingError
from leaveout.models.votes.learners import Learner, default_learner
from leaveout.models.votes.naming import is_text
from leaveout.models.votes.origin import Method

__all__ = ["METHODS", "PartRecipe"]

METHODS: tuple[Method, ...] = ("dpa", "ss_dpa", "finite_aggregation")
_MOST_MEMBERS = 100_000
_MOST_SEED = 2**32 - 1
_LONGEST_KEY = 64


@dataclass(frozen=True, kw_only=True)
class PartRecipe:
    """Everything that decides the ballots but the samples.

    Attributes
    ----------
    parts : int
        A member is trained on about 1/parts of the rows (with SS-DPA: of the labels).
    method : {"dpa", "ss_dpa", "finite_aggregation"}
    spread : int
        Finite Aggregation: members a sample reaches; there are ``parts * spread`` members.
    learner : Learner
    features : tuple of str
        SS-DPA: unsupervised transformers of scikit-learn, fitted one after the other on all
        samples.
    feature_settings : tuple of (str, str, object)
        Transformer, parameter and value.
    merge_duplicates : bool
        SS-DPA: rows that are one sample go to one part and count as one relabel (Levine and Feizi,
        appendix G), instead of being refused.
    scale : bool
        Standardise features within each part.
    scores : bool
        Keep the members' scores, for run-offs.
    seed : int
        Of member 0; member i has ``seed + i``.
    hash_key : str
        Of the hash that assigns parts.
    hash_reads_label : bool
        Let the label have a say in the part of a sample; then a relabel reaches two parts. For
        comparison only.

    Raises
    ------
    TrainingError
        If a value is outside its range; the message says which flag and what it takes.
    """

    parts: int = 50
    method: Method = "dpa"
    spread: int = 1
    learner: Learner = field(default_factory=default_learner)
    features: tuple[str, ...] = ()
    feature_settings: tuple[tuple[str, str, object], ...] = ()
    merge_duplicates: bool = False
    scale: bool = False
    scores: bool = True
    seed: int = 0
    hash_key: str = ""
    hash_reads_label: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise TrainingError(f"--method {self.method}: expected one of {', '.join(METHODS)}")
        if self.parts < 2:
            raise TrainingError(
                f"--parts {self.parts}: expected at least 2; with one, a single edit could change "
                "every answer"
            )
        if self.spread < 1:
            raise TrainingError(f"--spread {self.spread}: expected a whole number of at least 1")
        if self.spread > 1 and self.method != "finite_aggregation":
            raise TrainingError(
                f"--spread {self.spread} is of --method finite_aggregation; drop one, or name both"
            )
        if self.members > _MOST_MEMBERS:
            raise TrainingError(
                f"--parts {self.parts}: {self.members:,} members, expected at most "
                f"{_MOST_MEMBERS:,}"
            )
        if not 0 <= self.seed <= _MOST_SEED - self.members:
            raise TrainingError(
                f"--seed {self.seed}: expected a whole number from 0 to "
                f"{_MOST_SEED - self.members}; member i has the seed plus i"
            )
        if not is_text(self.hash_key):
            raise TrainingError(f"--hash-key {self.hash_key!r}: is not UTF-8 text; choose another")
        if len(self.hash_key.encode()) > _LONGEST_KEY:
            raise TrainingError(f"--hash-key: longer than {_LONGEST_KEY} bytes; shorten it")
        if self.method != "ss_dpa":
            self._refuse_what_sees_all()
        elif self.hash_reads_label:
            raise TrainingError("SS-DPA assigns parts by rank; its partition reads no label")

    @property
    def members(self) -> int:
        """How many members there are."""
        return self.parts * (self.spread if self.method == "finite_aggregation" else 1)

    def _refuse_what_sees_all(self) -> None:
        if self.features or self.feature_settings:
            raise TrainingError(
                "--features are fitted on all samples, so that one edit would reach every member; "
                "they are for --method ss_dpa, where only labels are the attacker's"
            )
        if self.learner.semi_supervised:
            raise TrainingError(
                f"--learner {self.learner.name} is trained on all samples, so that one edit would "
                "reach every member; it is for --method ss_dpa, where only labels are the "
                "attacker's"
            )
        if self.merge_duplicates:
            raise TrainingError(
                f"--duplicates is of --method ss_dpa; with {self.method} each row is an edit of "
                "its own: drop it"
            )
