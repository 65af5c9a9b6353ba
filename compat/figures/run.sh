#!/usr/bin/env bash
# run.sh BINARY...: the requests and the processor time of queries of one partition key
# through the newest SDKs for JavaScript, Python, Java and, if CSRUN names a program that
# runs C# files, .NET, with each decan binary; one table on the standard output. Needs
# what ../run.sh needs, and the ports from 28481 on. Takes three minutes a binary.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
binaries=()
for binary in "$@"; do binaries+=("$(realpath "$binary")"); done
cd "$(dirname "$0")/.."
(cd js && npm ci --no-audit --no-fund --silent) >&2
python3 -m venv "$work/python" >&2
"$work/python/bin/pip" install --quiet --disable-pip-version-check --requirement py/requirements-newest.txt >&2
mvn --quiet --batch-mode -Dstyle.color=never --file java compile -Dcosmos.version=4.81.0 -Dwork="$work/java" >&2
PATH="$work/python/bin:$PATH" python figures/figures.py --js "$PWD/js/node_modules/@azure/cosmos/dist/esm/index.js" \
	--java "$work/java" --csrun "${CSRUN-}" "${binaries[@]}"
