"""Membership attacks: measures by brute force, references by retraining, and what is said."""

import csv
import hashlib
import json
import random
from statistics import NormalDist

import numpy as np
import pytest

from leaveout.models.boosting.training import Settings, train_trees
from leaveout.models.linear.fit import coefficients_of, with_rows
from leaveout.models.reading import Reading
from leaveout.models.train import Recipe
from leaveout.models.train import run as train
from leaveout.verifier.audits.attacks import (
    judge_answers,
    judge_scores,
    label_advantage,
    mean_interval,
    offline_ratios,
    online_ratios,
    scaled_confidence,
)
from leaveout.verifier.cli import run
from leaveout.verifier.guard.attack import Asked, attack, read_asked
from leaveout.verifier.guard.guard import draw_noisy_label
from leaveout.verifier.guard.reference_models import load_references

from support.depth import rounds
from support.guards import one_by_one
from support.inline import trained_here
from support.linear_tables import opened, table, trained, write


@pytest.mark.parametrize("seed", range(4))
def test_measures_are_those_of_all_pairs_and_thresholds(seed):
    rng = np.random.default_rng(seed)
    members = rng.integers(0, 12, rng.integers(5, 250)) + rng.integers(0, 3)
    others = rng.integers(0, 12, (250, 999, 1000, 10000)[seed])
    found = judge_scores("loss", members.astype(float), others.astype(float))
    less = members[:, None] - others
    pairs = (less > 0) + (less == 0) / 2
    assert found.auc.value == pytest.approx(np.mean(pairs), abs=1e-12)
    shares = [(np.mean(members >= t), np.mean(others >= t)) for t in range(20)]
    assert found.advantage.value == pytest.approx(max(a - b for a, b in shares), abs=1e-12)
    assert [rate is None for rate in found.rates] == [seed < 2, seed < 3]
    rates = [rate for rate in found.rates if rate is not None]
    for one_in, rate in zip((100, 1000), rates, strict=False):
        best = max(a for a, b in shares if b <= 1 / one_in)
        assert rate.value == pytest.approx(best, abs=1e-12)
    for each in (found.auc, found.advantage, *rates):
        assert 0 <= each.low <= each.value <= each.high <= 1


def test_intervals_hold_as_often_as_they_say():
    rng, held = np.random.default_rng(0), []
    truth = NormalDist(0, 2**0.5).cdf(1)  # a normal score above another one that is lower by 1
    for _ in range(300):
        found = judge_scores("loss", rng.normal(1, 1, 30), rng.normal(0, 1, 60))
        most = 2 * NormalDist().cdf(0.5) - 1
        held.append(
            found.auc.low <= truth <= found.auc.high
            and found.advantage.low <= most <= found.advantage.high
        )
    assert np.mean(held) > 0.95
    for chance in (0.02, 0.5, 0.93):
        draws = rng.binomial(25, chance, 2000)
        known = {hits: mean_interval(hits / 25, 25, 0.05) for hits in range(26)}
        inside = [known[int(hits)].low <= chance <= known[int(hits)].high for hits in draws]
        assert np.mean(inside) > 0.95
    assert mean_interval(1.0, 500, 0.05).low > 0.99  # far closer than without the divergence


@pytest.mark.parametrize("count", [1000, 10000])
@pytest.mark.parametrize("members", [40, 2000])
def test_intervals_of_rates_hold_though_the_threshold_is_drawn(count, members):
    rng, normal = np.random.default_rng(0), NormalDist()
    truth = [1 - normal.cdf(normal.inv_cdf(1 - rate) - 1.5) for rate in (0.01, 0.001)]
    held = {}
    for _ in range(rounds(300)):
        found = judge_scores("loss", rng.normal(1.5, 1, members), rng.normal(0, 1, count))
        for rate, own in zip(found.rates, truth, strict=True):
            if rate is not None:
                held.setdefault(own, []).append(rate.low <= own <= rate.high)
    assert len(held) == (1 if count == 1000 else 2)
    for each in held.values():
        assert len(each) == rounds(300) and np.mean(each) >= 0.95


def test_an_attack_by_answers_is_the_difference_of_their_chances():
    members, others = np.array([1.0, 0.25, 1.0, 0.0]), np.array([0.5, 0.0])
    found = judge_answers("label", members, others)
    assert found.advantage.value == pytest.approx(0.5625 - 0.25)
    assert found.auc.value == pytest.approx(0.5 + 0.3125 / 2)
    assert found.advantage.low < found.advantage.value < found.advantage.high


def test_the_confidence_is_the_logit_of_the_softmax():
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(0, 3, (50, 4)), rng.integers(0, 4, 50)
    for row, (each, label) in enumerate(zip(scores, labels, strict=True)):
        p = np.exp(each[label]) / np.exp(each).sum()
        assert scaled_confidence(scores, labels)[row] == pytest.approx(np.log(p / (1 - p)))
    far = scaled_confidence(np.array([[800.0, -800.0]]), np.array([1]))
    assert far.tolist() == [-1600.0]


def test_likelihood_ratios_are_those_of_a_slow_implementation():
    rng = np.random.default_rng(2)
    kept, out, seen = rng.normal(3, 1, (9, 6)), rng.normal(1, 1, 9), rng.normal(2, 1, 9)
    kept[2, 3] = np.nan
    found = online_ratios(seen, kept, out)
    for row in range(9):
        own = [v for v in kept[row].tolist() if v == v]
        lost = [
            np.mean([v for v in kept[k].tolist() if v == v]) - out[k] for k in range(9) if k != row
        ]
        inside = NormalDist(np.mean(own), np.std(own))
        outside = NormalDist(np.mean(own) - np.mean(lost), np.std(lost))
        truth = np.log(inside.pdf(seen[row])) - np.log(outside.pdf(seen[row]))
        assert found[row] == pytest.approx(truth, rel=1e-9)
    assert np.argsort(offline_ratios(seen, out)).tolist() == np.argsort(seen - out).tolist()
    # Nothing but the row's own references, and no scale, is read into its place.
    assert np.isfinite(online_ratios(seen, np.ones((9, 4)), out)).all()


def asked_of(known, X, y, member):
    places = tuple(f"row {at}" for at in range(len(X)))
    return Asked(np.asarray(X, known.subject.domain.kind), y, np.asarray(member), places, 0)


def test_references_answer_as_the_models_do(either):
    points = np.random.default_rng(3).random((40, 2)).astype(np.float32)
    known, answers = load_references(either.folder, adopt=True), either.answers(points)
    assert (
        known.whole(points.astype(known.subject.domain.kind)).argmax(axis=1).tolist()
        == answers[0].tolist()
    )
    members = np.random.default_rng(4).integers(0, known.subject.members, 300)
    rows = np.random.default_rng(5).integers(0, 40, 300)
    seen = np.zeros(300, int)
    for places, scores in known.without(points.astype(known.subject.domain.kind), rows, members):
        labels = scores.argmax(axis=1)
        assert labels.tolist() == answers[1 + members[places], rows[places]].tolist()
        seen[places] += 1
    assert (seen == 1).all()


def test_references_of_forests_have_the_shares_of_members(wooded):
    points = np.random.default_rng(3).random((20, 2))
    known = load_references(wooded.folder)
    for member in (0, 5, 41):
        truth = wooded.members[member].probabilities(points)
        for places, scores in known.without(points, np.arange(20), np.full(20, member)):
            own = truth[places]
            assert np.exp(scores)[own > 0] == pytest.approx(own[own > 0])


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_references_of_linear_models_are_refits(kind, tmp_path):
    folder = trained(tmp_path, table(5, 40, 2 if kind == "logistic" else 3), kind=kind)
    known, model = load_references(folder), opened(folder).model
    for member in (0, 7, 39):
        left = with_rows(model, np.delete(np.arange(40), member))
        truth = model.design(model.X) @ coefficients_of(left.problems).T
        truth = np.concatenate([0 * truth, truth], 1) if truth.shape[1] == 1 else truth
        for places, scores in known.without(model.X, np.arange(40), np.full(40, member)):
            assert scores == pytest.approx(truth[places], abs=1e-4)


@pytest.fixture(scope="module")
def overfitted(tmp_path_factory):
    """A network that knows rows by heart, whose labels are coin tosses, and its table."""
    folder, rng = tmp_path_factory.mktemp("overfitted"), np.random.default_rng(0)
    X, y = rng.random((120, 6), dtype=np.float32), rng.integers(0, 2, 120)
    source = folder / "d.npz"
    np.savez(source, X_train=X[:60], y_train=y[:60], X_test=X[60:], y_test=y[60:])
    recipe = Recipe(
        layers=(64,), epochs=400, batch=20, optimizer="adam", learning_rate=0.01, weight_decay=0.0
    )
    with trained_here():
        train(source, folder / "m", recipe=recipe, workers=1, device="cpu")
    return folder / "m", source


def test_an_overfitted_model_is_attacked_well_and_rows_it_never_saw_are_not(overfitted):
    folder, source = overfitted
    known = load_references(folder)
    asked = read_asked(known, source)
    assert asked.member.tolist() == [*range(60), *[-1] * 60]
    found = attack(known, asked)
    ratio, loss, label = found.others_attacks
    # Of strangers half get the label tossed for them, as surely as training rows.
    assert ratio.auc.low > 0.75 and loss.auc.low > 0.55 and label.advantage.value > 0.3
    assert found.same_rows[0].auc.low > 0.6
    assert (found.members, found.others, found.models) == (60, 60, 60)
    assert found.guarded is None
    answers = [known.whole(asked.X[:60]).argmax(axis=1)]
    turned = np.zeros(60, bool)
    for member in range(60):
        for places, scores in known.without(asked.X, np.arange(60), np.full(60, member)):
            turned[places] |= scores.argmax(axis=1) != answers[0][places]
    assert found.noised == turned.sum() > 0
    # Half of the rows it never saw, taken for training rows.
    rest = np.flatnonzero(asked.member < 0)
    halves = np.where(np.arange(60) % 2, np.arange(60), -1)
    none = attack(known, asked_of(known, asked.X[rest], asked.y[rest], halves))
    for each in none.others_attacks:
        assert each.auc.low < 0.5 < each.auc.high
    # The rows most at risk are those of which the member is least sure.
    risks = [each.score for each in found.risks]
    assert risks == sorted(risks, reverse=True)
    assert all(each.with_row > each.without for each in found.risks[:3])


def test_rows_of_another_table_are_not_taken_for_training_rows(overfitted, tmp_path):
    folder, source = overfitted
    held = dict(np.load(source))
    held["X_train"] = held["X_train"][::-1]
    np.savez(tmp_path / "d.npz", **held)
    with pytest.raises(Exception, match="not, unchanged and in order, those that the network"):
        read_asked(load_references(folder), tmp_path / "d.npz")


def test_what_a_guard_gives_away_is_within_the_bound(either):
    rng = np.random.default_rng(6)
    known = load_references(either.folder, adopt=True)
    count = known.subject.members
    points = rng.random((60, 2)).astype(np.float32)
    member = np.where(np.arange(60) < 40, np.arange(60) % count, -1)
    y = rng.integers(0, 3, 60)
    found = attack(known, asked_of(known, points, y, member), epsilon=1.5)
    labels, leaks = either.truth(points)
    assert found.noised == leaks[:40].sum() > 0
    answers = either.answers(points)
    turned = [answers[1 + member[at], at] != labels[at] for at in range(40)]
    assert found.labels_differ.value == np.mean(turned)
    own = found.guarded
    assert own.advantage.value == pytest.approx(label_advantage(1.5, 3) * np.mean(turned))
    assert own.advantage.value <= own.bound == pytest.approx(leaks[:40].mean() * np.tanh(0.75))
    assert found.same_rows[-1].name == "label, epsilon 1.5"
    assert found.same_rows[-1].advantage.low <= own.bound
    # Each noised answer is right as often as the guard draws it so.
    right, chance = labels == y, random.Random(0)
    drawn = [[draw_noisy_label(int(a), 3, 1.5, chance) for _ in range(2000)] for a in labels]
    mean = [np.mean(np.array(d) == y[k]) if leaks[k] else right[k] for k, d in enumerate(drawn)]
    told = found.others_attacks[-1]
    assert told.name == "label, epsilon 1.5"
    assert told.advantage.value == pytest.approx(np.mean(mean[:40]) - np.mean(mean[40:]), abs=0.02)


def test_training_rows_are_found_by_content_and_by_name(tmp_path):
    rows, others = table(5, 40), table(6, 30)
    nobody = [{key: cell for key, cell in row.items() if key != "person"} for row in rows]
    plain = trained(tmp_path, nobody, "plain", identity=None)
    both = [*others[:10], *rows[::-1], *others[10:], rows[3]]
    source = write(tmp_path, both, "asked.csv")
    found = read_asked(load_references(plain), source)
    # The second copy of a row is no stranger.
    assert found.member.tolist() == [*[-1] * 10, *range(39, -1, -1), *[-1] * 20]
    assert found.unclear == 1
    named = trained(tmp_path, rows, "named")
    for at, row in enumerate(others):
        row["person"] = f"Q-{at}"
    source = write(tmp_path, [*others[:10], *rows[::-1]], "named.csv")
    found = read_asked(load_references(named), source)
    assert found.member.tolist() == [*[-1] * 10, *range(39, -1, -1)]
    assert (found.told, found.changed) == ("column 'person'; contents are compared", 0)


def test_rows_of_a_known_name_and_other_contents_are_others(tmp_path, capsys):
    rows = table(5, 40)
    folder = trained(tmp_path, rows)
    fake = [{**row, "person": rows[at]["person"]} for at, row in enumerate(table(6, 12))]
    turned = {**rows[12], "ill": "ny"[rows[12]["ill"] == "n"]}
    source = write(tmp_path, [*fake, turned, *rows[13:]], "fake.csv")
    found = read_asked(load_references(folder), source)
    assert found.member.tolist() == [*[-1] * 13, *range(13, 40)]
    assert found.changed == 13
    assert run(["audit", "attack", str(folder), "--data", str(source)]) == 0
    assert "other contents, counted as others: 13\n" in capsys.readouterr().out
    assert run(["audit", "attack", str(folder), "--data", str(source), "--id", "ward"]) == 2
    told = capsys.readouterr().err
    assert "column 'ward': names no training row; names are in column 'person'\n" in told
    # Groups have their rows, each as often as it was trained on.
    for at, row in enumerate(rows):
        row["person"] = f"P-{at // 4}"
    grouped = trained(tmp_path, rows, "grouped", identity=None, reading=Reading(group="person"))
    moved = {**rows[0], "person": "P-3"}
    source = write(tmp_path, [*rows, rows[5], moved], "more.csv")
    found = read_asked(load_references(grouped), source)
    assert found.member.tolist() == [*(at // 4 for at in range(40)), -1]
    assert (found.changed, found.unclear) == (1, 1)


def test_what_is_printed_and_written(tmp_path, capsys, snapshot):
    rows, others = table(5, 40), table(6, 30)
    for at, row in enumerate(others):
        row["person"] = f"Q-{at}"
    folder, source = trained(tmp_path, rows), write(tmp_path, [*rows, *others], "asked.csv")
    out = tmp_path / "a.json"
    words = ["audit", "attack", str(folder), "--data", str(source), "--epsilon", "0.5"]
    assert run([*words, "-o", str(out)]) == 0
    told = capsys.readouterr().out
    assert told.replace(str(tmp_path), ".") == snapshot
    assert "P-" not in told + out.read_text()
    said = json.loads(out.read_text())
    assert (said["members"], said["others"], len(said["others_attacks"])) == (40, 30, 4)
    for each in said["others_attacks"]:
        low = each["auc"][1]
        assert low <= each["auc"][0] and each["accuracy"][0] == (1 + each["advantage"][0]) / 2
    assert said["others_attacks"][0]["rates"] == dict.fromkeys(
        ["TPR at FPR 0.01", "TPR at FPR 0.001"]
    )
    for path in (source, folder / "linear.npz"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert said["sha256"]["data" if path == source else path.name] == digest
    assert said["guarded"]["advantage"][0] <= said["guarded"]["bound"]
    assert run([*words, "-o", str(out)]) == 2
    assert "exists; name a new file" in capsys.readouterr().err
    assert run([*words, "-o", str(tmp_path / "nowhere" / "a.json")]) == 2
    assert "no such folder; create it first" in capsys.readouterr().err
    assert run([*words, "--names"]) == 0
    assert "P-" in capsys.readouterr().out


REFUSED = {
    "no label": lambda rows: [{k: v for k, v in row.items() if k != "ill"} for row in rows],
    "label": lambda rows: [*rows[:20], {**rows[20], "ill": "q"}],
    "twice": lambda rows: [*rows, rows[2]],
    "few": lambda rows: rows[:9],
    "other contents": lambda rows: [
        {**row, "person": f"P-{(at + (at >= 30)) % 40}"} for at, row in enumerate(rows[:39])
    ],
    "wrong names": lambda rows: [{**row, "person": f"Q-{at}"} for at, row in enumerate(rows)],
    "no name": lambda rows: [{k: v for k, v in row.items() if k != "person"} for row in rows],
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_cannot_be_attacked_is_refused_in_a_line(change, tmp_path, capsys, snapshot):
    folder = trained(tmp_path, table(5, 40))
    rows = REFUSED[change](table(5, 40))
    source = tmp_path / "asked.csv"
    with source.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert run(["audit", "attack", str(folder), "--data", str(source)]) == 2
    told = capsys.readouterr().err
    assert told.replace(str(tmp_path), ".") == snapshot
    assert told.count("\n") == 1


def test_words_after_audit_that_name_no_command_are_those_of_trials(capsys):
    assert run(["audit", "--counts", "missing.csv", "-o", "a.npz"]) == 2
    assert run(["audit", "trials", "--counts", "missing.csv", "-o", "a.npz"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == second


def test_one_answer_of_members_as_a_network_gives_it(leaky):
    known = load_references(leaky.folder, adopt=True)
    points = np.random.default_rng(8).random((6, 2)).astype(np.float32)
    family = leaky.instance.family
    own = {name: stack[0] for name, stack in family.take([2]).items()}
    truth = one_by_one(leaky.instance.network.runner(own), points)
    ((places, scores),) = known.without(points, np.arange(6), np.full(6, 2))
    assert scores == pytest.approx(truth[places], rel=1e-5)


def write_rows(path, rows):
    """Write rows of two numbers, a name and a label."""
    lines = [f"{name},{a!r},{b!r},{'yn'[label]}" for name, a, b, label in rows]
    path.write_text("who,a,b,ok\n" + "\n".join(lines) + "\n")
    return path


def some_rows(count, first=0, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (f"R{first + at}", *map(float, rng.random(2)), int(rng.random() < 0.5))
        for at in range(count)
    ]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("identity", [None, "who"])
@pytest.mark.parametrize("members", [None, 12])
def test_rows_of_networks_are_found_by_digest_and_by_name(tmp_path, identity, members):
    rows, others = some_rows(30), some_rows(15, 30, seed=1)
    named = identity is not None
    cut = [(name if named else "x", *rest) for name, *rest in rows]
    source = write_rows(tmp_path / "t.csv", cut)
    recipe = Recipe(layers=(4,), epochs=1)
    reading = Reading() if named else Reading(drop=("who",))
    train(source, tmp_path / "m", label="ok", identity=identity, reading=reading, recipe=recipe,
          members=members, workers=1, device="cpu")  # fmt: skip
    known, count = load_references(tmp_path / "m"), members or 30
    # By digest the training table comes first; names are found anywhere.
    both = [*others, *rows] if named else [*rows, *others]
    asked = read_asked(known, write_rows(tmp_path / "a.csv", both), "who" if named else "")
    assert asked.unclear == 30 - count
    truth = [*[-1] * 15, *range(count)] if named else [*range(count), *[-1] * 15]
    assert asked.member.tolist() == truth
    assert asked.told == (
        "column 'who'; contents are not compared" if named else "the digest of the first rows"
    )
    if named:  # more rows than were trained on, also where no member lacks them
        with pytest.raises(Exception, match="another row has this name; drop one"):
            read_asked(known, write_rows(tmp_path / "b.csv", [*both, rows[29]]), "who")
    else:
        changed = [(*rows[0][:3], 1 - rows[0][3]), *rows[1:]]
        with pytest.raises(Exception, match="not, unchanged and in order"):
            read_asked(known, write_rows(tmp_path / "b.csv", changed))


def test_references_of_boosted_trees_are_the_members(tmp_path):
    rows, others = some_rows(40), some_rows(15, 40, seed=1)
    source, settings = write_rows(tmp_path / "t.csv", rows), Settings(trees=4, leaves=4)
    train_trees(source, tmp_path / "m", label="ok", identity="who", settings=settings, workers=1)
    known = load_references(tmp_path / "m")
    asked = read_asked(known, write_rows(tmp_path / "a.csv", [*others, *rows]))
    assert asked.member.tolist() == [*[-1] * 15, *range(40)]
    family = known.subject.leaks.family
    for member in (0, 17):
        truth = family.member(member).scores(asked.X)[:, 0]
        for places, scores in known.without(asked.X, np.arange(55), np.full(55, member)):
            assert (scores[:, 1] - scores[:, 0]).tolist() == truth[places].tolist()
    found = attack(known, asked, epsilon=1.0)
    assert found.labels_differ.value <= found.noised / 40
    train_trees(source, tmp_path / "few", label="ok", identity="who", settings=settings, members=5,
                workers=1)  # fmt: skip
    with pytest.raises(Exception, match="only 5 of 40 training rows have a member"):
        load_references(tmp_path / "few")
