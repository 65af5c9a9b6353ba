#!/usr/bin/env bash
# Runs the emulator tests inside azure_data_cosmos against a server, and compares their
# results with emulator.txt:
#
#     decan --in-memory --region "East US 2" &   and   decan cert --out ca.pem
#     compat/rust/emulator.sh https://127.0.0.1:8081/ ca.pem
#
# The tests come with the SDK's source, which cargo has; they are built in target/. The
# first time takes minutes.
set -euo pipefail
endpoint=$1 ca=$(realpath "$2")
cd "$(dirname "$0")"
host=$(rustc -vV | sed -n 's/^host: //p')
cargo fetch --locked --target "$host"
source=$(cargo metadata --locked --filter-platform "$host" --format-version 1 |
	python3 -c 'import json, os, sys; print(*(os.path.dirname(p["manifest_path"]) for p in json.load(sys.stdin)["packages"] if p["name"] == "azure_data_cosmos"))')
mkdir -p target
rm -rf target/suite
cp -r "$source" target/suite
results=$PWD/target/emulator.results
cd target/suite
export CARGO_TARGET_DIR=$PWD/../suite-target CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0
export RUSTFLAGS='--cfg test_category="emulator"'
export AZURE_COSMOS_CONNECTION_STRING="AccountEndpoint=$endpoint;AccountKey=C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==;"
export AZURE_COSMOS_ALLOW_INVALID_CERT=true AZURE_COSMOS_TEST_MODE=required SSL_CERT_FILE=$ca
run() { cargo test --quiet --features key_auth,control_plane,fault_injection --test emulator -- --format pretty "$@" || true; }
# The tests of proxies change environment variables that the other tests read.
{
	run --test-threads 4 --skip cosmos_proxy
	run --test-threads 1 cosmos_proxy
} >"$results" 2>&1
sed -n 's/^test emulator_tests::\([^ ]*\).* \.\.\. ok$/\1 | passes/p; s/^test emulator_tests::\([^ ]*\).* \.\.\. FAILED$/\1 | fails/p; s/^test emulator_tests::\([^ ]*\).* \.\.\. ignored.*$/\1 | ignored/p' "$results" |
	grep -v -e '^framework' -e '::tests::' | sort >"$results.short"
grep -v '^#' ../../emulator.txt | cut -d '|' -f 1,2 | sed 's/ *$//' | sort | diff - "$results.short" || {
	echo "differs from emulator.txt (<); $results has the reasons" >&2
	exit 1
}
echo "as in emulator.txt: $(grep -c '| passes' "$results.short") pass, $(grep -c '| fails' "$results.short") fail"
