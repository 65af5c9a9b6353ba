package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/decandb/decan/internal/server/servertest"
)

const (
	versionRounds = 7
	versionReads  = 16_000 // in each round and variant
)

// BenchmarkHTTPVersions measures point reads over HTTP/1.1 and HTTP/2 with raw
// clients, and prints the time per read and its ratio to HTTP/1.1 with as many
// requests at a time. The variants run in turn.
func BenchmarkHTTPVersions(b *testing.B) {
	s := start(b, Config{})
	if err := s.CreateContainer(b.Context(), "bench", benchContainer, 1); err != nil {
		b.Fatal(err)
	}
	client, err := servertest.Dial(s.address())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	if response, err := client.Do(createRequest(s.Key(), "d0", 0)); err != nil || response.Status != 201 {
		b.Fatalf("%v %d %s", err, response.Status, response.Body)
	}
	type variant struct {
		name     string
		parallel int
		read     func()
		took     []time.Duration
	}
	variants := []*variant{
		{name: "HTTP/1.1, one connection", parallel: 1, read: func() { readOld(b, s, 1) }},
		{name: "HTTP/2, one connection, one request at a time", parallel: 1, read: func() { readStreams(b, s, 1, 1) }},
		{name: "HTTP/1.1, 16 connections", parallel: 16, read: func() { readOld(b, s, 16) }},
		{name: "HTTP/2, 16 connections, one request at a time on each", parallel: 16, read: func() { readStreams(b, s, 16, 1) }},
		{name: "HTTP/2, one connection, 16 requests at a time", parallel: 16, read: func() { readStreams(b, s, 1, 16) }},
		{name: "HTTP/2, four connections, 16 requests at a time on each", parallel: 64, read: func() { readStreams(b, s, 4, 16) }},
		{name: "HTTP/1.1, 64 connections", parallel: 64, read: func() { readOld(b, s, 64) }},
	}
	for b.Loop() {
		for round := range versionRounds {
			// Each round begins with another variant.
			for i := range variants {
				v := variants[(round+i)%len(variants)]
				began := time.Now()
				v.read()
				v.took = append(v.took, time.Since(began)/versionReads)
			}
		}
	}
	fmt.Fprintf(os.Stdout, "\n%s, %d processors; median of %d rounds of %d reads\n", runtime.Version(), runtime.GOMAXPROCS(0), versionRounds, versionReads)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "point reads\tµs per read\tratio to HTTP/1.1")
	old := map[int]float64{}
	for _, v := range variants {
		slices.Sort(v.took)
		if strings.HasPrefix(v.name, "HTTP/1.1") {
			old[v.parallel] = float64(v.took[len(v.took)/2].Nanoseconds()) / 1000
		}
	}
	for _, v := range variants {
		micros := float64(v.took[len(v.took)/2].Nanoseconds()) / 1000
		fmt.Fprintf(out, "%s\t%.1f\t%.2f\n", v.name, micros, micros/old[v.parallel])
	}
	out.Flush()
	b.ReportMetric(old[1], "µs-HTTP/1.1")
}

// readOld reads the document over so many connections.
func readOld(b *testing.B, s *Server, connections int) {
	request := servertest.Prepare(s.Key(), "GET", benchLink+"/d0", nil, "x-ms-documentdb-partitionkey", documentKey(0))
	var readers sync.WaitGroup
	for range connections {
		readers.Go(func() {
			client, err := servertest.Dial(s.address())
			if err != nil {
				b.Error(err)
				return
			}
			defer client.Close()
			for range versionReads / connections {
				if response, err := client.Do(request); err != nil || response.Status != 200 {
					b.Errorf("%v %d %s", err, response.Status, response.Body)
					return
				}
			}
		})
	}
	readers.Wait()
}

// readStreams reads the document over so many HTTP/2 connections, with so many
// requests at a time on each.
func readStreams(b *testing.B, s *Server, connections, streams int) {
	var readers sync.WaitGroup
	for range connections {
		readers.Go(func() {
			if err := readConnection(s, versionReads/connections, streams); err != nil {
				b.Error(err)
			}
		})
	}
	readers.Wait()
}

func readConnection(s *Server, reads, streams int) error {
	conn, err := net.Dial("tcp", s.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
	block := hpack(":method", "GET", ":path", "/"+benchLink+"/d0", ":scheme", "http", ":authority", "127.0.0.1",
		"x-ms-date", date, "x-ms-version", "2020-07-15", "x-ms-documentdb-partitionkey", documentKey(0),
		"authorization", servertest.Authorization(s.Key(), "GET", "docs", benchLink+"/d0", date))
	// No table for headers, and a large window for the connection.
	opening := append([]byte(preface), rawFrame(frameSettings, 0, 0, []byte{0, 1, 0, 0, 0, 0})...)
	if _, err := conn.Write(append(opening, rawFrame(frameWindow, 0, 0, []byte{0x40, 0, 0, 0})...)); err != nil {
		return err
	}
	opened, request := 0, rawFrame(frameHeaders, flagEndHeaders|flagEndStream, 0, block)
	open := func() error {
		binary.BigEndian.PutUint32(request[5:], uint32(2*opened+1))
		opened++
		_, err := conn.Write(request)
		return err
	}
	for range streams {
		if err := open(); err != nil {
			return err
		}
	}
	reader, payload := bufio.NewReaderSize(conn, 64<<10), make([]byte, frameMax)
	for done := 0; done < reads; {
		var head [9]byte
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(head[:]) >> 8
		if _, err := io.ReadFull(reader, payload[:size]); err != nil {
			return err
		}
		switch kind := head[3]; {
		case kind == frameHeaders && statusIn(payload) != "200":
			return fmt.Errorf("status %s", statusIn(payload))
		case kind == frameReset || kind == frameGoAway:
			return fmt.Errorf("frame %d %x", kind, payload[:size])
		case kind <= frameHeaders && head[4]&flagEndStream != 0:
			if done++; opened < reads {
				if err := open(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
