"""`shareproxy consume`: print the records of a share group, as kcat prints those of a topic.

In: a group, topics, what to print and when to end. Out: records on stdout, talk on stderr, an exit code.
Must never: accept a record that did not get to stdout, or let a person spend delivery attempts without saying so.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, say, with_exit_code
from shareproxy.cli.options import Connection, Seconds, complete_groups, complete_topics, connection_options
from shareproxy.cli.record_format import DEFAULT_FORMAT
from shareproxy.config import ConfigError

if TYPE_CHECKING:
    from shareproxy.cli.consume_loop import Action, ConsumeLoop, End
    from shareproxy.cli.record_format import Render
    from shareproxy.cluster.cluster import Cluster
    from shareproxy.config import Settings
    from shareproxy.drain.announce import Announcement
    from shareproxy.drain.consumer import ShareConsumer
    from shareproxy.drain.events import ConsumerEvent
    from shareproxy.drain.model import AcquireMode

ACTIONS: Final = ("accept", "peek", "reject")
OUTPUTS: Final = ("text", "json", "raw")
# those of drain.deserializers, which loads too much for a short command; a test holds them together
DESERIALIZERS: Final = ("raw", "string", "json", "short", "int", "long", "float", "double")
# records that are held at most; more are of use only where they are given back at the end
CAPACITY: Final = 2_000
PEEK_CAPACITY: Final = 100_000
# what is said only once
MOST_SAID: Final = 1_000


def _action_option(name: str, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(f"--{name}", "actions", flag_value=name, multiple=True, type=click.Choice(ACTIONS), help=text)


@click.command()
@click.argument("group", shell_complete=complete_groups)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("-f", "--format", "form", metavar="FORMAT", help=r"How a record looks; see below.  [default: %s\n]")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="text", help="Form of the answer.")
@click.option("-Z", "--null", "show_null", is_flag=True, help="Write NULL for keys and values that are null.")
@click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help="End after N records.")
@click.option("-e", "--exit-at-lag-0", "at_lag_0", is_flag=True, help="End when nothing is left in the group.")
@click.option("--timeout", "seconds", type=Seconds(min=0), metavar="SECONDS", help="End after so long.")
@_action_option("accept", "Records that were written are done (default).")
@_action_option("peek", "Give records back at the end; each has spent a delivery attempt.")
@_action_option("reject", "Records that were written never come again, as if they could not be worked on.")
@click.option("--key-deserializer", type=click.Choice(DESERIALIZERS), default="raw", help="What keys are.")
@click.option("--value-deserializer", type=click.Choice(DESERIALIZERS), default="raw", help="What values are.")
@click.option("-q", "--quiet", is_flag=True, help="Say only what goes wrong.")
@connection_options
@with_exit_code
def consume(
    group: str,
    topics: tuple[str, ...],
    form: str | None,
    output: str,
    show_null: bool,
    count: int | None,
    at_lag_0: bool,
    seconds: float | None,
    actions: tuple[str, ...],
    key_deserializer: str,
    value_deserializer: str,
    quiet: bool,
    connection: Connection,
) -> ExitCode:
    """Print records of TOPICs as a member of share group GROUP.

    \b
    Signs of FORMAT, as in kcat:
      %s value     %S its length, -1 for null    %R the same in 4 bytes
      %k key       %K its length, -1 for null    %h headers, NAME=VALUE,…
      %t topic     %p partition   %o offset      %T timestamp in ms
      %d how often it was delivered (not in kcat) %% a percent sign
      \\n \\r \\t \\0 \\\\ \\xNN  bytes

    A record is accepted once it is written; what was not, others get. Exit code 0: done; 1: less than asked for, or a
    record could not be read or not be acknowledged; 2: wrong usage; 3: no broker answers; 4: not authorised;
    130: Ctrl-C.
    """
    action = _one_action(actions)
    if action == "peek" and count is None and seconds is None and not at_lag_0:
        raise ConfigError(
            "--peek keeps what it shows from others until it ends; say when: --count N, --timeout SECONDS or -e"
        )
    if form is not None and output != "text":
        raise ConfigError(f"--format says how text looks; leave out --output {output}, or the format")
    render = _render(form, output, show_null)
    settings = connection.settings({})
    from shareproxy.cli.consume_loop import Action

    job = ConsumeJob(
        settings,
        group,
        tuple(dict.fromkeys(topics)),
        render,
        action=Action(action),
        count=count,
        seconds=seconds,
        at_lag_0=at_lag_0,
        deserializers=(key_deserializer, value_deserializer),
        quiet=quiet,
    )
    return asyncio.run(job.run())


def _one_action(actions: tuple[str, ...]) -> str:
    chosen = dict.fromkeys(actions)
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(f'--{each}' for each in chosen)} exclude each other; choose one")
    return next(iter(chosen), "accept")


def _render(form: str | None, output: str, show_null: bool) -> Render:
    from shareproxy.cli.record_format import WrongFormat, json_line, raw_value, text_format

    if output == "json":
        return json_line
    if output == "raw":
        return raw_value
    try:
        return text_format(
            DEFAULT_FORMAT if form is None else form, for_terminal=sys.stdout.isatty(), show_null=show_null
        )
    except WrongFormat as error:
        raise ConfigError(f"--format: {error}") from None


class ConsumeJob:
    """One run of the command."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        topics: tuple[str, ...],
        render: Render,
        *,
        action: Action,
        count: int | None,
        seconds: float | None,
        at_lag_0: bool,
        deserializers: tuple[str, str],
        quiet: bool,
    ) -> None:
        self._settings, self._group, self._topics, self._render = settings, group, topics, render
        self._action, self._count, self._seconds, self._at_lag_0 = action, count, seconds, at_lag_0
        self._deserializers, self._quiet = deserializers, quiet
        self._said: set[str] = set()
        self._lost = False
        # Kafka 4.1 does not count what was given back by leaving
        self._giving_back_costs = True

    async def run(self) -> ExitCode:
        """Print records until there is a reason to end, and return what the process shall end with."""
        from shareproxy.cluster.cluster import Cluster
        from shareproxy.connecting import bootstrap_addresses, own_connection

        addresses, own = bootstrap_addresses(self._settings), own_connection(self._settings)
        for note in own.notes:
            say(note)
        self._refuse_keys()
        async with Cluster(
            addresses,
            own.security,
            client_id=own.client_id,
            connect_timeout=self._settings.limits.connect_timeout,
        ) as cluster:
            said = await self._look_before(cluster)
            if not self._quiet:
                say(said.sentence())
            return await self._consume(cluster)

    def _refuse_keys(self) -> None:
        """Refuse what a property file says of a group: it would be passed over, and nobody would know."""
        path = self._settings.command_config
        if not path:
            return
        from pathlib import Path

        from shareproxy.cluster.property_file import parse_properties, read_property_text
        from shareproxy.drain.checks import refuse_keys

        # it was read before, so that it can be read
        refuse_keys([each.key for each in parse_properties(read_property_text(Path(path).read_bytes()))], path)

    async def _look_before(self, cluster: Cluster) -> Announcement:
        """Refuse what cannot work, and say what a person may not expect."""
        from shareproxy.admin import arguments
        from shareproxy.cli.consume_loop import Action
        from shareproxy.drain.announce import announcement
        from shareproxy.drain.checks import check_share_group
        from shareproxy.drain.consumer_settings import topic_names

        arguments.group_name(self._group)
        topic_names(self._topics)
        deadline = asyncio.get_running_loop().time() + self._settings.timeout
        standing = await check_share_group(cluster, self._group, self._topics, deadline=deadline)
        self._giving_back_costs = standing.can_count_records
        for note in standing.notes:
            say(note)
        said = await announcement(
            cluster, self._group, self._topics, acquire_mode=self._acquire_mode, deadline=deadline
        )
        if self._action is Action.REJECT and said.dead_letters is not None and not said.dead_letters.works:
            say(f"what is rejected is gone: {said.dead_letters.why}")
        if standing.exists is False and said.auto_offset_reset == "latest" and not self._quiet:
            say(
                f"the group is new and begins with what is written from now on; to begin with what is there, end this "
                f"and run: shareproxy offsets reset {self._group} --topic {self._topics[0]} --to-earliest --execute"
            )
        return said

    @property
    def _acquire_mode(self) -> AcquireMode:
        """What is not printed has to be given back, and each record that is has spent an attempt: take no more."""
        from shareproxy.drain.model import AcquireMode

        return AcquireMode.BATCH if self._count is None else AcquireMode.RECORD

    async def _consume(self, cluster: Cluster) -> ExitCode:
        from shareproxy.admin import ShareAdmin
        from shareproxy.cli.consume_loop import Action, ConsumeLoop, End
        from shareproxy.cli.record_output import RecordOutput
        from shareproxy.cli.what_is_left import WhatIsLeft
        from shareproxy.drain.stopping import Stop, first_of

        consumer = self._open_consumer()
        settings = self._settings
        left = WhatIsLeft(
            ShareAdmin.over(cluster, timeout=settings.timeout, lag_source=settings.lag_source),
            cluster,
            self._group,
            self._topics,
            lambda: consumer.assignment,
            timeout=settings.timeout,
        )
        output = RecordOutput()
        loop = ConsumeLoop(
            consumer,
            self._render,
            output,
            action=self._action,
            count=self._count,
            seconds=self._seconds,
            anything_left=left.anything if self._at_lag_0 else None,
            capacity=self._capacity,
        )

        async def work(stop: asyncio.Event) -> End:
            starting = asyncio.ensure_future(consumer.start())
            try:
                if await first_of(stop, starting):
                    starting.cancel()
                    await asyncio.gather(starting, return_exceptions=True)
                    return End.STOPPED
                await starting
                return await loop.run(stop)
            finally:
                await consumer.close()

        stop = Stop()
        with stop.listening():
            working = asyncio.ensure_future(work(stop.asked))
            if await first_of(stop.hurried, working):
                raise KeyboardInterrupt  # a second signal: connections are cut, and the brokers release what was held
            end = await working
        output.close()
        if not self._quiet:
            say(self._summary(loop, end))
        if loop.unreadable:
            say(f"{loop.unreadable} records could not be read; they were given back")
        if loop.unconfirmed or self._lost:
            say("the brokers did not confirm all acknowledgements; some of the records may come again")
        if self._action is Action.PEEK and end is End.FULL:
            say("no more can be held; accept some, or ask for fewer with --count")
        return self._exit_code(loop, end, stop.number)

    def _open_consumer(self) -> ShareConsumer:
        from shareproxy.connecting import own_connection
        from shareproxy.drain.consumer import ShareConsumer
        from shareproxy.drain.deserializers import deserializer

        own = own_connection(self._settings)
        key, value = self._deserializers
        return ShareConsumer(
            self._settings.bootstrap_server,
            self._group,
            self._topics,
            security=own.security,
            client_id=own.client_id,
            acquire_mode=self._acquire_mode,
            capacity=self._capacity,
            key_deserializer=deserializer("--key-deserializer", key),
            value_deserializer=deserializer("--value-deserializer", value),
            on_event=self._tell,
        )

    @property
    def _capacity(self) -> int:
        from shareproxy.cli.consume_loop import Action

        return PEEK_CAPACITY if self._action is Action.PEEK else CAPACITY

    def _tell(self, event: ConsumerEvent) -> None:
        """Say what goes wrong; what repeats is said once."""
        from shareproxy.drain import events

        if isinstance(event, events.AssignmentChanged | events.GapsAcknowledged):
            return
        if isinstance(event, events.AcknowledgementsLost) or (isinstance(event, events.LockLost) and event.delivered):
            self._lost = True
        sentence = str(event)
        if sentence not in self._said and len(self._said) < MOST_SAID:
            self._said.add(sentence)
            say(sentence)

    def _summary(self, loop: ConsumeLoop, end: End) -> str:
        from shareproxy.cli.consume_loop import Action, End
        from shareproxy.cli.sentences import count

        became = {
            Action.ACCEPT: "written and accepted",
            Action.PEEK: "written and given back"
            + ("; each has spent one of its delivery attempts" if self._giving_back_costs else ""),
            Action.REJECT: "written and rejected",
        }[self._action]
        why = "" if end in (End.STOPPED, End.COUNT) else f"; {end.value}"
        if end is End.NOTHING_LEFT and loop.unreadable:  # the next line says what is
            why = "; nothing else is left"
        return f"{count(loop.written, 'record')} {became}{why}"

    def _exit_code(self, loop: ConsumeLoop, end: End, signalled: int | None) -> ExitCode:
        from shareproxy.cli.consume_loop import End

        if end is End.STOPPED:
            return ExitCode.INTERRUPTED if signalled == signal.SIGINT else ExitCode.DONE
        wanted_more = end is End.FULL or (end is End.TIME and (self._count is not None or self._at_lag_0))
        return ExitCode.NO if wanted_more or loop.unreadable or loop.unconfirmed or self._lost else ExitCode.DONE
