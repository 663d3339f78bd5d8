"""The blocking client does what the asynchronous one does, from any thread, and always lets go."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shareproxy import AdminError, Earliest, GroupNotFound, TimedOut, WrongArgument, sync
from shareproxy import ShareAdmin as AsyncShareAdmin
from shareproxy.testing import SimulatedCluster
from tests.support.waiting import wait_until


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """A simulated cluster in a thread of its own, with a share group `g` of lag 8."""
    with SimulatedCluster() as cluster:
        cluster.create_topic("t", 1)
        cluster.produce("t", 0, 10)
        cluster.set_share_state("g", "t", 0, start_offset=2, delivery_complete_count=0)
        yield cluster


@pytest.fixture
def admin(cluster: SimulatedCluster) -> Iterator[sync.ShareAdmin]:
    """A blocking client of the cluster."""
    with sync.ShareAdmin(cluster.bootstrap_servers) as admin:
        yield admin


def threads() -> list[threading.Thread]:
    """Return the threads of blocking clients."""
    return [thread for thread in threading.enumerate() if thread.name == "shareproxy-admin"]


def test_it_has_every_method_with_the_same_arguments() -> None:
    """Nobody has to learn two clients."""
    for name, method in inspect.getmembers(AsyncShareAdmin, inspect.isfunction):
        if name.startswith("_"):
            continue
        expected, found = inspect.signature(method), inspect.signature(getattr(sync.ShareAdmin, name))
        assert found.parameters == expected.parameters, name
    expected, found = inspect.signature(AsyncShareAdmin), inspect.signature(sync.ShareAdmin)
    assert found.parameters == expected.parameters


def test_each_method_answers(cluster: SimulatedCluster, admin: sync.ShareAdmin) -> None:
    """With the results of the asynchronous client."""
    assert [row.group for row in admin.list_groups().groups] == ["g"]
    assert admin.describe_groups("g")["g"].state == "Empty"
    assert admin.lag("g").groups[0].lag == 8
    assert [row.start_offset for row in admin.offsets("g")] == [2]
    plan = admin.plan_offsets("g", Earliest())
    assert plan.offsets == {("t", 0): 0}
    assert admin.alter_offsets("g", plan.offsets).done
    assert admin.group_configs("g")["share.auto.offset.reset"].is_default
    assert admin.delete_offsets("g", "t").done
    assert admin.delete_groups("g") == {"g": None}
    assert admin.consumer_lag().groups == ()
    assert admin.notes == ()


def test_errors_come_through(admin: sync.ShareAdmin) -> None:
    """As they are, those of arguments too."""
    with pytest.raises(GroupNotFound):
        admin.offsets("nosuch")
    with pytest.raises(WrongArgument):
        admin.watch(interval=-1)
    with pytest.raises(WrongArgument):
        sync.ShareAdmin("no-port")


def test_many_threads_share_one_client(admin: sync.ShareAdmin) -> None:
    """Each gets its answer."""
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda _: admin.lag("g"), range(40)))

    assert {report.groups[0].lag for report in reports} == {8}


def test_watching(cluster: SimulatedCluster, admin: sync.ShareAdmin) -> None:
    """A plain `for`, left with `break`."""
    lags = []
    for snapshot in admin.watch("g", interval=0.05):
        lags.append(snapshot.report.groups[0].lag)
        if len(lags) == 2:
            break
        cluster.produce("t", 0, 1)

    assert lags == [8, 9]


def test_closing_ends_the_thread(cluster: SimulatedCluster) -> None:
    """At once, and more than once is harmless."""
    before = len(threads())
    admin = sync.ShareAdmin(cluster.bootstrap_servers)
    admin.lag("g")
    assert len(threads()) == before + 1

    admin.close()
    admin.close()

    assert len(threads()) == before
    with pytest.raises(AdminError, match="closed"):
        admin.lag("g")


def test_closing_ends_what_other_threads_wait_for(cluster: SimulatedCluster) -> None:
    """They are told, and do not wait for ever."""
    cluster.slow(60)
    admin = sync.ShareAdmin(cluster.bootstrap_servers, timeout=50)
    errors: list[AdminError] = []

    def ask() -> None:
        try:
            admin.lag("g")
        except AdminError as error:
            errors.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    wait_until(lambda: cluster.requests.count() > 0, "the question is on its way")

    admin.close()

    waiting.join(10)
    assert not waiting.is_alive()
    assert "closed before the answer came" in str(errors[0])


def test_ctrl_c_ends_a_call_and_the_client_lives_on(cluster: SimulatedCluster, admin: sync.ShareAdmin) -> None:
    """What was under way is given up."""
    cluster.slow(60)

    def interrupt() -> None:
        wait_until(lambda: cluster.requests.count() > 0, "the question is on its way")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        admin.lag("g", timeout=50)
    interrupting.join()
    cluster.lift_all_faults()
    cluster.drop_connections(1)

    assert admin.lag("g").groups[0].lag == 8


def test_a_forgotten_client_ends_its_thread(cluster: SimulatedCluster) -> None:
    """When the last reference goes."""
    before = len(threads())
    admin = sync.ShareAdmin(cluster.bootstrap_servers)
    admin.lag("g")
    gone = weakref.ref(admin)

    del admin
    gc.collect()

    assert gone() is None
    wait_until(lambda: len(threads()) == before, "the thread has ended")


def test_time_outs(cluster: SimulatedCluster, admin: sync.ShareAdmin) -> None:
    """Those of the call, not of the thread."""
    cluster.slow(60, 77)

    with pytest.raises(TimedOut):
        admin.plan_offsets("g", Earliest(), timeout=0.3)


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "snapshots = admin.watch('g'); next(snapshots)"])
def test_the_interpreter_ends_without_close(end: str, cluster: SimulatedCluster) -> None:
    """Whatever is left open, and without a word."""
    program = (
        "from shareproxy.sync import ShareAdmin\n"
        f"admin = ShareAdmin({cluster.bootstrap_servers!r})\n"
        f"print(admin.lag('g').groups[0].lag)\n{end}"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")


def test_an_event_loop_of_the_caller_is_left_alone(cluster: SimulatedCluster) -> None:
    """A blocking call in a worker thread beside a running loop."""

    async def main() -> int:
        with sync.ShareAdmin(cluster.bootstrap_servers) as admin:
            report = await asyncio.to_thread(admin.lag, "g")
        return report.groups[0].lag

    assert asyncio.run(main()) == 8
