#!/bin/sh
# Made by Regatta (ansible/roles/spark). Java for Spark: where memory is used up, executors are ended before daemons.
case " $* " in
    *" org.apache.spark.executor.CoarseGrainedExecutorBackend "*) echo 1000 > /proc/self/oom_score_adj || true ;;
esac
exec "$REGATTA_JAVA/bin/java" "$@"
