#!/usr/bin/env bash
# Runs the official SDKs against a decan built from this tree: the scenario with
# the Go and JavaScript SDKs over http and https, the programs of the README, and
# the emulator tests that ship inside the Go SDK. Needs Go and Node.js, and the
# ports 8081, 8080 and 8903 of this machine free.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
server=
stop() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
		server=
	fi
}
trap 'stop; rm -rf "$work"' EXIT

go build -o "$work/decan" ./cmd/decan

ready() { # whether the server answers /ready
	node -e 'fetch("http://127.0.0.1:8080/ready").then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))'
}

serve() { # serve NAME FLAGS...: a server that is ready when this returns
	local name=$1
	shift
	"$work/decan" --data "$work/$name" "$@" >"$work/$name.log" 2>&1 &
	server=$!
	for _ in $(seq 100); do
		if ready; then return; fi
		if ! kill -0 "$server" 2>/dev/null; then break; fi
		sleep 0.1
	done
	echo "the server did not become ready:" >&2
	cat "$work/$name.log" >&2
	exit 1
}

echo "== scenario, http and https"
serve scenario
"$work/decan" cert --data "$work/scenario" --out "$work/ca.pem" 2>/dev/null
(cd compat/go && DECAN_ENDPOINTS="http://127.0.0.1:8081/ https://localhost:8081/" DECAN_CA="$work/ca.pem" go test -count=1 ./...)
(cd compat/js && npm ci --no-audit --no-fund --silent)
(cd compat/js && DECAN_ENDPOINT=http://127.0.0.1:8081/ node --test)
(cd compat/js && DECAN_ENDPOINT=https://localhost:8081/ NODE_EXTRA_CA_CERTS="$work/ca.pem" node --test)
stop
"$work/decan" check "$work/scenario"

echo "== emulator tests of the Go SDK"
serve emulator --compute-listen 127.0.0.1:8903 --endpoint https://127.0.0.1:8081/ --consistency Strong --region "South Central US" --strict-ids
(cd compat/go && DECAN_ENDPOINTS=unused DECAN_EMULATOR=1 go test -count=1 -v -run '^TestEmulatorSuite$' .)
stop
"$work/decan" check "$work/emulator"
