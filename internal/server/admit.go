package server

import "net/http"

// admit returns what a door asks about each request before it looks at anything
// else: nil, or why the request is refused.
func (s *Server) admit(listen string) func(*http.Request) error {
	hosts := s.config.hostRules(listen, thisMachine())
	return func(hr *http.Request) error {
		// Of a target in absolute form net/http takes the host from there, as it has to.
		if !hosts.admits(hr.Host) {
			return hosts.refuse(hr.Host)
		}
		return nil
	}
}
