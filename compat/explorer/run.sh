#!/usr/bin/env bash
# The Data Explorer in a real browser: every screen is driven in Debian's Chromium, hostile
# pages included, and the main ones in Firefox if it is there. EXPLORER_PICTURES=DIR writes
# a picture of each screen into DIR, FILES names the tests to run, and arguments are for
# node --test. Exit status 69: there is no Chromium, and Debian's package cannot be installed.
set -euo pipefail
cd "$(dirname "$0")"

browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
if [ -z "$browser" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	# The list of packages may be old, or missing.
	timeout 150 sh -c 'get() { apt-get -o Acquire::http::Timeout=20 "$@" >/dev/null 2>&1; }
		get install -y --no-install-recommends chromium fonts-dejavu-core ||
			{ get update && get install -y --no-install-recommends chromium fonts-dejavu-core; }' || true
	browser=$(command -v chromium || true)
fi
[ -n "$browser" ] || { echo "no Chromium: install the package chromium, or set CHROMIUM"; exit 69; }

work=$(mktemp -d)
servers=()
clean() {
	for server in "${servers[@]}"; do { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } || true; done
	rm -rf "$work"
}
trap clean EXIT

[ -d node_modules/playwright-core ] || npm ci --ignore-scripts --no-audit --no-fund --silent
(cd ../.. && go build -o "$work/decan" ./cmd/decan)
"$work/decan" serve --in-memory --limits laptop --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --cql-listen 127.0.0.1:0 --direct=false >"$work/banner" 2>"$work/log" &
servers+=($!)
# The data of the demo, for the key advisor. Its server loads them in about five seconds.
"$work/decan" demo tenants --documents 1000 --keep >"$work/demo" 2>"$work/demobanner" &
servers+=($!)
begun() { # FILE, LOG, PROCESS
	for _ in $(seq 600); do
		grep -q '^  admin' "$1" && return
		kill -0 "$3" 2>/dev/null || break
		sleep 0.1
	done
	cat "$2"
	return 1
}
begun "$work/banner" "$work/log" "${servers[0]}"
begun "$work/demobanner" "$work/demobanner" "${servers[1]}"
address() { sed -n "s#^  $2 *\(http://[0-9.:]*\).*#\1#p" "$work/$1" | head -1; }

# Firefox is driven too if it is there: the package firefox-esr.
FIREFOX=${FIREFOX:-$(command -v firefox-esr || command -v firefox || true)}
export FIREFOX CHROMIUM=$browser DECAN_ENDPOINT DECAN_ADMIN DECAN_CQL DEMO_ENDPOINT DEMO_ADMIN
DECAN_ENDPOINT=$(address banner endpoint) DECAN_ADMIN=$(address banner admin)
DEMO_ENDPOINT=$(address demobanner endpoint) DEMO_ADMIN=$(address demobanner admin)
DECAN_CQL=$(sed -n "s#^  cql *\([0-9.]*:[0-9]*\).*#\1#p" "$work/banner")
node --test --test-concurrency=1 --test-timeout=300000 "$@" ${FILES:-./*.test.mjs}
