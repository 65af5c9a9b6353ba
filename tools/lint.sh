#!/usr/bin/env bash
# Runs every linter over the main module and compat/go. All must report nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
GOBIN="$PWD/bin" go install -C tools tool
PATH="$PWD/bin:$PATH"

fail=0
check() { # check NAME COMMAND...: a finding is a failure or a line of output, but for
# what Go says of modules that a new machine does not have yet
	local name=$1 out
	shift
	if ! out=$("$@" 2>&1 | sed '/^go: downloading /d') || [ -n "$out" ]; then
		printf '%s:\n%s\n' "$name" "$out"
		fail=1
	fi
}
sources() { git ls-files --cached --others --exclude-standard -- "$@"; }

check gofumpt gofumpt -l $(sources '*.go')
check vet go vet ./...
check "vet compat/go" go vet -C compat/go ./...
check staticcheck staticcheck ./...
check ineffassign ineffassign ./...
check errorlint go-errorlint -errorf=true -asserts=true -comparison=true ./...
check revive revive -config tools/revive.toml -exclude ./compat/... ./...
# Cassandra and Resource Manager spell these words so, and clients know its texts.
check misspell misspell -error -i specifed,specifiying,unkown,substract,substraction,expresions $(sources '*.go' '*.md')
check words go run -C tools ./words
check "shell syntax" bash -n tools/*.sh compat/*.sh .ci/run
exit $fail
