#!/usr/bin/env bash
# Runs drivers of Cassandra, unmodified, against a decan built from this tree, each on every
# version of the protocol that it has: gocql 1 and 2, the drivers for Python, Node.js, Java
# and Rust, and cqlsh. Each reads the schema, prepares, pages, batches, writes conditionally,
# writes values of all types, continues after ALTER, while partitions split, and after the
# server was killed and started again.
#
# With DECAN_CQL set, they run against that server instead, with DECAN_CQL_USER,
# DECAN_CQL_KEY and DECAN_CQL_DC, its name of the data center; without DECAN_ADMIN no
# partition splits, and nothing restarts. The arguments are the drivers to run: go python js
# java rust cqlsh; all of them without arguments. Needs Go, Node.js, Python 3 with venv, and
# Java 17 with Maven; Rust is left out where there is no cargo. The drivers come through the
# Go proxy, npm, pip, Maven and crates.io as they are configured here; what cargo has
# compiled is kept in decan of the user's cache.
set -euo pipefail
cd "$(dirname "$0")/../.."
drivers=("$@")
[ ${#drivers[@]} -gt 0 ] || drivers=(go python js java rust cqlsh)
export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/decan/cargo-cassandra
work=$(mktemp -d)
server=
lanes=() # NAME:PID of each driver
stop() {
	local lane
	for lane in "${lanes[@]}"; do kill "${lane#*:}" 2>/dev/null || true; done
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap stop EXIT

serve() {
	env -u DECAN_CQL "$work/decan" serve --data "$work/data" --listen 127.0.0.1:18081 --admin-listen 127.0.0.1:18080 --cql-listen "$DECAN_CQL" --direct=false \
		--region "$DECAN_CQL_DC" --key "$DECAN_CQL_KEY" >>"$work/server.log" 2>&1 &
	server=$!
	for _ in $(seq 200); do
		if (exec 3<>"/dev/tcp/127.0.0.1/${DECAN_CQL#*:}") 2>/dev/null; then return; fi
		sleep 0.1
	done
	cat "$work/server.log"
	return 1
}

# Each driver is installed, and then runs all of its tests before it fails.

install_go() {
	cd compat/cassandra/go
	go test -c -o "$work/go.test" .
}

run_go() {
	cd compat/cassandra/go
	"$work/go.test"
}

install_python() {
	python3 -m venv "$work/python"
	"$work/python/bin/pip" install --quiet --disable-pip-version-check --requirement compat/cassandra/python/requirements.txt
}

run_python() {
	"$work/python/bin/python" -B compat/cassandra/python/drivers_test.py
}

install_cqlsh() {
	python3 -m venv "$work/cqlsh"
	"$work/cqlsh/bin/pip" install --quiet --disable-pip-version-check --requirement compat/cassandra/python/requirements-cqlsh.txt
}

run_cqlsh() {
	PATH=$work/cqlsh/bin:$PATH python3 -B compat/cassandra/python/cqlsh_test.py
}

install_js() {
	cd compat/cassandra/js
	npm ci --no-audit --no-fund --silent
}

run_js() {
	cd compat/cassandra/js
	npm test --silent
}

install_java() {
	mvn --quiet --batch-mode -Dstyle.color=never --file compat/cassandra/java compile -Dwork="$work/java"
}

run_java() {
	java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$work/java/classes:$(cat "$work/java/classpath")" compat.Drivers
}

install_rust() { # a minute on two processors, unless $CARGO_TARGET_DIR has the driver
	if command -v cargo >/dev/null; then
		cargo build --quiet --locked --manifest-path compat/cassandra/rust/Cargo.toml
		cp "$CARGO_TARGET_DIR/debug/compat-cassandra" "$work/rust"
	fi
}

run_rust() {
	if command -v cargo >/dev/null; then
		"$work/rust"
	else
		echo "not run: there is no cargo"
	fi
}

start() { # start NAME COMMAND: runs the command in parallel with the others
	(
		TIMEFORMAT='%0R s, %0U s of a processor'
		time "$2"
	) >"$work/$1.log" 2>&1 &
	lanes+=("$1:$!")
}

finish() { # waits for all commands, and shows the output of those that failed and the end of the others
	local lane failed=0
	for lane in "${lanes[@]}"; do
		if wait "${lane#*:}"; then
			echo "-- ${lane%%:*} passed"
			tail -n 3 "$work/${lane%%:*}.log"
		else
			echo "-- ${lane%%:*} FAILED"
			cat "$work/${lane%%:*}.log"
			failed=1
		fi
	done
	lanes=()
	return $failed
}

for driver in "${drivers[@]}"; do start "install-$driver" "install_$driver"; done
own=
if [ -z "${DECAN_CQL:-}" ]; then
	own=1
	go build -o "$work/decan" ./cmd/decan
	export DECAN_CQL=127.0.0.1:19042 DECAN_CQL_USER=decan DECAN_CQL_DC="South Central US" DECAN_ADMIN=http://127.0.0.1:18080/
	DECAN_CQL_KEY=$(openssl rand -base64 64 | tr -d '\n')
	export DECAN_CQL_KEY DECAN_TURNS=$work/turns
	mkdir "$DECAN_TURNS"
	serve
fi

finish
waiting=0 # drivers that wait for the restart
for driver in "${drivers[@]}"; do
	start "$driver" "run_$driver"
	case $driver in
	go) waiting=$((waiting + 2)) ;;
	cqlsh) ;;
	rust) if command -v cargo >/dev/null; then waiting=$((waiting + 1)); fi ;;
	*) waiting=$((waiting + 1)) ;;
	esac
done

if [ -n "$own" ]; then
	# A driver that fails does not come to wait.
	running() { local lane; for lane in "${lanes[@]}"; do kill -0 "${lane#*:}" 2>/dev/null && return; done; return 1; }
	busy() { local lane; for lane in "${lanes[@]}"; do [ "${lane%%:*}" != cqlsh ] || ! kill -0 "${lane#*:}" 2>/dev/null || return 0; done; return 1; }
	for _ in $(seq 2000); do
		names=("$DECAN_TURNS"/*)
		[ -e "${names[0]}" ] && [ ${#names[@]} -ge "$waiting" ] && ! busy && break
		running || break
		sleep 0.3
	done
	kill -9 "$server"
	wait "$server" 2>/dev/null || true
	serve
	touch "$DECAN_TURNS/restarted"
fi

failed=0
finish || failed=1
if [ -n "$own" ]; then
	kill "$server"
	wait "$server" || failed=1
	server=
	env -u DECAN_CQL "$work/decan" check "$work/data" || failed=1
	[ "$failed" = 0 ] || tail -n 50 "$work/server.log"
fi
exit $failed
