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

// DefaultAudience is the audience for which the SDKs request a token by default.
const DefaultAudience = "https://cosmos.azure.com"

func (c TokenOptions) faults() []error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case (len(c.Issuers) > 0) != (c.Keys != ""):
		fault("an issuer of bearer tokens needs its keys: give both --token-issuer and --token-keys, or neither")
	case len(c.Audiences) > 0 && c.Keys == "":
		fault("--token-audience needs --token-issuer and --token-keys")
	case c.Only && c.Keys == "" && !c.Emulator:
		fault("--disable-local-auth leaves only bearer tokens: give --token-issuer and --token-keys, or every request is refused")
	}
	for _, text := range append(append([]string{}, c.Issuers...), c.Audiences...) {
		if text == "" {
			fault("--token-issuer and --token-audience must not be empty")
		}
	}
	if u, ok := c.remote(); ok && u.Scheme == "http" && !isLoopback(net.JoinHostPort(u.Hostname(), "443")) {
		fault("--token-keys %q: http lets an attacker replace the keys: use https, or a file", c.Keys)
	}
	return faults
}

// remote returns the URL of the keys, if they are not in a file.
func (c TokenOptions) remote() (*url.URL, bool) {
	u, err := url.Parse(c.Keys)
	return u, err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// rules returns the verifier's rules. Keys at remote are not fetched yet; remote
// is nil if the keys are in a file.
func (c TokenOptions) rules(log *slog.Logger) (rules auth.BearerRules, remote *remoteKeys, err error) {
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
			return rules, nil, fmt.Errorf("--token-keys: %w", err)
		}
		set, err := auth.ParseKeySet(text)
		if err != nil {
			return rules, nil, fmt.Errorf("--token-keys %s: %w", c.Keys, err)
		}
		rules.Keys = func(string) *auth.KeySet { return set }
	}
	return rules, remote, nil
}

// verifier returns the verifier of credentials for the configuration, and the
// source of keys that must still be fetched, if there is one.
func (s *Server) verifier() (*auth.Verifier, *remoteKeys, error) {
	verifier, err := auth.NewVerifier(auth.Keys{
		Primary:           s.config.Keys.Primary,
		Secondary:         s.config.Keys.Secondary,
		PrimaryReadonly:   s.config.Keys.Readonly,
		SecondaryReadonly: s.config.Keys.SecondaryReadonly,
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

// Limits of fetching keys.
const (
	keysTimeout  = 10 * time.Second
	keysBytesMax = 1 << 20
	keysRest     = time.Minute // between two fetches
)

// remoteKeys keeps the keys of an issuer at a URL. It is safe for concurrent use:
// one request at a time fetches, the others continue with the present keys.
type remoteKeys struct {
	url    string
	client *http.Client
	log    *slog.Logger
	set    atomic.Pointer[auth.KeySet]

	fetching atomic.Bool
	last     atomic.Int64 // start of the last fetch, in nanoseconds of the epoch
}

func newRemoteKeys(address string, log *slog.Logger) *remoteKeys {
	return &remoteKeys{url: address, log: log, client: &http.Client{
		Timeout: keysTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("it redirects, which is not followed")
		},
	}}
}

// keys returns the key set. It fetches it again if the requested key is missing
// and the last fetch was long enough ago.
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

// begin fetches the keys when the server starts. The issuer may be temporarily
// unavailable; clients with an account key can work meanwhile.
func (k *remoteKeys) begin(ctx context.Context) {
	if k == nil {
		return
	}
	if err := k.fetch(ctx); err != nil {
		k.log.Warn("token keys not available", "error", err)
	}
}

// fetch requests the keys. If that fails, the present keys stay.
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
