"""A whole deployment as processes on loopback: PostgreSQL, pgbouncer in transaction mode, API servers, workers."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from pathlib import Path

import httpx
import psutil

from app.database.embedded.account import Account
from app.database.embedded.folder import ServerFolder
from app.database.embedded.server import EmbeddedServer
from app.database.engine import parse_url
from tests.fixtures.waiting import free_port, wait_until

_POOLER = """
[databases]
arena = host={socket} port={port} dbname={name} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 25
max_client_conn = 500
server_login_retry = 1
logfile = {folder}/pgbouncer.log
"""


class Part(ABC):
    """A part of the deployment, which can be restarted."""

    name: str

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def restart(self) -> None:
        """Stop it in order, and start it again."""
        self.stop()
        self.start()


class Postgres(Part):
    """The embedded PostgreSQL, as a server that the service does not own."""

    name = "postgres"

    def __init__(self, folder: Path) -> None:
        self._folder = ServerFolder(folder)
        self._server = EmbeddedServer(folder)

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        pid = int((self._folder.cluster / "postmaster.pid").read_text().split("\n")[0])
        server = psutil.Process(pid)
        server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
        server.wait(60)

    def release(self) -> None:
        self._server.release()


class Pooler(Part):
    """pgbouncer in front of it."""

    name = "pgbouncer"

    def __init__(self, folder: Path, url: str, account: Account) -> None:
        self.port, self._account, self._folder = free_port(), account, folder
        parsed = parse_url(url)
        self._config = folder / "pgbouncer.ini"
        place = {"socket": parsed.query["host"], "port": parsed.query["port"], "name": parsed.database}
        self._config.write_text(
            _POOLER.format(**place, user=parsed.username, listen=self.port, folder=folder), encoding="utf-8"
        )
        if account.switch:
            os.chown(folder, account.uid, account.gid)

    @property
    def url(self) -> str:
        return f"postgresql://service@127.0.0.1:{self.port}/arena"

    def start(self) -> None:
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        account = self._account
        user = {"user": account.uid, "group": account.gid, "extra_groups": []} if account.switch else {}
        command = [program, "-q", self._config]
        self._process = subprocess.Popen(command, cwd=self._folder, stderr=subprocess.DEVNULL, **user)
        wait_until(self._listens)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def _listens(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0


class Command(Part):
    """A command of the service that runs until it is stopped."""

    def __init__(self, name: str, folder: Path, url: str, *words: str, port: int | None = None) -> None:
        self.name, self._words, self.port = name, words, port
        self.ended_by_itself: list[str] = []
        self._stopping = threading.Event()
        self._log = folder / f"{name}.log"
        self._environment = {
            **os.environ,
            "STABLE_ARENA_DATABASE_URL": url,
            "STABLE_ARENA_DATABASE__TRANSACTION_POOLER": "true",
            "STABLE_ARENA_DATABASE__POOL_SIZE": "5",
            "STABLE_ARENA_WORKER__LEASE_SECONDS": "10",
        }

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._stopping.clear()
        self._launch()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()
        if self.port is not None:
            wait_until(self._is_ready)

    def stop(self) -> None:
        self._stopping.set()
        self._process.terminate()
        self._keeper.join(60)
        code = self._process.wait(60)
        assert code in (0, -signal.SIGTERM), f"{self.name} ended with {code}: {self._last_words()}"

    def _launch(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app.cli", *self._words], env=self._environment, stdout=log, stderr=log
            )

    def _keep(self) -> None:
        """Start it again when it ends by itself, as `restart: unless-stopped` does.

        A process that starts while the database is away ends, and says so.
        """
        while True:
            code = self._process.wait()
            if self._stopping.wait(1.0):
                return
            self.ended_by_itself.append(f"{code}: {self._last_words().splitlines()[-1]}")
            self._launch()

    def memory(self) -> int:
        """Bytes that it and its children have for themselves."""
        parent = psutil.Process(self._process.pid)
        total = 0
        for process in (parent, *parent.children(recursive=True)):
            try:
                total += process.memory_full_info().uss
            except psutil.NoSuchProcess:
                continue  # it ended meanwhile: a server that is replaced
        return total

    def _last_words(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.address}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False
