#!/usr/bin/env bash
# Runs one node of Apache Cassandra 4.1 on loopback, from Maven artifacts, in a temporary
# folder, with everything enabled that 4.1 keeps experimental, and stops it:
#
#	cassandra.sh start DIR [PORT]   prints the address when the node answers
#	cassandra.sh stop DIR           ends the node and removes DIR
#	cassandra.sh run [PORT] -- COMMAND...   runs a command with DECAN_CASSANDRA set to the address
#
# DIR holds its data, its log and its process id. Statements keep their data only until
# it stops. HEAP (512m) is its memory. With MEASURED=1 the node is one to measure: memory,
# threads, collector and compiler as by default, and a commit log that is synced before a
# write is answered. Needs Java 11 or 17 and Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

start() {
	local dir=$1 port=${2:-9042}
	if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
		echo "port $port is in use" >&2
		return 1
	fi
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	[ -d "$dir/lib" ] || mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$dir/lib" >&2
	cat >"$dir/cassandra.yaml" <<YAML
cluster_name: judge
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: "127.0.0.1:$((port + 1))"}]
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: $((port + 1))
native_transport_port: $port
endpoint_snitch: SimpleSnitch
data_file_directories: ["$dir/data"]
commitlog_directory: $dir/commitlog
saved_caches_directory: $dir/caches
hints_directory: $dir/hints
cdc_raw_directory: $dir/cdc
auto_snapshot: false
incremental_backups: false
disk_failure_policy: stop
materialized_views_enabled: true
sasi_indexes_enabled: true
transient_replication_enabled: false
user_defined_functions_enabled: false
drop_compact_storage_enabled: true
use_statements_enabled: true
tombstone_warn_threshold: 100000
tombstone_failure_threshold: 1000000
batch_size_warn_threshold: 5MiB
batch_size_fail_threshold: 50MiB
unlogged_batch_across_partitions_warn_threshold: 1000
read_request_timeout: 60s
range_request_timeout: 60s
write_request_timeout: 60s
counter_write_request_timeout: 60s
cas_contention_timeout: 60s
truncate_request_timeout: 120s
request_timeout: 60s
YAML
	local java=(-Xms"${HEAP:-512m}" -Xmx"${HEAP:-512m}" -Xss384k -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Dio.netty.eventLoopThreads=2)
	if [ -n "${MEASURED-}" ]; then
		java=(-Xss384k -XX:+UseG1GC)
		echo 'commitlog_sync: batch' >>"$dir/cassandra.yaml"
	else
		java+=(-Dcassandra.unsafesystem=true)
		cat >>"$dir/cassandra.yaml" <<YAML
commitlog_sync: periodic
commitlog_sync_period: 10s
commitlog_segment_size: 8MiB
commitlog_total_space: 128MiB
memtable_heap_space: 96MiB
memtable_offheap_space: 32MiB
memtable_allocation_type: heap_buffers
key_cache_size: 2MiB
prepared_statements_cache_size: 32MiB
concurrent_reads: 4
concurrent_writes: 4
concurrent_counter_writes: 4
concurrent_compactors: 1
native_transport_max_threads: 8
YAML
	fi
	cat >"$dir/logback.xml" <<'XML'
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level [%thread] %date{ISO8601} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
XML
	local opens=()
	for module in java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.ref java.base/java.lang.reflect \
		java.base/java.math java.base/java.net java.base/java.nio java.base/java.nio.charset java.base/java.nio.file.spi \
		java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic java.base/java.util.concurrent.locks \
		java.base/jdk.internal.loader java.base/jdk.internal.math java.base/jdk.internal.misc java.base/jdk.internal.module \
		java.base/jdk.internal.perf java.base/jdk.internal.ref java.base/jdk.internal.reflect java.base/jdk.internal.util \
		java.base/jdk.internal.util.jar java.base/sun.net java.base/sun.nio.ch java.base/sun.nio.fs \
		java.management/com.sun.jmx.remote.security java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry \
		java.rmi/sun.rmi.server java.rmi/sun.rmi.transport java.rmi/sun.rmi.transport.tcp jdk.management/com.sun.management.internal; do
		opens+=(--add-opens "$module=ALL-UNNAMED")
	done
	opens+=(--add-exports jdk.attach/sun.tools.attach=ALL-UNNAMED --add-exports java.sql/java.sql=ALL-UNNAMED
		--add-exports jdk.unsupported/sun.misc=ALL-UNNAMED)
	local version manager=()
	version=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.specification.version = //p')
	[ "$version" = 11 ] || manager=(-Djava.security.manager=allow)
	# The node is the child itself, so that its process id is the one to end.
	(
		cd "$dir"
		exec java "${java[@]}" "${opens[@]}" "${manager[@]}" -javaagent:"$(echo "$dir"/lib/jamm-*.jar)" \
			-Dcassandra.config="file://$dir/cassandra.yaml" -Dlogback.configurationFile="file://$dir/logback.xml" \
			-Dcassandra.storagedir="$dir" -Dcassandra-foreground=yes -Dcassandra.ring_delay_ms=0 -Dcassandra.skip_wait_for_gossip_to_settle=0 \
			-Dcassandra.superuser_setup_delay_ms=0 -Dcassandra.jmx.local.port=0 -Duser.timezone=UTC \
			-Djava.awt.headless=true -Djna.tmpdir="$dir" -Djava.io.tmpdir="$dir" \
			-cp "$dir/lib/*" org.apache.cassandra.service.CassandraDaemon
	) >"$dir/log" 2>&1 </dev/null &
	echo $! >"$dir/pid"
	for _ in $(seq 240); do
		if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "127.0.0.1:$port"
			return
		fi
		kill -0 "$(cat "$dir/pid")" 2>/dev/null || break
		sleep 0.5
	done
	tail -n 50 "$dir/log" >&2
	stop "$dir"
	return 1
}

stop() {
	local dir=$1 pid
	pid=$(cat "$dir/pid")
	kill "$pid" 2>/dev/null || true
	for _ in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	kill -9 "$pid" 2>/dev/null || true
	rm -rf "$dir"
}

case ${1:-} in
start) start "$2" "${3:-9042}" ;;
stop) stop "$2" ;;
run)
	shift
	port=9042
	if [ "$1" != -- ]; then
		port=$1
		shift
	fi
	shift
	work=$(mktemp -d)
	trap 'stop "$work"' EXIT
	DECAN_CASSANDRA=$(start "$work" "$port")
	DECAN_CASSANDRA_PID=$(cat "$work/pid")
	export DECAN_CASSANDRA DECAN_CASSANDRA_PID
	"$@"
	;;
*)
	sed -n '2,13s/^# \{0,1\}//p' "$0"
	exit 2
	;;
esac
