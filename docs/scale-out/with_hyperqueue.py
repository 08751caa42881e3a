"""Process units with HyperQueue's Python package.

Without SERVER-DIR, it starts a server and a worker on this machine. With SERVER-DIR, it uses a
server that runs already.

usage: creel-vgm units --skip-done -r music -o out | with_hyperqueue.py [SERVER-DIR]
"""

import os
import sys

from hyperqueue import Client, Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "work.py")


def process(client, units):
    """Submits all units as one job, waits for it, and returns whether all of them succeeded."""
    job = Job(default_env=dict(os.environ))
    for unit in units:
        command = [sys.executable, WORK, "--jobs", "1", "-"]
        job.program(command, stdin=unit, stdout=None, stderr=None)
    return client.wait_for_jobs([client.submit(job)], raise_on_error=False)


def main(server=None):
    units = list(sys.stdin)
    if server is not None:
        done = process(Client(server), units)
    else:
        with LocalCluster(worker_config=WorkerConfig()) as cluster:
            done = process(cluster.client(), units)
    print(f"{len(units)} units, {'all done' if done else 'some failed'}")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
