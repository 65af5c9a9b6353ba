#!/usr/bin/env bash
# Runs small applications against a decan built from this tree, each with the versions
# of its libraries that its lock or requirements name: a bot, a web API and vector
# stores (JavaScript, Python), a Spring Data repository (Java), the conformance tests of
# Dapr's state stores (Go). docs/clients.md has the results. Not a part of .ci/run,
# because the libraries are large: the first run downloads some 300 MB through npm, pip,
# Maven and Go as they are configured here. Needs Go, Node.js, Python 3 with venv, Java
# 17 with Maven.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi; rm -rf "$work"' EXIT

go build -o "$work/decan" ./cmd/decan
"$work/decan" --data "$work/data" --listen 127.0.0.1:8081 --admin-listen 127.0.0.1:8080 >"$work/log" 2>&1 &
server=$!
export DECAN_ENDPOINT=http://127.0.0.1:8081/
until node -e 'fetch("http://127.0.0.1:8080/ready").then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))'; do
	if ! kill -0 "$server" 2>/dev/null; then
		cat "$work/log"
		exit 1
	fi
	sleep 0.1
done

js() {
	cd compat/apps/js
	npm ci --no-audit --no-fund --silent
	node --test --test-reporter=spec *.test.mjs
}

py() {
	python3 -m venv "$work/python"
	"$work/python/bin/pip" install --quiet --disable-pip-version-check --requirement compat/apps/py/requirements.txt
	cd compat/apps/py
	"$work/python/bin/python" -B -m unittest langchain_test
}

java() {
	mvn --quiet --batch-mode -Dstyle.color=never --file compat/apps/java compile -Dwork="$work/java"
	"$work/decan" cert --data "$work/data" --out "$work/ca.pem" 2>/dev/null
	keytool -importcert -noprompt -alias decan -file "$work/ca.pem" -keystore "$work/trust.jks" -storepass changeit 2>/dev/null
	local flags=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$work/java/classes:$(cat "$work/java/classpath")")
	command java "${flags[@]}" -Djavax.net.ssl.trustStore="$work/trust.jks" -Djavax.net.ssl.trustStorePassword=changeit apps.Main https://localhost:8081/
	command java "${flags[@]}" -DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true -Dapps.gateway=true apps.Main "$DECAN_ENDPOINT"
}

dapr() {
	cd compat/apps/dapr
	go test -count=1 -timeout 120s ./...
}

failed=0
for app in ${*:-js py java dapr}; do
	"$app" >"$work/$app.log" 2>&1 &
	if wait $!; then
		echo "-- $app passed"
		tail -n 12 "$work/$app.log"
	else
		echo "-- $app FAILED"
		cat "$work/$app.log"
		failed=1
	fi
done
kill "$server"
wait "$server" || true
server=
"$work/decan" check "$work/data"
exit $failed
