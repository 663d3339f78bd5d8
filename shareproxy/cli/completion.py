"""`shareproxy completion`: let a shell complete commands, flags and the names of share groups.

In: a shell's name; later, from that shell, what was typed so far. Out: a script; names.
Must never: make a person wait at the prompt, or write anything but names between what they type.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

import click

from shareproxy.cli.failures import ExitCode, with_exit_code

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from shareproxy.cluster.cluster import Cluster
    from shareproxy.config import Settings

PROGRAM: Final = "shareproxy"
VARIABLE: Final = "_SHAREPROXY_COMPLETE"  # click's name for it, made from the program's
SHELLS: Final = ("bash", "zsh", "fish")

# one second in all: some of it goes by before the first line of ours, and the shell needs a moment too
ASK_SECONDS: Final = 0.6
GIVE_UP_SECONDS: Final = 0.75

# A name is put on the command line as it is, and run with it. Names are other people's: one that a shell would read as
# more than a name ("x; reboot") must not get there by a press of the Tab key.
SAFE_NAME: Final = re.compile(r"[\w.%+:@][\w.%+:@=/-]*")

HOW_TO: Final = {
    "bash": 'Try it with: source <(shareproxy completion bash). To keep it, put that line into "~/.bashrc".',
    "zsh": 'Try it with: source <(shareproxy completion zsh). To keep it, put that line into "~/.zshrc".',
    "fish": "To keep it: shareproxy completion fish > ~/.config/fish/completions/shareproxy.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@with_exit_code
def completion(shell: str) -> ExitCode:
    """Print a script that lets a shell complete commands, flags and group names.

    \b
    bash:  source <(shareproxy completion bash)        (keep it in ~/.bashrc)
    zsh:   source <(shareproxy completion zsh)         (keep it in ~/.zshrc)
    fish:  shareproxy completion fish | source         (keep it in ~/.config/fish/config.fish)

    Group names come from the cluster that --bootstrap-server, SHAREPROXY_BOOTSTRAP_SERVER or the file of --config
    names; without one, or if it does not answer within a second, there are none. Names that a shell would read as
    more than a name, such as those with blanks, are left out.
    """
    sys.stdout.write(script_for(shell))
    if sys.stdout.isatty():
        from shareproxy.cli.failures import say

        say(HOW_TO[shell])
    return ExitCode.DONE


def script_for(shell: str) -> str:
    """Return the script for one of `SHELLS`."""
    from click.shell_completion import get_completion_class

    from shareproxy.cli.main import app

    made_by = get_completion_class(shell)
    assert made_by is not None
    maker = made_by(app, {}, PROGRAM, VARIABLE)
    # `source()` would run bash to look at its version, and complain about an old one on our stderr; every bash that
    # is too old says so itself when it reads the script
    return maker.source_template % maker.source_vars() + "\n"


def group_names(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of a share group; give this to `shell_complete` of a parameter.

    Args:
        context: of the command that is being typed, with the flags so far.
        parameter: that is being typed.
        typed: how the name begins.
    """
    from shareproxy.lag.listings import list_groups

    async def ask(cluster: Cluster, deadline: float) -> list[str]:
        return [found.group for found in (await list_groups(cluster, types=("share",), deadline=deadline)).groups]

    return _items(context, parameter, typed, ask)


def topic_names(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of a topic that is not Kafka's own; as `group_names`."""

    async def ask(cluster: Cluster, deadline: float) -> list[str]:
        topics = (await cluster.metadata(None, deadline=deadline)).topics
        return sorted(name for name, topic in topics.items() if not topic.is_internal)

    return _items(context, parameter, typed, ask)


def _items(
    context: click.Context,
    parameter: click.Parameter,
    typed: str,
    ask: Callable[[Cluster, float], Awaitable[list[str]]],
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    already = context.params.get(parameter.name or "") or ()
    with _quiet(), _no_longer_than(GIVE_UP_SECONDS), contextlib.suppress(Exception):
        return [
            CompletionItem(name)
            for name in _ask(_settings(context), ask)
            if name.startswith(typed) and SAFE_NAME.fullmatch(name) and name not in _as_names(already)
        ]
    return []


def _as_names(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _settings(context: click.Context) -> Settings:
    from shareproxy.cli.options import settings_from

    flags = {name: context.params.get(name) for name in ("bootstrap_server", "command_config")}
    return settings_from(context.params.get("config"), flags)


def _ask(settings: Settings, question: Callable[[Cluster, float], Awaitable[list[str]]]) -> list[str]:
    # less than `ShareAdmin` needs: to import that takes a quarter of the time there is
    import asyncio

    from shareproxy.cluster.cluster import Cluster
    from shareproxy.connecting import bootstrap_addresses, own_connection

    own = own_connection(settings)

    async def ask() -> list[str]:
        async with (
            asyncio.timeout(ASK_SECONDS),
            Cluster(bootstrap_addresses(settings), own.security, client_id=own.client_id) as cluster,
        ):
            return await question(cluster, asyncio.get_running_loop().time() + ASK_SECONDS)

    return asyncio.run(ask())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drop what is said on stderr: it would land in the middle of the line that is being typed."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


@contextlib.contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    """End the process without a word when the time is over, as where a name server hangs in a thread."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
