#!/usr/bin/env bash
# Runs the Java and .NET SDKs in direct mode, with their default options, against a decan
# built from this tree, through what happens to servers:
#
#   endure  all kinds of operation while partitions split and merge, connections end, the
#           server restarts and is killed; more requests than there is throughput for; a
#           bulk of many items
#   levels  accounts of each of the five consistency levels
#
# DIRECT_ROUNDS (2) says how often each happens, DIRECT_ITEMS (5000) how many items the
# bulks have; docs/direct.md has results with 10 and 100000. The arguments are the tests to
# run, all without arguments. Not a part of .ci/run: it takes some ten minutes. Needs Linux,
# Go, Java 17 with Maven, and dotnet 10 or CSRUN as run.sh does; without either, the C#
# programs are left out. DIRECT_PORT (28810) is the first of four free ports.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
port=${DIRECT_PORT:-28810}
rounds=${DIRECT_ROUNDS:-2} items=${DIRECT_ITEMS:-5000}
admin=http://127.0.0.1:$port/ data=https://localhost:$((port + 2))/ control=http://127.0.0.1:$((port + 3))/
supervisor=
stop() {
	if [ -n "$supervisor" ]; then
		kill "$supervisor" 2>/dev/null || true
		wait "$supervisor" 2>/dev/null || true
		supervisor=
	fi
}
trap 'stop; rm -rf "$work"' EXIT

go build -o "$work/decan" ./cmd/decan
(cd compat/go && go build -o "$work/supervisor" ./supervisor)
java_versions="4.42.0 4.81.0"
for version in $java_versions; do
	mvn --quiet --batch-mode -Dstyle.color=never --file compat/java compile -Dcosmos.version="$version" -Dwork="$work/java-$version"
done

serve() { # serve NAME FLAGS...: a server behind a supervisor, and clients that trust it
	local name=$1
	shift
	"$work/supervisor" -control "127.0.0.1:$((port + 3))" -direct "127.0.0.1:$((port + 1))" -to "127.0.0.2:$((port + 1))" \
		-ready "${admin}ready" -log "$work/$name.log" \
		"$work/decan" --data "$work/$name" --listen "127.0.0.1:$((port + 2))" --admin-listen "127.0.0.1:$port" \
		--direct-listen "127.0.0.2:$((port + 1))" --cql=false "$@" &
	supervisor=$!
	for _ in $(seq 200); do
		if curl --silent --fail "${admin}ready" >/dev/null; then break; fi
		kill -0 "$supervisor"
		sleep 0.1
	done
	"$work/decan" cert --data "$work/$name" --out "$work/ca.pem" 2>/dev/null
	rm -f "$work/trust.jks"
	keytool -importcert -noprompt -alias decan -file "$work/ca.pem" -keystore "$work/trust.jks" -storepass changeit 2>/dev/null
}

java_tests() { # java_tests VERSION ARGUMENTS...
	local version=$1
	shift
	java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dcompat.direct=true \
		-Djavax.net.ssl.trustStore="$work/trust.jks" -Djavax.net.ssl.trustStorePassword=changeit \
		-cp "$work/java-$version/classes:$(cat "$work/java-$version/classpath")" compat.Main "$@"
}

dotnet_tests() { # dotnet_tests VERSION THEME
	local version=$1 names=(--define HIERARCHICAL)
	export DECAN_DIRECT=1 DECAN_ADMIN=$admin DECAN_SUPERVISOR=$control DECAN_ROUNDS=$rounds DECAN_ITEMS=$items SSL_CERT_FILE=$work/ca.pem
	[ "$version" != 3.64.0 ] || names+=(--define NEWEST)
	if [ -n "${CSRUN-}" ]; then
		"$CSRUN" --set "cosmos-$version" "${names[@]}" compat/dotnet/v3/*.cs -- "$data" "$2"
	elif command -v dotnet >/dev/null; then
		dotnet build --nologo --verbosity quiet --artifacts-path "$work/dotnet/$version" -p:CosmosVersion="$version" compat/dotnet/v3
		dotnet "$work/dotnet/$version/bin/v3/debug/v3.dll" "$data" "$2"
	else
		echo "not run: there is neither dotnet nor CSRUN"
	fi
}

failed=0
dotnet_versions="3.37.0 3.64.0"

endure() {
	local version
	serve endure --throughput on
	for version in $java_versions; do
		java_tests "$version" endure "$data" "$admin" "$control" "$rounds" "$items" || failed=1
	done
	for version in $dotnet_versions; do
		dotnet_tests "$version" endure || failed=1
	done
	stop
	"$work/decan" check "$work/endure"
}

levels() {
	local level version
	for level in Strong BoundedStaleness Session ConsistentPrefix Eventual; do
		serve "$level" --consistency "$level"
		for version in $java_versions; do
			java_tests "$version" levels "$data" "$admin" "$level" || failed=1
		done
		for version in $dotnet_versions; do
			DECAN_LEVEL=$level dotnet_tests "$version" levels || failed=1
		done
		stop
		"$work/decan" check "$work/$level"
	done
}

for name in ${*:-endure levels}; do
	printf '== %s (%ss)\n' "$name" "$SECONDS"
	"$name"
done
exit $failed
