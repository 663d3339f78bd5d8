"""The login line of Java clients."""

from __future__ import annotations

import pytest

from shareproxy.cluster.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="u" password="p"', {"username": "u", "password": "p"}),
        ("username='u' password=p", {"username": "u", "password": "p"}),
        (r'username="a\"b\\c" password="x;y=z"', {"username": 'a"b\\c', "password": "x;y=z"}),
        (r"username='it\'s' password='\n'", {"username": "it's", "password": "\n"}),
        ('\n  username = "u"\n  password = "" ', {"username": "u", "password": ""}),
        ("", {}),
    ],
)
def test_options_are_read_with_their_quotes(options: str, expected: dict[str, str]) -> None:
    """Double, single, none, and escapes within."""
    login = parse_jaas(f"{PLAIN} required {options};")

    assert login.module == "PlainLoginModule"
    assert login.options == expected


def test_the_first_login_counts() -> None:
    """As in Kafka, which refuses a second one; a client needs one only."""
    assert parse_jaas("a.B REQUIRED x=1; c.D required y=2;").options == {"x": "1"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "begins with a module"),
        (f'{PLAIN} username="u";', "the word required"),
        (f'{PLAIN} required username="u"', "semicolon"),
        (f'{PLAIN} required username="u;', "quotation mark"),
        (f"{PLAIN} required username;", "option username"),
        (f"{PLAIN} required username=;", "option username"),
        (f"{PLAIN} required = x;", "NAME="),
        (f"{PLAIN} required secret secret2;", "option secret"),
    ],
)
def test_a_broken_line_says_what_is_missing(text: str, problem: str) -> None:
    """And shows how a good one looks."""
    with pytest.raises(ValueError, match=problem):
        parse_jaas(text)
