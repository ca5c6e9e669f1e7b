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

from app.database.embedded.account import Account, choose_account
from app.database.embedded.cluster import find_binaries, installed_programs
from app.database.embedded.folder import ServerFolder
from app.database.embedded.server import NAME, EmbeddedServer
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

    def release(self) -> None:
        """Stop it, and leave nothing behind."""
        self.stop()

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


class Server(Part):
    """A PostgreSQL server on a port of its own, as an operator runs it: Debian's newest, or else the wheel's."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.port, self._folder = name, free_port(), folder
        self._account = choose_account(folder)
        self._account.make_private(folder)
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda programs: int(programs.parent.name))
        self._programs = debian[-1] if debian else find_binaries(self._account, folder.with_name("programs"))

    @property
    def url(self) -> str:
        return f"postgresql://{NAME}@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        """Make an empty cluster."""
        options = (f"--username={NAME}", "--auth=trust", "--encoding=UTF8", "--no-sync")
        made = self._account.run([self._programs / "initdb", *options, self._data])
        assert made.returncode == 0, made.stderr

    def copy(self, primary: "Server") -> None:
        """Make a cluster that follows a running server, by `pg_basebackup`."""
        programs = self._programs if (self._programs / "pg_basebackup").exists() else installed_programs()
        command = [programs / "pg_basebackup", f"--dbname={primary.url}", "--write-recovery-conf", "--checkpoint=fast"]
        subprocess.run([*command, f"--pgdata={self._data}"], check=True)
        if self._account.switch:
            subprocess.run(["chown", "-R", f"{self._account.uid}:{self._account.gid}", self._data], check=True)

    def start(self) -> None:
        wait_until(lambda: self._control("start", "-w", "-l", self._folder / "log", "-o", self._options), 60)

    def stop(self) -> None:
        assert self._control("stop", "-m", "fast")

    def promote(self) -> None:
        """End following the other server, and take writes."""
        assert self._control("promote")

    def kill(self) -> None:
        """Kill its first process; the others end when they notice."""
        os.kill(int((self._data / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)

    def release(self) -> None:
        """Stop it, if it runs."""
        self._control("stop", "-m", "immediate")

    @property
    def _data(self) -> Path:
        return self._folder / "cluster"

    @property
    def _options(self) -> str:
        return f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories="

    def _control(self, *words: str | Path) -> bool:
        return self._account.run([self._programs / "pg_ctl", "-s", "-D", self._data, *words]).returncode == 0


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

    def __init__(
        self, name: str, folder: Path, url: str, *words: str, port: int | None = None, pooled: bool = False
    ) -> None:
        self.name, self.port = name, port
        self._words = words if port is None else (*words, "--port", str(port))
        self.ended_by_itself: list[str] = []
        self._stopping = threading.Event()
        self._log = folder / f"{name}.log"
        self._environment = {
            **os.environ,
            "STABLE_ARENA_DATABASE_URL": url,
            "STABLE_ARENA_DATABASE__TRANSACTION_POOLER": str(pooled),
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

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Kill it; it is started again, as when it ends by itself."""
        self._process.kill()
        if self.port is not None:
            wait_until(lambda: not self._is_ready())
            wait_until(self._is_ready)

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
            words = self._last_words().splitlines() or [""]
            self.ended_by_itself.append(f"{code}: {words[-1]}")
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
