"""Addresses: one parser, and messages that say how to write them."""

from __future__ import annotations

import re

import pytest

from shareproxy.cluster.addresses import Address, parse_address, parse_addresses, parse_own_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:9092", [Address("h", 9092)]),
        (" a:1 , b:2 ", [Address("a", 1), Address("b", 2)]),
        ("[::1]:9092", [Address("::1", 9092)]),
        ("[fe80::1%eth0]:1", [Address("fe80::1%eth0", 1)]),
        ("a:1,a:1", [Address("a", 1)]),
        ("a:1,", [Address("a", 1)]),
        ("127.0.0.1:0", [Address("127.0.0.1", 0)]),
        ("a:65535", [Address("a", 65535)]),
    ],
)
def test_addresses_are_read(text: str, expected: list[Address]) -> None:
    """Hosts, ports and brackets are taken apart, blanks and repetitions dropped."""
    assert parse_addresses(text) == tuple(expected)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "HOST:PORT"),
        (" ", "HOST:PORT"),
        (",", "no address|empty"),
        ("host", "host:9092"),
        ("host:", "host:9092"),
        (":9092", "no usable host"),
        ("::1:9092", r"\[::1\]:9092"),
        ("::1:37092", r"\[::1\]:37092$"),
        ("::1", r"\[::1\]:9092$"),
        ("2001:db8::5", r"\[2001:db8::5\]:9092|\[2001:db8::\]:5"),
        ("fe80::1%eth0:19092", r"\[fe80::1%eth0\]:19092$"),
        ("a:b:1", r"\[::1\]:9092$"),
        ("[::1]", r"\[::1\]:9092"),
        ("[::1", "IPv6"),
        ("[host]:1", "IPv6"),
        ("[::1]9092", "IPv6"),
        ("h:x", "not a number"),
        ("h:65536", "0 to 65535"),
        ("h:-1", "not a number"),
        ("h:９", "not a number"),
        ("h:" + "9" * 5_000, r"^.{,250}is not a number from 0 to 65535$"),
        ("kafka://h:1", "URL"),
        ("a b:1", "no usable host"),
    ],
)
def test_a_wrong_address_says_how_to_write_it(text: str, advice: str) -> None:
    """Each mistake has its own advice."""
    with pytest.raises(ValueError, match=advice):
        parse_addresses(text)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("nowhere", "'nowhere' is not HOST:PORT; write for instance 127.0.0.1:9465"),
        ("8080", "'8080' is not HOST:PORT; write for instance 127.0.0.1:8080"),
        ("99999", "'99999' is not HOST:PORT; write for instance 127.0.0.1:9465"),
        ("a:1,b:2", "one HOST:PORT is wanted, not 2"),
    ],
)
def test_a_wrong_address_of_our_own_names_the_port_that_fits(text: str, advice: str) -> None:
    """Brokers' usual port is not that of what listens here."""
    with pytest.raises(ValueError, match=f"^{re.escape(advice)}$"):
        parse_own_address(text, 9465)


@pytest.mark.parametrize("text", ["h:1", "127.0.0.1:9092", "[::1]:9092"])
def test_text_and_address_are_inverse(text: str) -> None:
    """An IPv6 host is written in brackets again."""
    assert str(parse_address(text)) == text
