"""Errors of the protocol layer."""

import pickle

import pytest

from shareproxy.protocol.errors import DecodeError, EncodeError, ErrorCode, SchemaError, error_name, inside


def test_codec_error_names_the_path() -> None:
    """Each level that an error passes puts its name in front."""
    with pytest.raises(DecodeError) as caught, inside("Topics"), inside("[3]"), inside("Name"):
        raise DecodeError("is null")
    assert str(caught.value) == "Topics.[3].Name: is null"
    assert caught.value.path == ("Topics", "[3]", "Name")


def test_codec_error_without_path_is_the_problem_alone() -> None:
    """Nothing is put in front of an error about the whole."""
    assert str(EncodeError("too long")) == "too long"


def test_other_errors_pass_untouched() -> None:
    """Only codec errors carry a path."""
    with pytest.raises(KeyError) as caught, inside("Name"):
        raise KeyError("x")
    assert caught.value.args == ("x",)


def test_codec_error_can_be_pickled() -> None:
    """An error survives the way to another process with its problem."""
    assert pickle.loads(pickle.dumps(DecodeError("bad"))).problem == "bad"


def test_schema_error_names_file_field_and_attribute() -> None:
    """What is known about the place stands before the problem."""
    assert str(SchemaError("A.json", "Topics.Name", "type", "is odd")) == (
        "A.json, field Topics.Name, attribute 'type': is odd"
    )
    assert str(SchemaError("A.json", "", "", "is empty")) == "A.json: is empty"


def test_error_codes_have_kafkas_names() -> None:
    """A code that is not listed is shown by its number."""
    assert error_name(ErrorCode.GROUP_AUTHORIZATION_FAILED) == "GROUP_AUTHORIZATION_FAILED"
    assert error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert error_name(31999) == "ERROR_31999"
