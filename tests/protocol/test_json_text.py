"""JSON with comments, as schema files are written."""

import pytest

from shareproxy.protocol.json_text import JsonTextError, parse_json_with_comments


@pytest.mark.parametrize(
    "text",
    [
        '// a title\n{"a": 1}',
        '{"a": 1} // behind the value',
        '{"a": /* inside */ 1}',
        '/* over\nlines */ {"a"\n: 1 /**/ }',
    ],
)
def test_comments_are_skipped(text: str) -> None:
    """Both kinds of comments may stand wherever a blank may."""
    assert parse_json_with_comments(text) == {"a": 1}


def test_comment_signs_inside_strings_stay() -> None:
    """A string is taken as it is, with escaped quotes too."""
    assert parse_json_with_comments(r'["http://x", "/* no */", "\"// \\"]') == ["http://x", "/* no */", '"// \\']


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,}', "line 1, column"),
        ('{"a": 1} {"b": 2}', "Extra data"),
        ('{\n// one\n"name", "Lag"\n}', "line 3, column 7"),
        ("", "line 1"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ("/* open", "line 1"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_json_is_refused(text: str, place: str) -> None:
    """The error says where; comments do not shift the line."""
    with pytest.raises(JsonTextError, match=place):
        parse_json_with_comments(text)
