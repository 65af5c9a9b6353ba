package server

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/decandb/decan/internal/server/servertest"
)

const (
	checkedRounds = 7
	checkedReads  = 20_000 // in each round and variant
)

// checkedVariant is a server with or without the host check and the audit log.
type checkedVariant struct {
	name  string
	hosts []string // "*" turns the check off
	host  string   // of the requests
	audit string   // the level; "" for no log

	read func() time.Duration // the time of one round of reads
	took []time.Duration      // per read, by round
}

// BenchmarkCheckedReads measures point reads over HTTP on one connection, with the host
// check and the audit log on and off, and prints the time per read and its ratio to the
// server without both. The variants run in turn, so that a slow moment of the machine
// affects all of them.
func BenchmarkCheckedReads(b *testing.B) {
	variants := []*checkedVariant{
		{name: "host check off, no audit log", hosts: []string{"*"}, host: "127.0.0.1"},
		{name: "Host is an address", host: "127.0.0.1"},
		{name: "Host is a known name", hosts: []string{"db.example.com"}, host: "db.example.com:8081"},
		{name: "Host is below a known zone", hosts: []string{"*.example.com"}, host: "db.example.com:8081"},
		{name: "audit log of changes", host: "127.0.0.1", audit: "changes"},
		{name: "audit log of all requests", host: "127.0.0.1", audit: "all"},
	}
	for _, v := range variants {
		v.start(b)
	}
	for b.Loop() {
		for round := range checkedRounds {
			// Each round begins with another variant.
			for i := range variants {
				v := variants[(round+i)%len(variants)]
				v.took = append(v.took, v.read()/checkedReads)
			}
		}
	}
	fmt.Fprintf(os.Stdout, "\n%s, %d processors; median of %d rounds of %d reads\n", runtime.Version(), runtime.GOMAXPROCS(0), checkedRounds, checkedReads)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "point read with\tµs\tratio")
	var off float64
	for _, v := range variants {
		slices.Sort(v.took)
		micros := float64(v.took[len(v.took)/2].Nanoseconds()) / 1000
		if off == 0 {
			off = micros
		}
		fmt.Fprintf(out, "%s\t%.1f\t%.3f\n", v.name, micros, micros/off)
	}
	out.Flush()
	b.ReportMetric(off, "µs-off")
}

// start starts the server of a variant with one document, which read reads.
func (v *checkedVariant) start(b *testing.B) {
	b.Helper()
	config := Config{Access: AccessOptions{Hosts: v.hosts}}
	if v.audit != "" {
		config.Audit = AuditOptions{Log: filepath.Join(b.TempDir(), "audit.jsonl"), Level: v.audit}
	}
	s := start(b, config)
	if err := s.CreateContainer(b.Context(), "bench", benchContainer, 1); err != nil {
		b.Fatal(err)
	}
	client, err := servertest.Dial(s.address())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	if response, err := client.Do(createRequest(s.Key(), "d0", 0)); err != nil || response.Status != 201 {
		b.Fatalf("%v %d %s", err, response.Status, response.Body)
	}
	v.read = func() time.Duration {
		// A signature is valid for minutes only.
		request := servertest.Prepare(s.Key(), "GET", benchLink+"/d0", nil, "x-ms-documentdb-partitionkey", documentKey(0)).WithHost(v.host)
		began := time.Now()
		for range checkedReads {
			if response, err := client.Do(request); err != nil || response.Status != 200 {
				b.Fatalf("%s: %v %d %s", v.name, err, response.Status, response.Body)
			}
		}
		return time.Since(began)
	}
}
