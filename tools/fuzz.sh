#!/usr/bin/env bash
# Runs every fuzz target for some time (default 30s each). Usage: tools/fuzz.sh
# [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	package=$(dirname "$file")
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
		echo "== $package $target"
		go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "${1:-30s}"
	done
done
