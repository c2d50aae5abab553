"""The least that must work on every release of Python: a list, and a program and a function in a cluster of its own."""

import os
import tempfile

from headquarters import Job, LocalCluster
from headquarters.lists import Context, F

assert Context("serial").iterates(4).map(F * 2).reduce(lambda a, b: a + b, initial=1) == 13

with tempfile.TemporaryDirectory() as directory, LocalCluster() as cluster:
    client = cluster.client()
    job = Job(default_workdir=directory)
    program = job.program(["echo", "hello"])
    function = job.function(lambda x: 2 * x, args=(21,), deps=[program])
    submitted = client.submit(job)
    assert client.wait_for_jobs([submitted])
    assert submitted.result(function) == 42
    with open(os.path.join(directory, "0.stdout")) as output:
        assert output.read() == "hello\n"
