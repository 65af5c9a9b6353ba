package server

import (
	"net/http"
	"strings"

	"github.com/decandb/decan/internal/api/admin"
	"github.com/decandb/decan/internal/api/nosql"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/explorer"
	"github.com/decandb/decan/internal/status"
)

// dataPort returns the handler of the port for clients.
func (s *Server) dataPort(config nosql.Config, operations admin.Config) http.Handler {
	handler := s.withOrigins(config.Admit, nosql.New(config))
	if !s.config.Explorer.On {
		return handler
	}
	operations.Metrics = true // The port for clients shows nothing without a key.
	return s.withExplorer(config.Admit, withoutProfiles(admin.New(operations)), handler)
}

// withExplorer serves the Data Explorer below its path, and leads browsers that open the
// endpoint to it. Everything else is for next.
func (s *Server) withExplorer(admit func(*http.Request) error, operators, next http.Handler) http.Handler {
	config := explorer.Config{
		Version: s.config.Version, Account: s.config.Account.ID, Consistency: s.config.Account.Consistency,
		WellKnown: func() bool { return auth.IsWellKnown(s.engine.PrimaryKey()) },
		Bearer:    s.config.Tokens.Only,
	}
	if s.config.explorerAdmin() {
		config.Admin = operators
	}
	page := explorer.New(config)
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		below := isExplorer(hr.URL.Path)
		if !below && (hr.URL.Path != "/" || !wantsPage(hr)) {
			next.ServeHTTP(hw, hr)
			return
		}
		if err := admit(hr); err != nil {
			refuse(hw, err)
			return
		}
		if below {
			page.ServeHTTP(hw, hr)
			return
		}
		hw.Header().Set("Cache-Control", "no-store")
		hw.Header().Set("Vary", "Accept, Authorization")
		http.Redirect(hw, hr, explorer.Path, http.StatusSeeOther)
	})
}

// refuse answers a request that is not admitted, and ends its connection.
func refuse(hw http.ResponseWriter, err error) {
	code, text := http.StatusForbidden, err.Error()
	if e := status.From(err); e != nil {
		code, text = int(e.Code), e.Message
	}
	hw.Header().Set("Connection", "close")
	hw.Header().Set("X-Content-Type-Options", "nosniff")
	http.Error(hw, text, code)
}

func isExplorer(path string) bool {
	return strings.HasPrefix(path, explorer.Path) || path == strings.TrimSuffix(explorer.Path, "/")
}

// wantsPage reports whether a request for the account comes from a browser: clients of
// the protocol sign it and do not ask for HTML.
func wantsPage(hr *http.Request) bool {
	return hr.Method == http.MethodGet && hr.Header.Get("Authorization") == "" && strings.Contains(hr.Header.Get("Accept"), "text/html")
}

// explorerAdmin reports whether the page has the administration on the port for clients.
// It never makes the administration reachable where the admin port is not: it needs an
// admin port, which other machines reach if they reach the port for clients. Nor does it
// accept account keys there if the clients' port refuses them.
func (c *Config) explorerAdmin() bool {
	if c.Ports.Admin == noListener || c.Ports.Admin == "" || c.Tokens.Only {
		return false
	}
	return isLoopback(c.Ports.Data) || !isLoopback(c.Ports.Admin)
}

// withoutProfiles refuses the paths of profiles, which are for tools and not for a page.
func withoutProfiles(next http.Handler) http.Handler {
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		if strings.HasPrefix(hr.URL.Path, "/debug/") {
			http.NotFound(hw, hr)
			return
		}
		next.ServeHTTP(hw, hr)
	})
}
