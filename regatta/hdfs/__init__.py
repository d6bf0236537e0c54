"""HDFS of a cluster from the controller."""
