# Each word is one line that a person could type.

.PHONY: build test race fuzz bench bench-queries bench-cassandra bench-java calibrate lint compat explorer apps apps-cassandra endure crash damage soak hostile differential planner binaryjson judge requirements release

build:    ; go build -o bin/decan ./cmd/decan
test:     ; go test ./...
race:     ; go test -race ./...
fuzz:     ; ./tools/fuzz.sh 30s
bench:    ; go test -run '^$$' -bench 'Ratios|Process|KeyQueries|ManyPartitions|Reshape|BusyWrites|SplitPause|HeavyQueries|HugeDocuments|CheckedReads|HTTPVersions|DirectMode|CQL$$|CQLCost' -benchtime 1x -timeout 60m ./internal/server ./cmd/decan && go test -run '^$$' -bench Split -benchtime 4x ./internal/cluster
bench-queries: ; go test -run '^$$' -bench 'Plan$$' -benchtime 20x ./internal/query && go test -run '^$$' -bench PlanRequest ./internal/engine && go test -run '^$$' -bench 'Compile|Run|Find|Merge|Count|Group|OrderIndex' -benchtime 200ms -count 6 ./internal/query
bench-cassandra: ; MEASURED=1 ./compat/cassandra/cassandra.sh run -- go test -run '^$$' -bench 'CQL$$' -benchtime 1x -timeout 20m ./internal/server
bench-java: ; ./compat/direct.sh bench
calibrate: ; go test -run '^$$' -bench 'Costs|Noting' -benchtime 1x -timeout 20m ./internal/partition/scan
lint:     ; ./tools/lint.sh
compat:   ; ./compat/run.sh
explorer: ; ./compat/explorer/run.sh
apps:     ; ./compat/apps.sh
apps-cassandra: ; ./compat/cassandra/apps.sh
endure:   ; ./compat/direct.sh
soak:     ; DECAN_SOAK=10m go test -run TestSoak -timeout 20m -v ./cmd/decan
hostile:  ; DECAN_HOSTILE=3m go test -run TestHostile -timeout 20m -v ./cmd/decan
differential: ; DECAN_DIFFERENTIAL=100000 go test -run 'TestDifferential|TestCompiledPaths' -timeout 120m -v ./internal/engine ./internal/query
binaryjson: ; DECAN_BINARYJSON=100000 go test -run TestDotNet -timeout 30m -v ./internal/api/nosql/binaryjson
planner:  ; DECAN_PLANNER=200000 go test -run 'TestPlanner(Values)?$$' -timeout 120m -v ./internal/query
judge:    ; ./compat/cassandra/judge.sh 200000
crash:    ; DECAN_CRASH_ROUNDS=100 go test -run TestKill -timeout 60m ./cmd/decan
damage:   ; DECAN_DAMAGE_TRIALS=1000 go test -run 'TestDamage$$' -timeout 60m -v ./cmd/decan
requirements: ; go run -C tools ./requirements
release:  ; go run -C tools ./changelog -write
