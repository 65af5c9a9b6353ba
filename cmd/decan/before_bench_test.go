//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/server"
	"github.com/decandb/decan/internal/server/servertest"
)

const (
	beforeRounds = 31
	beforeSize   = 2000 // operations of a slice
)

// BenchmarkBefore compares operations on single documents over HTTP with those of an
// earlier binary, made by `go build -o FILE ./cmd/decan`, which DECAN_BEFORE names. Both
// servers run, and get slices of 2,000 operations in turn. It prints the ratios of the
// speed and of the processor time, which depends less on other work of the machine:
// medians with quartiles, and the ratio of the sums, in which garbage collections average
// out.
func BenchmarkBefore(b *testing.B) {
	before := os.Getenv("DECAN_BEFORE")
	if before == "" {
		b.Skip("DECAN_BEFORE names no binary to compare with")
	}
	for b.Loop() {
		sides := [2]*process{
			spawnCommand(b, func(args ...string) *exec.Cmd { return exec.Command(before, args...) }, "--in-memory"),
			spawn(b, "--in-memory"),
		}
		for _, p := range sides {
			createCrashContainer(b, p.address)
		}
		fmt.Printf("\noperations on documents of 1 KB over HTTP, now and before, medians of %d rounds of %d\n", beforeRounds, beforeSize)
		for _, connections := range []int{1, 16} {
			for _, operation := range []string{"create", "read", "upsert"} {
				compareWithBefore(b, sides, connections, operation)
			}
		}
	}
}

func compareWithBefore(b *testing.B, sides [2]*process, connections int, operation string) {
	var speed, work []float64
	var times, works [2]time.Duration
	for round := range beforeRounds + 1 {
		var took, used [2]time.Duration
		for i := range sides {
			side := (i + round) % 2
			p := sides[side]
			requests := beforeRequests(round, connections, operation)
			used[side] = -p.cpu(b)
			took[side] = p.sendAll(b, connections, requests)
			used[side] += p.cpu(b)
		}
		if round > 0 { // The first one warms both up.
			for i := range sides {
				times[i] += took[i]
				works[i] += used[i]
			}
			speed = append(speed, float64(took[0])/float64(took[1]))
			work = append(work, float64(used[1])/float64(used[0]))
		}
	}
	slices.Sort(speed)
	slices.Sort(work)
	middle := beforeRounds / 2
	fmt.Printf("%-6s %2d connections: speed %.2f (%.2f to %.2f; all %.2f), processor time %.2f (%.2f to %.2f; all %.2f)\n", operation, connections,
		speed[middle], speed[beforeRounds/4], speed[beforeRounds*3/4], float64(times[0])/float64(times[1]),
		work[middle], work[beforeRounds/4], work[beforeRounds*3/4], float64(works[1])/float64(works[0]))
}

// beforeRequests returns the requests of a slice.
func beforeRequests(round, connections int, operation string) []servertest.Request {
	requests := make([]servertest.Request, beforeSize)
	const link = "dbs/crash/colls/c/docs"
	for i := range requests {
		key := fmt.Sprintf(`["t%d","u%d"]`, i%100, i%10)
		id := fmt.Sprintf("%d-%d", connections, i) // reads and upserts are of what the first round has created
		if operation == "create" {
			id = fmt.Sprintf("%d-%d-%d", connections, round, i)
			if round == 0 {
				id = fmt.Sprintf("%d-%d", connections, i)
			}
		}
		body := fmt.Appendf(nil, `{"id":%q,"tenant":"t%d","user":"u%d","n":%d,"text":%q}`, id, i%100, i%10, i, beforeText)
		switch operation {
		case "read":
			requests[i] = servertest.Prepare(server.WellKnownKey, "GET", link+"/"+id, nil, "x-ms-documentdb-partitionkey", key)
		case "upsert":
			requests[i] = servertest.Prepare(server.WellKnownKey, "POST", link, body, "x-ms-documentdb-partitionkey", key, "x-ms-documentdb-is-upsert", "True")
		default:
			requests[i] = servertest.Prepare(server.WellKnownKey, "POST", link, body, "x-ms-documentdb-partitionkey", key)
		}
	}
	return requests
}

var beforeText = string(slices.Repeat([]byte("x"), 900))

// sendAll sends requests over so many connections and returns how long it took.
func (p *process) sendAll(b *testing.B, connections int, requests []servertest.Request) time.Duration {
	clients := make([]*servertest.Client, connections)
	for i := range clients {
		var err error
		if clients[i], err = servertest.Dial(p.address); err != nil {
			b.Fatal(err)
		}
		defer clients[i].Close()
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for _, client := range clients {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(requests) {
					return
				}
				response, err := client.Do(requests[i])
				if err != nil || response.Status/100 != 2 {
					b.Errorf("%v %d %.200s", err, response.Status, response.Body)
					return
				}
			}
		})
	}
	wait.Wait()
	return time.Since(began)
}
