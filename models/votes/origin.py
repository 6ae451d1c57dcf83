"""Origin of ballots, which decides how many members a change reaches."""

from __future__ import annotations

from typing import Literal

import msgspec

Method = Literal["dpa", "ss_dpa", "finite_aggregation", "hash_bagging"]

Against = Literal["edits", "insertions", "removals", "relabels"]
"""A kind of change that thresholds count; edits are insertions and removals in any mixture."""


class Assumption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An assumption of a certificate beyond the ballots.

    Attributes
    ----------
    text : str
        In a sentence.
    checked : bool
        Whether the program saw to it; otherwise it is taken on trust.
    """

    text: str
    checked: bool


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the members were trained; each field may be unknown.

    Attributes
    ----------
    method : {"dpa", "ss_dpa", "finite_aggregation", "hash_bagging"} or None
        DPA, Finite Aggregation and hash bagging train on parts of the samples, SS-DPA on all
        samples with the labels of a part.
    hash_reads_label : bool or None
        Whether the label of a sample has a say in which part it belongs to.
    distinct_samples : bool or None
        Whether no two rows of the training set are one sample, or such rows were merged; SS-DPA
        rests on it (Levine and Feizi, appendix G).
    offsets : tuple of int
        Finite Aggregation: a sample with hash h reaches the members (h + offset) mod parts.
        Empty for a plain partition.
    families : tuple of int
        Hash bagging: members of each family, one family after another; a sample reaches at most one
        of each. Empty for a plain partition.
    sizes : tuple of int
        Rows a member was trained on; empty where unknown.
    learner : str
        Name and parameters of what trained the members.
    seed : int or None
        Of the first member; member i has ``seed + i``.
    data_sha256 : str
        Of the training rows in sorted order.
    label_names : tuple of str
        A name a label; empty where unknown.
    hash : str
        What gives a sample its part, with everything that is needed to compute it again.
    undefended_right : int or None
        How many of the test points the undefended model answers right: the same learner, trained
        on all the rows as one model. Nothing is certified of it; None: it was not trained.
    versions : tuple of str
        Of the programs that trained the members, as in ``numpy 2.4.0``.
    notes : tuple of str
        What else was done or left undone, a sentence each.
    assumptions : tuple of Assumption
    thresholds_against : {"edits", "insertions", "removals", "relabels"} or None
        The one kind of change that the members' thresholds count; None: edits.
    thresholds_exact_to : int or None
        Thresholds up to this one are exact, and one more than it says "at least so many"; None:
        all are exact.
    """

    method: Method | None = None
    hash_reads_label: bool | None = None
    distinct_samples: bool | None = None
    offsets: tuple[int, ...] = ()
    families: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    learner: str = ""
    seed: int | None = None
    data_sha256: str = ""
    label_names: tuple[str, ...] = ()
    hash: str = ""
    undefended_right: int | None = None
    versions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    thresholds_against: Against | None = None
    thresholds_exact_to: int | None = None
