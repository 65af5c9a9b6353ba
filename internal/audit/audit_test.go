package audit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decandb/decan/internal/status"
)

// disk is an output that is full from time to time.
type disk struct {
	bytes.Buffer
	room int // remaining bytes; negative for no limit
}

func (d *disk) Write(p []byte) (int, error) {
	if d.room < 0 || len(p) <= d.room {
		return d.Buffer.Write(p)
	}
	n, _ := d.Buffer.Write(p[:d.room])
	d.room = 0
	return n, errors.New("no space left on device")
}

// TestFullDisk fills the disk in the middle of a line: no line is lost or written twice
// when there is space again, and until then requests are refused if the log is
// required.
func TestFullDisk(t *testing.T) {
	for _, required := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			out := &disk{room: 250}
			log, err := Open(LogConfig{Output: out, Level: Changes, Required: required})
			if err != nil {
				t.Fatal(err)
			}
			watch := New(Config{Log: log})
			door := watch.Door("data")
			for i := range 5 {
				door.Write(Record{Operation: fmt.Sprint("operation ", i), Address: "192.0.2.1:7"})
			}
			time.Sleep(2 * flushInterval)
			if err := door.Ready(); (err != nil) != required || required && status.CodeOf(err) != status.CodeUnavailable {
				t.Errorf("required %v: %v", required, err)
			}
			log.mu.Lock() // Under which the output is written to.
			out.room = -1
			log.mu.Unlock()
			time.Sleep(2 * flushInterval)
			if err := door.Ready(); err != nil {
				t.Errorf("with room again: %v", err)
			}
			door.Write(Record{Operation: "the last"})
			watch.Close()
			if err := log.Close(); err != nil {
				t.Error(err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != 6 {
				t.Fatalf("%d lines: %s", len(lines), out)
			}
			for i, line := range lines[:5] {
				if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}") || !strings.Contains(line, fmt.Sprint("operation ", i)) {
					t.Errorf("line %d: %s", i, line)
				}
			}
		})
	}
}

// TestLinesAreBounded has many addresses refused in two minutes: each minute has
// sixteen lines and a sum, and no other address is kept.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		watch := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		door := watch.Door("data")
		for range 2 {
			for i := range 1000 {
				door.Refused("key", fmt.Sprintf("192.0.%d.%d:5", i/250, i%250))
			}
			time.Sleep(2 * windowLength)
		}
		for i := range 100 { // One client can use all addresses of its network.
			door.Refused("missing", fmt.Sprintf("[2001:db8::%x]:5", i+1))
		}
		watch.Close()
		text := log.String()
		if n := strings.Count(text, `msg="access refused"`); n != 2*addressesMax+1 {
			t.Errorf("%d lines of their own", n)
		}
		if strings.Count(text, `count=984 reasons.key=984`) != 2 || strings.Count(text, `count=99 reasons.missing=99`) != 1 {
			t.Errorf("the sums are wrong: %s", text)
		}
		if len(watch.seen)+len(watch.late) != 0 {
			t.Error("something is kept")
		}
	})
}

// TestNilDoor shows that a door without a watch does nothing.
func TestNilDoor(t *testing.T) {
	t.Parallel()
	var watch *Watch
	door := watch.Door("data")
	door.Refused("key", "192.0.2.1:5")
	if door.Wants(true, 401) || door.Ready() != nil {
		t.Error("no door wants something")
	}
}
