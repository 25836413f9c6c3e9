#!/bin/bash
# What a container of the image runs: binlog-stream with its arguments. In pods that Spark makes on Kubernetes the first
# argument is "driver" or "executor": then it runs Spark, called as the entrypoint of Spark's own images calls it.
set -euo pipefail

case "${1:-}" in
driver)
    shift
    exec spark-submit \
        --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        "$@"
    ;;
executor)
    SPARK_HOME=$(find_spark_home.py)
    export SPARK_HOME
    # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 ...: one option of Java each, in this order.
    mapfile -t options < <(env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=/\1 /p' | sort -n | cut -d ' ' -f 2-)
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec binlog-stream "$@"
    ;;
esac
