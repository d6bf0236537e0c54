#!/bin/sh
# Made by Regatta (ansible/roles/spark). Java for Spark: where memory is used up, executors are ended before daemons;
# classes come from the archive that classes.sh has made of them, which holds for a class path that begins as its own
# (SPARK_CLASS_ARCHIVE=no does without). It unpacks to TMPDIR, which goes with a run: in /tmp the files would stay.
case " $* " in
    *" org.apache.spark.executor.CoarseGrainedExecutorBackend "*) echo 1000 > /proc/self/oom_score_adj || true ;;
esac

jars="$SPARK_HOME/jars/*"
jars_first() {
    rest=$1: found='' others=''
    while [ -n "$rest" ]; do
        one=${rest%%:*} rest=${rest#*:}
        case $one in "$jars") found=$jars ;; ?*) others=$others:$one ;; esac
    done
    ordered=$found$others
}

left=$# before=
while [ "$left" -gt 0 ]; do
    word=$1 left=$((left - 1))
    shift
    case "$before :$word:" in
        "-cp "*":$jars:"*) jars_first "$word"; set -- "$@" "$ordered" ;;
        *) set -- "$@" "$word" ;;
    esac
    before=$word
done
[ -z "${TMPDIR:-}" ] || set -- "-Djava.io.tmpdir=$TMPDIR" "$@"
archive="$SPARK_HOME/../classes.jsa"
if [ -n "$REGATTA_LEARN" ]; then
    set -- -Xshare:off "-XX:DumpLoadedClassList=$REGATTA_LEARN/$$.classes" "$@"
elif [ -r "$archive" ] && [ "$SPARK_CLASS_ARCHIVE" != no ]; then
    set -- -XX:+IgnoreUnrecognizedVMOptions "-XX:SharedArchiveFile=$archive" -Xshare:auto "-Xlog:cds*=off" "$@"
fi
exec "$REGATTA_JAVA/bin/java" "$@"
