"""Engines: the same masks on one machine's memory, or spread over workers."""
