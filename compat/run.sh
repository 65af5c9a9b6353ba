#!/usr/bin/env bash
# Runs the official SDKs against a decan built from this tree: what an application does
# (the scenario of a first user, the change feed, writes, scripts, access, sessions, the
# management calls of the SDKs' samples) and the queries of queries.json with the
# JavaScript, Python, Java and .NET SDKs, each at its newest version and at the oldest
# that knows hierarchical partition keys (S91, S95; of .NET an early one), Python's
# asynchronous clients too, an older .NET SDK and DocumentClient, the scenario, the
# change feed and the SDK's examples with the Go SDK, the SDK for Rust with its defaults
# where cargo is installed, the programs of the README, five SDKs while partitions
# split, Java's change feed processor while they split and merge, the emulator tests that
# ship inside the Go SDK, and the drivers of Cassandra (cassandra/run.sh). The Java tests
# and those of .NET run in gateway mode and in direct mode; with COMPAT_ALL=1 the older
# .NET SDKs do too, which otherwise run in one of the two, and all clients page through 64
# partitions while they split. Needs Go, Node.js, Python 3 with
# venv, and Java 17 with Maven, and these ports of this machine free: 8080, 8081, 8903,
# 10251, 10350, and those of cassandra/run.sh. The C# programs run
# where dotnet (10 or later) is installed or CSRUN names a program that compiles and
# runs C# files (its arguments: --set with the package and its version, --define NAME,
# the files, --, the arguments of the program); elsewhere they are left out, with a
# line. The SDKs come through npm, pip, Maven, NuGet and cargo as they are configured here;
# what these have cached is not fetched again, and what cargo has compiled is kept in
# decan of the user's cache.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/decan/cargo-sdk
work=$(mktemp -d)
server=
stop() {
	if [ -n "$server" ]; then
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
		server=
	fi
}
lanes=() # NAME:PID of each job that start began
trap 'for lane in "${lanes[@]}"; do kill "${lane#*:}" 2>/dev/null || true; done; stop; rm -rf "$work"' EXIT

start() { # start NAME COMMAND...: runs the command in parallel with the others
	local name=$1
	shift
	(TIMEFORMAT='%0R s, %0U s of a processor'; time "$@") >"$work/$name.log" 2>&1 &
	lanes+=("$name:$!")
}

finish() { # waits for all jobs, and shows the output of those that failed and the end of the others
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
}

run_main() { # run_main VERSION ARGUMENTS...: the Java tests; the second compiler does not pay off for short programs
	local version=$1
	shift
	java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dcompat.direct="${direct:-false}" \
		-Djavax.net.ssl.trustStore="$trust" -Djavax.net.ssl.trustStorePassword=changeit \
		-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true \
		-cp "$work/java-$version/classes:$(cat "$work/java-$version/classpath")" compat.Main "$@"
}

# Each of these runs all of its tests before it fails.

run_go() {
	cd compat/go
	DECAN_ENDPOINTS="$http $https" DECAN_CA=$ca go test -count=1 ./...
}

js_both="scenario.test.mjs queries.test.mjs changefeed.test.mjs" # over http and https
js_once="management.test.mjs writes.test.mjs scripts.test.mjs access.test.mjs sessions.test.mjs answers.test.mjs"

run_js() {
	local failed=0
	export NODE_EXTRA_CA_CERTS=$ca DECAN_ANSWERS=$answers DECAN_ADMIN=$admin
	cd compat/js
	DECAN_ENDPOINT=$http node --test --test-reporter=spec $js_both || failed=1
	DECAN_ENDPOINT=$https node --test --test-reporter=spec $js_both $js_once || failed=1
	DECAN_ENDPOINT=$http node --test --test-reporter=spec paging.test.mjs || failed=1 # the oldest has no continuation tokens for ORDER BY
	return $failed
}

run_js_oldest() { # it refuses http
	export NODE_EXTRA_CA_CERTS=$ca DECAN_ANSWERS=$answers DECAN_ADMIN=$admin
	cd compat/js
	DECAN_ENDPOINT=$https DECAN_SDK=cosmos-oldest node --test --test-reporter=spec $js_both $js_once
}

run_python() { # run_python VERSION
	export DECAN_HTTP=$http DECAN_HTTPS=$https DECAN_CA=$ca DECAN_ANSWERS=$answers DECAN_ADMIN=$admin
	cd compat/py
	"$work/python-$1/bin/python" -B -m unittest -q scenario_test changefeed_test management_test writes_test \
		scripts_test access_test sessions_test answers_test paging_test
}

run_python_aio() { # the same tests over the asynchronous clients; the oldest reads one page of a feed
	local version failed=0 tests="scenario_test management_test writes_test scripts_test sessions_test"
	export DECAN_HTTP=$http DECAN_HTTPS=$https DECAN_CA=$ca DECAN_AIO=1
	cd compat/py
	for version in $python_versions; do
		"$work/python-$version/bin/python" -B -W error::ResourceWarning -m unittest -q $tests || failed=1
		tests="$tests changefeed_test.Http"
	done
	return $failed
}

run_java() { # in gateway mode
	local version failed=0 endpoints=$https
	for version in $java_versions; do
		run_main "$version" all "$answers" $admin $endpoints || failed=1
		endpoints="$https $http"
	done
	run_main "$version" paging $http $admin || failed=1
	return $failed
}

run_java_direct() { # run_java_direct VERSION: the same in direct mode, the default
	direct=true run_main "$1" all "$answers" $admin $https
}

# These need a server whose partitions split at 256 KB. Versions run one after
# another.

split_go() {
	cd compat/go
	DECAN_SPLITS=1 DECAN_ENDPOINTS="$http $https" DECAN_CA=$ca DECAN_ADMIN=$admin go test -count=1 -run '^TestSplits$' .
}

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

split_java() { # the change feed of the oldest does not survive a split
	local direct
	for direct in false true; do
		run_main "${java_versions##* }" splits $https $admin
	done
}

split_processor() {
	local version failed=0 endpoint=$https direct=false
	for version in $java_versions; do
		run_main "$version" processor $endpoint $admin || failed=1
		endpoint=$http
	done
	direct=true
	run_main "$version" processor $https $admin || failed=1
	return $failed
}

run_csharp() { # run_csharp PROJECT VERSION ARGUMENTS...: with dotnet, or with the program that CSRUN names
	local project=$1 version=$2 package=cosmos names=() shared=(compat/dotnet/*.cs)
	shift 2
	if [ -z "${CSRUN-}" ]; then
		dotnet build --nologo --verbosity quiet --artifacts-path "$work/dotnet/$version" -p:CosmosVersion="$version" "compat/dotnet/$project"
		SSL_CERT_FILE=$ca dotnet "$work/dotnet/$version/bin/$project/debug/$project.dll" "$@"
		return
	fi
	case $project-$version in
	v2-*) package=documentdb ;;
	readme-*) shared=() ;;
	v3-3.64.0) names=(--define HIERARCHICAL --define NEWEST) ;;
	v3-3.37.0) names=(--define HIERARCHICAL) ;;
	esac
	SSL_CERT_FILE=$ca "$CSRUN" --set "$package-$version" "${names[@]}" "${shared[@]}" compat/dotnet/"$project"/*.cs -- "$@"
}

run_dotnet() {
	local failed=0
	if [ -z "${CSRUN-}" ] && ! command -v dotnet >/dev/null; then
		echo "not run: there is neither dotnet nor CSRUN"
		return
	fi
	export DECAN_ANSWERS=$answers DECAN_ADMIN=$admin
	run_csharp readme 3.64.0 >"$work/readme-dotnet.log" || failed=1
	diff - "$work/readme-dotnet.log" <<-'END' || failed=1
		read for 1 RU: 12 minutes
		tenant Contoso: Alice, 12 minutes
	END
	run_csharp v2 2.11.6 $http || failed=1
	run_csharp v3 3.27.2 $http || failed=1
	[ -z "${COMPAT_ALL-}" ] || run_csharp v3 3.37.0 $http || failed=1
	run_csharp v3 3.64.0 $https || failed=1
	AZURE_COSMOS_BINARY_ENCODING_ENABLED=True run_csharp v3 3.64.0 $http paging writes changefeed || failed=1
	# The same in direct mode, which is the default of the newer SDK.
	export DECAN_DIRECT=1
	run_csharp v2 2.11.6 $https || failed=1
	[ -z "${COMPAT_ALL-}" ] || run_csharp v3 3.27.2 $https || failed=1
	run_csharp v3 3.37.0 $https || failed=1
	run_csharp v3 3.64.0 $https || failed=1
	[ -z "${COMPAT_ALL-}" ] || AZURE_COSMOS_BINARY_ENCODING_ENABLED=True run_csharp v3 3.64.0 $https paging writes changefeed || failed=1
	unset DECAN_DIRECT
	return $failed
}

run_rust() { # run_rust scenario|splits ENDPOINT...; the SDK is compiled first, for two minutes unless $CARGO_TARGET_DIR has it
	if command -v cargo >/dev/null; then
		[ -x "$work/rust" ] || cargo build --quiet --locked --manifest-path compat/rust/Cargo.toml
		[ -x "$work/rust" ] || cp "$CARGO_TARGET_DIR/debug/compat" "$work/rust"
		SSL_CERT_FILE=$ca "$work/rust" "$@"
	else
		echo "not run: there is no cargo"
	fi
}

certify() { # certify NAME: makes the clients trust the server of that name
	"$work/decan" cert --data "$work/$1" --out "$ca" 2>/dev/null
	rm -f "$trust"
	keytool -importcert -noprompt -alias decan -file "$ca" -keystore "$trust" -storepass changeit 2>/dev/null
}

step() { printf '== %s (%ss)\n' "$1" "$SECONDS"; }

step "the Go SDK, the other SDKs, and the answers they are compared with"
"$work/decan" token new-issuer --dir "$work/issuer" >/dev/null
DECAN_BEARER=$("$work/decan" token sign --dir "$work/issuer" --principal compat-app --lifetime 24h)
export DECAN_BEARER
serve scenario --token-issuer https://decan.local/ --token-keys "$work/issuer/keys.json"
certify scenario
start go run_go
start install-js install_js
start install-python install_python
start install-java install_java
(cd compat/go && go run ./answers -endpoint "$http" -queries ../queries.json -out "$answers") || refused=1
finish

step "the other SDKs, over http and https, and the drivers of Cassandra"
start cassandra ./compat/cassandra/run.sh
start js run_js
start js-oldest run_js_oldest
for version in $python_versions; do start "python-$version" run_python "$version"; done
start python-aio run_python_aio
start java run_java
for version in $java_versions; do start "java-direct-$version" run_java_direct "$version"; done
start dotnet run_dotnet
start rust run_rust scenario $http $https
finish
[ -z "${refused-}" ]
stop
"$work/decan" check "$work/scenario"

step "partitions that split and merge while the SDKs read and write"
serve splits --physical-partition-max 256KB --logical-partition-max 64KB
certify splits
start split-go split_go
start split-js split_js
start split-python split_python
start split-java split_java
start split-processor split_processor
start split-rust run_rust splits $http
finish
stop
"$work/decan" check "$work/splits"

step "emulator tests of the Go SDK"
serve emulator --compute-listen 127.0.0.1:8903 --endpoint https://127.0.0.1:8081/ --consistency Strong --region "South Central US" --strict-ids --emulator-tokens --trailing-page
certify emulator
(cd compat/go && SSL_CERT_FILE=$ca DECAN_ENDPOINTS=unused DECAN_EMULATOR=1 go test -count=1 -v -run '^TestEmulatorSuite$' .)
stop
"$work/decan" check "$work/emulator"

