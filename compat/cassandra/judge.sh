#!/usr/bin/env bash
# Compares internal/row with Apache Cassandra's own classes on random values: order,
# validation, texts, JSON, tokens, sums of times and merged rows. Needs Go, Java 11 or
# later and Maven. The arguments are the number of questions and the seed; RECORD=1
# replaces the recorded answers in testdata.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mvn -q -B dependency:copy-dependencies -DoutputDirectory="$work/lib"
javac -cp "$work/lib/*" -d "$work" Judge.java
DECAN_JUDGE="$work:$work/lib/*" DECAN_JUDGE_COUNT=${1:-200000} DECAN_JUDGE_SEED=${2:-$RANDOM} \
	DECAN_JUDGE_RECORD=${RECORD:-} go test -C ../../internal/row -count=1 -run TestJudgeLive -v .
