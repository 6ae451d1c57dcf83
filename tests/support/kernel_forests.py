"""Forests as the kernel holds them: files, trees of members, questions with one other forest."""

from __future__ import annotations

import hashlib

import numpy as np

from leaveout.kernel.forest_file import Answering, read_forest, walked_trees
from leaveout.kernel.forest_growth import train, without
from leaveout.kernel.forest_members import Inputs, every_label, members, pair
from leaveout.kernel.forests import Claim, prove
from leaveout.verifier.certify.forests import rules_of_boxes


def read(path):
    """Read a forest file, whatever its digest."""
    return read_forest(path, hashlib.sha256(path.read_bytes()).hexdigest())


def preorder(forests, root, remains=None):
    """Return a root's nodes in preorder: features, thresholds, children and shares."""
    found = []

    def visit(node):
        here = len(found)
        found.append([forests.feature[node], forests.threshold[node], -1, -1])
        own = forests.shares[node]
        found[here].append(remains if forests.empty[node] and remains is not None else own)
        if forests.feature[node] >= 0:
            found[here][2] = visit(forests.left[node])
            found[here][3] = visit(forests.right[node])
        return here

    visit(int(root))
    return tuple(np.array(part) for part in zip(*found))


def unlike(forest, only=None):
    """Return how many trees of members differ from the forest's, and those not trained so."""
    changed, wrong, first = 0, [], 0
    units = forest.units
    for part in members(forest):
        for number in range(len(part.others)):
            member = first + number
            if only is not None and member not in only:
                continue
            anew = train(without(forest, forest.names[units[member][1]].tolist()))
            columns = [forest.labels.index(label) for label in anew.labels]
            for t, expected in enumerate(walked_trees(anew)):
                got = preorder(part, part.others[number, t], part.remains[number])
                *nodes, shares = got
                fits = all(np.array_equal(a, b) for a, b in zip(nodes, expected[:4]))
                leaf = got[0] < 0
                fits = fits and np.array_equal(shares[leaf][:, columns], expected[4][leaf])
                fits = fits and not np.delete(shares[leaf], columns, axis=1).any()
                wrong += [] if fits else [(member, t)]
            changed += (part.others[number] != part.whole).any()
        first += len(part.others)
    return changed, wrong


def inputs_of(box):
    """Return a set of inputs as the kernel has it."""
    tables = tuple((np.asarray(each.columns), each.values) for each in box.choices)
    return Inputs(box.lower, box.upper, tables)


def answering(forest, features):
    """Return a scored forest as one that is read from a file for answers."""
    parts = [
        np.concatenate([getattr(tree, name) for tree in forest.trees])
        for name in ("feature", "left", "right", "threshold", "shares")
    ]
    roots = np.concatenate(([0], np.cumsum([len(tree.feature) for tree in forest.trees])))
    return Answering(None, forest.classes, features, forest.rounds_inputs, *parts, roots)


def pairs_of(question):
    """Return the forest beside each member, as the kernel reads a pair, and the labels' columns."""
    one = answering(question.whole, question.box.dimension)
    pairs, columns = [], []
    for member in question.members:
        other = answering(member, question.box.dimension)
        pairs.append(pair(one, other))
        every = every_label(one, other)
        columns = [every.index(label) for label in one.labels]
    return pairs, columns


def tried(forests, box, label, upper, trees, ask=rules_of_boxes):
    """Prove that no leak of one member is above a bound; raises `Rejected`."""
    return prove(Claim(label, upper, [forests], inputs_of(box), ["the member"]), trees, ask)


def of_member(found, member):
    """Return the trees of boxes of one member."""
    ends = np.cumsum(found.size)
    part = slice(int(ends[member] - found.size[member]), int(ends[member]))
    cuts = np.concatenate(([0], np.cumsum(found.feature >= 0)))
    return {
        "size": found.size[member : member + 1],
        "feature": found.feature[part],
        "value": found.value[cuts[part.start] : cuts[part.stop]],
    }
