"""The tasks behind `fab` and `regatta`: names, flags, help; each calls the library in a few lines."""

from invoke.collection import Collection

from regatta.tasks import (
    begin,
    bench,
    data,
    nodes,
    notebook,
    outputs,
    queue,
    results,
    runs,
    sealing,
    services,
    workloads,
)

namespace = Collection()
for module in (begin, services, runs, queue, notebook, nodes, outputs, bench, results, sealing, data):
    for found in vars(module).values():
        if getattr(found, "is_regatta_task", False):
            namespace.add_task(found)
for made in workloads.tasks():
    namespace.add_task(made)
