"""Reads vote files: CSV, JSON, Parquet and XLSX in, checked votes and the places of the invalid records out."""
