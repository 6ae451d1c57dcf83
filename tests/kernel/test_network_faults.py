"""A kernel with one fault planted in it is seen by the tests of its rules."""

import inspect
import textwrap

import numpy as np
import pytest

from leaveout.kernel import cover, float32, leaks, networks, rows
from leaveout.kernel.numbers import Rejected

from support import kernel_rules as rules

FAULTS = [
    (networks.Pairs, "of", "np.minimum(high, q)", "np.minimum(high, -q)"),
    (networks.Pairs, "of", "(low <= q)", "(low <= -q)"),
    (networks.Pairs, "of", "np.clip(-below, low, top)", "np.clip(below, low, top)"),
    (networks.Pairs, "of", "[below] * 4 + [above] * 4", "[below] * 8"),
    (networks.Pairs, "of", "np.where(meets, 0.0, low), low", "low, low"),
    (networks.Pairs, "of", "(phase == 0) & ~above_tie[:, None]", "(phase == 0)"),
    (networks.Pairs, "of", "[below] * 3 + [above] * 3", "[below] * 6"),
    (networks.Pairs, "most", "range(12)", "range(10)"),
    (networks.Pairs, "most", "range(3)", "range(2)"),
    (networks.Pairs, "most", "(b * e - cd * d)", "(b * e + cd * d)"),
    (networks.Net, "_start", "low_d - self.unit", "low_d + 1e9 * self.unit"),
    (networks.Net, "_start", "negative(w) @ h1", "negative(w) @ h0"),
    (networks.Net, "_start", "negative(moved) @ d1", "negative(moved) @ d0"),
    (networks.Net, "_start", "shift - slack, shift + slack", "shift, shift"),
    (networks.Net, "_start", "- spread", "+ spread"),
    (networks.Net, "_hull", "b - c, c - a", "c - b, a - c"),
    (networks.Net, "_hull", "p.max(0)", "p.min(0)"),
    (networks.Descent, "_replace", "+= cz @ net.bias[k]", "+= 0 * cz @ net.bias[k]"),
    (networks.Descent, "_replace", "cost = size[at]", "cost = 0 * size[at]"),
    (networks.Descent, "_replace", "cd[at] @ hull.shift[k]", "size[at] @ hull.shift[k]"),
    (networks.Descent, "_replace", "a[source] + f", "f"),
    (networks.Descent, "_replace", "+ size[at] @ hull.slack[k]", ""),
    (networks.Descent, "_replace", "d = cd @ weights + change", "d = change"),
    (networks.Descent, "_replace", "f += change", "f += 0"),
    (networks.Descent, "forms", "self._constant += most", "most"),
    (cover.Nodes, "cut", "high - keep, low)", "high - 0.5 * keep, low)"),
    (cover.Nodes, "cut", "(slopes > 0) & (high", "(slopes < 0) & (high"),
    (cover.Nodes, "cut", "(top < -CROSSED)", "(top < 2)"),
    (cover.Nodes, "_bound", 'need(t >= 0, "a negative multiple")', ""),
    (cover.Nodes, "_bound", "slopes + T @ G", "slopes"),
    (cover.Nodes, "_tighten", "found[:, most:])", "found[:, :most])"),
    (cover.Walk, "_prove", "<= self.upper)", "<= self.upper + 0.3)"),
    (cover.Walk, "_prove", 'need(share >= 0, "a negative multiplier")', ""),
    (cover.Walk, "_prove", "== 1, f", ">= 0, f"),
    (cover.Walk, "_halve", "for side in (0, 1)", "for side in (0,)"),
    (cover.Walk, "_check", "np.flatnonzero(leaf & nodes.alive)", "np.flatnonzero(leaf)[:0]"),
    (rows.Rows, "least", "* upper", "* (upper + 0.3)"),
    (leaks.Leaks, "_space", "one[rival] - one[label]", "one[label] - one[rival]"),
    (leaks.Leaks, "_space", "one[label] - one[others]", "one[others] - one[label]"),
    (float32.Rounding, "_forward", "low > error", "low > -1e9"),
    (float32.Rounding, "_backward", "np.maximum(-low, high)", "np.minimum(-low, high)"),
    (float32.Rounding, "_forward", "self._added.append(added)", "self._added.append(None)"),
    (cover, "_cover", 'np.sort(tree.set_of(node))', "parts"),
    (cover, "_cover", "sorted(tree.side[own]) == [0, 1]", "True"),
    (cover, "_cover", "tree.index[one] == tree.index[two]", "True"),
    (cover, "_cover", "or tree.point[one] == tree.point[two]", "or True"),
    (cover, "_cover", "kinds == kinds[0]", "kinds == kinds"),
    (cover, "_cover", "len(own) == 1", "len(own) >= 1"),
    (cover, "read_tree", "np.array_equal(np.sort(tree.set_of(root)), np.arange(everyone))", "True"),
    (cover, "read_tree", "== list(range(len(counts)))", "!= []"),
]  # fmt: skip


def plant(monkeypatch, owner, name, old, new):
    """Put a fault into a function of the kernel."""
    real = inspect.getattr_static(owner, name)
    function = real.__func__ if isinstance(real, staticmethod) else real
    source = textwrap.dedent(inspect.getsource(function))
    assert old in source, (name, old)
    module = inspect.getmodule(function)
    space = {}
    exec(compile(source.replace(old, new), module.__file__, "exec"), module.__dict__, space)
    made = space[name]
    made = made.__func__ if isinstance(made, staticmethod) else made
    monkeypatch.setattr(owner, name, staticmethod(made) if isinstance(real, staticmethod) else made)
    if owner is cover:
        monkeypatch.setattr(rules, name, made, raising=False)


def seen():
    """Return whether any test of the rules fails."""
    checks = [rules.check_everywhere, rules.check_rounding]
    checks.append(rules.check_multiples)
    try:
        assert all(map(rules.covers, rules.COVERS.values()))
        assert not any(map(rules.covers, rules.GAPS.values()))
        assert not rules.covers(rules.COVERS["an input"], cases=2)
        for seed in range(40):
            rules.check_corners(seed)
        for seed in range(12):
            for check in checks:
                check(seed)
            rules.check_forms(seed, wild=bool(seed % 2))
        for seed in range(24):
            question = rules.random_question(seed, spread=0.02 + 0.2 * (seed % 3))
            worst = question.worst(np.random.default_rng(seed), 1000)
            for label, leak in enumerate(worst.tolist()):
                if leak > 0:
                    assert not rules.prove(question, label, 0.99 * leak)
        rules.check_shares()
        rules.check_true_bounds()
    except (AssertionError, Rejected, ValueError, IndexError, TypeError):
        return True
    return False


def test_nothing_is_seen_where_there_is_no_fault():
    assert not seen()


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{i} {f[1]}" for i, f in enumerate(FAULTS)])
def test_a_planted_fault_is_seen(monkeypatch, fault):
    plant(monkeypatch, *fault)
    assert seen()
