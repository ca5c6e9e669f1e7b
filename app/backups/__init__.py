"""Backups: the whole database in one file, which any PostgreSQL that the service runs on takes.

- `archive`: the file, its manifest and its checksums
- `queries`: what a database holds, and its rows by COPY, with numbers in place of the cluster's transactions, so that
  vote sets mean the same elsewhere
- `backup` and `restore`: the two ways; `check` refits the newest snapshot after a restore
"""
