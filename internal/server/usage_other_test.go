//go:build !unix

package server

import (
	"testing"
	"time"
)

// processorTime returns a nanosecond: it is not known here.
func processorTime(testing.TB) time.Duration { return 1 }
