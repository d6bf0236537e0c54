"""Does what a job of Spark does, once, on loopback, so that Java lists the classes that it loads. Argument: a folder.

A master, a worker, its own executor, encrypted as the cluster's; a data frame, Parquet, and a name in HDFS at
which no server answers. `SPARK_CONF_DIR` is this job's own.
"""

import contextlib
import os
import secrets
import sys

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

folder = sys.argv[1]
settings = {
    "spark.master": "local-cluster[1,1,1024]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.authenticate": "true",
    "spark.authenticate.secret": secrets.token_hex(32),
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": f"file://{folder}",
    "spark.sql.warehouse.dir": f"file://{folder}/warehouse",
    "spark.ui.enabled": "false",
    "spark.hadoop.ipc.client.connect.max.retries": "0",
}
with open(os.path.join(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf"), "x") as file:
    file.writelines(f"{name} {value}\n" for name, value in settings.items())
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.parallelize(range(4), 2).map(lambda one: (one % 2, one)).reduceByKey(max).collect()
numbers = f"file://{folder}/numbers"
spark.range(1000).selectExpr("id", "id % 7 as part").write.parquet(numbers)
spark.read.parquet(numbers).groupBy("part").count().orderBy("part").collect()
with contextlib.suppress(Py4JJavaError):
    java = spark.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path("hdfs://127.0.0.1:9/")
    path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(path)
spark.stop()
