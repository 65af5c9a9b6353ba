package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/decandb/decan/internal/status"
)

// originRules decide which pages' requests a port answers: those of pages of its own,
// and on the ports for clients those of pages whose origins are named.
//
// A page of another origin can send requests to a server that its browser reaches. It
// cannot read the answers, and the account key is never sent without being asked for,
// as a cookie is. But a request that changes something does so whether or not its
// answer is read, and if the key is the well-known one, every page can sign. Browsers say
// where a request comes from: in Origin, and in Sec-Fetch-Site, which no page can set.
// Programs that are not browsers send neither.
//
// The rules never change. They are safe for concurrent use.
type originRules struct {
	endpoint string          // host and port of --endpoint in lower case, "" for none
	named    map[string]bool // origins in lower case that may send requests and read the answers
}

// originRules returns the rules of a port, on which the named origins may send requests.
func (c Config) originRules(named []string) *originRules {
	o := &originRules{named: map[string]bool{}}
	if u, err := url.Parse(c.Account.Endpoint); err == nil {
		o.endpoint = strings.ToLower(u.Host)
	}
	for _, origin := range named {
		o.named[strings.ToLower(origin)] = true
	}
	return o
}

// allows reports whether the origin is named.
func (o *originRules) allows(origin string) bool {
	return origin != "" && o.named[strings.ToLower(origin)]
}

// admits reports whether a request comes from no page, from a page of this server, or
// from one that is named. It allows a browser to open a page from a link anywhere.
func (o *originRules) admits(hr *http.Request) bool {
	origins := hr.Header["Origin"]
	if len(origins) > 1 {
		return false
	}
	if len(origins) == 1 {
		return o.allows(origins[0]) || o.own(origins[0], hr.Host)
	}
	switch hr.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site": // the same site is another port, or another name of the domain
		return (hr.Method == http.MethodGet || hr.Method == http.MethodHead) &&
			hr.Header.Get("Sec-Fetch-Mode") == "navigate" && hr.Header.Get("Sec-Fetch-Dest") == "document"
	}
	return true
}

// own reports whether an origin is the host of the request, or that of --endpoint: a
// proxy may have changed the Host header. The scheme is not compared, because a proxy may
// terminate TLS, and one port serves both.
func (o *originRules) own(origin, host string) bool {
	_, from, found := strings.Cut(origin, "://")
	from = strings.ToLower(from)
	return found && from != "" && (from == strings.ToLower(host) || from == o.endpoint)
}

// refuse returns the refusal of a page, which names the remedy.
func (o *originRules) refuse(hr *http.Request) error {
	from := "a page of another origin"
	if origin := hr.Header.Get("Origin"); origin != "" {
		from = fmt.Sprintf("a page of the origin %.80q", origin)
	}
	return status.Forbidden(0, "The request comes from %s. Only pages of this server may send requests to this port; "+
		"on the ports for clients, --cors-origins (DECAN_CORS_ORIGINS) allows those of other origins, such as --cors-origins https://app.example.com.", from)
}

// checkOrigins reports entries that are not an origin.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.String() != u.Scheme+"://"+u.Host || strings.Contains(u.Host, "*") {
			return fmt.Errorf("--cors-origins %q: give origins such as https://app.example.com or http://localhost:3000, without a path and without *", origin)
		}
	}
	return nil
}

// withOrigins lets pages of named origins read the answers of next, and answers the
// question of browsers whether they may send a request (CORS). Without a named origin it
// is next itself.
func (s *Server) withOrigins(admit func(*http.Request) error, next http.Handler) http.Handler {
	o := s.config.originRules(s.config.Access.Origins)
	if len(o.named) == 0 {
		return next
	}
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		header := hw.Header()
		header.Add("Vary", "Origin") // A cache must not answer one origin with the answer for another.
		origin := hr.Header.Get("Origin")
		if !o.allows(origin) {
			next.ServeHTTP(hw, hr)
			return
		}
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", "*")
		if hr.Method != http.MethodOptions || hr.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(hw, hr)
			return
		}
		if err := admit(hr); err != nil {
			refuse(hw, err)
			return
		}
		header.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		if asked := hr.Header.Get("Access-Control-Request-Headers"); asked != "" {
			header.Set("Access-Control-Allow-Headers", asked)
		}
		if hr.Header.Get("Access-Control-Request-Private-Network") == "true" {
			header.Set("Access-Control-Allow-Private-Network", "true")
		}
		header.Set("Access-Control-Max-Age", "600")
		hw.WriteHeader(http.StatusNoContent)
	})
}
