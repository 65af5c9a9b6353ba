// Package decantest gives a test a Decan server of its own in one call.
//
// [New] starts a server in memory in a few milliseconds and closes it with the
// test, so tests share nothing and run in parallel.
//
// Page: docs/embedding.md
package decantest

import (
	"context"
	"testing"

	"github.com/decandb/decan"
)

// Server is a server that lives as long as its test.
type Server struct {
	*decan.Server

	tb testing.TB
}

// New starts a server in memory and closes it when the test ends. A fault ends
// the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	return Start(tb, decan.Config{})
}

// Start is New with a configuration, for instance a data directory from
// tb.TempDir or another consistency.
func Start(tb testing.TB, config decan.Config) *Server {
	tb.Helper()
	s, err := decan.Start(context.Background(), config)
	if err != nil {
		tb.Fatalf("start a decan server: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close the decan server: %v", err)
		}
	})
	return &Server{Server: s, tb: tb}
}

// Container makes a container with the given number of physical partitions and
// its database when that is missing; definition is the container's JSON. A fault
// ends the test.
func (s *Server) Container(database, definition string, partitions int) {
	s.tb.Helper()
	if err := s.CreateContainer(s.tb.Context(), database, definition, partitions); err != nil {
		s.tb.Fatalf("create the container: %v", err)
	}
}
