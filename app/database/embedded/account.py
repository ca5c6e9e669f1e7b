"""The user that PostgreSQL runs as."""

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.database.embedded import EmbeddedServerError

UNPRIVILEGED = ("postgres", "_postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """The user that PostgreSQL runs as: this process's own user or, if that is root, an unprivileged one."""

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
        """Run `command` as this user and wait for its end; it is in a session of its own, which Ctrl-C does not reach.

        Raises EmbeddedServerError: this process runs as root but may not become another user (a container with one
        user).
        Raises OSError: there is no such program or folder, or this user has no access to it.
        """
        other: dict[str, Any] = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}
        try:
            return subprocess.run(  # noqa: S603 - programs of the wheel and /bin/sh, never input
                command,
                cwd=cwd,
                env=_clean_environment() | dict(environment or {}),
                pass_fds=pass_fds,
                umask=0o077,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                **other,
            )
        except OSError as error:
            if self.switch and error.filename is None:  # changing the user failed, not the program
                raise EmbeddedServerError(
                    f"PostgreSQL does not run as root, and this process may not run it as user {self.name}: "
                    f"{error.strerror}; start the service as another user"
                ) from error
            raise

    def can(self, permission: str, path: Path) -> bool:
        """Return whether this user has `permission` (r, w or x) on `path`, as the system answers."""
        return self.run(["/bin/sh", "-c", f'test -{permission} "$1"', "sh", path]).returncode == 0

    def make_private(self, folder: Path) -> None:
        """Make `folder` if it is missing, owned by this user and closed to every other user."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.switch:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)
        folder.chmod(0o700)


def choose_account(home: Path) -> Account:
    """Choose the user that runs PostgreSQL: the owner of `home` if there is one, because its files have one owner.

    Raises EmbeddedServerError: `home` belongs to another user, or this process is root's and there is no user that
    could run PostgreSQL.
    """
    owner = home.stat().st_uid if home.exists() else 0
    if os.geteuid() != 0:
        name = _user_name(os.geteuid())
        if home.exists() and owner != os.geteuid():
            raise EmbeddedServerError(f"{home} belongs to user {_user_name(owner)}, not to {name}")
        return Account(name, os.geteuid(), os.getegid(), switch=False)
    if owner == 0 and home.exists() and any(home.iterdir()):
        raise EmbeddedServerError(
            f"{home} belongs to root, but PostgreSQL does not run as root: chown -R it to another user"
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
        f"PostgreSQL does not run as root, and none of the users {', '.join(UNPRIVILEGED)} exists"
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _clean_environment() -> dict[str, str]:
    # PostgreSQL gets none of the service's environment: PG… variables would change it, STABLE_ARENA_… ones are secrets.
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"LC_ALL": "C"}
