"""``forest.json``: how table columns became the features of the forest beside it."""

from __future__ import annotations

from leaveout.errors import ForestError
from leaveout.models.train.columns import Subject, TableColumns

FORESTS = Subject("forest", "T", "forest", ForestError)
FOREST, COLUMNS, SPEC = FORESTS.model, FORESTS.columns, FORESTS.spec
ForestColumns = TableColumns
load_columns = FORESTS.load_columns
