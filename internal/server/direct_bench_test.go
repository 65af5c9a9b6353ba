package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/decandb/decan/internal/api/nosql/rntbd/rntbdtest"
	"github.com/decandb/decan/internal/server/servertest"
)

const (
	directRounds  = 7
	directReads   = 16_000 // in each round and variant
	directCreates = 8_000
)

// BenchmarkDirectMode measures point reads and durable creates over HTTPS and in direct
// mode with raw clients, all with TLS, and prints the throughput, the processor time that
// clients and server use for one, which other programs on the machine hardly change, and
// their ratios to HTTPS. The variants run in turn.
func BenchmarkDirectMode(b *testing.B) {
	s := start(b, direct(Config{Data: b.TempDir()}))
	if err := s.CreateContainer(b.Context(), "bench", benchContainer, 1); err != nil {
		b.Fatal(err)
	}
	if r := call(b, s, "POST", benchLink, document("d0", 0), "x-ms-documentdb-partitionkey", documentKey(0)); r.Status != 201 {
		b.Fatalf("%d %s", r.Status, r.Body)
	}
	at := directPlaceOf(b, s, "bench", "c")
	type variant struct {
		name  string
		n     int
		run   func()
		rates []float64
		used  time.Duration // of processors, by clients and server
	}
	kinds := [][]*variant{{
		{name: "point reads, HTTPS, 16 connections", n: directReads, run: func() { readSecure(b, s, 16) }},
		{name: "point reads, direct mode, 16 connections", n: directReads, run: func() { readDirect(b, s, at, 16, 1) }},
		{name: "point reads, direct mode, 4 connections, 30 requests at a time on each", n: directReads, run: func() { readDirect(b, s, at, 4, 30) }},
	}, {
		{name: "durable creates, HTTPS, 64 connections", n: directCreates, run: func() { createSecure(b, s, 64) }},
		{name: "durable creates, direct mode, 64 connections", n: directCreates, run: func() { createDirect(b, s, at, 64, 1) }},
		{name: "durable creates, direct mode, 4 connections, 16 requests at a time on each", n: directCreates, run: func() { createDirect(b, s, at, 4, 16) }},
	}}
	for b.Loop() {
		for _, variants := range kinds {
			for round := range directRounds {
				for i := range variants {
					v := variants[(round+i)%len(variants)] // Each round begins with another one.
					began, used := time.Now(), processorTime(b)
					v.run()
					v.rates = append(v.rates, float64(v.n)/time.Since(began).Seconds())
					v.used += processorTime(b) - used
				}
			}
		}
	}
	fmt.Fprintf(os.Stdout, "\n%s, %d processors; medians of %d rounds\n", runtime.Version(), runtime.GOMAXPROCS(0), directRounds)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "what, over TLS\tper second\tratio to HTTPS\tprocessor time\tHTTPS to it")
	for _, variants := range kinds {
		var first float64
		for i, v := range variants {
			slices.Sort(v.rates)
			rate := v.rates[len(v.rates)/2]
			if i == 0 {
				first = rate
			}
			fmt.Fprintf(out, "%s\t%.0f\t%.2f\t%v\t%.2f\n", v.name, rate, rate/first, (v.used / time.Duration(v.n*len(v.rates))).Round(100*time.Nanosecond), float64(variants[0].used)/float64(v.used))
		}
	}
	out.Flush()
}

// directPlace is where requests to the only partition of a container go.
type directPlace struct{ path, rid string }

// directPlaceOf asks for the addresses of a container, as clients do.
func directPlaceOf(tb testing.TB, s *Server, database, container string) directPlace {
	tb.Helper()
	client, err := servertest.Dial(s.address())
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	get := func(to any, request servertest.Request) {
		tb.Helper()
		r, err := client.Do(request)
		if err != nil || r.Status != http.StatusOK {
			tb.Fatalf("%v %d %s", err, r.Status, r.Body)
		}
		if err := json.Unmarshal(r.Body, to); err != nil {
			tb.Fatal(err)
		}
	}
	var owner, named struct {
		RID string `json:"_rid"`
	}
	get(&owner, servertest.Prepare(s.Key(), "GET", "dbs/"+database, nil))
	get(&named, servertest.Prepare(s.Key(), "GET", "dbs/"+database+"/colls/"+container, nil))
	query := url.Values{"$resolveFor": {"dbs/" + owner.RID + "/colls/" + named.RID + "/docs"}, "$filter": {"protocol eq rntbd"}, "$partitionKeyRangeIds": {"0"}}
	var found struct {
		Addresses []struct {
			IsPrimary bool
			URI       string `json:"physcialUri"`
		} `json:"Addresss"`
	}
	get(&found, servertest.PrepareAs(s.Key(), "GET", "//addresses/?"+query.Encode(), "docs", strings.ToLower(named.RID), nil))
	for _, a := range found.Addresses {
		if a.IsPrimary {
			u, err := url.Parse(a.URI)
			if err != nil {
				tb.Fatal(err)
			}
			return directPlace{path: strings.TrimSuffix(u.Path, "/"), rid: named.RID}
		}
	}
	tb.Fatal("there is no primary")
	return directPlace{}
}

// readSecure reads the document over so many connections of HTTPS.
func readSecure(b *testing.B, s *Server, connections int) {
	request := servertest.Prepare(s.Key(), "GET", benchLink+"/d0", nil, "x-ms-documentdb-partitionkey", documentKey(0))
	parallel(b, connections, func() error {
		client, err := servertest.DialTLS(s.address())
		if err != nil {
			return err
		}
		defer client.Close()
		for range directReads / connections {
			if response, err := client.Do(request); err != nil || response.Status != 200 {
				return fmt.Errorf("%w %d %s", err, response.Status, response.Body)
			}
		}
		return nil
	})
}

// readDirect reads it in direct mode, with so many open requests on each connection.
func readDirect(b *testing.B, s *Server, at directPlace, connections, open int) {
	frame, err := directRead(s, at.path, at.rid, benchLink+"/d0", documentKey(0)).Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	parallel(b, connections, func() error {
		client, err := rntbdtest.Dial(s.DirectAddress(), insecure)
		if err != nil {
			return err
		}
		defer client.Close()
		return client.Pump(directReads/connections, open, func(dst []byte) []byte { return append(dst, frame...) })
	})
}

// benchItem numbers the items of creates.
var benchItem atomic.Int64

// itemMark is the placeholder for the number of an item in prepared requests.
const itemMark = "n00000000"

// numbered appends a prepared request with another number in the place of itemMark.
func numbered(dst, request []byte) []byte {
	id := fmt.Appendf(nil, "n%08d", benchItem.Add(1))
	begin := len(dst)
	dst = append(dst, request...)
	for rest := dst[begin:]; ; {
		at := bytes.Index(rest, []byte(itemMark))
		if at < 0 {
			return dst
		}
		copy(rest[at:], id)
		rest = rest[at+len(itemMark):]
	}
}

// createSecure creates documents over so many connections of HTTPS.
func createSecure(b *testing.B, s *Server, connections int) {
	request := createRequest(s.Key(), itemMark, 0).Bytes()
	parallel(b, connections, func() error {
		client, err := servertest.DialTLS(s.address())
		if err != nil {
			return err
		}
		defer client.Close()
		for range directCreates / connections {
			if response, err := client.DoBytes(numbered(nil, request)); err != nil || response.Status != 201 {
				return fmt.Errorf("%w %d %s", err, response.Status, response.Body)
			}
		}
		return nil
	})
}

// createDirect creates them in direct mode, with so many open requests on each connection.
func createDirect(b *testing.B, s *Server, at directPlace, connections, open int) {
	frame, err := directCreate(s, at, itemMark).Append(nil)
	if err != nil {
		b.Fatal(err)
	}
	parallel(b, connections, func() error {
		client, err := rntbdtest.Dial(s.DirectAddress(), insecure)
		if err != nil {
			return err
		}
		defer client.Close()
		return client.Pump(directCreates/connections, open, func(dst []byte) []byte { return numbered(dst, frame) })
	})
}

// parallel runs run n times at the same time.
func parallel(b *testing.B, n int, run func() error) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if err := run(); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}
