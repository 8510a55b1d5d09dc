"""``python -m ortpkg`` and the ``ortpkg`` command."""

from __future__ import annotations

from ortpkg.cli.app import main

if __name__ == "__main__":
    main()
