"""Reads vote files: CSV, JSONL and Parquet in, checked votes and the places of the invalid records out."""

from app.imports.formats.indexing import encode
from app.imports.formats.reading import ReadOptions, VoteFile, VoteReader, file_sha256, read_vote_file

__all__ = ["ReadOptions", "VoteFile", "VoteReader", "encode", "file_sha256", "read_vote_file"]
