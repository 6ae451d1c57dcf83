"""SVG as a part of a page: no style, no metadata, no name that another drawing has."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from leaveout.verifier.page.markup import Html, clean

__all__ = ["inlined"]

_NUMBERED = re.compile(r"(band|upper|clean|line|marks|label)-(\d+)")
_PLAIN = frozenset({"axis", "grid", "title"})
_ANCHOR = re.compile(r"text-anchor:\s*(\w+)")
_DROPPED = frozenset({"metadata", "style"})
_NEEDED = frozenset({"d", "x", "y", "points", "transform", "viewBox"})
_REFERRED = re.compile(r"#([\w-]+)")
_TURNED_BY_NOTHING = re.compile(r"rotate\(-?0(\.0*)? [^)]*\)")


def inlined(svg: bytes, name: str, said: str) -> Html:
    """Return what matplotlib drew as an element that the style sheet of the page colours.

    Groups named as in ``line-2`` become classes, ``line c2``; what stood in ``style`` is dropped.

    Parameters
    ----------
    svg : bytes
        A whole SVG file.
    name : str
        What the names of this drawing start with.
    said : str
        What it shows, for those who do not see it.
    """
    root = ElementTree.fromstring(svg)
    _walk(root, name)
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib.update(
        {
            "role": "img",
            "aria-label": clean(said),
            "class": "wide" if float(width) > 500 else "slim",
        }
    )
    root.attrib.update({"width": width, "height": height})
    return Html(ElementTree.tostring(root, encoding="unicode", short_empty_elements=True).strip())


def _walk(element: ElementTree.Element, name: str) -> None:
    element.tag = _local(element.tag)
    attributes = {_local(key): value for key, value in element.attrib.items()}
    kept = {key: value for key, value in attributes.items() if key in _NEEDED}
    if _TURNED_BY_NOTHING.fullmatch(kept.get("transform", "")):
        del kept["transform"]
    if "d" in kept:
        kept["d"] = " ".join(kept["d"].split())
    given = attributes.get("id", "")
    numbered = _NUMBERED.fullmatch(given)
    if numbered is not None:
        kept["class"] = f"{numbered[1]} c{numbered[2]}"
    elif given in _PLAIN:
        kept["class"] = given
    elif element.tag == "path" and given:
        kept["id"] = f"{name}-{given}"
    referred = _REFERRED.fullmatch(attributes.get("href", ""))
    if referred is not None:
        kept["href"] = f"#{name}-{referred[1]}"
    anchor = _ANCHOR.search(attributes.get("style", ""))
    if anchor is not None:
        kept["text-anchor"] = anchor[1]
    element.attrib.clear()
    element.attrib.update(kept)
    if element.tag != "text":
        element.text = None
    element.tail = None
    for child in list(element):
        if _local(child.tag) in _DROPPED:
            element.remove(child)
            continue
        _walk(child, name)
        if not len(child) and child.tag in {"defs", "g"}:
            element.remove(child)


def _local(name: str) -> str:
    return name.rpartition("}")[2]
