"""The slow back end: what the bytes mean, and what is wrong with damaged ones."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.interpreter import decode, encode
from shareproxy.protocol.message import Message, ProtocolStruct
from shareproxy.protocol.messages import (
    ApiVersionsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    FindCoordinatorRequest,
    ListGroupsRequest,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeResponse,
)
from shareproxy.protocol.plan import plan_for
from tests.protocol import synthetic
from tests.protocol.synthetic import CLASSES, everything

EPOCH = "0000 01 00000000 01 01 "  # an ApiVersions answer up to the size of tag 1, the epoch of the features


def read(message: type[Message], version: int, text: str) -> Any:
    """Decode hex that may have blanks, up to its last byte."""
    data = bytes.fromhex(text)
    value, position = decode(plan_for(message, version), data)
    assert position == len(data)
    return value


def write(message: Message, version: int) -> str:
    """Encode to hex."""
    return encode(plan_for(type(message), version), message).hex()


def refusal(message: type[Message], version: int, text: str) -> str:
    """Decode hex that is wrong; returns the error's text."""
    with pytest.raises(DecodeError) as caught:
        decode(plan_for(message, version), bytes.fromhex(text))
    return str(caught.value)


def write_refusal(message: Message, version: int) -> str:
    """Encode a message that is wrong; returns the error's text."""
    with pytest.raises(EncodeError) as caught:
        encode(plan_for(type(message), version), message)
    return str(caught.value)


def share_offsets(**row: Any) -> DescribeShareGroupOffsetsResponse:
    """Return an answer with one row."""
    rows = [DescribeShareGroupOffsetsResponsePartition(**row)]
    topics = [DescribeShareGroupOffsetsResponseTopic("t", bytes(range(1, 17)), rows)]
    return DescribeShareGroupOffsetsResponse(groups=[DescribeShareGroupOffsetsResponseGroup("g1", topics)])


# -- what the bytes mean ---------------------------------------------------------------------------------------


def test_strings_before_and_in_flexible_versions() -> None:
    """A length of two bytes, and a varint that is one more."""
    assert write(FindCoordinatorRequest(key="größe", key_type=1), 1) == "0007" + "größe".encode().hex() + "01"
    assert write(FindCoordinatorRequest(key="größe", key_type=1), 3) == "08" + "größe".encode().hex() + "01" + "00"


def test_null_and_empty_arrays_differ() -> None:
    """Null asks for all topics, empty for none; in each of the two forms."""
    for version, null, empty in ((1, "ffffffff", "00000000"), (9, "00", "01")):
        rest = {1: "", 9: "01000000"}[version]
        assert read(MetadataRequest, version, null + rest).topics is None
        assert read(MetadataRequest, version, empty + rest).topics == []
        assert write(MetadataRequest(topics=None, allow_auto_topic_creation=True), version) == null + rest


def test_length_of_two_varint_bytes() -> None:
    """From 127 bytes on the length takes two bytes."""
    raw = SaslAuthenticateRequest(auth_bytes=bytes(200))
    assert write(raw, 2) == "c901" + "00" * 200 + "00"
    assert read(SaslAuthenticateRequest, 2, "c901" + "00" * 200 + "00") == raw


def test_varints_may_be_longer_than_necessary() -> None:
    """Brokers take `81 00` for 1."""
    assert read(SaslAuthenticateRequest, 2, "8100 00") == SaslAuthenticateRequest(auth_bytes=b"")


def test_any_byte_but_zero_is_true() -> None:
    """Java reads booleans so."""
    assert read(FindCoordinatorRequest, 1, "0000 01").key_type == 1
    assert read(MetadataRequest, 4, "ffffffff 07").allow_auto_topic_creation is True


def test_lag_is_absent_in_version_0() -> None:
    """It reads as −1, and a lag that is there is dropped when writing."""
    row = "00000000 0000000000000002 00000005 0000 00 00"
    whole = "00000000 02 03 6731 02 02 74 0102030405060708090a0b0c0d0e0f10 02" + row + "00 0000 00 00 00"
    found = read(DescribeShareGroupOffsetsResponse, 0, whole)
    assert found == share_offsets(start_offset=2, leader_epoch=5)
    assert found.groups[0].topics[0].partitions[0].lag == -1
    assert write(share_offsets(start_offset=2, leader_epoch=5, lag=7), 0) == whole.replace(" ", "")


def test_lag_takes_eight_bytes_in_version_1() -> None:
    """Version 1 differs from version 0 by the lag alone."""
    answer = share_offsets(lag=7)
    assert len(write(answer, 1)) - len(write(answer, 0)) == 16
    assert "0000000000000007" in write(answer, 1)


def test_defined_tagged_fields_are_written_if_not_default() -> None:
    """In the order of their tags."""
    answer = ApiVersionsResponse(finalized_features_epoch=5, zk_migration_ready=True)
    assert write(answer, 3) == "0000 01 00000000 02 01 08 0000000000000005 03 01 01".replace(" ", "")
    assert write(ApiVersionsResponse(), 3) == "0000 01 00000000 00".replace(" ", "")


def test_unknown_tagged_fields_are_kept_in_order() -> None:
    """Tags 1 and 3 are defined, 2 is too; 7 and 9 are not."""
    data = "0000 01 00000000 03 01 08 0000000000000005 07 02 abcd 09 00"
    found = read(ApiVersionsResponse, 3, data)
    assert found.unknown_tags == ((7, b"\xab\xcd"), (9, b""))
    assert write(found, 3) == data.replace(" ", "")


def test_tags_are_written_in_ascending_order() -> None:
    """Whatever the order in which they were read."""
    found = read(ApiVersionsResponse, 3, "0000 01 00000000 02 09 00 01 08 0000000000000005")
    assert write(found, 3) == "0000 01 00000000 02 01 08 0000000000000005 09 00".replace(" ", "")


def test_nullable_struct_in_place() -> None:
    """A byte says whether it is there; any that is not negative means yes."""
    plan = synthetic.plan(1)
    place = CLASSES["Place"](row=1, column=2)
    data = encode(plan, everything(perhaps=place, batch=b""))
    at = data.index(bytes.fromhex("01 0001 00000002"))
    for marker in (b"\x00", b"\x05"):
        assert decode(plan, data[:at] + marker + data[at + 1 :])[0].perhaps == place  # type: ignore[attr-defined]
    assert decode(plan, encode(plan, everything(batch=b"")))[0].perhaps is None  # type: ignore[attr-defined]


def test_nullable_struct_as_tagged_field() -> None:
    """There a varint says so: 0 or 1."""
    plan = synthetic.plan(2)
    assert encode(plan, everything(fifth=None)).endswith(bytes.fromhex("01 04 01 00"))
    assert encode(plan, everything(fifth=CLASSES["Place"](row=3))).endswith(
        bytes.fromhex("01 04 08 01 0003 00000010 00")
    )


@pytest.mark.parametrize("version", synthetic.VERSIONS)
def test_every_feature_survives_a_round_trip(version: int) -> None:
    """Extreme numbers, both nulls and all kinds of arrays."""
    plan, place = synthetic.plan(version), CLASSES["Place"]
    shard = CLASSES["Shard"](key=-1, open=True, note="n", replicas=[2**63 - 1, -(2**63)], score=float("-inf"))
    message = everything(
        flag=False, tiny=-128, port=65535, wide=0, ratio=-0.0, plain=None, label="l" * 200, raw=b"\0" * 300,
        blob=b"", batch=b"batch", where=place(row=65535), numbers=[-(2**15), 2**15 - 1], floats=[5e-324],
        switches=[True, False], ids=[bytes(range(16))], words=["", "größe"], blobs=[b"", b"x"], places=None,
        shards=[shard] * 3,
    )  # fmt: skip
    data = encode(plan, message)
    assert decode(plan, data) == (message, len(data))


def test_decoding_starts_at_an_offset() -> None:
    """What stands before is not looked at."""
    plan = plan_for(SaslHandshakeResponse, 0)
    data = b"header" + encode(plan, SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert decode(plan, data + b"more", 6) == (SaslHandshakeResponse(mechanisms=["PLAIN"]), len(data))


# -- what is wrong with the bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "version", "text", "error"),
    [
        (SaslHandshakeResponse, 0, "00", "ErrorCode: needs 2 bytes, 1 are left"),
        (SaslHandshakeResponse, 0, "0000 ffffffff", "Mechanisms: is null, which this version does not allow"),
        (SaslHandshakeResponse, 0, "0000 00000001 ffff", "Mechanisms.[0]: is null, which this version does not allow"),
        (SaslHandshakeResponse, 0, "0000 00000002 0001 41 0005 41", "Mechanisms.[1]: needs 5 bytes, 1 are left"),
        (SaslHandshakeResponse, 0, "0000 00000001 0002 c328", "Mechanisms.[0]: not UTF-8 at byte 0 of the string"),
        (SaslHandshakeResponse, 0, "0000 7fffffff 0001 41", "Mechanisms: 2147483647 elements cannot be in 3 bytes"),
        (FindCoordinatorRequest, 3, "ff", "Key: needs 1 bytes, 0 are left"),
        (FindCoordinatorRequest, 3, "ffffffff1f", "Key: unsigned varint is over 32 bits"),
        (FindCoordinatorRequest, 3, "8080808080 00", "Key: unsigned varint is longer than 5 bytes"),
        (FindCoordinatorRequest, 3, "00 00 00", "Key: is null"),
        (FindCoordinatorRequest, 3, "818002" + "61" * 32768 + "00", "string of 32768 bytes is over the limit of 32767"),
        (SaslAuthenticateRequest, 2, "ffffffff0f", "AuthBytes: needs 4294967294 bytes, 0 are left"),
        (MetadataRequest, 9, "ffffffff0f 00", "Topics: 4294967294 elements cannot be in 1 bytes"),
        (MetadataRequest, 9, "00 01 00 00 05 00", "5 tagged fields cannot be in 1 bytes"),
        (MetadataRequest, 9, "00 01 00 00 01 07 05 ab", "tag 7 claims 5 bytes, 1 are left"),
        (MetadataRequest, 9, "00 01 00 00 02 07 00 07 00", "tag 7 stands twice"),
        (ApiVersionsResponse, 3, EPOCH + "09 000000000000000500", "FinalizedFeaturesEpoch: 1 bytes too many"),
        (ApiVersionsResponse, 3, EPOCH + "07 00000000000005", "FinalizedFeaturesEpoch: needs 8 bytes, 7 are left"),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_path(message: type[Message], version: int, text: str, error: str) -> None:
    """The error leads to the field."""
    assert error in refusal(message, version, text)


def test_more_than_a_million_elements_are_refused() -> None:
    """Kafka's own limit, even if the bytes are there."""
    data = struct.pack(">hi", 0, 1_000_001) + bytes(2 * 1_000_001)
    assert "1000001 elements cannot be" in refusal(SaslHandshakeResponse, 0, data.hex())


def test_more_than_ten_thousand_tags_are_refused() -> None:
    """Kafka's own limit, even if the bytes are there."""
    assert "10001 tagged fields cannot be" in refusal(SaslAuthenticateRequest, 2, "01" + "914e" + "00" * 30_000)


def test_tag_of_another_version_is_refused() -> None:
    """Tag 1 of the synthetic message starts at version 3."""
    plan = synthetic.plan(2)
    data = encode(plan, everything())
    with pytest.raises(DecodeError, match="tag 1 does not exist in this version"):
        decode(plan, data[:-1] + bytes.fromhex("01 01 00"))


def test_marker_of_a_tagged_struct_is_zero_or_one() -> None:
    """Anything else is damage."""
    plan = synthetic.plan(2)
    with pytest.raises(DecodeError, match="Fifth: marker 2"):
        decode(plan, encode(plan, everything())[:-1] + bytes.fromhex("01 04 01 02"))


# -- what is wrong with the message ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "version", "error"),
    [
        (FindCoordinatorRequest(key="k", key_type=128), 3, "KeyType: 128 does not fit int8"),
        (FindCoordinatorRequest(key="k", key_type="x"), 3, "KeyType: 'x' does not fit int8"),  # type: ignore[arg-type]
        (FindCoordinatorRequest(key=None), 3, "Key: is null, which this version does not allow"),  # type: ignore[arg-type]
        (FindCoordinatorRequest(key=b"k"), 3, "Key: expected a string, found bytes"),  # type: ignore[arg-type]
        (FindCoordinatorRequest(key="\ud800"), 3, "Key: the string holds half a surrogate pair"),
        (FindCoordinatorRequest(key="x" * 32_768), 3, "Key: string of 32768 bytes is over the limit of 32767"),
        (FindCoordinatorRequest(key_type=2), 0, "KeyType: has a value that this version cannot carry"),
        (SaslAuthenticateRequest(auth_bytes="x"), 2, "AuthBytes: expected bytes, found str"),  # type: ignore[arg-type]
        (SaslHandshakeResponse(mechanisms=None), 0, "Mechanisms: is null"),  # type: ignore[arg-type]
        (SaslHandshakeResponse(mechanisms="PLAIN"), 0, "Mechanisms: expected a list, found str"),  # type: ignore[arg-type]
        (SaslHandshakeResponse(mechanisms=["A", None]), 0, "Mechanisms.[1]: is null"),  # type: ignore[list-item]
        (SaslHandshakeResponse(mechanisms=[""] * 1_000_001), 0, "1000001 elements are over the limit"),
        (MetadataResponse(topics=[None]), 9, "Topics.[0]: expected MetadataResponseTopic, found NoneType"),  # type: ignore[list-item]
        (ListGroupsRequest(unknown_tags=((0, b""),)), 0, "unknown_tags: this version cannot carry tagged fields"),
        (ApiVersionsResponse(unknown_tags=((2, b""),)), 3, "unknown_tags: tag 2 is a defined one"),
        (ApiVersionsResponse(unknown_tags=((8, b""), (8, b""))), 3, "tag 8 is a defined one, or stands twice"),
        (ApiVersionsResponse(unknown_tags=((2**32, b""),)), 3, "is not a tag and its bytes"),
        (ApiVersionsResponse(unknown_tags=((8, "x"),)), 3, "is not a tag and its bytes"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_wrong_values_are_named_with_their_path(message: Message, version: int, error: str) -> None:
    """The error leads to the field."""
    assert error in write_refusal(message, version)


@pytest.mark.parametrize("topic_id", [bytes(15), bytes(17), None, "x" * 16])
def test_uuid_has_sixteen_bytes(topic_id: Any) -> None:
    """Shorter ones are not padded, longer ones not cut."""
    answer = share_offsets()
    answer.groups[0].topics[0].topic_id = topic_id
    assert write_refusal(answer, 1).startswith("Groups.[0].Topics.[0].TopicId: ")


def test_topics_can_be_null_where_the_schema_says_so() -> None:
    """Null means every topic of the group."""
    group = DescribeShareGroupOffsetsRequestGroup("g1", None)
    assert write(DescribeShareGroupOffsetsRequest(groups=[group]), 1) == "0203673100" + "0000"
    topic = DescribeShareGroupOffsetsRequestTopic("t", None)  # type: ignore[arg-type]
    group = DescribeShareGroupOffsetsRequestGroup("g1", [topic])
    assert "Partitions: is null" in write_refusal(DescribeShareGroupOffsetsRequest(groups=[group]), 1)


def test_defaults_of_fields_that_a_version_lacks_are_dropped() -> None:
    """Whatever their kind; any other value is an error unless the field is ignorable."""
    for name, value in (("gone", 8), ("come", 0), ("second", [1])):
        version = 2 if name != "second" else 1
        plan = synthetic.plan(version)
        encode(plan, everything())
        with pytest.raises(EncodeError, match="has a value that this version cannot carry"):
            encode(plan, everything(**{name: value}))
    encode(synthetic.plan(0), everything(id=bytes(range(16)), first="ignorable too"))


def test_struct_of_a_wrong_class_is_refused() -> None:
    """If it lacks the fields; one that has them will do."""
    wrong: ProtocolStruct = DescribeShareGroupOffsetsRequest()
    with pytest.raises(EncodeError, match="expected EverythingResponse, found DescribeShareGroupOffsetsRequest"):
        encode(synthetic.plan(5), wrong)
