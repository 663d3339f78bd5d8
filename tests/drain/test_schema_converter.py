"""Converters that ask a schema registry; Confluent's own serialisers write what is read."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import certifi
import msgspec
import pytest
from confluent_kafka.schema_registry import (
    AsyncSchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AsyncAvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from shareproxy.drain.converters import converter
from shareproxy.drain.deferred import NotYet
from shareproxy.drain.deserializers import CannotDeserialize, RecordAtFault
from shareproxy.drain.errors import DrainError
from shareproxy.drain.schema_converter import SchemaConverter
from shareproxy.drain.schema_registry import registry
from tests.support.schema_registry import JSON, RegistryService

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"]},
    ],
}
CAS = Path(certifi.where()).read_bytes()
VALUE = {"id": 7, "price": Decimal("1.50"), "note": None}


@pytest.fixture
async def service() -> AsyncIterator[RegistryService]:
    """A registry."""
    async with RegistryService() as service:
        yield service


@pytest.fixture
async def avro(service: RegistryService) -> AsyncIterator[SchemaConverter]:
    """A converter of values that asks it."""
    made = SchemaConverter("AVRO", {"schema.registry.url": service.url})
    await made.start()
    yield made
    await made.close()


async def read(made: SchemaConverter, data: bytes, headers: Any = (), *, key: bool = False) -> Any:
    """Read, and wait for the schema as a source does."""
    async with asyncio.timeout(20):
        while True:
            try:
                return made.read(data, headers, key=key)
            except NotYet:
                await made.wait(5.0)


def framed(number: int, data: bytes) -> bytes:
    """Return bytes in the wire format."""
    return struct.pack(">bI", 0, number) + data


async def test_what_a_serializer_writes_is_read(service: RegistryService, avro: SchemaConverter) -> None:
    """The schema is asked for once."""
    async with AsyncSchemaRegistryClient({"url": service.url}) as client:
        serializer = await AsyncAvroSerializer(client, json.dumps(ORDER))
        data = await serializer(VALUE, SerializationContext("orders", MessageField.VALUE))
    assert data is not None

    assert await read(avro, data) == VALUE
    assert avro.read(data, (), key=False) == VALUE

    assert service.requests.count("/schemas/ids/1") == 1


@pytest.mark.parametrize("field", [MessageField.KEY, MessageField.VALUE])
async def test_the_schema_may_be_named_in_a_header(
    service: RegistryService, avro: SchemaConverter, field: MessageField
) -> None:
    """By its GUID, as newer clients write it; nothing stands in front of the data then."""
    headers: list[Any] = []
    async with AsyncSchemaRegistryClient({"url": service.url}) as client:
        serializer = await AsyncAvroSerializer(
            client, '"long"', conf={"schema.id.serializer": header_schema_id_serializer}
        )
        data = await serializer(5, SerializationContext("orders", field, headers))
    assert data == b"\x0a"

    assert await read(avro, data, headers, key=field == MessageField.KEY) == 5

    with pytest.raises(RecordAtFault, match="has no header"):
        avro.read(data, headers, key=field != MessageField.KEY)


async def test_a_header_may_hold_a_number(service: RegistryService, avro: SchemaConverter) -> None:
    """And goes before what the data begins with."""
    number = service.register('"long"')

    assert await read(avro, b"\x00", [("__value_schema_id", framed(number, b""))]) == 0


async def test_references_are_read_too(service: RegistryService, avro: SchemaConverter) -> None:
    """Also those of those; one that comes twice is asked for once."""
    service.register({"type": "enum", "name": "Unit", "symbols": ["KG", "M"]}, subject="unit")
    service.register(
        {"type": "record", "name": "Size", "fields": [{"name": "unit", "type": "Unit"}]},
        subject="size",
        references=(("Unit", "unit"),),
    )
    number = service.register(
        {"type": "record", "name": "Box", "fields": [{"name": "s", "type": "Size"}, {"name": "u", "type": "Unit"}]},
        references=(("Size", "size"), ("Unit", "unit")),
    )

    assert await read(avro, framed(number, b"\x02\x00")) == {"s": {"unit": "M"}, "u": "KG"}

    assert service.requests.count("/subjects/unit/versions/1") == 1


async def test_json_is_read_where_the_registry_says_so(service: RegistryService) -> None:
    """A schema of another type is not taken for it."""
    made = SchemaConverter("JSON", {"schema.registry.url": service.url})
    await made.start()
    number, other = service.register({"type": "object"}, JSON), service.register('"long"')

    assert await read(made, framed(number, b'{"a": 1}')) == {"a": 1}
    with pytest.raises(RecordAtFault, match="schema 2 is of type AVRO, not JSON"):
        await read(made, framed(other, b"1"))
    with pytest.raises(CannotDeserialize, match="is not JSON"):
        made.read(framed(number, b"{"), (), key=False)
    await made.close()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"\x00\x00\x00\x01", b"\x01" + bytes(16), b'\x02\x00\x00\x00\x01"'], ids=repr
)
async def test_other_bytes_are_the_fault_of_the_record(avro: SchemaConverter, data: bytes) -> None:
    """The sentence asks whether they come from a registry at all, and does not repeat them."""
    with pytest.raises(RecordAtFault, match="does not begin with 0 and a schema id of four bytes"):
        avro.read(data, (), key=False)


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x01more", b"\x07" * 17])
async def test_a_header_that_is_none_is_the_fault_of_the_record(avro: SchemaConverter, value: bytes | None) -> None:
    """The data is not looked at then."""
    with pytest.raises(RecordAtFault, match="header __value_schema_id is no schema id"):
        avro.read(framed(1, b""), [("__value_schema_id", value)], key=False)


async def test_an_unknown_id_is_the_fault_of_the_record(service: RegistryService, avro: SchemaConverter) -> None:
    """It is not asked for again at once."""
    for _ in range(2):
        with pytest.raises(RecordAtFault, match="schema 99, or one that it refers to, is not in the schema registry"):
            await read(avro, framed(99, b""))
    with pytest.raises(RecordAtFault, match=r"schema 0{8}-0000-.* is not in the schema registry"):
        await read(avro, b"", [("__value_schema_id", b"\x01" + bytes(16))])

    assert service.requests.count("/schemas/ids/99") == 1
    assert avro.trouble is None


async def test_an_unknown_id_is_asked_for_again_later(service: RegistryService, avro: SchemaConverter) -> None:
    """One registry of several may be behind."""
    with pytest.raises(RecordAtFault):
        await read(avro, framed(1, b"\x02"))
    service.register('"long"')
    found = registry(avro._settings)._found
    found[1] = msgspec.structs.replace(found[1], until=0.0)

    assert await read(avro, framed(1, b"\x02")) == 1


@pytest.mark.parametrize("schema", ['"nothing"', "{", '{"type": "record", "name": "R", "fields": [{}]}'])
async def test_a_schema_that_cannot_be_used_is_told(
    service: RegistryService, avro: SchemaConverter, schema: str
) -> None:
    """It is the record's fault, as no other reader could read it."""
    number = service.register(schema)

    with pytest.raises(RecordAtFault, match="a schema cannot be used: "):
        await read(avro, framed(number, b""))


async def test_schemas_that_refer_to_too_many_are_given_up(
    service: RegistryService, avro: SchemaConverter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit against a circle, or a mistake."""
    monkeypatch.setattr("shareproxy.drain.schema_registry.MOST_REFERENCES", 1)
    for name in ("A", "B"):
        service.register({"type": "fixed", "name": name, "size": 1}, subject=name)
    number = service.register('"long"', references=(("A", "A"), ("B", "B")))

    with pytest.raises(RecordAtFault, match="refers to more than 1 others"):
        await read(avro, framed(number, b""))


async def test_data_that_does_not_fit_is_the_fault_of_the_record(
    service: RegistryService, avro: SchemaConverter
) -> None:
    """The sentence does not repeat the data."""
    number = service.register(ORDER)

    with pytest.raises(RecordAtFault, match=f"it does not fit schema {number}: ") as raised:
        await read(avro, framed(number, b"secret"))
    assert "secret" not in str(raised.value)


async def test_a_registry_that_is_away_is_nobodys_fault(service: RegistryService, avro: SchemaConverter) -> None:
    """The record waits, and is read when the registry is back."""
    number, port = service.register('"long"'), service.port
    await service.stop()

    async with asyncio.timeout(10):
        while avro.trouble is None:
            with pytest.raises(NotYet):
                avro.read(framed(number, b"\x02"), (), key=False)
            await avro.wait(0.05)
    assert f"schema registry {service.url} cannot be reached: " in avro.trouble
    await service.start(port)

    assert await read(avro, framed(number, b"\x02")) == 1
    assert avro.trouble is None


async def test_a_registry_in_trouble_is_not_asked_for_every_record(
    service: RegistryService, avro: SchemaConverter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor for other schemas, before its time has come."""
    monkeypatch.setattr("shareproxy.drain.schema_registry.FIRST_WAIT_SECONDS", 30.0)
    monkeypatch.setattr("shareproxy.drain.schema_registry.MOST_AT_A_TIME", 1)
    service.fault = (503, "no")
    asked = len(service.requests)

    for number in range(1, 9):
        with pytest.raises(NotYet):
            avro.read(framed(number, b""), (), key=False)
    while avro.trouble is None:
        await avro.wait(5.0)
    with pytest.raises(NotYet):
        avro.read(framed(99, b""), (), key=False)
    await avro.wait(0.01)

    assert len(service.requests) - asked <= 4


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (401, '{"error_code": 40101, "message": "Unauthorized"}', "refuses the login; set basic.auth.user.info"),
        (403, '{"error_code": 40301, "message": "Denied"}', "does not let this user read schemas"),
        (404, '{"error_code": 404, "message": "HTTP 404 Not Found"}', "does not know the path"),
        (404, "<html>", "does not know the path"),
        (500, '{"error_code": 50001, "message": "Error in the backend"}', "status 500: Error in the backend"),
        (200, "<html>", "does not answer as one"),
    ],
)
async def test_each_trouble_has_its_sentence(
    service: RegistryService, avro: SchemaConverter, status: int, text: str, said: str
) -> None:
    """None of them is the fault of a record."""
    service.fault = (status, text)

    with pytest.raises(NotYet):
        avro.read(framed(1, b""), (), key=False)
    while avro.trouble is None:
        await avro.wait(5.0)

    assert said in avro.trouble
    assert avro.trouble.startswith(f"schema registry {service.url} ")


async def test_a_registry_that_says_nothing_is_given_up(service: RegistryService) -> None:
    """After the time of the settings; the loop is free meanwhile, and closing does not wait for it."""
    made = SchemaConverter("AVRO", {"schema.registry.url": service.url, "schema.registry.request.timeout.ms": 100})
    await made.start()
    service.silent = True
    with pytest.raises(NotYet):
        made.read(framed(1, b""), (), key=False)
    while made.trouble is None:
        await made.wait(5.0)
    assert made.trouble.endswith("does not answer within 0.1 s")
    await made.close()

    slow = SchemaConverter("AVRO", {"schema.registry.url": f"{service.url}/"})
    service.silent = False
    await slow.start()
    service.silent = True
    with pytest.raises(NotYet):
        slow.read(framed(1, b""), (), key=False)
    async with asyncio.timeout(5):
        await slow.close()


async def test_the_start_tells_what_is_wrong(service: RegistryService) -> None:
    """A password is not shown."""
    service.login = ("shop", "p:w")
    wrong = SchemaConverter("AVRO", {"schema.registry.url": service.url, "basic.auth.user.info": "shop:secret"})
    with pytest.raises(DrainError, match=r"refuses the login; set basic\.auth\.user\.info") as raised:
        await wrong.start()
    assert "secret" not in str(raised.value)
    in_url = service.url.replace("//", "//shop:secret@")
    with pytest.raises(DrainError, match=r"schema registry http://127\.0\.0\.1:\d+ refuses") as raised:
        await SchemaConverter("AVRO", {"schema.registry.url": in_url}).start()
    assert "secret" not in str(raised.value)
    with pytest.raises(DrainError, match=r"schema registry http://127\.0\.0\.1:9 cannot be reached: "):
        await SchemaConverter("AVRO", {"schema.registry.url": "http://127.0.0.1:9"}).start()

    right = SchemaConverter("AVRO", {"schema.registry.url": service.url, "basic.auth.user.info": "shop:p:w"})
    await right.start()
    await right.close()
    await wrong.close()


async def test_whoever_may_not_list_subjects_may_start(service: RegistryService) -> None:
    """Rights to single subjects are enough."""
    service.fault = (403, '{"error_code": 40301, "message": "Denied"}')
    made = SchemaConverter("AVRO", {"schema.registry.url": service.url})

    await made.start()

    assert made.trouble is None
    await made.close()
    assert made.trouble is None


async def test_a_start_that_is_given_up_leaves_nothing(service: RegistryService) -> None:
    """Such as when the worker is told to stop."""
    service.silent = True
    made = SchemaConverter("AVRO", {"schema.registry.url": service.url})
    starting = asyncio.create_task(made.start())
    while not service.requests:
        await made.wait(0.01)

    starting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await starting
    await made.close()


async def test_a_file_of_cas_that_has_gone_is_told(service: RegistryService, tmp_path: Path) -> None:
    """Between the check and the start."""
    file = tmp_path / "ca.pem"
    file.write_bytes(CAS)
    made = SchemaConverter(
        "AVRO", {"schema.registry.url": service.url, "schema.registry.ssl.truststore.location": str(file)}
    )
    file.unlink()

    with pytest.raises(DrainError, match=r"cannot be reached: .*No such file"):
        await made.start()


async def test_all_tasks_share_one_registry(service: RegistryService) -> None:
    """Until the last of them has closed it."""
    settings = {"schema.registry.url": service.url}
    one, two = SchemaConverter("AVRO", settings), SchemaConverter("JSON", settings)
    await asyncio.gather(one.start(), two.start())
    number = service.register('"long"')
    await read(one, framed(number, b"\x02"))
    await one.close()

    with pytest.raises(RecordAtFault, match="of type AVRO"):
        two.read(framed(number, b"\x02"), (), key=False)

    assert service.requests == ["/subjects", f"/schemas/ids/{number}"]
    await two.close()
    await two.close()


async def test_schemas_are_kept_up_to_a_limit(
    service: RegistryService, avro: SchemaConverter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against records that name ids at random."""
    monkeypatch.setattr("shareproxy.drain.schema_registry.MOST_SCHEMAS", 2)
    for number in (1, 2, 3):
        with pytest.raises(RecordAtFault):
            await read(avro, framed(number, b""))

    with pytest.raises(NotYet):
        avro.read(framed(1, b""), (), key=False)
    with pytest.raises(RecordAtFault):
        avro.read(framed(3, b""), (), key=False)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "schema.registry.url: is missing"),
        ({"schema.registry.url": "registry:8081"}, "schema.registry.url: must be an address such as https://HOST:PORT"),
        ({"schema.registry.url": "http://a:8081,http://[x"}, "schema.registry.url: must be an address"),
        (
            {"schema.registry.url": "http://a", "basic.auth.user.info": "x"},
            "basic.auth.user.info: must be USER:PASSWORD",
        ),
        ({"schema.registry.url": "http://u:p@a", "basic.auth.user.info": "x:y"}, "basic.auth.user.info: leave it out"),
        ({"schema.registry.url": "http://a", "schema.registry.ssl.truststore.location": "/no/such"}, "No such file"),
        ({"schema.registry.url": "http://a", "schema.registry.ssl.truststore.location": __file__}, "it is not PEM"),
        (
            {"schema.registry.url": "http://a", "schema.registry.request.timeout.ms": 0},
            "must be a whole number of 1 or",
        ),
        ({"schema.registry.uri": "http://a"}, "there is no such setting; did you mean 'schema.registry.url'"),
    ],
)
@pytest.mark.parametrize("name", ["avro", "json-schema"])
def test_what_is_wrong_with_settings_is_told(name: str, settings: dict[str, Any], said: str) -> None:
    """Before anything is connected."""
    with pytest.raises(ValueError, match=said):
        converter(name, settings)


async def test_a_converter_that_was_not_started_waits_for_nothing(service: RegistryService) -> None:
    """Nor does it read without a source."""
    made = SchemaConverter("AVRO", {"schema.registry.url": service.url})

    await made.wait(0.0)

    with pytest.raises(NotYet, match="within a sink worker only"):
        made(b"")
    await registry(made._settings).wait(0.0)
