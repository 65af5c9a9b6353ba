// Package consoletest helps tests that watch the output of a running command.
//
// Page: docs/testing.md
package consoletest

import (
	"bytes"
	"strings"
)

// Until keeps what is written to it, and calls Told once with the whole output when it
// contains Text. One goroutine at a time may write.
type Until struct {
	bytes.Buffer

	Text string
	Told func(all string)
}

// Write implements io.Writer.
func (u *Until) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if u.Told != nil && strings.Contains(u.String(), u.Text) {
		told := u.Told
		u.Told = nil
		told(u.String())
	}
	return n, err
}
