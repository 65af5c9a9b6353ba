package server

import (
	"net/http"

	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/status"
)

// admit returns the check that a door applies to each request first: nil, or the
// reason to refuse it. Pages of the named origins may send requests.
func (s *Server) admit(listen string, named []string, door *audit.Door) func(*http.Request) error {
	hosts, origins := s.config.hostRules(listen, thisMachine()), s.config.originRules(named)
	return func(hr *http.Request) error {
		// For a target in absolute form, net/http takes the host from the target, as
		// HTTP requires.
		if !hosts.admits(hr.Host) {
			door.Refused(audit.ReasonHost, hr.RemoteAddr)
			return hosts.refuse(hr.Host)
		}
		if !origins.admits(hr) {
			door.Refused(audit.ReasonOrigin, hr.RemoteAddr)
			return origins.refuse(hr)
		}
		if s.config.TLS.Only && hr.TLS == nil {
			door.Refused(audit.ReasonPlain, hr.RemoteAddr)
			return status.Forbidden(0, "This port answers https only: the server runs with --https-only. Others may have read what was sent over plain http, its authorization included.")
		}
		return nil
	}
}

// ReopenAudit opens the file of the audit log again by its name, after it was
// renamed. Without an audit log, or if its output is not a file, it does nothing.
func (s *Server) ReopenAudit() error { return s.audit.Reopen() }
