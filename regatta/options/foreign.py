"""Programs and flags of other launchers, and what to write for them here."""

_WORKERS = "the number of ranks is --workers, over all hosts; each host gets its share"
_NODES = "--workers counts ranks over all hosts; --nodes a,b chooses hosts by name"
_MEETING = "Regatta chooses where ranks meet, and each rank's number: leave it out"
_MEMORY = "Regatta shares the memory of the hosts among executors: set it by the builder of your SparkSession"
_MASTER = "the cluster of the inventory is the master: leave it out, or choose another inventory by -i"
_TREE = "the tree around this folder is synced to all nodes: leave it out"
_VARIABLES = "a variable of the run's processes is --env NAME=VALUE"
_GPUS = "the GPUs of each rank are --gpus N (torchrun, run NAME); --workers counts ranks over all hosts"
_HOST_SHARE = "ranks are shared among hosts in proportion to their cores; their number over all hosts is --workers"
_LOGS = "the output of all ranks is shown and kept: 'logs RUN --rank N' prints that of one"
_PYTHON = "each rank is a Python program: leave it out, and name the script"
_PLACE = "Regatta places and pins the ranks itself: leave it out"

FLAGS = {
    **dict.fromkeys(("--nproc-per-node", "--num-processes", "--ntasks", "--np", "-np", "--world-size"), _WORKERS),
    **dict.fromkeys(("--num-executors", "--total-executor-cores", "--num-workers"), _WORKERS),
    **dict.fromkeys(("--ntasks-per-node", "--npernode", "-ppn", "--ppn", "--nproc", "--procs-per-node"), _HOST_SHARE),
    **dict.fromkeys(("--cpus-per-task", "-c"), _HOST_SHARE),
    "--num-cpu-threads-per-process": "the threads of each rank are --threads-per-rank",
    **dict.fromkeys(
        ("--nnodes", "--num-machines", "--num-nodes", "-N", "--hostfile", "-hostfile", "--machinefile"), _NODES
    ),
    **dict.fromkeys(("--hosts", "--host", "-host", "-H", "--nodelist"), _NODES),
    **dict.fromkeys(("--node-rank", "--machine-rank", "--master-addr", "--master-port", "--main-process-ip"), _MEETING),
    **dict.fromkeys(("--rdzv-id", "--rdzv-endpoint", "--rdzv-backend", "--rdzv-conf", "--standalone"), _MEETING),
    **dict.fromkeys(("--local-addr", "--main-process-port", "--use-env"), _MEETING),
    "--max-restarts": "lost ranks start again by --restarts N",
    "--module": "a module is -m pkg.train",
    **dict.fromkeys(("--no-python", "--run-path"), _PYTHON),
    **dict.fromkeys(("--log-dir", "--redirects", "-r", "--tee", "--local-ranks-filter", "--output", "--error"), _LOGS),
    **dict.fromkeys(
        ("--bind-to", "--map-by", "--oversubscribe", "--cpu-bind", "--mpi", "--mca", "--allow-run-as-root"), _PLACE
    ),
    **dict.fromkeys(("--executor-memory", "--driver-memory", "--executor-cores", "--driver-cores", "--conf"), _MEMORY),
    **dict.fromkeys(("--partition", "-p", "--account", "--qos"), _MASTER),
    "--no-wait": "to return at once, put the run into the cluster's queue by --detach",
    **dict.fromkeys(("--master", "--deploy-mode", "--address", "--submission-id"), _MASTER),
    **dict.fromkeys(("--working-dir", "--py-files", "--files", "--archives", "--chdir"), _TREE),
    **dict.fromkeys(
        ("--packages", "--jars"), "Java packages: set spark.jars.packages in the builder of your SparkSession"
    ),
    **dict.fromkeys(("--runtime-env", "--runtime-env-json", "--export", "-x"), _VARIABLES),
    **dict.fromkeys(("--num-gpus", "--gres", "--gpus-per-node"), _GPUS),
    **dict.fromkeys(("--time", "-t", "--timeout"), "a limit of the run's time is --time-limit, as 90, 5m or 1:00:00"),
    **dict.fromkeys(("--job-name", "-J"), "a name of the run is --name"),
}
"""torchrun, accelerate, mpirun, srun, spark-submit and `ray job submit`; a `_` within a name is a `-` here."""

COMMANDS = {
    **dict.fromkeys(("python", "python3", "uv", "poetry", "pdm", "conda"), "torchrun"),
    **dict.fromkeys(("srun", "mpirun", "mpiexec", "accelerate", "deepspeed", "composer", "horovodrun"), "torchrun"),
    "ray": "rayrun",
    "spark-submit": "sparkrun",
}
"""The command here that does what another launcher does."""
LAUNCHERS = {*COMMANDS, "torchrun"}
"""Programs that people type before their script."""
MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands", "deepspeed.launcher")
"""The beginnings of modules that are such programs."""
SHELLS = ("bash", "sh", "zsh")


def advice(name: str) -> str | None:
    """Return what to write in place of such a flag; None for one that no launcher has."""
    dashes = len(name) - len(name.lstrip("-"))
    return FLAGS.get(name[:dashes] + name[dashes:].replace("_", "-"))
