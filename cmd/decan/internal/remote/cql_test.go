package remote

import (
	"strings"
	"testing"
)

// TestCQLPlace reads addresses of the Cassandra API.
func TestCQLPlace(t *testing.T) {
	for _, c := range []struct {
		endpoint, address string
		host, user        string
		tls               bool
		refused           string
	}{
		{endpoint: "http://127.0.0.1:8081", host: "127.0.0.1:10350", user: "decan"},
		{endpoint: "https://[::1]:8081/", host: "[::1]:10350", user: "decan"},
		{endpoint: "db.example.com:443", host: "db.example.com:10350", user: "decan"},
		{endpoint: "http://a:1", address: "b:2", host: "b:2", user: "decan"},
		{endpoint: "http://a:1", address: "me@b:2", host: "b:2", user: "me"},
		{endpoint: "http://a:1", address: "tls://b:2", host: "b:2", user: "decan", tls: true},
		{endpoint: "http://a:1", address: "tls://me@b:2", host: "b:2", user: "me", tls: true},
		{endpoint: "http://a:1", address: "b", refused: "HOST:PORT"},
		{endpoint: "http://a:1", address: "tls://b", refused: "HOST:PORT"},
	} {
		p, err := Account{Endpoint: c.endpoint, Key: "k"}.cqlPlace(c.address)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%+v: got error %v", c, err)
			}
			continue
		}
		if err != nil || p.host != c.host || p.user != c.user || p.password != "k" || (p.tls != nil) != c.tls {
			t.Errorf("%+v: got %+v, %v", c, p, err)
		}
	}
}
