"""Does units by HyperQueue's Python package: a server and a worker of this machine, or a server that
runs already.

usage: creel-vgm units --skip-done -r music -o out | with_hyperqueue.py [SERVER-DIR]
"""

import os
import sys

from hyperqueue import Client, Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "work.py")


def do(client, units):
    job = Job(default_env=dict(os.environ))
    for unit in units:
        command = [sys.executable, WORK, "--jobs", "1", "-"]
        job.program(command, stdin=unit, stdout=None, stderr=None)
    return client.wait_for_jobs([client.submit(job)], raise_on_error=False)


def main(server=None):
    units = list(sys.stdin)
    if server is not None:
        done = do(Client(server), units)
    else:
        with LocalCluster(worker_config=WorkerConfig()) as cluster:
            done = do(cluster.client(), units)
    print(f"{len(units)} units, {'all done' if done else 'some failed'}")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
