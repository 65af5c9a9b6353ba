package rntbd

import "net"

// admit counts a connection. At a limit it closes the connection that has been idle
// for longest, one that has not sent its context first; if none is idle, it refuses conn
// and returns nil. At the limit of an address, these are connections of that address.
func (s *Server) admit(conn net.Conn) *connection {
	c := newConnection(s, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close() // The client notices.
		return nil
	}
	tooMany := len(s.open) >= s.config.Connections
	ofAddress := s.config.PerAddress > 0 && s.counts[c.network] >= s.config.PerAddress && !c.network.Addr().IsLoopback()
	if tooMany || ofAddress {
		victim := s.idlestLocked(func(other *connection) bool { return !ofAddress || other.network == c.network })
		if victim == nil {
			s.metrics.refused.Inc()
			s.config.Logger.Debug("refused a connection of direct mode: all are busy", "remote", conn.RemoteAddr().String())
			_ = conn.Close() // The client notices.
			return nil
		}
		s.metrics.displaced.Inc()
		s.removeLocked(victim)
		_ = victim.conn.Close() // Its goroutine notices.
	}
	s.open[c] = struct{}{}
	s.counts[c.network]++
	s.running.Add(1)
	return c
}

// idlestLocked returns the connection of some that has been idle for longest, or nil.
func (s *Server) idlestLocked(of func(*connection) bool) *connection {
	var best *connection
	var bestSince int64
	for c := range s.open {
		since, idle := c.idleSince()
		if idle && (best == nil || since < bestSince) && of(c) {
			best, bestSince = c, since
		}
	}
	return best
}

func (s *Server) removeLocked(c *connection) {
	if _, open := s.open[c]; !open {
		return
	}
	delete(s.open, c)
	if s.counts[c.network]--; s.counts[c.network] == 0 {
		delete(s.counts, c.network)
	}
}

func (s *Server) leave(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}
