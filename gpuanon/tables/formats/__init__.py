"""File formats: reading, writing, and rereading for verification."""
