"""`fab sparkrun --workers 2 job.py`: a data frame, a Ray on the same executors that learns from it, a data frame again.

Spark and Ray meet in Parquet files of HDFS: `ray.data.from_spark` takes only frames of RayDP.
"""

import argparse
import os
import sys
import time

import ray
import torch
from hdfs_native.fsspec import HdfsFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from ray import train
from ray.train.torch import TorchTrainer, prepare_model
from ray.util.spark import setup_ray_cluster, shutdown_ray_cluster

MIB = 1 << 20
A_QUARTER = {"num_cpus": 0.25}
"""Share of a core: tasks that run at the same time share a node's core."""
FEATURES = ("a", "b", "c")


def rows(spark, count):
    """A data frame of `count` rows: three features, and a label that is 3 a - 2 b + 0.5 c + 1."""
    columns = [sql.rand(seed).alias(name) for seed, name in enumerate(FEATURES)]
    frame = spark.range(count).select("id", *columns)
    return frame.withColumn("label", 3 * sql.col("a") - 2 * sql.col("b") + 0.5 * sql.col("c") + 1)


def inputs(batch):
    """The features of a batch as one tensor, (rows, features)."""
    return torch.stack([batch[name] for name in FEATURES], dim=1).float()


def learn(config):
    """What each worker of Ray Train runs: its share of the rows, gradients added up with the others'."""
    model = prepare_model(torch.nn.Linear(len(FEATURES), 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(config["epochs"]):
        for batch in train.get_dataset_shard("train").iter_torch_batches(batch_size=256, drop_last=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs(batch))[:, 0], batch["label"].float())
            loss.backward()
            optimizer.step()
        train.report({"epoch": epoch, "loss": loss.item()})
    return {name: value.tolist() for name, value in getattr(model, "module", model).state_dict().items()}


class Model:
    """Predicts; an actor of Ray's that keeps the weights."""

    def __init__(self, weights):
        self._model = torch.nn.Linear(len(FEATURES), 1)
        self._model.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})

    def __call__(self, batch):
        """A batch of rows -> their numbers and predictions."""
        with torch.no_grad():
            found = self._model(inputs({name: torch.from_numpy(batch[name].copy()) for name in FEATURES}))[:, 0]
        return {"id": batch["id"], "prediction": found.numpy()}


def with_ray(filesystem, folder, workers, epochs):
    """Learn from `folder`/rows, and write `folder`/predictions, by the Ray that is up."""
    # Read before there are workers: to list files Ray Data wants a whole core, and would wait for it for ever.
    dataset = ray.data.read_parquet(f"{folder}/rows", filesystem=filesystem).materialize()
    trainer = TorchTrainer(
        learn,
        train_loop_config={"epochs": epochs},
        datasets={"train": dataset},
        scaling_config=train.ScalingConfig(
            num_workers=workers, resources_per_worker={"CPU": 0.25}, placement_strategy="SPREAD"
        ),
    )
    weights = trainer.fit().return_value
    print("weights", [round(value, 3) for value in (*weights["weight"][0], *weights["bias"])])
    predicted = dataset.map_batches(
        Model, fn_constructor_args=(weights,), compute=ray.data.ActorPoolStrategy(size=1), **A_QUARTER
    )
    predicted.write_parquet(f"{folder}/predictions", filesystem=filesystem, ray_remote_args=A_QUARTER)


def main():
    """Run with the arguments of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--folder", default="/ray-on-spark", help="of HDFS; what is there is written over")
    parser.add_argument("--fail", action="store_true", help="fail once Ray is up, to see that nothing of it stays")
    given = parser.parse_args()
    workers = int(os.environ["REGATTA_WORKERS"])
    spark = SparkSession.builder.getOrCreate()
    root = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
    if not root.startswith("hdfs://"):
        sys.exit("this cluster has no HDFS: set hdfs_enabled: true and provision")
    host, _, port = root.removeprefix("hdfs://").partition(":")
    files = HdfsFileSystem(host, int(port))
    if files.exists(given.folder):
        files.rm(given.folder, recursive=True)
    rows(spark, given.rows).write.parquet(f"{root}{given.folder}/rows")

    began = time.time()
    setup_ray_cluster(
        max_worker_nodes=workers,
        num_cpus_worker_node=1,  # a core of an executor each; without both, Ray asks for all cores of a host
        num_gpus_worker_node=0,
        memory_worker_node=1024 * MIB,
        object_store_memory_worker_node=100 * MIB,
        memory_head_node=512 * MIB,
        object_store_memory_head_node=100 * MIB,
    )
    print(f"Ray is up after {time.time() - began:.1f} s at {os.environ['RAY_ADDRESS']}", flush=True)
    if given.fail:
        raise RuntimeError("asked to fail")
    ray.init(log_to_driver=False)
    with_ray(PyFileSystem(FSSpecHandler(files)), given.folder, workers, given.epochs)
    shutdown_ray_cluster()

    found = spark.read.parquet(f"{root}{given.folder}/predictions").join(
        spark.read.parquet(f"{root}{given.folder}/rows"), "id"
    )
    count, error = found.select(sql.count("*"), sql.max(sql.abs(sql.col("prediction") - sql.col("label")))).first()
    print(f"{count} rows, the largest error is {error:.3f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
