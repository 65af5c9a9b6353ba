#!/usr/bin/env bash
# Runs drivers of Cassandra, unmodified, against the door of the Cassandra API with the
# small processor of its tests, whose system tables are those of package table: gocql 1 and 2, the Python driver and the Node.js driver,
# each on every version of the protocol that it has. With DECAN_CQL set, they run
# against that server instead, with DECAN_CQL_USER, DECAN_CQL_KEY and DECAN_CQL_DC. Needs
# Go, Node.js, and Python 3 with venv. The drivers come through the Go proxy, npm and pip
# as they are configured here.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
server=
stop() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap stop EXIT

if [ -z "${DECAN_CQL:-}" ]; then
	export DECAN_CQL=127.0.0.1:19042 DECAN_CQL_USER=account DECAN_CQL_DC=dc1
	DECAN_CQL_KEY=$(openssl rand -base64 64 | tr -d '\n')
	export DECAN_CQL_KEY
	go test -c -o "$work/cql.test" ./internal/api/cql
	(cd "$work" && DECAN_CQL_SERVE=$DECAN_CQL exec ./cql.test -test.run '^TestServe$' -test.timeout 0) >"$work/server.log" 2>&1 &
	server=$!
fi
python3 -m venv "$work/python"
"$work/python/bin/pip" install --quiet --disable-pip-version-check --requirement compat/cassandra/python/requirements.txt
(cd compat/cassandra/js && npm ci --no-audit --no-fund --silent)

failed=0
(cd compat/cassandra/go && go test -count=1 ./...) || failed=1
"$work/python/bin/python" compat/cassandra/python/drivers_test.py || failed=1
(cd compat/cassandra/js && npm test --silent) || failed=1
if [ "$failed" = 1 ] && [ -n "$server" ]; then
	tail -n 50 "$work/server.log"
fi
exit $failed
