#!/usr/bin/env python3
"""Exit with 0 when a process of this container holds its lease in the metadata database.

turnout-alive schedulers|workers
"""

import json
import socket
import subprocess
import sys


def main(kind: str) -> int:
    """Look this container up in the list of schedulers or workers."""
    listed = subprocess.run(["turnout", kind, "list", "--output", "json"], stdout=subprocess.PIPE, check=True)
    here = socket.gethostname()
    return 0 if any(row["hostname"] == here and row["state"] == "alive" for row in json.loads(listed.stdout)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
