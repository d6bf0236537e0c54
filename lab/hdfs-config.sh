# Stands in for Hadoop's own libexec, which no registry carries: what bin/hdfs calls, and the variables that people set.
# shellcheck shell=bash disable=SC2034
HADOOP_HOME=${HADOOP_HOME:-$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)}
HADOOP_CONF_DIR=${HADOOP_CONF_DIR:-$HADOOP_HOME/etc/hadoop}
HADOOP_USER_PARAMS=("$@")
_hadoop_subcommands=()
_hadoop_daemon=false
if [[ -f $HADOOP_CONF_DIR/hadoop-env.sh ]]; then
    # shellcheck disable=SC1091
    . "$HADOOP_CONF_DIR/hadoop-env.sh"
fi

hadoop_abs() { readlink -f "$1"; }
hadoop_debug() { :; }
hadoop_error() { echo "$*" >&2; }
hadoop_add_option() { :; }
hadoop_add_subcommand() { _hadoop_subcommands+=("$1|$3"); }
hadoop_add_param() { declare -g "$1=${!1:+${!1} }$3"; }
hadoop_deprecate_envvar() { :; }
hadoop_need_reexec() { return 1; }
hadoop_verify_user_perm() { :; }
hadoop_validate_classname() { [[ $1 == *.* ]]; }

hadoop_generate_usage() {
    local entry
    echo "Usage: $1 SUBCOMMAND [OPTIONS]"
    for entry in "${_hadoop_subcommands[@]}"; do printf '  %-20s %s\n' "${entry%%|*}" "${entry#*|}"; done
}

hadoop_exit_with_usage() {
    hadoop_usage
    exit "$1"
}

hadoop_do_classpath_subcommand() {
    echo "$HADOOP_CONF_DIR:$HADOOP_HOME:$HADOOP_HOME/lib/*"
    exit 0
}

hadoop_add_client_opts() {
    [[ ${HADOOP_SUBCMD_SUPPORTDAEMONIZATION:-} == true ]] || HADOOP_OPTS="${HADOOP_OPTS:-} ${HADOOP_CLIENT_OPTS:-}"
}

# HDFS_NAMENODE_OPTS for `hdfs namenode`, and so on.
hadoop_subcommand_opts() {
    local name
    name=$(printf '%s_%s_OPTS' "$1" "$2" | tr '[:lower:]' '[:upper:]')
    HADOOP_OPTS="${HADOOP_OPTS:-} ${!name:-}"
}

hadoop_generic_java_subcmd_handler() {
    local heap=${HADOOP_HEAPSIZE_MAX:-} options
    [[ $heap =~ ^[0-9]+$ ]] && heap+=m
    read -ra options <<<"${heap:+-Xmx$heap} -Djava.net.preferIPv4Stack=true ${HADOOP_OPTS:-}"
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "-Dproc_$HADOOP_SUBCMD" "${options[@]}" \
        -cp "$HADOOP_CONF_DIR:$HADOOP_HOME:$HADOOP_HOME/lib/*" "$HADOOP_CLASSNAME" "${HADOOP_SUBCMD_ARGS[@]}"
}
