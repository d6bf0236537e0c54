#!/bin/sh
# Made by Regatta (ansible/roles/spark). Arguments: begin|make, folder of this Spark, its name in class paths, the
# configuration's folder, Python. `make` writes an archive of the classes that Spark's programs load, for this Java,
# and the byte-code of pyspark: they then start in a part of the time. `begin` does so in the background, where it is
# missing, when nothing else wants the processors. It appears whole. Java looks whether it fits, and does without one
# that does not.
set -eu
step=$1 folder=$2 root=$3 conf=$4 python=$5
SPARK_HOME=$root/pyspark
export SPARK_HOME
# shellcheck source=/dev/null
. "$conf/spark-env.sh"
java=$("$REGATTA_JAVA/bin/java" -Xinternalversion)
[ "$java" != "$(cat "$folder/classes.java" 2>/dev/null)" ] || exit 0

if [ "$step" = begin ]; then
    systemctl --quiet is-active regatta-spark-classes.service && exit 0
    systemd-run --quiet --collect --no-block --unit=regatta-spark-classes --nice=19 \
        --property=CPUSchedulingPolicy=idle --property=IOSchedulingClass=idle --property=RuntimeMaxSec=1800 \
        --property=PrivateNetwork=yes --property=PrivateTmp=yes --property=ProtectHome=yes --property=UMask=0022 \
        --property=ProtectSystem=strict --property=ReadWritePaths="$folder" --property=NoNewPrivileges=yes \
        --property=CapabilityBoundingSet= --property=OOMScoreAdjust=1000 \
        /bin/sh "$conf/classes.sh" make "$folder" "$root" "$conf" "$python"
    echo begun
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work" "$folder/classes.new"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/conf" "$work/learnt"
cp "$conf/spark-env.sh" "$work/conf/"
"$python" -m compileall -q "$SPARK_HOME" || true
export HOME="$work" SPARK_CONF_DIR="$work/conf" SPARK_LOCAL_DIRS="$work" SPARK_WORKER_DIR="$work" SPARK_LOCAL_IP=127.0.0.1
export REGATTA_LEARN="$work/learnt" PYSPARK_PYTHON="$python"
PYTHONPATH="$root:$SPARK_HOME/python/lib/py4j.zip" timeout 900 "$python" "$conf/classes.py" "$work"
unset REGATTA_LEARN
cat "$work/learnt/"*.classes | grep -v '^#' | LC_ALL=C sort -u > "$work/classes"
"$REGATTA_JAVA/bin/java" -Xshare:dump -XX:SharedArchiveFile="$folder/classes.new" \
    -XX:SharedClassListFile="$work/classes" "-Xlog:cds*=off" -cp "$SPARK_HOME/jars/*"
chmod 0644 "$folder/classes.new"
mv "$folder/classes.new" "$folder/classes.jsa"
printf '%s\n' "$java" > "$folder/classes.java"
