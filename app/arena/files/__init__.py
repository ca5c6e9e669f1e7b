"""Vote files: CSV, JSONL and Parquet in, checked votes and the places of the faulty ones out."""

from app.arena.files.indexing import IndexedVotes, encode
from app.arena.files.reading import VoteFile, file_sha256, find_places, read_vote_file

__all__ = ["IndexedVotes", "VoteFile", "encode", "file_sha256", "find_places", "read_vote_file"]
