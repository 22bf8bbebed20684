"""A recipe whose report is read, and a reader of pages."""

from __future__ import annotations

from html.parser import HTMLParser

COLUMNS = {
    "age": {"role": "quasi"},
    "sex": {"role": "quasi"},
    "income": {"role": "quasi", "transform": "log1p"},
    "admission": {"role": "quasi"},
    "cost": {"role": "sensitive"},
}
RECIPE = {
    "others": "drop",
    "columns": COLUMNS,
    "mask": [{"method": "microaggregation", "k": 6, "columns": ["age", "income", "admission", "sex"]}],
    "limits": {"information_loss": 90.0},
}


class Page(HTMLParser):
    """Tags, texts and addresses of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.identifiers, self.words, self.addresses = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attributes = dict(attrs)
        self.identifiers += [attributes["id"]] if "id" in attributes else []
        self.addresses += [attributes[name] for name in ("href", "src", "xlink:href") if name in attributes]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())
