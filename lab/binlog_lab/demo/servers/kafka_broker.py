"""A Kafka broker on this machine: `KafkaBroker` is one node of Apache Kafka, on 127.0.0.1, in a folder of its own."""

from __future__ import annotations

import base64
import secrets
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Protocol

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.fetch import KAFKA, require_fetched
from binlog_lab.demo.servers.java_server import SMALL_WORK, find_java, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

USER, GUEST = "app", "guest"
"""Users at the listener with TLS and SASL/PLAIN: one with all rights, one with none."""

_STORE_PASSWORD = "changeit"
QUICK_START = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", SMALL_WORK)
"""Options of Java for a broker that has little to do."""

AS_SHIPPED = ("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""Options with which Kafka's own scripts start a broker."""

_START_SECONDS = 60.0
_LOG4J = """status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/broker.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c %m%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


class ServerProcess(Protocol):
    """The methods of `Popen` that are used."""

    def poll(self) -> int | None:
        """See `Popen`, and so of the others."""

    def send_signal(self, number: signal.Signals, /) -> None:
        """The same."""

    def kill(self) -> None:
        """The same."""

    def wait(self) -> int:
        """The same."""


class KafkaBroker:
    """The broker, while it is entered; it can be killed, frozen, and started again on what it has written.

    Args:
        folder: Of its own; its log, settings and certificate are there.
        proxy_port: Of something before the listener at `proxied_port`: clients that come there are told to come there.
        java_options: `QUICK_START` or `AS_SHIPPED`.

    Attributes:
        port: TCP port of the listener without TLS and passwords.
        proxied_port: Of another one.
        secure_port: Of the one with TLS and SASL/PLAIN.
        ca_file: PEM file that clients of that one trust.
        passwords: Of `USER` and `GUEST`.

    Raises:
        DemoError: `NO_SERVER`.
    """

    def __init__(
        self, folder: Path, *, proxy_port: int | None = None, java_options: Sequence[str] = QUICK_START
    ) -> None:
        self._jars, self._java, self._keytool = self._find_programs()
        self.folder = folder
        self.port, self.secure_port, self.proxied_port, self._controller_port = free_ports(4)
        self._proxy_port = proxy_port or self.proxied_port
        self.ca_file = folder / "ca.pem"
        self.passwords = {user: secrets.token_urlsafe(12) for user in (USER, GUEST)}
        self._settings = folder / "server.properties"
        self._java_options = java_options
        self._process: ServerProcess | None = None

    @property
    def servers(self) -> str:
        """`bootstrap.servers` of the listener without TLS."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure_servers(self) -> str:
        """`bootstrap.servers` of the listener with TLS and SASL/PLAIN."""
        return f"127.0.0.1:{self.secure_port}"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_certificate()
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        (self.folder / "log4j2.properties").write_text(_LOG4J.format(folder=self.folder))
        cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
        self._run(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(self._settings), "--standalone"
        )
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, on what it has written before; it takes requests when this returns."""
        assert self._process is None, "the broker runs already"
        self._process = self._launch(self._command("kafka.Kafka", str(self._settings)))
        deadline = time.monotonic() + _START_SECONDS
        while not all(_listens(port) for port in (self.port, self.secure_port)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise DemoError("PROCESS_FAILED", f"the Kafka broker did not start: see {self.folder}/broker.log")
            time.sleep(0.05)  # a process that only opens a port tells nobody when it has

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop its process; what is sent to it is neither refused nor answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the frozen process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _find_programs(self) -> tuple[Path, str, str]:
        """Folder of the jars, `java` and `keytool`."""
        jars = require_fetched(KAFKA).parent
        return jars, find_java(KAFKA.name), find_java(KAFKA.name, "keytool")

    def _launch(self, command: Sequence[str]) -> ServerProcess:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the one who uses it, who then ends the broker
        )

    def _properties(self) -> dict[str, object]:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        users = " ".join(f'user_{user}="{password}"' for user, password in self.passwords.items())
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": self._listeners(self.proxied_port),
            "advertised.listeners": self._listeners(self._proxy_port),
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,PROXIED:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAIN",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._controller_port}",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            # Without TLS everybody may do everything.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER}",
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": f"{module} required {users};",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": self.folder / "key.p12",
            "ssl.keystore.password": _STORE_PASSWORD,
            "ssl.key.password": _STORE_PASSWORD,
        } | _ONE_NODE

    def _listeners(self, proxied_port: int) -> str:
        ports = {
            "PLAIN": self.port,
            "PROXIED": proxied_port,
            "SECURE": self.secure_port,
            "CONTROLLER": self._controller_port,
        }
        return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())

    def _make_certificate(self) -> None:
        store = ["-keystore", str(self.folder / "key.p12"), "-storepass", _STORE_PASSWORD, "-alias", "broker"]
        kind = ["-storetype", "PKCS12", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30"]
        name = ["-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1"]
        self._checked([self._keytool, "-genkeypair", *store, *kind, *name])
        self._checked([self._keytool, "-exportcert", "-rfc", *store, "-file", str(self.ca_file)])

    def _command(self, program: str, *arguments: str) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties"
        return [self._java, *self._java_options, log4j, "-cp", f"{self._jars}/*", program, *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        self._checked(self._command(program, *arguments))

    def _checked(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DemoError("PROCESS_FAILED", f"{command[0]}: {(done.stderr or done.stdout).strip()}")


_ONE_NODE: dict[str, object] = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    # After SIGKILL it starts again only when its former session is over.
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "num.network.threads": 1,
    "num.io.threads": 2,
    "background.threads": 2,
    "log.cleaner.threads": 1,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    # No records of the controller's while nothing happens, by default two a second.
    "metadata.max.idle.interval.ms": 0,
}
"""Settings of one node that differ from the defaults for many nodes, or make it small and quick."""


def _listens(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0
