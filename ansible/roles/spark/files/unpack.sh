#!/bin/sh
# Arguments: root, archive, its SHA-256, name of the folder. The folder of that name is always whole, on the disk,
# and linked: looking for the folder is enough to know that nothing is left to do.
set -eu
echo "$3  $2" | sha256sum --check --status || { rm -f "$2"; echo "$2 is not the controller's: provision again" >&2; exit 1; }
rm -rf "$1/.spark.new"
mkdir -m 0755 "$1/.spark.new"
tar --extract --file "$2" --directory "$1/.spark.new" --no-same-owner
(cd "$1/.spark.new/pyspark/python/lib" && ln -s py4j-*-src.zip py4j.zip)
sync -f "$1/.spark.new"
ln -sfn "$4" "$1/spark"
rm -rf "${1:?}/$4"
mv -T "$1/.spark.new" "$1/$4"
rm -rf "$(dirname "$2")"
find "$1" -maxdepth 1 -name 'spark-*' ! -name "$4" -exec rm -rf {} +
