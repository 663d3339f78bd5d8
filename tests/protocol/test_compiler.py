"""Both back ends agree: on messages, on damaged bytes, and on messages that cannot be written."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from shareproxy.protocol import compiler, interpreter, stretch
from shareproxy.protocol.compiler import compile_decoder, compile_encoder
from shareproxy.protocol.decode_source import decode_function
from shareproxy.protocol.encode_source import encode_function
from shareproxy.protocol.errors import DecodeError, EncodeError
from shareproxy.protocol.messages import (
    FindCoordinatorRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from shareproxy.protocol.plan import StructPlan, plan_for
from tests.protocol import synthetic
from tests.protocol.samples import EACH_VERSION, SEEDS, SIZES, TITLES, Samples, outcome

PLANS = {
    **{name: plan_for(message, version) for name, (message, version) in zip(TITLES, EACH_VERSION, strict=True)},
    **{f"everything-v{version}": synthetic.plan(version) for version in synthetic.VERSIONS},
}


class Pair(msgspec.Struct, frozen=True):
    """A plan and the functions generated from it, without the interpreter behind them."""

    plan: StructPlan
    decode: Callable[[bytes, int], tuple[Any, int]]
    encode: Callable[[Any], bytes]


@pytest.fixture(autouse=True, scope="module")
def _stretches_early() -> Iterator[None]:
    """Compile stretches after a few elements, or small samples would never reach them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretch, "WORTH", 4)
        yield


@pytest.fixture(params=PLANS, scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    """Return each message in each version."""
    plan = PLANS[request.param]
    return Pair(
        plan, decode_function(plan, f"decode {request.param}"), encode_function(plan, f"encode {request.param}")
    )


@given(SEEDS, SIZES)
@settings(max_examples=20, deadline=None)
def test_messages(pair: Pair, seed: int, size: int) -> None:
    """A message gives the same bytes, and the bytes give the same message."""
    message = Samples(seed, size).struct(pair.plan)
    data = interpreter.encode(pair.plan, message)
    assert pair.encode(message) == data
    assert pair.decode(b"head" + data, 4) == (message, len(data) + 4)
    assert interpreter.decode(pair.plan, data) == (message, len(data))


@given(SEEDS, SIZES)
@settings(max_examples=30, deadline=None)
def test_damaged_bytes(pair: Pair, seed: int, size: int) -> None:
    """Both refuse them, or both read the same; the interpreter raises nothing but `DecodeError`."""
    samples = Samples(seed, size)
    data = samples.damaged(interpreter.encode(pair.plan, samples.struct(pair.plan)))
    readable, expected = outcome(lambda: interpreter.decode(pair.plan, data), DecodeError)
    accepted, found = outcome(lambda: pair.decode(data, 0), Exception)
    assert accepted == readable
    if readable:
        assert repr(found) == repr(expected)  # a NaN is not equal to itself
        assert pair.encode(found[0]) == interpreter.encode(pair.plan, expected[0])


@given(SEEDS, SIZES)
@settings(max_examples=20, deadline=None)
def test_wrong_values(pair: Pair, seed: int, size: int) -> None:
    """Both refuse them, or both write the same; the interpreter raises nothing but `EncodeError`."""
    if not pair.plan.steps:
        return
    samples = Samples(seed, size)
    message = samples.struct(pair.plan)
    samples.spoil(pair.plan, message)
    writable, expected = outcome(lambda: interpreter.encode(pair.plan, message), EncodeError)
    accepted, found = outcome(lambda: pair.encode(message), Exception)
    assert accepted == writable
    if writable:
        assert found == expected


@pytest.mark.parametrize("name", ["MetadataResponse-v12", "DescribeShareGroupOffsetsResponse-v1", "everything-v5"])
def test_message_cut_at_each_point(name: str) -> None:
    """Each beginning of a message is refused with words."""
    plan = PLANS[name]
    decode = compile_decoder(plan, name)
    data = interpreter.encode(plan, Samples(5, 2).struct(plan))
    assert decode(data, 0)[1] == len(data)
    for end in range(len(data)):
        with pytest.raises(DecodeError, match=r"\w"):
            decode(data[:end], 0)


def test_refusal_comes_in_the_interpreters_words() -> None:
    """The compiled code has none; the traceback does not show it either."""
    plan = plan_for(FindCoordinatorRequest, 3)
    with pytest.raises(DecodeError, match=r"^Key: needs 4 bytes, 2 are left$") as caught:
        compile_decoder(plan, "test")(bytes.fromhex("05 6b6b"), 0)
    assert caught.value.__context__ is None
    with pytest.raises(EncodeError, match=r"^KeyType: 500 does not fit int8$"):
        compile_encoder(plan, "test")(FindCoordinatorRequest(key="k", key_type=500))


def test_interpreter_answers_where_the_compiled_code_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in the compiled code costs time, not the answer."""

    def give_up(*_: object) -> Any:
        raise RuntimeError

    plan, message = plan_for(FindCoordinatorRequest, 3), FindCoordinatorRequest(key="k")
    monkeypatch.setattr(compiler, "decode_function", lambda *_: give_up)
    monkeypatch.setattr(compiler, "encode_function", lambda *_: give_up)
    data = compile_encoder(plan, "test")(message)
    assert compile_decoder(plan, "test")(data, 0) == (message, len(data))


def test_large_damaged_message_is_refused_without_looking_for_the_place() -> None:
    """The interpreter would hold the process up."""
    plan = plan_for(MetadataResponse, 12)
    topics = [MetadataResponseTopic(name="x" * 32_000) for _ in range(40)]
    data = interpreter.encode(plan, MetadataResponse(topics=topics))
    decode = compile_decoder(plan, "MetadataResponse version 12")
    assert len(decode(data, 0)[0].topics) == 40
    with pytest.raises(DecodeError, match=r"MetadataResponse version 12: damaged; .* too many to look for the place"):
        decode(data[:-1], 0)


def large_answer() -> bytes:
    """Return a Metadata answer with many lists."""
    rows = [MetadataResponsePartition(replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]) for _ in range(1000)]
    topics = [MetadataResponseTopic(name="t", partitions=rows)]
    return interpreter.encode(plan_for(MetadataResponse, 12), MetadataResponse(topics=topics))


def test_collector_waits_for_large_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would come by several times, only to find everything alive; afterwards it is as before."""
    collecting: list[bool] = []

    def watch(data: bytes, offset: int) -> Any:
        collecting.append(gc.isenabled())
        raise RuntimeError  # the interpreter does the work

    plan, data = plan_for(MetadataResponse, 12), large_answer()
    assert len(data) > compiler.LARGE_BYTES
    monkeypatch.setattr(compiler, "decode_function", lambda *_: watch)
    decode = compile_decoder(plan, "test")
    decode(data, 0)
    decode(interpreter.encode(plan, MetadataResponse()), 0)
    assert collecting == [False, True]
    assert gc.isenabled()


def test_collector_that_is_off_stays_off() -> None:
    """Whoever turned it off had a reason."""
    gc.disable()
    try:
        compile_decoder(plan_for(MetadataResponse, 12), "test")(large_answer(), 0)
        assert not gc.isenabled()
    finally:
        gc.enable()
