"""Finding and reading the schema files."""

from pathlib import Path

import pytest

from shareproxy.protocol import schema_files
from shareproxy.protocol.errors import SchemaError
from shareproxy.protocol.schema_files import load_schema, schema_directory, schema_names


def test_every_file_is_read_and_named_after_its_message() -> None:
    """A file's name is its message's name."""
    names = schema_names()
    assert {"DescribeShareGroupOffsetsResponse", "MetadataResponse", "RequestHeader"} <= set(names)
    for name in names:
        assert load_schema(name).name == name


def test_requests_and_responses_come_in_pairs_with_equal_versions() -> None:
    """Both sides of an API have one key and one range of versions."""
    requests = [name for name in schema_names() if name.endswith("Request")]
    assert len(requests) == 29
    for name in requests:
        request, response = load_schema(name), load_schema(name.removesuffix("Request") + "Response")
        assert (request.api_key, request.valid_versions) == (response.api_key, response.valid_versions)
        assert request.flexible_versions == response.flexible_versions


def test_every_field_is_explained_in_a_sentence() -> None:
    """No `about` is missing, and none is used for two fields of one struct."""
    for name in schema_names():
        for _, fields in load_schema(name).structs():
            texts = [field.about for field in fields]
            assert all(len(text.split()) > 2 for text in texts), name
            assert len(set(texts)) == len(texts), name


def test_missing_file_is_named() -> None:
    """The error says which file cannot be read."""
    with pytest.raises(SchemaError, match=r"NoSuchRequest\.json: cannot be read"):
        load_schema("NoSuchRequest")


def test_files_inside_the_package_go_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed wheel carries its own copies."""
    (tmp_path / "schemas").mkdir()
    monkeypatch.setattr(schema_files, "_PACKAGE", tmp_path)
    assert schema_directory() == tmp_path / "schemas"
