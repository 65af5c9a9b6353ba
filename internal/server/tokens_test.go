package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/decandb/decan/internal/auth"
)

// issuerAt serves the result of set as the keys of an issuer, and counts
// requests.
func issuerAt(t *testing.T, set func(hw http.ResponseWriter)) (address string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(hw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		set(hw)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func newKeySet(t *testing.T) []byte {
	t.Helper()
	issuer, err := auth.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	text, err := issuer.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRemoteKeys shows when the keys of an issuer are fetched: for an unknown
// key, and not twice within a minute.
func TestRemoteKeys(t *testing.T) {
	t.Parallel()
	text := newKeySet(t)
	address, asked := issuerAt(t, func(hw http.ResponseWriter) { _, _ = hw.Write(text) })
	source := newRemoteKeys(address, slog.New(slog.DiscardHandler))
	if err := source.fetch(context.Background()); err != nil {
		t.Fatal(err)
	}
	source.keys("unknown")
	source.keys("")
	if n := asked.Load(); n != 1 {
		t.Errorf("requested the keys %d times within a minute", n)
	}
	source.last.Store(time.Now().Add(-keysRest).UnixNano())
	if source.keys(""); asked.Load() != 1 {
		t.Error("requested the keys for a token that names no key")
	}
	if source.keys("unknown"); asked.Load() != 2 {
		t.Errorf("requested the keys %d times for a missing key, a minute later", asked.Load()-1)
	}
	if !strings.Contains(string(text), `"kid"`) || source.keys("unknown") == nil {
		t.Error("the keys were lost")
	}
}

// TestRemoteKeysRefused shows which answers of an issuer are not accepted as
// keys.
func TestRemoteKeysRefused(t *testing.T) {
	t.Parallel()
	good := newKeySet(t)
	for name, answer := range map[string]func(http.ResponseWriter){
		"an error":   func(hw http.ResponseWriter) { hw.WriteHeader(500); _, _ = hw.Write(good) },
		"a redirect": func(hw http.ResponseWriter) { hw.Header().Set("Location", "/other"); hw.WriteHeader(302) },
		"no keys":    func(hw http.ResponseWriter) { _, _ = hw.Write([]byte("{}")) },
		"too much": func(hw http.ResponseWriter) {
			_, _ = hw.Write(append(bytes.Repeat([]byte(" "), keysBytesMax+1-len(good)), good...))
		},
	} {
		address, _ := issuerAt(t, answer)
		if err := newRemoteKeys(address, slog.New(slog.DiscardHandler)).fetch(context.Background()); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	address, _ := issuerAt(t, func(hw http.ResponseWriter) {
		_, _ = hw.Write(append(bytes.Repeat([]byte(" "), keysBytesMax-len(good)), good...))
	})
	if err := newRemoteKeys(address, slog.New(slog.DiscardHandler)).fetch(context.Background()); err != nil {
		t.Errorf("an answer of the maximum size: %v", err)
	}
}

// TestTokenConfig shows which settings of bearer tokens can be combined.
func TestTokenConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, newKeySet(t), 0o600); err != nil {
		t.Fatal(err)
	}
	issuers := []string{"iss"}
	for _, c := range []struct {
		config TokenOptions
		good   bool
	}{
		{TokenOptions{}, true},
		{TokenOptions{Emulator: true}, true},
		{TokenOptions{Issuers: issuers, Keys: file}, true},
		{TokenOptions{Issuers: issuers, Keys: "https://issuer.example/keys"}, true},
		{TokenOptions{Issuers: issuers, Keys: "http://127.0.0.1:1/keys"}, true},
		{TokenOptions{Issuers: issuers, Keys: "http://localhost/keys"}, true},
		{TokenOptions{Issuers: issuers, Keys: "http://issuer.example/keys"}, false},
		{TokenOptions{Issuers: issuers}, false},
		{TokenOptions{Keys: file}, false},
		{TokenOptions{Audiences: []string{"aud"}}, false},
		{TokenOptions{Only: true}, false},
		{TokenOptions{Only: true, Emulator: true}, true},
		{TokenOptions{Only: true, Issuers: issuers, Keys: file}, true},
		{TokenOptions{Issuers: []string{""}, Keys: file}, false},
		{TokenOptions{Issuers: issuers, Audiences: []string{""}, Keys: file}, false},
	} {
		if faults := c.config.faults(); c.good != (len(faults) == 0) {
			t.Errorf("%+v: %v", c.config, faults)
		}
	}
	rules, remote, err := TokenOptions{Issuers: issuers, Keys: file}.rules(slog.New(slog.DiscardHandler))
	if err != nil || remote != nil || rules.Keys("") == nil || len(rules.Audiences) != 1 || rules.Audiences[0] != DefaultAudience {
		t.Errorf("%v, %v", rules.Audiences, err)
	}
	if _, _, err := (TokenOptions{Issuers: issuers, Keys: file + "none"}).rules(slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a missing file is read")
	}
}

// TestBadKeysBeforePorts starts a second server: with bad token keys the error
// names the keys, with good ones the port.
func TestBadKeysBeforePorts(t *testing.T) {
	t.Parallel()
	address := strings.TrimSuffix(strings.TrimPrefix(start(t, Config{}).Endpoint(), "http://"), "/")
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad.json"), filepath.Join(dir, "good.json")
	for file, text := range map[string][]byte{bad: []byte("{}"), good: newKeySet(t)} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issuer, asked := issuerAt(t, func(hw http.ResponseWriter) { _, _ = hw.Write(newKeySet(t)) })
	for keys, names := range map[string]string{
		bad:                        "--token-keys",
		filepath.Join(dir, "none"): "--token-keys",
		good:                       address,
		issuer:                     address,
	} {
		s, err := Start(t.Context(), Config{Ports: PortOptions{Data: address, Admin: noListener}, Tokens: TokenOptions{Issuers: []string{"iss"}, Keys: keys}})
		if err == nil {
			t.Fatalf("%s: two servers have one port: %v", keys, s.Close())
		}
		if text := err.Error(); !strings.Contains(text, names) || names != address && strings.Contains(text, address) {
			t.Errorf("%s: %v, want it to name %s", keys, err, names)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a server without a port requested the keys %d times", n)
	}
}

// TestLocalAuthDisabled shows that the data port refuses the account key, and the
// admin port accepts it.
func TestLocalAuthDisabled(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Tokens: TokenOptions{Only: true, Emulator: true}})
	if r := call(t, s, "GET", "dbs", ""); r.Status != http.StatusUnauthorized || r.Header.Get("x-ms-substatus") != "5202" {
		t.Errorf("the data port answers %d/%s: %s", r.Status, r.Header.Get("x-ms-substatus"), r.Body)
	}
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.AdminEndpoint()+"sqlRoleDefinitions", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("x-decan-key", s.Key())
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the admin port answers %d", answer.StatusCode)
	}
}
