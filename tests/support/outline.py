"""The elements of a page as it is written, and a name that would be markup were it not escaped."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["EVIL", "Outline"]

EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\u202e\x00 漢 $x^2$ --></style>"
VOID = {"br", "col", "hr", "link", "meta"}


class Outline(HTMLParser):
    """The elements of a page; fails if one is not closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        assert len({key for key, _ in attributes}) == len(attributes)
        self.elements.append((name, dict(attributes), tuple(self.open)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes), tuple(self.open)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if not {"style", "title"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def named(self, *names):
        return [each for each in self.elements if each[0] in names]
