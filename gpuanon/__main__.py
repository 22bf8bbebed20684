"""`python -m gpuanon`: the command line."""

from __future__ import annotations

from gpuanon.cli.app import main

if __name__ == "__main__":
    main()
