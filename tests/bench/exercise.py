#!/usr/bin/env python3
"""Has a native ceiling serve every workload for some seconds, so that a profile of it can be made.

Place in the flow: `scripts/dist.sh` runs it with a ceiling that counts which way its code goes; the host's twin is
`scripts/exercise.py`.
In:  the path of a ceiling, and what `run.py` takes. Out: exit status 0 once every workload was answered as it should be.
"""

import dataclasses
import pathlib
import sys
import tempfile

from run import environment
from servers import BenchError, Running
from workloads import CEILING, SERVERS, WORKLOADS


def exercise(ceiling: pathlib.Path) -> None:
    """Loads each workload as the benchmark does, at the least and the most connections it has."""
    server = next(server for server in SERVERS if server.name == CEILING)
    server = dataclasses.replace(server, binary=ceiling)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        for work in WORKLOADS:
            running = Running(server, work, environment(), pathlib.Path(scratch) / "log")
            try:
                for connections in (1, 64):
                    running.window(work, connections, 3, 0)
            finally:
                running.stop()


if __name__ == "__main__":
    try:
        exercise(pathlib.Path(sys.argv[1]))
    except BenchError as error:
        sys.exit(f"bench: {error}")
