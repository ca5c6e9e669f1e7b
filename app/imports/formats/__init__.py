"""Reads vote files: CSV, JSON, Parquet and XLSX in, checked votes and the places of the invalid records out."""

from app.imports.formats.reading import ReadOptions, VoteReader, file_sha256
from app.imports.formats.whole import VoteFile, join_vote_files, read_vote_file
