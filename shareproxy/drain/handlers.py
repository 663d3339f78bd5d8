"""Run a worker: a function of yours, called with each record of a share group, many at once.

In: a function and names. Out: its calls, until SIGTERM or SIGINT. Must never: accept a record before the function
returned for it, or keep an order that share groups do not have.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from shareproxy.admin import arguments
from shareproxy.admin.errors import AccessDenied, AdminError, CannotReach, WrongArgument
from shareproxy.admin.failures import translated
from shareproxy.cluster.addresses import Address, parse_own_address
from shareproxy.cluster.cluster import Cluster
from shareproxy.cluster.security import Security
from shareproxy.config import Log
from shareproxy.drain.announce import announcement
from shareproxy.drain.checks import check_share_group
from shareproxy.drain.consumer_settings import whole
from shareproxy.drain.errors import DrainError
from shareproxy.drain.group_questions import GroupQuestions
from shareproxy.drain.handler_call import Handler, HandlerCall
from shareproxy.drain.handler_log import HandlerLog
from shareproxy.drain.handler_metrics import HandlerCollector, HandlerCounts
from shareproxy.drain.handler_parts import WorkerResult, WorkerSettings
from shareproxy.drain.handler_worker import HandlerWorker
from shareproxy.drain.model import AcquireMode
from shareproxy.drain.retry_delay import Retry
from shareproxy.drain.stopping import Stop
from shareproxy.protocol.ids import GroupId
from shareproxy.service_log import configure_log, flush_log

if TYPE_CHECKING:
    from shareproxy.drain.consumer import ShareConsumer
    from shareproxy.drain.events import ConsumerEvent
    from shareproxy.drain.health import HealthServer

BOOTSTRAP_VARIABLE: Final = "SHAREPROXY_BOOTSTRAP_SERVER"
CONFIG_VARIABLE: Final = "SHAREPROXY_COMMAND_CONFIG"
# to learn whether the group can be joined: long enough for a broker that is starting, too short to look like a hang
LOOK_SECONDS: Final = 20.0
# to learn what is said at the start
ANNOUNCE_SECONDS: Final = 5.0
# how a script's process ends after a mistake, by what was raised; the commands end alike
EXIT_CODES: Final = ((WrongArgument, 2), (CannotReach, 3), (AccessDenied, 4), (AdminError, 1), (DrainError, 1))
INTERRUPTED: Final = 130
# what the error names where `health` has no port
USUAL_PORT: Final = 9_465
# arguments of the consumer with which records would be accepted before their handler returned, or their locks run out
_OWN: Final = frozenset({"acknowledgement", "renew"})


async def run(
    handler: Handler,
    *,
    group: str,
    topics: str | Sequence[str],
    bootstrap_servers: str | Sequence[str] | None = None,
    concurrency: int = 8,
    prefetch: int | None = None,
    time_limit: float | None = None,
    retry: Retry | None = None,
    max_waiting: int = 200,
    reject_without_dlq: bool = False,
    stop_timeout: float = 25.0,
    health: str | None = None,
    signals: bool = True,
    stop: asyncio.Event | None = None,
    command_config: str | os.PathLike[str] | None = None,
    security: Security | None = None,
    client_id: str = "shareproxy-worker",
    on_event: Callable[[ConsumerEvent], None] | None = None,
    **consumer: Any,
) -> WorkerResult:
    """Call a handler with each record of a share group until SIGTERM or SIGINT; a second signal ends it at once.

    A record is accepted when the handler has returned for it. If it raises, the record is tried again after a delay
    that grows: first here, with the lock renewed, then wherever the broker sends it. `RejectRecord` and `Fatal` say
    that it will never work: it goes to the group's dead-letter queue, or is released where there is none that works.
    A handler may also return an `Outcome`. The same record may come more than once, and in any order.

    Args:
        handler: takes one `ShareRecord`. `async` ones share the event loop, plain ones run in threads.
        group: name of the share group.
        topics: names of its topics, no patterns.
        bootstrap_servers: `"host:port[,host:port…]"`, or several; taken from `SHAREPROXY_BOOTSTRAP_SERVER` (and then
            `command_config` from `SHAREPROXY_COMMAND_CONFIG`) if not given.
        concurrency: how many calls of the handler at once.
        prefetch: how many more records are held for the next free place; as many as `concurrency` if not given. They
            are kept from other workers, so keep it small where one record takes long.
        time_limit: seconds for one call. An `async` handler is cancelled then; a thread cannot be, and keeps its place
            until it ends. The record is released either way.
        retry: when and where a record is tried again.
        max_waiting: how many failed records wait here for their next try; with more, no new ones are fetched.
        reject_without_dlq: whether rejected records may be dropped where no dead-letter queue works.
        stop_timeout: seconds that running handlers have after the first signal.
        health: `"host:port"` for /livez, /readyz and /metrics; nothing listens without it.
        signals: whether SIGTERM and SIGINT are handled while this runs.
        stop: set it to end the worker like the first signal does.
        command_config: path of a Java client property file with `security.protocol` and so on.
        security: the same as a value; not together with `command_config`.
        client_id: our name in the brokers' logs and quotas.
        on_event: called with each event of the consumer, besides the log.
        consumer: further arguments of `ShareConsumer`, such as `value_deserializer`.

    Raises:
        WrongArgument: an argument cannot be used; nothing was sent.
        AdminError, DrainError: the brokers cannot be reached, do not let us in, have another type of group of that
            name …; the sentence says what to try.
        SystemExit: a second signal came.

    Source: KIP-932, KIP-1222, KIP-1302 (R20 to R23).
    """
    settings = WorkerSettings(
        concurrency=whole("concurrency", concurrency),
        prefetch=concurrency if prefetch is None else _count("prefetch", prefetch),
        max_waiting=whole("max_waiting", max_waiting),
        retry=_retry(retry),
        stop_timeout=arguments.seconds(stop_timeout, "stop_timeout"),
        reject_without_dlq=reject_without_dlq,
    )
    if time_limit is not None:
        arguments.seconds(time_limit, "time_limit")
    for own in _OWN & consumer.keys():
        raise WrongArgument(f"{own}: a worker acknowledges and renews by itself; leave it out, or use ShareConsumer")
    call = HandlerCall(handler, concurrency=settings.concurrency, time_limit=time_limit)
    address = _address(health)
    if bootstrap_servers is None:
        bootstrap_servers, command_config = _from_environment(command_config, security)
    if not structlog.is_configured():
        configure_log(Log())
    counts, name = HandlerCounts(), arguments.group_name(group)
    log = HandlerLog(counts, name)
    stopping = Stop()

    def tell(event: ConsumerEvent) -> None:
        log.tell(event)
        if on_event is not None:
            on_event(event)

    # loaded here: a program that only wants the names of this module has not paid for it
    from shareproxy.drain.consumer import ShareConsumer

    way = arguments.connection(command_config, security, client_id)
    share_consumer = ShareConsumer(
        bootstrap_servers,
        group,
        topics,
        security=way.security,
        client_id=way.client_id,
        on_event=tell,
        **{
            "max_records": settings.concurrency + settings.prefetch,
            "capacity": settings.most,
            "acquire_mode": "record",
            **consumer,
        },
    )
    cluster = Cluster(arguments.addresses(bootstrap_servers), way.security, client_id=way.client_id)

    async def prepare() -> None:
        await _look_before(cluster, name, share_consumer, log, consumer, concurrency=settings.concurrency)

    async with contextlib.AsyncExitStack() as open_things:
        open_things.push_async_callback(cluster.close)
        worker = HandlerWorker(
            share_consumer,
            call,
            settings,
            counts=counts,
            log=log,
            stop=stopping,
            questions=GroupQuestions(cluster, name),
            prepare=prepare,
        )
        if address is not None:
            server = _health_server(address, worker, HandlerCollector(counts, name))
            await _listen(server)
            open_things.push_async_callback(server.stop)
        if signals:
            open_things.enter_context(stopping.listening())
        if stop is not None:
            watching = asyncio.create_task(_watch(stop, stopping))
            open_things.callback(watching.cancel)
        for note in way.notes:
            log.warning(note)
        result = await worker.run()
        # what is not as it should be is only there where it is
        rest = {name: value for name in ("lock_lost", "unconfirmed", "abandoned") if (value := getattr(result, name))}
        log.info("worker ended", accepted=result.accepted, released=result.released, rejected=result.rejected, **rest)
        if stopping.hurried.is_set():
            flush_log()
            raise SystemExit(stopping.exit_code)
        return result


def run_worker(handler: Handler, **arguments_of_run: Any) -> None:
    """Run a worker in a script, and end the process with a sentence and an exit code if it cannot work.

    It is `asyncio.run(shareproxy.run(…))` for people who do not want to see a traceback of ours, in the faster event
    loop where it is installed. Returns after the first SIGTERM or SIGINT.

    Args:
        handler: as for `run`.
        arguments_of_run: all arguments of `run`.

    Raises:
        SystemExit: 2 for an argument that cannot be used, 3 where no broker is reached, 4 for missing rights, 1 for
            other reasons, 130 or 143 after a second signal.
    """
    from shareproxy.lifecycle import event_loop

    try:
        with asyncio.Runner(loop_factory=event_loop("auto")) as runner:
            runner.run(run(handler, **arguments_of_run))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except (AdminError, DrainError) as error:
        flush_log()
        advice = _advice(error, arguments_of_run.get("bootstrap_servers"))
        print(f"shareproxy: {error}{advice}", file=sys.stderr, flush=True)  # noqa: T201 - what a script's author sees
        raise SystemExit(next(code for kind, code in EXIT_CODES if isinstance(error, kind))) from None


def _advice(error: Exception, bootstrap_servers: object) -> str:
    """Return what to try where no broker is reached, unless the sentence says it."""
    if not isinstance(error, CannotReach) or ("; " in str(error) and "no broker answered" not in str(error)):
        return ""
    return "; check that the brokers run, and " + (BOOTSTRAP_VARIABLE if not bootstrap_servers else "bootstrap_servers")


async def _look_before(
    cluster: Cluster,
    group: GroupId,
    share_consumer: ShareConsumer,
    log: HandlerLog,
    options: Mapping[str, Any],
    *,
    concurrency: int,
) -> None:
    """Check whether the group can be joined (R4, R6), and say what is about to be done (R25)."""
    now, seconds = asyncio.get_running_loop().time(), options.get("request_timeout", LOOK_SECONDS)
    topics = share_consumer.topics
    with translated(group):
        standing = await check_share_group(cluster, group, topics, deadline=now + seconds)
    for note in standing.notes:
        log.warning(note)
    wished = options.get("acquire_mode", AcquireMode.RECORD)
    by_record = standing.can_count_records and wished not in (AcquireMode.BATCH, "batch")
    mode = AcquireMode.RECORD if by_record else AcquireMode.BATCH
    deadline = asyncio.get_running_loop().time() + ANNOUNCE_SECONDS
    said = await announcement(cluster, group, topics, acquire_mode=mode, deadline=deadline)
    log.info(f"worker starts: {said.sentence()}", concurrency=concurrency, **_without_group(said.fields()))


def _without_group(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name != "group"}  # the log has it in each line


async def _watch(stop: asyncio.Event, stopping: Stop) -> None:
    await stop.wait()
    if not stopping.asked.is_set():
        stopping.ask()


def _from_environment(
    command_config: str | os.PathLike[str] | None, security: Security | None
) -> tuple[str, str | os.PathLike[str] | None]:
    servers = os.environ.get(BOOTSTRAP_VARIABLE, "")
    if not servers:
        raise WrongArgument(
            f"bootstrap_servers: none is given; write bootstrap_servers='host:9092', or set {BOOTSTRAP_VARIABLE}"
        )
    if command_config is None and security is None:
        command_config = os.environ.get(CONFIG_VARIABLE) or None
    return servers, command_config


def _retry(retry: object) -> Retry:
    if retry is None:
        return Retry()
    if not isinstance(retry, Retry):
        raise WrongArgument(f"retry: {retry!r} is no Retry; write retry=Retry(first_s=1.0)")
    wrong = retry.wrong()
    if wrong is not None:
        raise WrongArgument(wrong)
    return retry


def _count(name: str, given: object) -> int:
    return 0 if given == 0 and not isinstance(given, bool) else whole(name, given)


def _address(health: str | None) -> Address | None:
    if health is None:
        return None
    try:
        return parse_own_address(health, USUAL_PORT)
    except ValueError as error:
        raise WrongArgument(f"health: {error}") from None


def _health_server(address: Address, worker: HandlerWorker, collector: HandlerCollector) -> HealthServer:
    from prometheus_client import CollectorRegistry

    from shareproxy.drain.health import HealthServer

    registry = CollectorRegistry()
    registry.register(collector)
    return HealthServer(address.host, address.port, readiness=(worker.why_not_ready,), registry=registry)


async def _listen(server: HealthServer) -> None:
    try:
        await server.start()
    except OSError as error:
        raise DrainError(f"health: {error.strerror or error}") from None
