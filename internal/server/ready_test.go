package server

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// TestReadiness shows the conditions of /ready: an open server whose catalog can
// be written. Only the log names the cause of an error.
func TestReadiness(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	var fault error
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil)), catalogFault: func() error { return fault }}
	if s.serving() == nil {
		t.Error("ready before the start is over")
	}
	s.ready.Store(true)
	if err := s.serving(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	fault = errors.Join(errors.New("sync"), io.ErrShortWrite)
	if err := s.serving(); err == nil || strings.Contains(err.Error(), "sync") {
		t.Errorf("with a failed catalog: %v", err)
	}
	if !strings.Contains(log.String(), "sync") {
		t.Errorf("the log does not name the cause: %s", log.String())
	}
}
