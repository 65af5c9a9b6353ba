package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/decandb/decan/internal/auth"
)

// TokenConfig says which bearer tokens are accepted. The zero value accepts none.
type TokenConfig struct {
	Issuers   []string // what "iss" may be
	Audiences []string // what "aud" may be; default DefaultAudience

	// Keys is where the public keys of the issuers are: a file, or a URL of
	// https, or of http on this machine. A JSON web key set or PEM. A file is read
	// at the start; a URL is asked at the start, and again, once a minute at most,
	// for a token that names a key that is not there.
	Keys string

	// Emulator accepts the tokens of the test suites of the SDKs, which are signed
	// with the text of an account key.
	Emulator bool

	// Only refuses account keys and resource tokens, but on the admin port.
	Only bool
}

// DefaultAudience is what the SDKs ask a token for when nothing else is known.
const DefaultAudience = "https://cosmos.azure.com"

func (c TokenConfig) faults() []error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case (len(c.Issuers) > 0) != (c.Keys != ""):
		fault("an issuer of bearer tokens needs its keys: give both --token-issuer and --token-keys, or neither")
	case len(c.Audiences) > 0 && c.Keys == "":
		fault("--token-audience needs --token-issuer and --token-keys")
	case c.Only && c.Keys == "" && !c.Emulator:
		fault("--disable-local-auth leaves bearer tokens alone: give --token-issuer and --token-keys, or nobody is let in")
	}
	for _, text := range append(append([]string{}, c.Issuers...), c.Audiences...) {
		if text == "" {
			fault("an issuer and an audience of bearer tokens must not be empty")
		}
	}
	if u, ok := c.remote(); ok && u.Scheme == "http" && !isLoopback(net.JoinHostPort(u.Hostname(), "443")) {
		fault("token keys %q: whoever can change what comes over http can let anybody in: use https, or a file", c.Keys)
	}
	return faults
}

// remote returns the URL that the keys are at, if they are at one.
func (c TokenConfig) remote() (*url.URL, bool) {
	u, err := url.Parse(c.Keys)
	return u, err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// rules returns what the verifier goes by. Keys at a URL, which remote is, are yet
// to be fetched; it is nil when they are in a file.
func (c TokenConfig) rules(log *slog.Logger) (rules auth.BearerRules, remote *remoteKeys, err error) {
	rules = auth.BearerRules{Issuers: c.Issuers, Audiences: c.Audiences, Emulator: c.Emulator, Only: c.Only}
	if len(rules.Audiences) == 0 {
		rules.Audiences = []string{DefaultAudience}
	}
	switch _, isURL := c.remote(); {
	case c.Keys == "":
	case isURL:
		remote = newRemoteKeys(c.Keys, log)
		rules.Keys = remote.keys
	default:
		text, err := os.ReadFile(c.Keys)
		if err != nil {
			return rules, nil, fmt.Errorf("read the token keys: %w", err)
		}
		set, err := auth.ParseKeySet(text)
		if err != nil {
			return rules, nil, fmt.Errorf("token keys %s: %w", c.Keys, err)
		}
		rules.Keys = func(string) *auth.KeySet { return set }
	}
	return rules, remote, nil
}

// verifier returns who verifies credentials by the configuration, and where keys
// are yet to be fetched from, if they are.
func (s *Server) verifier() (*auth.Verifier, *remoteKeys, error) {
	verifier, err := auth.NewVerifier(auth.Keys{
		Primary:           s.config.Key,
		Secondary:         s.config.SecondaryKey,
		PrimaryReadonly:   s.config.ReadonlyKey,
		SecondaryReadonly: s.config.SecondaryReadonlyKey,
	}, s.config.Limits.ClockSkew)
	if err != nil {
		return nil, nil, err
	}
	rules, remote, err := s.config.Tokens.rules(s.log)
	if err != nil {
		return nil, nil, err
	}
	return verifier.WithBearer(rules), remote, nil
}

// Bounds of fetching keys.
const (
	keysTimeout  = 10 * time.Second
	keysBytesMax = 1 << 20
	keysRest     = time.Minute // between two fetches
)

// remoteKeys keeps the keys of an issuer that are at a URL. It is safe for
// concurrent use: one request at a time fetches, the others go on with what is
// there.
type remoteKeys struct {
	url    string
	client *http.Client
	log    *slog.Logger
	set    atomic.Pointer[auth.KeySet]

	fetching atomic.Bool
	last     atomic.Int64 // when the last fetch began, in nanoseconds of the epoch
}

func newRemoteKeys(address string, log *slog.Logger) *remoteKeys {
	return &remoteKeys{url: address, log: log, client: &http.Client{
		Timeout: keysTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects, which is not followed")
		},
	}}
}

// keys returns the key set, fetched anew when it has not the key that is asked for
// and the last time is long enough ago.
func (k *remoteKeys) keys(kid string) *auth.KeySet {
	set := k.set.Load()
	if set.Has(kid) || kid == "" && set != nil || time.Since(time.Unix(0, k.last.Load())) < keysRest {
		return set
	}
	if !k.fetching.CompareAndSwap(false, true) {
		return set
	}
	defer k.fetching.Store(false)
	if err := k.fetch(context.Background()); err != nil {
		k.log.Warn("token keys not available", "error", err)
	}
	return k.set.Load()
}

// begin fetches the keys at the start of a server. The issuer may be away for a
// while; whoever has a key can go on.
func (k *remoteKeys) begin(ctx context.Context) {
	if k == nil {
		return
	}
	if err := k.fetch(ctx); err != nil {
		k.log.Warn("token keys not available", "error", err)
	}
}

// fetch asks for the keys. What was there stays when that fails.
func (k *remoteKeys) fetch(ctx context.Context) error {
	k.last.Store(time.Now().UnixNano())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return err
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // It was only read.
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", k.url, answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, keysBytesMax+1))
	if err != nil {
		return err
	}
	if len(text) > keysBytesMax {
		return fmt.Errorf("%s answers more than %d bytes", k.url, keysBytesMax)
	}
	set, err := auth.ParseKeySet(text)
	if err != nil {
		return fmt.Errorf("%s: %w", k.url, err)
	}
	k.set.Store(set)
	return nil
}
