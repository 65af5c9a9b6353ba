package rntbd

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// The reasons why a connection is ended, as the metrics name them.
const (
	reasonTLS      = "tls"
	reasonPlain    = "plain"
	reasonProtocol = "protocol"
	reasonSlow     = "slow"
)

// reportPause is the minimum time between two lines of the log with the same reason.
const reportPause = 10 * time.Second

// reports keeps the log readable when many connections end for the same reason.
type reports struct {
	mu sync.Mutex

	last map[string]time.Time // guarded by mu, by reason
	left map[string]int       // guarded by mu: number of lines left out, by reason
}

// level returns at which level a line is logged now, and how many were not since the
// last one.
func (r *reports) level(reason string, now time.Time) (slog.Level, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last[reason]) < reportPause {
		r.left[reason]++
		return slog.LevelDebug, 0
	}
	left := r.left[reason]
	r.last[reason], r.left[reason] = now, 0
	return slog.LevelInfo, left
}

// report counts and logs why a connection ends, if its client is the cause. A client
// that closes its connection, or is gone, is none.
func (c *connection) report(err error) {
	var failed *handshakeError
	var broken *Violation
	reason, text := "", "ended a connection of direct mode"
	switch {
	case errors.As(err, &failed):
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return // Clients probe ports.
		}
		reason, text = reasonTLS, "no TLS with a client of direct mode; if it does not trust the certificate, see decan cert"
	case errors.Is(err, errPlain):
		reason = reasonPlain
	case errors.As(err, &broken):
		reason = reasonProtocol
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = reasonSlow
	default:
		return
	}
	c.server.metrics.ended.WithLabelValues(reason).Inc()
	level, left := c.server.reports.level(reason, time.Now())
	attributes := []any{"remote", c.conn.RemoteAddr().String(), "reason", reason, "error", err}
	if c.client.UserAgent != "" {
		attributes = append(attributes, "client", c.client.UserAgent)
	}
	if left > 0 {
		attributes = append(attributes, "left_out", left)
	}
	c.server.config.Logger.Log(c.ctx, level, text, attributes...)
}
