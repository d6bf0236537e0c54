"""Flags of other launchers, and what to write for them here."""

_WORKERS = "the number of ranks is --workers, over all hosts; each host gets its share"
_NODES = "--workers counts ranks over all hosts; --nodes a,b chooses hosts by name"
_MEETING = "Regatta chooses where ranks meet, and each rank's number: leave it out"
_MEMORY = "Regatta shares the memory of the hosts among executors: set it by the builder of your SparkSession"
_MASTER = "the cluster of the inventory is the master: leave it out, or choose another inventory by -i"
_TREE = "the tree around this folder is synced to all nodes: leave it out"
_VARIABLES = "a variable of the run's processes is --env NAME=VALUE"
_GPUS = "the GPUs of each rank are --gpus N (torchrun, run NAME); --workers counts ranks over all hosts"

FLAGS = {
    **dict.fromkeys(("--nproc_per_node", "--nproc-per-node", "--num_processes", "--ntasks", "--np", "-np"), _WORKERS),
    **dict.fromkeys(("--num-executors", "--total-executor-cores", "--num-workers", "--num_workers"), _WORKERS),
    **dict.fromkeys(
        ("--nnodes", "--num_machines", "--num-nodes", "-N", "--hostfile", "--hosts", "--host", "-H"), _NODES
    ),
    **dict.fromkeys(("--node_rank", "--node-rank", "--machine_rank", "--master_addr", "--master-addr"), _MEETING),
    **dict.fromkeys(("--master_port", "--master-port", "--rdzv_id", "--rdzv-id", "--rdzv_endpoint"), _MEETING),
    **dict.fromkeys(("--rdzv-endpoint", "--rdzv_backend", "--rdzv-backend", "--standalone"), _MEETING),
    **dict.fromkeys(("--max_restarts", "--max-restarts"), "lost ranks start again by --restarts N"),
    **dict.fromkeys(("--executor-memory", "--driver-memory", "--executor-cores", "--driver-cores", "--conf"), _MEMORY),
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
"""torchrun, accelerate, mpirun, srun, spark-submit and `ray job submit`."""
