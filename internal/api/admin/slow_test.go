package admin_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
)

// A body that does not arrive before the deadline of its connection is 408, which says
// so; one that ends early is 400.
func TestSlowBodies(t *testing.T) {
	door, _ := newDoor(t, nil)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		if hr.Header.Get("slow") != "" {
			if err := http.NewResponseController(hw).SetReadDeadline(time.Now()); err != nil {
				t.Error(err)
			}
		}
		door.ServeHTTP(hw, hr)
	}))
	server.Start()
	defer server.Close()
	for _, c := range []struct{ slow, want, text string }{
		{"1", "408", "did not arrive in time"},
		{"", "400", "shorter than its announced length"},
	} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, "POST /containers?database=d HTTP/1.1\r\nHost: x\r\nConnection: close\r\nslow: "+c.slow+
			"\r\nx-decan-key: "+auth.WellKnownKey+"\r\nContent-Length: 1000\r\n\r\n{")
		if err == nil && c.slow == "" {
			err = conn.(*net.TCPConn).CloseWrite()
		}
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if text := string(answer); err != nil || !strings.HasPrefix(text, "HTTP/1.1 "+c.want) || !strings.Contains(text, c.text) {
			t.Errorf("%v %q, want %s with %q", err, text, c.want, c.text)
		}
		conn.Close()
	}
}
