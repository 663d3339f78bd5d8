"""Fuzz targets find what they are there for: each of these plants a defect."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import fuzz.targets.addresses as addresses_target
import fuzz.targets.api_versions as api_versions_target
import fuzz.targets.codec as codec_target
import fuzz.targets.framing as framing_target
import fuzz.targets.lag_answers as lag_target
import fuzz.targets.records as records_target
import fuzz.targets.session as session_target
import fuzz.targets.settings as settings_target
from fuzz.finding import FindingError
from fuzz.mutation import mutated
from fuzz.target import Target
from shareproxy.lag.records import record_batches
from shareproxy.protocol.compiler import compile_decoder
from shareproxy.protocol.framing import FrameReader
from shareproxy.proxy.answer_stream import AnswerStream
from shareproxy.proxy.api_versions import EditedApiVersions
from shareproxy.proxy.hints import HintHider
from shareproxy.proxy.session import Session
from shareproxy.proxy.share_offsets import LagAnswer


def found(target: Target, error: type[Exception] = FindingError) -> str:
    """Run seeds and changed ones until one is a finding; return its text."""
    random, seeds = Random(3), list(target.seeds())
    for data in seeds + [mutated(target, random.choice(seeds), target.max_length, random) for _ in range(300)]:
        try:
            target.run(data)
        except error as finding:
            return str(finding)
    raise AssertionError("nothing was found")


def unchanged(api_key: int, version: int, frame: bytes, mapping: object) -> tuple[bytes, ...]:
    """Rewrite nothing."""
    return (frame,)


def test_address_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewriter that does nothing."""
    monkeypatch.setattr(addresses_target, "rewrite_answer", unchanged)

    assert "addresses are replaced" in found(addresses_target.TARGET)


def test_hint_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hider that passes everything on."""

    def feed(self: HintHider, chunk: bytes) -> bytes:
        self.missing -= len(chunk)
        return chunk

    monkeypatch.setattr(HintHider, "feed", feed)

    assert "no broker's address" in found(addresses_target.TARGET)


def test_version_that_is_not_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit that does nothing."""

    def edit(version: int, frame: bytes, *, fills_lag: bool) -> EditedApiVersions:
        return EditedApiVersions(frame, None)

    monkeypatch.setattr(api_versions_target, "edit_api_versions", edit)

    assert "version" in found(api_versions_target.TARGET)


def test_decoder_that_reads_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled decoder that stops one byte early."""

    def shortened(plan: Any, title: str) -> Callable[[bytes, int], tuple[Any, int]]:
        decode = compile_decoder(plan, title)

        def shorter(data: bytes, offset: int) -> tuple[Any, int]:
            value, position = decode(data, offset)
            return value, position - 1

        return shorter

    codec_target._compiled.cache_clear()
    monkeypatch.setattr(codec_target, "compile_decoder", shortened)
    try:
        assert "read the same" in found(codec_target.TARGET)
    finally:
        codec_target._compiled.cache_clear()


def test_frame_that_depends_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that forgets what it holds."""
    original = FrameReader.feed

    def feed(self: FrameReader, chunk: bytes) -> list[bytes]:
        frames = original(self, chunk)
        self._chunks.clear()
        return frames

    monkeypatch.setattr(FrameReader, "feed", feed)

    assert found(framing_target.TARGET, Exception)


def test_row_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lag for each row, also for those with an error."""

    def put(self: LagAnswer, group_id: str, lags: object) -> None:
        for group in self._message.groups:
            for topic in group.topics:
                for row in topic.partitions:
                    row.lag = 12_345

    monkeypatch.setattr(LagAnswer, "put", put)

    assert "only Lag" in found(lag_target.TARGET)


def test_batch_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches from the end to the beginning."""
    monkeypatch.setattr(records_target, "record_batches", lambda data: record_batches(data)[::-1])

    assert "offsets rise" in found(records_target.TARGET)


def test_settings_with_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that lets an error of the language out."""
    monkeypatch.setattr(settings_target, "parse_addresses", lambda text: {}[text])

    assert found(settings_target.TARGET, KeyError)


def test_session_that_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that leaves addresses alone."""
    original = Session.__init__

    def init(self: Session, mapping: object, **options: Any) -> None:
        original(self, lambda node_id, host, port: None, **options)

    monkeypatch.setattr(Session, "__init__", init)

    assert "addresses are replaced" in found(session_target.TARGET)


def test_session_that_hoards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that keeps all that it was sent."""

    class Hoarder(Session):
        def receive_from_broker(self, chunk: bytes) -> bool:
            self.__dict__.setdefault("_hoard", []).append(bytes(500_000) + chunk)
            return super().receive_from_broker(chunk)

    monkeypatch.setattr(session_target, "Session", Hoarder)

    assert "no more is held" in found(session_target.TARGET)


def test_session_that_depends_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that drops the end of a chunk that holds more than one answer."""
    original = AnswerStream.feed

    def feed(self: AnswerStream, chunk: bytes) -> None:
        original(self, chunk[:60])

    monkeypatch.setattr(AnswerStream, "feed", feed)

    assert found(session_target.TARGET)
