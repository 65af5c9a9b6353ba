#!/usr/bin/env bash
# Runs the Java and .NET SDKs with their default options, in direct mode and in gateway
# mode, against a decan built from this tree, through what happens to servers:
#
#   endure  all kinds of operation while partitions split and merge, connections end, the
#           server restarts and is killed; more requests than there is throughput for; a
#           bulk of many items
#   levels  accounts of each of the five consistency levels
#   bench   how fast the newest Java SDK is in direct mode, compared with gateway mode
#
# The arguments are the tests to run; without arguments, endure and levels. Variables:
#
#   DIRECT_ROUNDS   how often each trouble happens (2), how often bench measures (7)
#   DIRECT_ITEMS    how many items the bulks have (5000)
#   DIRECT_CLIENTS  some of the clients below
#   DIRECT_DOORS    "direct", "gateway" or both
#   DIRECT_LEVELS   some of the five levels
#   DIRECT_PORT     the first of four free ports (28810)
#
# docs/testing.md has results with 10 rounds and 100000 items. Not a part of .ci/run: it
# takes half an hour. Needs Linux, Go, Java 17 with Maven, and dotnet 10 or CSRUN as run.sh
# does; without either, the C# programs are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
port=${DIRECT_PORT:-28810}
newest=4.81.0
[ "${*:-}" != bench ] || DIRECT_CLIENTS=java-$newest
rounds=${DIRECT_ROUNDS:-2} items=${DIRECT_ITEMS:-5000}
clients=${DIRECT_CLIENTS:-java-4.42.0 java-4.81.0 dotnet-3.27.2 dotnet-3.37.0 dotnet-3.64.0 dotnet-2.11.6}
doors=${DIRECT_DOORS:-direct gateway}
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
for client in $clients; do
	version=${client#java-}
	[ "$version" != "$client" ] || continue
	mvn --quiet --batch-mode -Dstyle.color=never --file compat/java compile -Dcosmos.version="$version" -Dwork="$work/java-$version"
done

serve() { # serve NAME FLAGS...: a server behind a supervisor, and clients that trust it
	local name=$1
	shift
	"$work/supervisor" -control "127.0.0.1:$((port + 3))" \
		-forward "direct=127.0.0.1:$((port + 1))=127.0.0.2:$((port + 1))" -forward "gateway=127.0.0.1:$((port + 2))=127.0.0.2:$((port + 2))" \
		-ready "${admin}ready" -log "$work/$name.log" \
		"$work/decan" --data "$work/$name" --listen "127.0.0.2:$((port + 2))" --admin-listen "127.0.0.1:$port" \
		--direct-listen "127.0.0.2:$((port + 1))" --cql=false "$@" &
	supervisor=$!
	for _ in $(seq 300); do
		if curl --silent --fail "${admin}ready" >/dev/null; then break; fi
		kill -0 "$supervisor"
		sleep 0.1
	done
	"$work/decan" cert --data "$work/$name" --out "$work/ca.pem" 2>/dev/null
	rm -f "$work/trust.jks"
	keytool -importcert -noprompt -alias decan -file "$work/ca.pem" -keystore "$work/trust.jks" -storepass changeit 2>/dev/null
}

java_tests() { # java_tests VERSION DOOR ARGUMENTS...
	local version=$1 direct=true
	[ "$2" = direct ] || direct=false
	shift 2
	java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dcompat.direct="$direct" \
		-Djavax.net.ssl.trustStore="$work/trust.jks" -Djavax.net.ssl.trustStorePassword=changeit \
		-cp "$work/java-$version/classes:$(cat "$work/java-$version/classpath")" compat.Main "$@"
}

dotnet_tests() ( # dotnet_tests VERSION DOOR THEME, in a shell of its own: decan reads variables of these names, too
	local version=$1 project=v3 package=cosmos names=()
	case $version in
	2.*) project=v2 package=documentdb ;;
	3.27.2) ;;
	3.64.0) names=(--define HIERARCHICAL --define NEWEST) ;;
	*) names=(--define HIERARCHICAL) ;;
	esac
	export DECAN_DIRECT=0 DECAN_ADMIN=$admin DECAN_SUPERVISOR=$control DECAN_ROUNDS=$rounds DECAN_ITEMS=$items SSL_CERT_FILE=$work/ca.pem
	[ "$2" != direct ] || DECAN_DIRECT=1
	if [ -n "${CSRUN-}" ]; then
		"$CSRUN" --set "$package-$version" "${names[@]}" compat/dotnet/*.cs compat/dotnet/$project/*.cs -- "$data" "$3"
	elif command -v dotnet >/dev/null; then
		dotnet build --nologo --verbosity quiet --artifacts-path "$work/dotnet/$version" -p:CosmosVersion="$version" compat/dotnet/$project
		dotnet "$work/dotnet/$version/bin/$project/debug/$project.dll" "$data" "$3"
	else
		echo "not run: there is neither dotnet nor CSRUN"
	fi
)

failed=0

each() { # each THEME JAVA-ARGUMENTS...: runs the theme with all clients through all doors
	local theme=$1 client door
	shift
	for door in $doors; do
		for client in $clients; do
			echo "-- $client, $door (${SECONDS}s)"
			case $client in
			java-*) java_tests "${client#*-}" "$door" "$theme" "$data" "$admin" "$@" || failed=1 ;;
			*) DECAN_LEVEL=${1-} dotnet_tests "${client#*-}" "$door" "$theme" || failed=1 ;;
			esac
		done
	done
}

endure() {
	serve endure --throughput on
	each endure "$control" "$rounds" "$items"
	stop
	"$work/decan" check "$work/endure"
}

levels() {
	local level
	for level in ${DIRECT_LEVELS:-Strong BoundedStaleness Session ConsistentPrefix Eventual}; do
		echo "-- an account of level $level"
		serve "$level" --consistency "$level"
		each levels "$level"
		stop
		"$work/decan" check "$work/$level"
	done
}

bench() { # with the compilers and the collector of an ordinary program
	serve bench
	java -Dcompat.direct=true -Djavax.net.ssl.trustStore="$work/trust.jks" -Djavax.net.ssl.trustStorePassword=changeit \
		-cp "$work/java-$newest/classes:$(cat "$work/java-$newest/classpath")" compat.Main bench "$data" "${DIRECT_ROUNDS:-7}"
	stop
}

for name in ${*:-endure levels}; do
	printf '== %s (%ss)\n' "$name" "$SECONDS"
	"$name"
done
exit $failed
