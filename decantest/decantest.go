// Package decantest starts a Decan server for a test in one call.
//
// [New] starts a server in memory within a few milliseconds and closes it when
// the test ends, so tests share nothing and can run in parallel.
//
// Page: docs/embedding.md
package decantest

import (
	"context"
	"testing"

	"github.com/decandb/decan"
)

// Server is a server that runs until its test ends.
type Server struct {
	*decan.Server

	tb testing.TB
}

// New starts a server in memory and closes it when the test ends. An error fails
// the test immediately.
func New(tb testing.TB) *Server {
	tb.Helper()
	return Start(tb, decan.Config{})
}

// Start starts a server with a configuration, for instance with a data directory
// from tb.TempDir, and closes it when the test ends. An error fails the test
// immediately.
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

// Container creates a container with the given number of physical partitions,
// and its database if it does not exist. definition is the container's JSON. An
// error fails the test immediately.
func (s *Server) Container(database, definition string, partitions int) {
	s.tb.Helper()
	if err := s.CreateContainer(s.tb.Context(), database, definition, partitions); err != nil {
		s.tb.Fatalf("create the container: %v", err)
	}
}
