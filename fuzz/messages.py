"""Build messages out of decisions, and compare messages field by field.

In: plans and dice, or decoded messages. Out: messages with brokers' addresses where the schema has addresses; copies
in which they are the proxy's. Must never: use the product's way of finding addresses: it is what is being checked.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final, TypeVar

from fuzz.dice import Dice
from shareproxy.protocol import interpreter
from shareproxy.protocol.errors import DecodeError
from shareproxy.protocol.message import Message, ProtocolStruct, Request, Response
from shareproxy.protocol.messages import MESSAGES, DescribeClusterResponse
from shareproxy.protocol.plan import Step, StructPlan, plan_for
from shareproxy.protocol.schema import INTEGERS
from tests.protocol.samples import Samples

M = TypeVar("M", bound=Message)

REQUESTS: Final[dict[int, type[Request[Any]]]] = {
    message.api_key: message for message in MESSAGES if issubclass(message, Request)
}
RESPONSES: Final[dict[int, type[Response]]] = {
    message.api_key: message for message in MESSAGES if issubclass(message, Response)
}
HEADERS: Final = tuple(message for message in MESSAGES if not issubclass(message, Request | Response))

BROKER_MARK: Final = "broker.internal"
"""In each host that stands for a broker; no host of the proxy has it."""
BROKER_HOSTS: Final = (f"a.{BROKER_MARK}", f"{'b' * 120}.{BROKER_MARK}", f"ü.{BROKER_MARK}", BROKER_MARK)
PROXY_HOST: Final = "proxy.example"

_CONTROLLERS: Final = 2  # DescribeCluster's endpoint type
_TEXTS: Final = ("", "t", "orders", "größe", "x" * 126, "x" * 127, "y" * 300)


def to_proxy(node_id: int, host: str, port: int) -> tuple[str, int] | None:
    """Advertise a node at an address that follows from its id."""
    return PROXY_HOST, 19_100 + node_id % 1_000


def build(plan: StructPlan, dice: Dice) -> Any:
    """Return a struct that the version of the plan can carry; all of it follows from the dice."""
    values = {step.attribute: _field(step, dice) for step in plan.steps}
    if plan.flexible and dice.seldom():
        values["unknown_tags"] = ((50 + dice.below(200), dice.blob()),)
    present = {step.attribute for step in plan.steps if step.present}
    if {"host", "port"} <= present:
        _put_address(values, present, dice)
    return plan.struct_class(**values)


def _field(step: Step, dice: Dice) -> object:
    if not step.present and (step.tag is None or not dice.below(2)):
        return step.make_default()
    if step.nullable and dice.number() & 3 == 3:
        return None
    if step.is_array:
        return [_element(step, dice) for _ in range(dice.below(8) % 5)]
    return _element(step, dice)


def _element(step: Step, dice: Dice) -> object:
    if step.struct is not None:
        return build(step.struct, dice)
    element = step.element
    if element in INTEGERS:
        lowest, highest = INTEGERS[element]
        kind = dice.number()
        return kind if kind < 100 else highest if kind < 120 else lowest if kind < 140 else max(lowest, -1)
    if element == "bool":
        return bool(dice.below(2))
    if element == "float64":
        return float(dice.signed(2))
    if element == "uuid":
        return bytes((dice.number(),)) * 16
    return dice.choose(_TEXTS) if element == "string" else dice.blob()


def _put_address(values: dict[str, object], present: set[str], dice: Dice) -> None:
    """Let an address be a broker's, or nobody's, but none that a message holds by chance."""
    nobody = dice.number() >= 230
    for name in ("node_id", "broker_id"):
        if name in present:
            values[name] = -1 if nobody and dice.below(2) else dice.below(8)
    values["host"] = "" if nobody and dice.below(2) else dice.choose(BROKER_HOSTS)
    values["port"] = -1 if nobody and dice.below(2) else dice.choose((9092, 256, 65_280, 1, 65_535))


def sample(message: type[M], version: int, random: Random) -> M:
    """Return a random message with brokers' addresses, for seeds and fresh inputs."""
    made: M = Samples(random.getrandbits(32), random.choice((0, 1, 2, 3))).struct(plan_for(message, version))
    for struct in structs_in(made):
        if hasattr(struct, "host") and hasattr(struct, "port") and struct.host:
            struct.host = random.choice(BROKER_HOSTS)
            struct.port = random.choice((9092, 256, -1, 65_535))
    return made


def structs_in(value: object) -> Iterator[Any]:
    """Yield a struct and all within it."""
    if isinstance(value, ProtocolStruct):
        yield value
        for name in value.__struct_fields__:
            yield from structs_in(getattr(value, name))
    elif isinstance(value, list):
        for element in value:
            yield from structs_in(element)


def addresses_in(message: Response) -> Iterator[Any]:
    """Yield the structs that tell a client where a node is."""
    if isinstance(message, DescribeClusterResponse) and message.endpoint_type == _CONTROLLERS:
        return
    for struct in structs_in(message):
        if getattr(struct, "host", None) and getattr(struct, "port", -1) >= 0 and _node_id(struct) >= 0:
            yield struct


def _node_id(struct: Any) -> int:
    return int(getattr(struct, "node_id", getattr(struct, "broker_id", -1)))


def advertised(message: M) -> M:
    """Return a copy in which each address is the one that `to_proxy` gives."""
    changed = copy.deepcopy(message)
    if isinstance(changed, Response):
        for struct in addresses_in(changed):
            new = to_proxy(_node_id(struct), struct.host, struct.port)
            if new is not None:
                struct.host, struct.port = new
    return changed


def read(message: type[M], version: int, data: bytes, offset: int, *, prefix: bool = False) -> M | None:
    """Decode with the slow, obvious back end; None if the bytes are no such message.

    Args:
        prefix: whether bytes may follow, as clients allow.
    """
    if not message.min_version <= version <= message.max_version:
        return None
    try:
        value, position = interpreter.decode(plan_for(message, version), data, offset)
    except DecodeError:
        return None
    return value if prefix or position == len(data) else None  # type: ignore[return-value]


def same(one: Message, other: Message, version: int) -> bool:
    """Tell whether two messages are equal; as bytes, because no NaN equals itself."""
    plan = plan_for(type(one), version)
    return one == other or interpreter.encode(plan, one) == interpreter.encode(plan, other)
