"""The whole session: two sides, local steps, in any order and in any pieces.

In: decisions, out of which come limits, requests of a client, answers of a broker, damage, and the order of all that.
Out: nothing, or a finding. What happens is noted as moves, and then done again in other pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple
from unittest import mock

from fuzz.brokers import TOKEN, Asked, Broker
from fuzz.clients import request
from fuzz.damage import damaged
from fuzz.dice import Dice
from fuzz.finding import expect
from fuzz.held import held_bytes
from fuzz.messages import RESPONSES, to_proxy
from fuzz.target import Target
from fuzz.targets.addresses import check_answer, read_answer
from shareproxy.lag.model import SourceChoice
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.headers import sized
from shareproxy.proxy import answer_stream, request_stream
from shareproxy.proxy.close import CloseReason
from shareproxy.proxy.exchange import BrokerVersions
from shareproxy.proxy.hints import HINTED, MAX_HELD_ANSWER_BYTES
from shareproxy.proxy.meter import ApiCounts
from shareproxy.proxy.rewrite import REWRITTEN
from shareproxy.proxy.session import Session
from shareproxy.proxy.share_offsets import LagAnswer

_MOST_MOVES: Final = 40
_EDITED: Final = frozenset({*REWRITTEN, *HINTED})
_ORDINARY_CROWD: Final = 1_000
_OF_THE_BROKER: Final = frozenset(
    {CloseReason.MALFORMED_ANSWER, CloseReason.UNEXPECTED_ANSWER, CloseReason.ANSWER_TOO_LARGE}
)
_NOT_OURS: Final = frozenset({CloseReason.INTERNAL_ERROR, CloseReason.STOPPED, CloseReason.TOO_MANY_CONNECTIONS})


class Limits(NamedTuple):
    """The session's limits, made small so that they are met."""

    request_bytes: int
    unauthenticated_bytes: int
    edited_bytes: int
    held_answer_bytes: int
    looked_up_bytes: int
    in_flight: int
    fills_lag: bool
    lag_version: int | None
    wants_sasl: bool

    def session(self, apis: ApiCounts) -> Session:
        """Return a new session with these limits."""
        return Session(
            to_proxy,
            fills_lag=self.fills_lag,
            versions=BrokerVersions(self.lag_version),
            max_request_bytes=self.request_bytes,
            max_unauthenticated_bytes=self.unauthenticated_bytes,
            max_edited_bytes=self.edited_bytes,
            max_in_flight=self.in_flight,
            wants_sasl=self.wants_sasl,
            apis=apis,
        )

    def held(self) -> int:
        """Return how much may be held between two chunks."""
        requests = self.looked_up_bytes + 64 * 1024
        # a frame that is being worked on is there as it came and decoded
        return 3 * (max(self.edited_bytes, MAX_HELD_ANSWER_BYTES) + requests)


class Move(NamedTuple):
    """Something that happens to the session."""

    kind: str
    data: bytes = b""


class Played:
    """A session and what has come out of it.

    Args:
        step: bytes per chunk, 0 for as many as a move has.
    """

    def __init__(self, limits: Limits, step: int) -> None:
        self.limits, self.step = limits, step
        self._apis = ApiCounts()
        self.session = limits.session(self._apis)
        self.to_broker = self.to_client = b""
        self._unread = 0  # bytes that came although their side is not to be read

    def counts(self) -> dict[int, list[float]]:
        """Return what was counted by API."""
        return dict(self._apis)

    def play(self, move: Move) -> bytes:
        """Do a move; return what the broker gets."""
        session = self.session
        before, closed = len(self.to_broker), session.close_reason
        match move.kind:
            case "client" | "broker":
                self._chunks(move.kind, move.data)
            case "settle":
                settle(session, Dice(move.data * 16))
                self._unread = 0
            case "client end":
                session.receive_client_end()
            case _:
                session.receive_broker_end()
        self._take()
        if closed is not None:
            expect(len(self.to_broker) == before, "nothing passes after the close", move, closed)
            expect(session.close_reason is closed, "the first reason stays", closed, session.close_reason)
        return self.to_broker[before:]

    def _chunks(self, side: str, data: bytes) -> None:
        session, step = self.session, self.step or max(len(data), 1)
        receive = session.receive_from_client if side == "client" else session.receive_from_broker
        starts = range(0, len(data), step)
        # measuring takes longer than all else; most is held where a frame is nearly whole
        measured = {starts[-2], starts[len(starts) // 2]} if len(starts) > 1 else set()
        for start in starts:
            chunk = data[start : start + step]
            paused = session.broker_paused if side == "broker" else session.client_paused
            others = session.to_client if side == "client" else session.to_broker
            count = len(others)
            if receive(chunk):
                work = session.lookup if side == "client" else session.step
                quiet = work is None and session.close_reason is None and not session.client_paused
                expect(quiet and len(others) == count, "who is told that there is no more to see misses nothing", side)
            if paused or session.client_paused:  # also what came with the request that was one too many
                self._unread += len(chunk)
            crowd = len(session.outstanding) if session.close_reason is None else 0
            expect(crowd <= self.limits.in_flight, "no more is in flight than the bound", crowd, self.limits)
            if start in measured:
                self._take()
                self._check_memory(len(chunk))

    def _take(self) -> None:
        session = self.session
        self.to_broker += b"".join(session.to_broker)
        self.to_client += b"".join(session.to_client)
        session.to_broker.clear()
        session.to_client.clear()

    def _check_memory(self, chunk: int) -> None:
        held = held_bytes(self.session)
        allowed = self.limits.held() + 3 * (chunk + self._unread)
        expect(held <= allowed, "no more is held than the bound", held, allowed, self.limits)


def settle(session: Session, dice: Dice) -> None:
    """Finish all local work, with decisions for what comes out of it."""
    while session.close_reason is None and (session.step is not None or session.lookup is not None):
        if session.lookup is not None:
            asked = session.lookup.asked
            session.finish_lookup({name: {row for row in sorted(asked[name]) if dice.below(2)} for name in asked})
        elif session.step is not None:
            try:
                answer = LagAnswer(session.step, dice.choose((SourceChoice.AUTO, SourceChoice.BROKER)))
            except DecodeError as error:
                session.close(CloseReason.MALFORMED_ANSWER, str(error))
                return
            for group_id, rows in answer.asked.items():
                answer.put(group_id, {(row.topic, row.partition): dice.number() for row in rows})
            session.finish_step(answer.frame())


class Scene:
    """The first run: it decides on the moves."""

    def __init__(self, dice: Dice) -> None:
        self.limits = Limits(
            request_bytes=dice.choose((100_000, 104_857_600, 60, 1_000)),
            unauthenticated_bytes=dice.choose((524_288, 60)),
            edited_bytes=dice.choose((100_000, 104_857_600, 60, 400)),
            held_answer_bytes=dice.choose((64 * 1024, 40, 200)),
            looked_up_bytes=dice.choose((256 * 1024, 60)),
            in_flight=dice.choose((_ORDINARY_CROWD, 3)),
            fills_lag=bool(dice.choose((1, 1, 1, 0))),
            lag_version=dice.choose((0, 1, None)),
            wants_sasl=dice.seldom(),
        )
        self.dice = dice
        self.moves: list[Move] = []
        self.answers: list[tuple[Asked, bytes]] = []
        """What the broker wrote, in order and without sizes."""
        self.rude_broker = False
        self.spoilt = False
        # a request that waits for room may go out before or after an answer is whole that came in the same chunk
        self._broker = Broker(tells_lag_version=self.limits.in_flight == _ORDINARY_CROWD)
        self._client_bytes = self._broker_bytes = b""  # not sent yet
        self._numbers = 0
        self._ended: set[str] = set()

    def run(self) -> Played:
        """Decide and play until the decisions are used up."""
        played = Played(self.limits, 0)
        while self.dice.left and len(self.moves) < _MOST_MOVES:
            self._add(played, self._next(played.session))
        for kind, rest in (("client", self._client_bytes), ("settle", b"\0"), ("broker", self._broker_bytes)):
            self._add(played, Move(kind, rest))
        self._add(played, Move("settle", b"\0"))
        return played

    def _add(self, played: Played, move: Move) -> None:
        self.moves.append(move)
        self._broker.receive(played.play(move))

    def _next(self, session: Session) -> Move:
        dice = self.dice
        match dice.below(10):
            case 0 | 1 | 2 | 3:
                if session.client_paused and dice.below(4):
                    return Move("settle", dice.take(2))
                for _ in range(1 + dice.below(4) // 2):
                    self._numbers += 1
                    self._client_bytes += request(self._numbers, dice)
                sent, self._client_bytes = _split(self._client_bytes, dice)
                return Move("client", sent)
            case 4 | 5 | 6 | 7:
                for _ in range(1 + dice.below(4)):
                    self._answer()
                sent, self._broker_bytes = _split(self._broker_bytes, dice)
                return Move("broker", sent)
            case 8:
                return Move("settle", dice.take(2))
            case _:
                return self._oddity()

    def _answer(self) -> None:
        if self._broker.asked:
            asked, frame = self._broker.answer(self.dice)
            if self.dice.seldom() and asked.api_key != TOKEN:
                self.spoilt = True
                frame = frame[:4] + damaged(frame[4:], self.dice)
            self.answers.append((asked, frame))
            self._broker_bytes += sized(frame)
        elif self._broker.gone:
            self._ended.add("broker")

    def _oddity(self) -> Move:
        dice = self.dice
        match dice.below(4):
            case 0:
                self._client_bytes += dice.blob()
                return Move("client", b"")
            case 1:
                self.rude_broker = True
                self._broker_bytes += dice.blob()
                return Move("broker", b"")
            case 2:
                return Move("client end")
            case _:
                return Move("broker end")


def _split(data: bytes, dice: Dice) -> tuple[bytes, bytes]:
    cut = dice.number()
    return (data, b"") if cut < 128 else (data[: cut - 127], data[cut - 127 :])


def run(data: bytes) -> None:
    """Take the decisions."""
    dice = Dice(data)
    pieces = dice.number()
    scene = Scene(dice)
    limits = scene.limits
    with (
        mock.patch.object(answer_stream, "MAX_HELD_ANSWER_BYTES", limits.held_answer_bytes),
        mock.patch.object(request_stream, "MAX_HELD_REQUEST_BYTES", limits.looked_up_bytes),
    ):
        first = scene.run()
        _check_close(first.session)
        if not scene.rude_broker:
            _check_answers(scene, first)
        if not limits.fills_lag:
            sent = b"".join(move.data for move in scene.moves if move.kind == "client")
            expect(sent.startswith(first.to_broker), "requests pass as they are", sent, first.to_broker)
        again = Played(limits, _step(pieces, sum(len(move.data) for move in scene.moves)))
        for move in scene.moves:
            again.play(move)
        _compare(scene, first, again)


def _step(pieces: int, total: int) -> int:
    """Return the size of the pieces; one byte most of the time, as long as that is done soon."""
    return 1 + pieces // 2 * (pieces & 1) if total < 4_000 else 61 + pieces


def _check_close(session: Session) -> None:
    reason = session.close_reason
    expect(reason not in _NOT_OURS, "a session closes for reasons of its own", reason)
    expect(session.close_detail.isprintable(), "a reason is one line", session.close_detail)
    if reason is None and session.idle:
        expect(not session.client_paused, "a client is read while nothing is due")


def _check_answers(scene: Scene, played: Played) -> None:
    """Hold what the client gets against what the broker wrote, one answer after the other."""
    rest = played.to_client
    for asked, written in scene.answers:
        if len(rest) < 4:
            break
        size = int.from_bytes(rest[:4], signed=True)
        if len(rest) < 4 + size:
            return  # the last one is on its way
        seen, rest = rest[4 : 4 + size], rest[4 + size :]
        _check_answer(scene, asked, written, seen)
    else:
        expect(not rest, "nothing comes that was not answered", rest)
        return
    complete = played.session.close_reason is None and not rest
    expect(not complete or not played.session.idle, "no answer is lost", scene.answers, played.to_client)


def _check_answer(scene: Scene, asked: Asked, written: bytes, seen: bytes) -> None:
    expect(asked.api_key == TOKEN or seen[:4] == written[:4], "answers come in order", asked, written, seen)
    message = RESPONSES.get(asked.api_key)
    hinted = HINTED.get(asked.api_key)
    if asked.api_key in (18, 90) or (hinted and len(written) > scene.limits.held_answer_bytes):
        return  # targets of their own
    if message is None or asked.api_key not in _EDITED or (hinted and asked.version < hinted.since):
        expect(seen == written, "what is not edited passes as it is", asked, written, seen)
    elif message.min_version <= asked.version <= message.max_version:
        check_answer(message, asked.version, read_answer(message, asked.version, written), seen)


def _compare(scene: Scene, first: Played, again: Played) -> None:
    """Hold a run in pieces against the first one."""
    one, other = first.session, again.session
    _check_close(other)
    if scene.rude_broker or scene.spoilt:
        # a broker that is out of step may be found out earlier or later; a large answer is read only as it streams
        expect(_begins(first.to_client, again.to_client), "chunks do not change what passes", first.to_client)
        if one.close_reason is not None or other.close_reason is not None:
            return
    # of a request that is not whole more may be held if it comes in small pieces; nobody can do anything with it yet
    partly = one.within_request and other.within_request
    # a broker that goes wrong in the very chunk that makes room again may be found out before there is room
    partly = partly or (one.close_reason in _OF_THE_BROKER and scene.limits.in_flight < _ORDINARY_CROWD)
    alike = _begins if partly else bytes.__eq__
    expect(alike(first.to_broker, again.to_broker), "chunks do not change requests", first.to_broker, again.to_broker)
    # the beginning of an answer whose last fields are over the limit may have passed
    refused = one.close_reason is CloseReason.MALFORMED_ANSWER
    alike = _begins if refused else bytes.__eq__
    expect(alike(first.to_client, again.to_client), "chunks do not change answers", first.to_client, again.to_client)
    expect(one.close_reason is other.close_reason, "chunks do not change the end", one.close_reason, other.close_detail)
    if one.close_reason is None:
        expect(one.idle == other.idle, "chunks do not change what is in flight", one.idle)
        expect(first.counts() == again.counts(), "chunks do not change what is counted", first.counts(), again.counts())


def _begins(one: bytes, other: bytes) -> bool:
    return one.startswith(other) or other.startswith(one)


def seeds() -> Iterator[bytes]:
    """Yield decisions at random, short and long."""
    random = Random(7)
    for _ in range(150):
        yield fresh(random)


def fresh(random: Random) -> bytes:
    """Return decisions with ordinary limits and a sequence of whole requests and answers, or just any."""
    if random.randrange(2):
        return random.randbytes(random.choice((40, 150, 500)))
    script = b"\x07" + bytes(random.choice((0, 0, 0, 1, 2)) for _ in range(8)) + random.choice((b"\0", b"\xff"))
    for _ in range(random.randint(1, 8)):
        script += bytes((0, 0, random.randrange(8))) + bytes(random.randrange(4) for _ in range(random.randrange(30)))
        script += bytes((4, 0)) + bytes(random.randrange(9) for _ in range(random.randrange(40))) + bytes((8, 1, 2))
    return script


TARGET: Final = Target("session", "the whole session, both sides, in any pieces", run, seeds, fresh, 1_500)
