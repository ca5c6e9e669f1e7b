import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.database.embedded.errors import EmbeddedServerError

UNPRIVILEGED = ("postgres", "_postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """The user that PostgreSQL runs as: this process's own, or, where that is root, an unprivileged one."""

    name: str
    uid: int
    gid: int
    switch: bool

    def run(
        self,
        command: Sequence[str | Path],
        cwd: Path = Path("/"),
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` to its end as this user, apart from the terminal (Ctrl-C must not reach a database).

        Raises
        ------
        EmbeddedServerError
            This root may not become another user (a container with one user only).
        OSError
            There is no such program or folder, or this user cannot get there.
        """
        try:
            return self._run(command, cwd, environment, pass_fds)
        except OSError as error:
            if self.switch and error.filename is None:  # not the program's fault
                raise EmbeddedServerError(
                    f"PostgreSQL does not run as root, and this root may not run it as user {self.name}: "
                    f"{error.strerror}; start the service as another user"
                ) from error
            raise

    def _run(
        self, command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str] | None, pass_fds: Sequence[int]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - programs of the wheel and /bin/sh, never input
            command,
            cwd=cwd,
            env=_clean_environment() | dict(environment or {}),
            pass_fds=pass_fds,
            user=self.uid if self.switch else None,
            group=self.gid if self.switch else None,
            extra_groups=[] if self.switch else None,
            umask=0o077,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def can(self, permission: str, path: Path) -> bool:
        """Whether this user has `permission` (r, w or x) on `path`: asked of the system, which knows every rule."""
        return self.run(["/bin/sh", "-c", f'test -{permission} "$1"', "sh", path]).returncode == 0

    def make_private(self, folder: Path) -> None:
        """Make `folder` exist, this user's own and closed to everyone else."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.switch:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)
        folder.chmod(0o700)


def choose_account(home: Path) -> Account:
    """Choose who runs PostgreSQL; a `home` that exists decides, for its files can have one owner only.

    Raises
    ------
    EmbeddedServerError
        `home` belongs to another user, or this is root and there is no user to run PostgreSQL as.
    """
    owner = home.stat().st_uid if home.exists() else 0
    if os.geteuid() != 0:
        name = _user_name(os.geteuid())
        if home.exists() and owner != os.geteuid():
            raise EmbeddedServerError(f"{home} belongs to user {_user_name(owner)}, not to {name}")
        return Account(name, os.geteuid(), os.getegid(), switch=False)
    if owner == 0 and home.exists() and any(home.iterdir()):
        raise EmbeddedServerError(
            f"{home} belongs to root, as whom PostgreSQL does not run: chown -R it to another user"
        )
    for candidate in (owner,) if owner else UNPRIVILEGED:
        try:
            entry = pwd.getpwuid(candidate) if isinstance(candidate, int) else pwd.getpwnam(candidate)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)
    if owner:
        raise EmbeddedServerError(f"{home} belongs to user id {owner}, which does not exist here")
    raise EmbeddedServerError(
        f"PostgreSQL does not run as root and there is none of the users {', '.join(UNPRIVILEGED)}"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _clean_environment() -> dict[str, str]:
    # Nothing of ours goes to the database: PG… variables would change it, STABLE_ARENA_… ones are secrets.
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}
