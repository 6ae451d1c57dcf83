"""``leaveout show``: what is in a file, and the picture of a network."""

from __future__ import annotations

from pathlib import Path

from leaveout.verifier.cli.output import write_out
from leaveout.verifier.cli.parameters import argument, option


def show(
    model: Path = argument(
        "A network (ONNX), trees (of XGBoost, LightGBM, CatBoost, EBM, ONNX or leaveout), a "
        "forest, a linear model, a family of members (NPZ) or ballots (NPZ or CSV).",
        metavar="MODEL",
    ),
    output: Path | None = option(
        "Draw the network: its operators from the top down, blue where they have weights, orange "
        "where they have kinks (which a search splits), dashed where a last operator is dropped.",
        "-o",
        "--output",
        metavar="FILE.svg",
    ),
) -> None:
    """Say what is in a model's file, and what it costs to verify.

    Of a network: its operators with their shapes, weights and what each is read as; constants that
    are computed when the file is read, residual blocks, notes; and the layers in which it is
    verified, with their neurons, the entries of their matrices and the memory these take. The more
    neurons can be on either side of zero, the longer a search. Of other files, some lines.

    For example: leaveout show net.onnx -o net.svg

    Exit status: 0, or 2 if the file cannot be read.
    """
    from leaveout.errors import ModelError
    from leaveout.files import refuse_unwritten, write_whole
    from leaveout.models.onnx.file import Network
    from leaveout.verifier.model_facts import facts, network_facts, read_any

    if output is not None and output.suffix.lower() != ".svg":
        named = output.with_suffix(".svg").name
        raise ModelError(f"{output}: a picture is an SVG; name it {named}")
    found = read_any(model)
    if isinstance(found, Network):
        graph = found.nx_graph()
        lines = network_facts(found, graph)
        if output is not None:
            from leaveout.models.onnx.network_graph import data_graph
            from leaveout.verifier.page.network_picture import draw_network

            drawn = draw_network(data_graph(graph), lines[0])
            with refuse_unwritten(ModelError, output):
                write_whole(output, f"{drawn}\n".encode())
            lines.append(f"drawn in {output}")
    elif output is not None:
        raise ModelError(f"{model}: only networks are drawn; drop -o")
    else:
        lines = facts(found, model.name)
    write_out("".join(f"{line}\n" for line in lines))
