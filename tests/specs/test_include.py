"""Included files: their statements in place, their paths beside them, errors in the right file."""

import pytest
from typer.testing import CliRunner

import leaveout
from leaveout.errors import SpecError
from leaveout.specs import Call, Include, Text, check, expand, load, parse, spec, with_params
from leaveout.specs import include as included
from leaveout.specs.text.included import MOST
from leaveout.verifier.cli.app import app
from leaveout.verifier.plan import plan

CLAIM = "guarantee g: forall x in X: label(N, x) == label(M, x)\n"
ROOT = 'include "lib/net.spec"\nlet N = network("full.onnx")\nlet X = box(0, 1)\n' + CLAIM
NET = '# a network\nlet M = network("full.onnx")\n'


@pytest.fixture
def write(tmp_path):
    def write_(**texts):
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.spec"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "root.spec"

    return write_


def refused(path):
    with pytest.raises(SpecError) as caught:
        check(load(path))
    return str(caught.value)


def path_of(checked, name):
    value = checked.lets[name].value
    assert isinstance(value, Call)
    return value.arguments[0]


def test_statements_stand_in_the_place_of_the_include(write):
    checked = check(load(write(root=ROOT, lib__net=NET)))
    assert list(checked.lets) == ["M", "N", "X"]


def test_paths_are_relative_to_the_file_they_are_in(write):
    checked = check(load(write(root=ROOT, lib__net=NET)))
    assert path_of(checked, "M") == Text("lib/full.onnx")
    assert path_of(checked, "N") == Text("full.onnx")


def test_paths_through_several_folders(write):
    deep = NET.replace("full.onnx", "../nets/a.onnx")
    checked = check(load(write(root=ROOT, lib__net='include "sub/deep.spec"', lib__sub__deep=deep)))
    assert path_of(checked, "M") == Text("lib/sub/../nets/a.onnx")


def test_a_path_that_is_set_is_relative_to_the_first_file(write):
    whole = load(write(root=ROOT, lib__net='param file = "a.onnx"\nlet M = network(file)'))
    assert check(whole).lets["file"].value == Text("lib/a.onnx")
    assert check(with_params(whole, {"file": "b.onnx"})).lets["file"].value == Text("b.onnx")


def test_absolute_paths_stay(write, tmp_path):
    path = tmp_path / "a.onnx"
    checked = check(load(write(root=ROOT, lib__net=f'let M = network("{path}")')))
    assert path_of(checked, "M") == Text(str(path))


def test_the_text_of_the_whole_parses(write):
    whole = load(write(root=ROOT, lib__net=NET))
    assert parse(str(whole)).statements == whole.statements


def test_a_wrong_type_in_an_included_file_is_shown_there(write, tmp_path, snapshot):
    message = refused(write(root=ROOT, lib__net='# one\nlet M = network("a")\nlet Q = box(1, "a")'))
    assert message.startswith(f"{tmp_path}/lib/net.spec:3:16: ")
    assert message.splitlines()[1:3] == ['let Q = box(1, "a")', "               ^^^"]
    assert message == snapshot


def test_an_error_behind_an_include_is_shown_in_the_first_file(write, snapshot):
    message = refused(write(root=ROOT.replace("label(M", "label(Q"), lib__net=NET))
    assert message == snapshot


def test_a_syntax_error_is_shown_in_its_file(write, snapshot):
    message = refused(write(root=ROOT, lib__net="let M = network("))
    assert message == snapshot


@pytest.mark.parametrize(
    ("net", "where"),
    [
        ("let M = 1\nlet X = box(0, 1)", "root.spec:3:5: 'X' is defined twice"),
        ("let M = 1\n\nlet x = 2", "root.spec:4:21: 'x' is defined twice"),
        ("guarantee g: 1 < 2\nlet M = 1", "root.spec:4:11: 'g' is defined twice"),
    ],
)
def test_what_two_files_define_is_refused_and_both_places_are_named(write, net, where, snapshot):
    message = refused(write(root=ROOT, lib__net=net))
    name = where.split("'")[1]
    row, text = next((i, t) for i, t in enumerate(net.splitlines(), 1) if f" {name}" in t)
    assert message == snapshot
    column = text.index(f" {name}") + 2
    assert f"{row}" in message
    assert f"{column}" in message


def test_files_that_include_each_other_are_refused(write, snapshot):
    message = refused(write(root=ROOT, lib__net='include "../root.spec"'))
    assert message.splitlines()[0] == snapshot


def test_a_file_included_twice_is_refused(write, snapshot):
    message = refused(write(root='include "lib/../lib/net.spec"\n' + ROOT, lib__net=NET))
    assert message == snapshot


def test_a_missing_file_is_refused_where_it_is_named(write, tmp_path):
    assert refused(write(root=ROOT)).splitlines()[:3] == [
        f"{tmp_path}/root.spec:1:9: {tmp_path}/lib/net.spec: no such file",
        'include "lib/net.spec"',
        "        ^^^^^^^^^^^^^^",
    ]


@pytest.mark.parametrize(
    "root",
    ['include ""', 'include "."'],
)
def test_what_is_no_file_is_refused(write, root, snapshot):
    assert refused(write(root=root)) == snapshot


def test_too_many_files_are_refused(write, snapshot):
    files = {f"f{i}": f'include "f{i + 1}.spec"' for i in range(MOST + 1)}
    assert refused(write(root='include "f0.spec"', **files)) == snapshot


def test_without_a_folder_an_include_is_refused(snapshot):
    with pytest.raises(SpecError) as told:
        check(parse('include "a.spec"\nguarantee g: 1 < 2'))
    assert str(told.value) == snapshot


def test_a_tree_built_in_python_includes_too(write, tmp_path):
    write(net=NET)
    built = spec(included("net.spec"), *parse("guarantee g: 1 < 2").statements)
    whole = expand(built, tmp_path)
    assert not any(isinstance(each, Include) for each in whole.statements)
    assert list(check(whole).lets) == ["M"]


def test_a_variable_inside_a_claim_with_the_name_of_a_let_of_another_file(write, snapshot):
    root = 'include "lib/net.spec"\nguarantee g: 1 < 2 => (forall M in box(0, 1): 1 < 2)\n'
    shown = refused(write(root=root, lib__net=NET))
    assert shown == snapshot


def test_a_let_further_down_in_another_file_is_named(write, snapshot):
    root = 'let K = M\ninclude "lib/net.spec"\nguarantee g: 1 < 2\n'
    shown = refused(write(root=root, lib__net=NET))
    assert shown == snapshot


def test_a_find_s_variable_with_the_name_of_a_let_of_another_file(write, snapshot):
    root = 'include "lib/net.spec"\nfind g: least M such that M > 1\n'
    shown = refused(write(root=root, lib__net=NET))
    assert shown == snapshot


SECRET = "root:x:0:0:secret:/root:/bin/sh"


def _secret_at(tmp_path, kind):
    """Put a file that is none of the specification's business somewhere, return what names it."""
    folder = tmp_path / "spec"
    outside = tmp_path / "elsewhere.spec"
    outside.write_text(SECRET)
    if kind == "a name of another kind":
        (folder / "passwd").write_text(SECRET)
        return "passwd"
    if kind == "a link to another kind":
        (tmp_path / "passwd").write_text(SECRET)
        (folder / "a.spec").symlink_to(tmp_path / "passwd")
        return "a.spec"
    if kind == "a link out of the folder":
        (folder / "a.spec").symlink_to(outside)
        return "a.spec"
    if kind == "a linked folder":
        (folder / "sub").symlink_to(tmp_path)
        return "sub/elsewhere.spec"
    if kind == "inside, but none":
        (folder / "a.spec").write_text(f"# users\n\n{SECRET}")
        return "a.spec"
    if kind == "above":
        return "../elsewhere.spec"
    return str(outside)


@pytest.mark.parametrize(
    "kind",
    [
        "a name of another kind",
        "a link to another kind",
        "a link out of the folder",
        "a linked folder",
        "inside, but none",
        "above",
        "absolute",
    ],
)
def test_no_text_of_what_is_no_specification_of_this_folder_is_shown(tmp_path, kind):
    (tmp_path / "spec").mkdir()
    root = tmp_path / "spec" / "root.spec"
    named = _secret_at(tmp_path, kind)
    root.write_text(f'include "{named}"\n')
    runs = (
        lambda: load(root),
        lambda: expand(parse(root.read_text()), root.parent),
        lambda: expand(spec(included(named)), root.parent),
        lambda: leaveout.verify(root),
        lambda: leaveout.verify(parse(root.read_text()), folder=root.parent),
        lambda: plan(root),
    )
    for run in runs:
        with pytest.raises(SpecError) as caught:
            run()
        message = str(caught.value)
        assert ":1:9: " in message
        assert "root:x" not in message
        assert "secret" not in message
    results = CliRunner().invoke(app, ["verify", str(root), "--dry-run"])
    assert "secret" not in results.output


@pytest.mark.parametrize("kind", ["above", "absolute", "a link out of the folder"])
def test_a_folder_that_is_allowed_is_included_from(tmp_path, kind, snapshot):
    (tmp_path / "spec").mkdir()
    root = tmp_path / "spec" / "root.spec"
    root.write_text(f'include "{_secret_at(tmp_path, kind)}"\nguarantee g: a < 2\n')
    (tmp_path / "elsewhere.spec").write_text("let a = 1")
    assert list(check(load(root, [tmp_path])).lets) == ["a"]
    with pytest.raises(SpecError) as told:
        load(root, [tmp_path / "spec"])
    assert str(told.value) == snapshot
    with pytest.raises(SpecError) as told:
        load(root, [tmp_path / "absent"])
    assert str(told.value) == snapshot
    assert leaveout.verify(root, allow_include=[tmp_path]).results[0].verdict == "proved"
    assert plan(root, allow_include=[str(tmp_path)]).statements[0].name == "g"
