#!/usr/bin/env bash
# Runs the official SDKs against a decan built from this tree: the scenario of a
# first user, the change feed and the queries of queries.json with the JavaScript,
# Python and Java SDKs, each at its newest version and at the oldest that knows
# hierarchical partition keys (S91, S95), the scenario and the change feed with the
# Go SDK, the programs of the README, all but the Go SDK while partitions split, and
# the emulator tests that ship inside the Go SDK. Needs Go, Node.js,
# Python 3 with venv, and Java 17 with Maven, and the ports 8081, 8080 and 8903 of
# this machine free. The SDKs come through npm, pip and Maven as they are
# configured here; what these have cached is not fetched again.
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
lanes=() # NAME:PID of what start began
trap 'for lane in "${lanes[@]}"; do kill "${lane#*:}" 2>/dev/null || true; done; stop; rm -rf "$work"' EXIT

start() { # start NAME COMMAND...: runs the command beside the others
	local name=$1
	shift
	"$@" >"$work/$name.log" 2>&1 &
	lanes+=("$name:$!")
}

finish() { # waits for all that was started, shows what failed and the end of what did not
	local lane failed=0
	for lane in "${lanes[@]}"; do
		if wait "${lane#*:}"; then
			echo "-- ${lane%%:*} passed"
			tail -n 2 "$work/${lane%%:*}.log"
		else
			echo "-- ${lane%%:*} FAILED"
			cat "$work/${lane%%:*}.log"
			failed=1
		fi
	done
	lanes=()
	return $failed
}

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

http=http://127.0.0.1:8081/
https=https://localhost:8081/
admin=http://127.0.0.1:8080/
python_versions="oldest newest"     # the requirements files of compat/py
java_versions="4.42.0 4.81.0"       # the first needs https
ca=$work/ca.pem
trust=$work/trust.jks
answers=$work/answers.json

install_js() {
	cd compat/js
	npm ci --no-audit --no-fund --silent
}

install_python() {
	local version
	for version in $python_versions; do
		python3 -m venv "$work/python-$version"
		"$work/python-$version/bin/pip" install --quiet --disable-pip-version-check --requirement "compat/py/requirements-$version.txt"
	done
}

install_java() {
	local version
	for version in $java_versions; do
		mvn --quiet --batch-mode -Dstyle.color=never --file compat/java compile -Dcosmos.version="$version" -Dwork="$work/java-$version"
	done
	keytool -importcert -noprompt -alias decan -file "$ca" -keystore "$trust" -storepass changeit 2>/dev/null
}

# Each of these runs all it has before it fails.

run_go() {
	cd compat/go
	DECAN_ENDPOINTS="$http $https" DECAN_CA=$ca go test -count=1 ./...
}

run_js() {
	local failed=0
	export NODE_EXTRA_CA_CERTS=$ca DECAN_ANSWERS=$answers
	cd compat/js
	DECAN_ENDPOINT=$http node --test --test-reporter=spec scenario.test.mjs queries.test.mjs changefeed.test.mjs access.test.mjs scripts.test.mjs || failed=1
	local all="scenario.test.mjs queries.test.mjs changefeed.test.mjs access.test.mjs scripts.test.mjs answers.test.mjs"
	DECAN_ENDPOINT=$https node --test --test-reporter=spec $all || failed=1
	DECAN_ENDPOINT=$https DECAN_SDK=cosmos-oldest node --test --test-reporter=spec $all || failed=1 # refuses http
	return $failed
}

run_python() {
	local version failed=0
	export DECAN_HTTP=$http DECAN_HTTPS=$https DECAN_CA=$ca DECAN_ANSWERS=$answers
	cd compat/py
	for version in $python_versions; do
		"$work/python-$version/bin/python" -B -m unittest -q scenario_test changefeed_test answers_test || failed=1
	done
	return $failed
}

run_java() {
	local version failed=0 endpoints=$https
	for version in $java_versions; do
		java -Djavax.net.ssl.trustStore="$trust" -Djavax.net.ssl.trustStorePassword=changeit \
			-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true \
			-cp "$work/java-$version/classes:$(cat "$work/java-$version/classpath")" \
			compat.Main "$answers" $endpoints || failed=1
		endpoints="$http $https"
	done
	return $failed
}

# These want a server whose partitions split after 256 KB. Versions run one after the other.

split_js() {
	export NODE_EXTRA_CA_CERTS=$ca DECAN_ADMIN=$admin
	cd compat/js
	DECAN_ENDPOINT=$http node --test --test-reporter=spec splits.test.mjs
	DECAN_ENDPOINT=$https DECAN_SDK=cosmos-oldest node --test --test-reporter=spec splits.test.mjs
}

split_python() {
	local version
	export DECAN_HTTP=$http DECAN_HTTPS=$https DECAN_CA=$ca DECAN_ADMIN=$admin
	cd compat/py
	for version in $python_versions; do
		"$work/python-$version/bin/python" -B -m unittest -q splits_test
	done
}

split_java() { # the feed of the oldest does not outlive a split
	local version=${java_versions##* }
	java -DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true \
		-cp "$work/java-$version/classes:$(cat "$work/java-$version/classpath")" compat.Splits $http $admin
}

echo "== the Go SDK, the other SDKs, and the answers they are compared with"
serve scenario
"$work/decan" cert --data "$work/scenario" --out "$ca" 2>/dev/null
start go run_go
start install-js install_js
start install-python install_python
start install-java install_java
(cd compat/go && go run ./answers -endpoint "$http" -queries ../queries.json -out "$answers") || refused=1
finish

echo "== the other SDKs, over http and https"
start js run_js
start python run_python
start java run_java
finish
[ -z "${refused-}" ]
stop
"$work/decan" check "$work/scenario"

echo "== partitions that split while the SDKs read and write"
serve splits --physical-partition-max 256KB --logical-partition-max 64KB
"$work/decan" cert --data "$work/splits" --out "$ca" 2>/dev/null
start split-js split_js
start split-python split_python
start split-java split_java
finish
stop
"$work/decan" check "$work/splits"

echo "== emulator tests of the Go SDK"
serve emulator --compute-listen 127.0.0.1:8903 --endpoint https://127.0.0.1:8081/ --consistency Strong --region "South Central US" --strict-ids --emulator-tokens
"$work/decan" cert --data "$work/emulator" --out "$ca" 2>/dev/null
(cd compat/go && SSL_CERT_FILE=$ca DECAN_ENDPOINTS=unused DECAN_EMULATOR=1 go test -count=1 -v -run '^TestEmulatorSuite$' .)
stop
"$work/decan" check "$work/emulator"
