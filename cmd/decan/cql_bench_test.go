//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/decandb/decan/internal/api/cql/cqltest"
	"github.com/decandb/decan/internal/server"
)

const (
	cqlCostRounds = 21
	cqlCostSize   = 4000 // requests of a slice
	cqlCostRows   = 1000 // that are read
)

// BenchmarkCQLCost measures the processor time of the server for one request of the
// Cassandra API, and that of the raw client, in two processes: they share the processors,
// so the rates of both together say little about either. If DECAN_BEFORE names an earlier
// binary, made by `go build -o FILE ./cmd/decan`, both servers get slices of 4,000 requests
// in turn. It prints medians with quartiles.
func BenchmarkCQLCost(b *testing.B) {
	for b.Loop() {
		sides := []*process{spawn(b, "--data", b.TempDir())}
		if before := os.Getenv("DECAN_BEFORE"); before != "" {
			sides = append(sides, spawnCommand(b, func(args ...string) *exec.Cmd { return exec.Command(before, args...) }, "--data", b.TempDir()))
		}
		for _, p := range sides {
			defineCQLCost(b, p)
		}
		fmt.Printf("\nprocessor time of requests of the Cassandra API, rows of 1 KB, medians of %d rounds of %d\n", cqlCostRounds, cqlCostSize)
		for _, c := range []cqlCost{
			{"SELECT, 16 connections", 16, readCost},
			{"SELECT, 1 connection", 1, readCost},
			{"INSERT, 64 connections", 64, insertCost},
			{"slice of 100 rows, 4 connections", 4, sliceCost},
		} {
			c.measure(b, sides)
		}
		for i, p := range sides {
			fmt.Printf("%s: resident %.0f MB\n", [...]string{"now", "before"}[i], p.resident(b))
		}
	}
}

// cqlCost is a measurement.
type cqlCost struct {
	name        string
	connections int
	of          func(c *costConn, n int64) error
}

// costConn is a connection with its statements.
type costConn struct {
	*cqltest.Raw
	read, insert, slice cqltest.Execution
}

func readCost(c *costConn, _ int64) error { return c.Do(c.read.With(rand.Int64N(cqlCostRows)), 500) }

func insertCost(c *costConn, n int64) error {
	return c.Do(c.insert.With(cqlCostRows+n), 0)
}
func sliceCost(c *costConn, _ int64) error { return c.Do(c.slice.With(0), 50_000) }

const costKey = "0000000000"

func dialCost(b *testing.B, p *process) *costConn {
	raw, err := cqltest.DialRaw(p.cql, "decan", server.WellKnownKey)
	if err != nil {
		b.Fatal(err)
	}
	prepare := func(text string, values ...[]byte) cqltest.Execution {
		e, err := raw.Prepare(text, costKey, values...)
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	return &costConn{
		Raw:  raw,
		read: prepare("SELECT * FROM cost.t WHERE k = ?"),
		insert: prepare("INSERT INTO cost.t (k, kind, status, count, price, note) VALUES (?, ?, ?, ?, ?, ?)", []byte("order"), []byte("open"),
			[]byte{0, 0, 0, 7}, []byte{0x40, 0x45, 0x40, 0, 0, 0, 0, 0}, []byte(beforeText)),
		slice: prepare("SELECT * FROM cost.w WHERE k = ?"),
	}
}

// defineCQLCost makes the tables, and the rows that are read.
func defineCQLCost(b *testing.B, p *process) {
	client, err := dialCQL(p)
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	texts := []string{
		"CREATE KEYSPACE cost WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE cost.t (k text PRIMARY KEY, kind text, status text, count int, price double, note text)",
		"CREATE TABLE cost.w (k text, c int, kind text, status text, count int, price double, note text, PRIMARY KEY (k, c))",
	}
	for i := range 100 {
		texts = append(texts, fmt.Sprintf("INSERT INTO cost.w (k, c, kind, status, count, price, note) VALUES ('%s', %d, 'order', 'open', 7, 42.5, '%s')", costKey, i, beforeText))
	}
	for _, text := range texts {
		if _, err := client.Query(text); err != nil {
			b.Fatalf("%s: %v", text, err)
		}
	}
	c := dialCost(b, p)
	defer c.Close()
	for i := range int64(cqlCostRows) {
		if err := c.Do(c.insert.With(i), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func (m *cqlCost) measure(b *testing.B, sides []*process) {
	all := make([][]*costConn, len(sides))
	for i, p := range sides {
		for range m.connections {
			c := dialCost(b, p)
			defer c.Close()
			all[i] = append(all[i], c)
		}
	}
	servers, clients := make([][]float64, len(sides)), make([][]float64, len(sides))
	var ratios []float64
	number := int64(0)
	for round := range cqlCostRounds + 1 {
		used := make([]float64, len(sides))
		for i := range sides {
			i := (i + round) % len(sides)
			began, mine := sides[i].cpu(b), ownCPU(b)
			m.slice(b, all[i], &number)
			used[i] = micros(sides[i].cpu(b) - began)
			if round > 0 { // The first one warms both up.
				servers[i] = append(servers[i], used[i])
				clients[i] = append(clients[i], micros(ownCPU(b)-mine))
			}
		}
		if round > 0 && len(sides) > 1 {
			ratios = append(ratios, used[0]/used[1])
		}
	}
	for i := range sides {
		fmt.Printf("%-33s %-6s server %s µs, client %s µs\n", m.name, [...]string{"now", "before"}[i], quartiles(servers[i], 1), quartiles(clients[i], 1))
	}
	if len(sides) > 1 {
		fmt.Printf("%-33s server's time now to before: %s\n", m.name, quartiles(ratios, 2))
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / cqlCostSize }

// quartiles returns the median and the quartiles of some values, which it sorts.
func quartiles(values []float64, decimals int) string {
	slices.Sort(values)
	n := len(values)
	return fmt.Sprintf("%.*f (%.*f to %.*f)", decimals, values[n/2], decimals, values[n/4], decimals, values[n*3/4])
}

// slice sends the requests of one slice.
func (m *cqlCost) slice(b *testing.B, all []*costConn, number *int64) {
	var left atomic.Int64
	left.Store(cqlCostSize)
	var wait sync.WaitGroup
	for _, c := range all {
		wait.Go(func() {
			for left.Add(-1) >= 0 {
				if err := m.of(c, atomic.AddInt64(number, 1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}

// ownCPU returns the processor time that the test has used.
func ownCPU(b *testing.B) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at); err != nil {
		b.Fatal(err)
	}
	return time.Duration(at.Nano())
}
