"""Checks of the kernel's rules for networks, against points and brute force."""

import numpy as np

from leaveout.kernel.cover import Nodes, at_everywhere, read_tree
from leaveout.kernel.float32 import Region, Rounding
from leaveout.kernel.leaks import Leaks
from leaveout.kernel.members import Folded
from leaveout.kernel.networks import ABOVE, BELOW, HIGH, LOW, Descent, Net, P, Pairs, Q, Slopes
from leaveout.kernel.numbers import Rejected
from leaveout.verifier.certify.networks import lines_only, split

from support.kernel_networks import (
    evaluate,
    honest,
    layers_of,
    random_question,
    root_tree,
)


def pairs_at(rng, count):
    """Return states of pairs, phases, and points that each pair may be at."""
    low = rng.normal(size=count)
    high = low + rng.exponential(size=count) * (rng.random(count) < 0.9)
    below = rng.normal(size=count)
    above = below + rng.exponential(size=count) * (rng.random(count) < 0.9)
    p, q = rng.exponential(size=(2, count)) * rng.choice([0, 0.3, 1], (2, count))
    state = np.stack([low, high, p, q, below, above])[None]
    phase = rng.choice([-1, 0, 0, 1], (1, count)).astype(np.int8)
    return state, phase


def check_corners(seed):
    rng = np.random.default_rng(seed)
    state, phase = pairs_at(rng, 12)
    over = np.array([rng.random() < 0.3])
    pairs = Pairs.of(state, phase, over, np.zeros(12, np.int8))
    low, high, p, q, below, above = state[0]
    a, b, cz, cd = rng.normal(size=(4, 1, 1, 12))
    if seed % 2:
        # Largest where both ReLUs bend.
        a = -np.abs(a)
        b, cz = a * rng.random(12), a * rng.random(12)
        cd = b * cz / a
    most = pairs.most(slice(None), a, b, cz, cd)[0, 0]
    alone = pairs.most(slice(None), a, None, cz, None)[0, 0]
    real = (phase[0] == 0) & ~over[0]
    for step in range(200):
        u, v = rng.random((2, 12))
        if step % 2:
            u, v = (np.where(rng.random(12) < 0.5, np.round(w), w) for w in (u, v))
        z, d = low + u * (high - low), below + v * (above - below)
        kink = rng.integers(0, 4, 12)
        z = np.where(
            kink == 1, np.clip(0, low, high), np.where(kink == 2, np.clip(-d, low, high), z)
        )
        d = np.where(kink == 3, np.clip(-z, below, above), d)
        if step < 3:
            z, d = np.clip(0, low, high), np.clip(0, below, above)
        h = np.maximum(z, 0)
        # Real pairs: the members' ReLU itself. Others: on or off, as far as that is possible.
        within = (d <= p) & (d >= -q)
        branches = [(np.maximum(z + d, 0) - h, real & within)]
        branches.append((d, ~real & (phase[0] >= 0) & (z >= -p)))
        branches.append((0 * d, ~real & (phase[0] <= 0) & (z <= q)))
        for dh, there in branches:
            value = a[0, 0] * h + b[0, 0] * dh - cz[0, 0] * z - cd[0, 0] * d
            assert (value <= most + 1e-12)[there].all()
            assert (a[0, 0] * h - cz[0, 0] * z <= alone + 1e-12)[there].all()
            assert (np.abs(dh) <= pairs.size[0] + 1e-12)[there].all()


def net_of(question):
    members = Folded(question.members)
    origin = np.minimum(question.box.lower, 0)
    return Net(question.network.layers(), members, question.box, origin)


def check_everywhere(seed, kinds=(0, 0)):
    rng = np.random.default_rng(seed)
    question = random_question(seed, kinds=kinds)
    net = net_of(question)
    state = at_everywhere(net, lines_only)[0]
    x = question.points(rng, 200)
    own, others = layers_of(question.network, x), layers_of(question.members.program, x)
    for k, at in enumerate(net.at[:-1]):
        z, dz = own[k][0], others[k] - own[k]
        for known in (state[:, at], net.state[:, at]):
            assert (z >= known[LOW]).all() and (z <= known[HIGH]).all()
            assert (dz >= known[BELOW]).all() and (dz <= known[ABOVE]).all()
            assert (dz <= known[P]).all() and (dz >= -known[Q]).all()


def check_forms(seed, wild, kinds=(0, 0)):
    rng = np.random.default_rng(seed)
    question = random_question(seed, kinds=kinds)
    net = net_of(question)
    state = at_everywhere(net, lines_only)
    chosen = rng.choice(len(question.members), 2, replace=False).astype(np.int64)
    pairs, slopes = [], []
    for at, own in zip(net.at[:-1], net.kinds, strict=True):
        phase = np.zeros((1, at.stop - at.start), np.int8)
        pairs.append(Pairs.of(state[:, :, at], phase, np.zeros(1, bool), own))
        shape = (4, 1, at.stop - at.start)
        lines = rng.uniform(-3, 3, shape) if wild else rng.random(shape)
        slopes.append(Slopes(*lines, rng.random(shape[1:]) < 0.5))
    labels = net.labels
    cz, cd = rng.normal(size=(2, 1, 2, labels))
    given_ = rng.normal(size=(2, 1, net.hidden))
    given_[rng.random(given_.shape) < 0.5] = np.nan
    stated = tuple(given_) if rng.random() < 0.5 else None
    descent = Descent(net, [net.hull(chosen)], pairs, slopes, slice(None))
    g, c = descent.forms(net.depth - 1, cz, cd, stated)
    x = question.points(rng, 100)
    shifted = x - net.origin
    z = evaluate(question.network, x)[0]
    above = shifted @ g[0].T + c[0]
    for member in chosen:
        dz = evaluate(question.members.take(np.array([member])), x)[0] - z
        value = z @ cz[0].T + dz @ cd[0].T
        assert (value <= above + 1e-9).all()


def prove(question, label, upper, rng=None):
    """Let the kernel prove a bound by splitting alone; False if it is rejected."""
    with np.errstate(all="ignore"):
        leaks = Leaks.of(question.network, question.members, question.box, lines_only)
        rivals = leaks.net.labels - 1
        shares = np.zeros(rivals + 1)
        shares[0] = 1.0
        ask = honest(root_tree(rivals, len(question.members)), shares)
        left = [40]

        def tries(what, known):
            if what == "split":
                left[0] -= len(known["nodes"])
                return split(known) if left[0] > 0 else {}
            answer = ask(what, known)
            return answer if rng is None else garble(rng, what, answer)

        try:
            leaks.check(label, upper, tries)
        except Rejected:
            return False
    return True


def garble(rng, what, answer):
    """Return an answer with something wrong in it."""
    answer = dict(answer)
    if not answer or what == "tree":
        return answer
    name = rng.choice(sorted(answer))
    array, how = np.array(answer[name]), rng.integers(0, 9)
    if how == 0:
        del answer[name]
    elif how == 1:
        answer[name] = array.astype(np.float32)
    elif how == 2:
        answer[name] = array[:-1] if array.ndim else array
    elif how == 3 and array.dtype.kind == "f":
        answer[name] = np.full_like(array, rng.choice([np.nan, np.inf, -np.inf, 1e300]))
    elif how == 4 and array.dtype.kind == "f":
        answer[name] = -array
    elif how == 5 and array.ndim:
        answer[name] = array[rng.permutation(len(array))]
    elif how == 6 and array.dtype.kind == "f":
        answer[name] = array * rng.uniform(0, 5)
    elif how == 7 and array.dtype.kind == "b":
        answer[name] = rng.random(array.shape) < 0.5
    elif how == 8 and array.dtype.kind == "i":
        answer[name] = array + rng.integers(-3, 4)
    return answer


def check_shares():
    """A share that is negative, no number, or not a whole is refused as such."""
    question = random_question(4, labels=2)
    leaks = Leaks.of(question.network, question.members, question.box, lines_only)
    told = {
        "negative": ([1, -1], [-1, 2], [np.nan, 1], [1, np.nan]),
        "sum to 1": ([0.9, 1], [1.1, 1], [0, 1], [0, 0], [np.inf, 1]),
        "shape": ([1], [1, 0, 0]),
        "by the claimed": ([1, 0], [1, 5]),
    }
    for what, shares in told.items():
        for share in shares:
            try:
                leaks.check(0, -1e6, honest(root_tree(1, 3), np.array(share, float)))
            except Rejected as error:
                assert what in str(error), (share, error)
            else:
                raise AssertionError(f"accepted with shares {share}")


def check_multiples(seed):
    """A form plus multiples of half-spaces is above it where they hold; no multiple is negative."""
    rng = np.random.default_rng(seed)
    question = random_question(seed)
    net = net_of(question)
    lent = {}

    def ask(what, known):
        count, r = known["slopes"].shape[:2]
        lent["t"] = rng.exponential(size=3) * rng.choice([-1, 1, 1, 1])
        row, slot = rng.permutation(count * r)[:3], rng.integers(0, 2, 3)
        return {"row": row, "slot": slot, "t": lent["t"]}

    node = Nodes(net, True, np.zeros(1, np.int64), [], ask)
    node.lower, node.upper = net.lower[None], net.upper[None]
    node.G, node.s = rng.normal(size=(1, 2, net.inputs)), rng.normal(size=(1, 2))
    slopes, constant = rng.normal(size=(1, 5, net.inputs)), rng.normal(size=(1, 5))
    try:
        found = node._bound(slice(None), slopes, constant)[0]
    except Rejected:
        assert (lent["t"] < 0).any()
        return
    assert (lent["t"] >= 0).all()
    x = rng.uniform(net.lower, net.upper, (500, net.inputs))
    node.cut(np.ones(1, bool), node.G[:, 0], node.s[:, 0])
    left = x[x @ node.G[0, 0] + node.s[0, 0] >= 0]
    assert node.alive[0] or not len(left)
    assert ((left >= node.lower) & (left <= node.upper)).all() or not node.alive[0]
    x = x[(x @ node.G[0].T + node.s[0] >= 0).all(1)]
    assert (x @ slopes[0].T + constant[0] <= found + 1e-9).all()


def check_true_bounds():
    """Bounds a little above the worst leak are proved by splitting."""
    proved = 0
    for seed in range(12):
        question = random_question(seed, labels=2, spread=0.05)
        worst = question.worst(np.random.default_rng(seed), 1000)
        proved += sum(
            prove(question, label, max(0.0, leak) + 0.1) for label, leak in enumerate(worst)
        )
    assert proved >= 16, proved


def split_tree(how, **changes):
    """Return a tree of one case whose root is split once."""
    tree = {
        "parent": np.array([-1, 0, 0]),
        "kind": np.array([0, how, how], np.int8),
        "index": np.zeros(3, np.int64),
        "side": np.array([0, 0, 1]),
        "point": np.array([0.0, 0.5, 0.5]),
        "renew": np.zeros(3, bool),
        "group": np.array([0, -1, -1]),
        "members": np.arange(3),
        "offsets": np.array([0, 3]),
    }
    return {**tree, **{name: np.asarray(v, tree[name].dtype) for name, v in changes.items()}}


GROUPS = {"group": [0, 1, 2], "members": [0, 1, 2, 0, 1, 2], "offsets": [0, 3, 5, 6]}
COVERS = {
    "an input": split_tree(1),
    "a tie": split_tree(3),
    "members": split_tree(2, **GROUPS),
    "a range": split_tree(5),
}
GAPS = {
    "two points": split_tree(1, point=[0, 0.4, 0.5]),
    "two inputs": split_tree(1, index=[0, 0, 1]),
    "one side twice": split_tree(1, side=[0, 0, 0]),
    "a third side": split_tree(1, side=[0, 0, 2]),
    "two neurons": split_tree(3, index=[0, 0, 1]),
    "one phase twice": split_tree(3, side=[0, 1, 1]),
    "no such neuron": split_tree(3, index=[0, 99, 99]),
    "no such input": split_tree(1, index=[0, 2, 2]),
    "below the first input": split_tree(1, index=[0, -1, -1]),
    "two points of a range": split_tree(5, point=[0, 0.4, 0.5]),
    "one end of a range twice": split_tree(5, side=[0, 1, 1]),
    "no such range": split_tree(5, index=[0, 99, 99]),
    "two kinds": split_tree(1, kind=[0, 1, 3]),
    "an unknown kind": split_tree(1, kind=[0, 6, 6]),
    "a member left out": split_tree(2, **{**GROUPS, "members": [0, 1, 2, 0, 1, 1]}),
    "a member twice": split_tree(2, **{**GROUPS, "members": [0, 1, 2, 0, 2, 2]}),
    "no such member": split_tree(2, **{**GROUPS, "members": [0, 1, 2, 0, 1, 3]}),
    "a root without a member": split_tree(1, members=[0, 1, 1]),
    "a root with fewer members": split_tree(1, members=[0, 1], offsets=[0, 2]),
    "a set of nobody": split_tree(2, **{**GROUPS, "offsets": [0, 3, 6, 6]}),
    "no such set": split_tree(2, **{**GROUPS, "group": [0, 1, 3]}),
    "a set of its own": split_tree(1, group=[0, 0, -1]),
    "its own parent": split_tree(1, parent=[-1, 1, 0]),
    "a later parent": split_tree(1, parent=[-1, 2, 0]),
    "no parent": split_tree(1, parent=[-1, -1, 0]),
    "a root below": split_tree(1, kind=[0, 0, 1]),
    "no such case": split_tree(1, index=[1, 0, 0]),
    "two roots of one case": split_tree(1, parent=[-1, -1, 0], kind=[0, 0, 1], group=[0, 0, -1]),
    "untied twice": split_tree(4),
    "split at no number": split_tree(1, point=[0, np.nan, np.nan]),
    "one child": {k: v if k in ("members", "offsets") else v[:2] for k, v in split_tree(1).items()},
}


def covers(tree, cases=1):
    """Return whether the kernel takes the leaves of a tree for all there is."""
    question = random_question(6, labels=2)
    net = net_of(question)
    try:
        read_tree(tree, net, [2] * cases, np.ones(cases, bool), 3)
    except Rejected:
        return False
    return True


def check_rounding(seed):
    rng = np.random.default_rng(seed)
    question = random_question(seed)
    net = net_of(question)
    state = at_everywhere(net, lines_only)
    box = question.box
    parts = [[state[:, i, at] for at in net.at[:-1]] for i in (LOW, HIGH)]
    here = Region(np.maximum(box.upper, 0)[None], np.maximum(-box.lower, 0)[None], *parts)
    forms = np.eye(net.labels)
    error = Rounding(question.network, np.zeros(1, np.int64), here).of_forms(forms[None])[0]
    x = question.points(rng, 50).astype(np.float32)
    x = np.clip(x, *np.float32((box.lower, box.upper)))
    exact = evaluate(question.network, x.astype(float))[0]
    values = [x]
    for step in question.network.steps:
        first = values[step.sources[0]]
        if step.matrix is not None:
            order = rng.permutation(first.shape[1])
            total = np.zeros((len(x), step.matrix.shape[2]), np.float32)
            for i in order:
                total = total + first[:, i, None] * step.matrix[0, i].astype(np.float32)
            values.append(total + step.constant[0].astype(np.float32))
        elif step.sign:
            values.append(first + np.float32(step.sign) * values[step.sources[1]])
        else:
            values.append(np.maximum(first, 0))
    assert (np.abs(values[-1] - exact) <= error).all()
