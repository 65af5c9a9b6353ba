#!/usr/bin/env bash
# Runs applications of Cassandra, each with its default options, against a decan built
# from this tree, each with the versions of its libraries that its pom.xml names: Spring
# Data Cassandra and JanusGraph. docs/clients.md has the results. Not a part of .ci/run,
# because the libraries are large: the first run downloads some 200 MB through Maven as it
# is configured here.
#
# With DECAN_CQL set, they run against that server instead, with DECAN_CQL_USER,
# DECAN_CQL_KEY and DECAN_CQL_DC, its name of the data center. The arguments are the
# applications to run; all of them without arguments. Needs Go, and Java 17 with Maven.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi; rm -rf "$work"' EXIT

if [ -z "${DECAN_CQL:-}" ]; then
	go build -o "$work/decan" ./cmd/decan
	DECAN_CQL=127.0.0.1:19043 DECAN_CQL_USER=decan DECAN_CQL_DC="South Central US"
	DECAN_CQL_KEY=$(openssl rand -base64 64 | tr -d '\n')
	"$work/decan" serve --data "$work/data" --listen 127.0.0.1:18083 --admin-listen 127.0.0.1:18082 --cql-listen "$DECAN_CQL" \
		--region "$DECAN_CQL_DC" --key "$DECAN_CQL_KEY" >"$work/log" 2>&1 &
	server=$!
	until (exec 3<>"/dev/tcp/127.0.0.1/${DECAN_CQL#*:}") 2>/dev/null; do
		if ! kill -0 "$server" 2>/dev/null; then
			cat "$work/log"
			exit 1
		fi
		sleep 0.1
	done
fi

run() { # run APPLICATION
	mvn --quiet --batch-mode -Dstyle.color=never --file "compat/cassandra/apps/$1" compile -Dwork="$work/$1"
	java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$work/$1/classes:$(cat "$work/$1/classpath")" apps.Main \
		"${DECAN_CQL%:*}" "${DECAN_CQL#*:}" "$DECAN_CQL_USER" "$DECAN_CQL_KEY" "$DECAN_CQL_DC"
}

failed=0
for app in ${*:-spring janusgraph}; do
	run "$app" >"$work/$app.log" 2>&1 &
	if wait $!; then
		echo "-- $app passed"
		tail -n 1 "$work/$app.log"
	else
		echo "-- $app FAILED"
		cat "$work/$app.log"
		failed=1
	fi
done
if [ -n "$server" ]; then
	kill "$server"
	wait "$server" || failed=1
	server=
	"$work/decan" check "$work/data" || failed=1
fi
exit $failed
