"""The table of values is made of the comments above them."""

from __future__ import annotations

from charts.values_table import readme, values

_TEXT = """\
# Whose it is.
owner:
  # A name,
  # in full.
  name: ""
  list: []
# A number | or none.
count: 1
"""


def test_every_key_has_its_path_default_and_comment():
    found = [(value.path, value.default, value.comment) for value in values(_TEXT)]
    assert found == [
        ("owner", None, "Whose it is."),
        ("owner.name", '""', "A name, in full."),
        ("owner.list", "[]", ""),
        ("count", "1", "A number | or none."),
    ]


def test_only_the_table_of_the_readme_is_written_anew():
    before = "Head\n<!-- values -->\nold\n<!-- end of values -->\nTail\n"
    after = readme(before, _TEXT)
    assert after.startswith("Head\n")
    assert after.endswith("\nTail\n")
    assert "old" not in after
    assert "A number \\| or none." in after
    assert readme(after, _TEXT) == after
