package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
)

// Trust says which certificate authorities a command trusts.
type Trust struct {
	CA string `name:"ca" env:"DECAN_CA" placeholder:"FILE" help:"Also trust the certificates of this PEM file for https; decan cert writes that of a server's own authority."`
}

// Client returns an HTTP client that trusts those authorities. base has the other
// settings, and is changed.
func (f Trust) Client(base *http.Transport) (*http.Client, error) {
	if f.CA != "" {
		config, err := f.TLS()
		if err != nil {
			return nil, err
		}
		base.TLSClientConfig = config
		base.ForceAttemptHTTP2 = true // Setting TLSClientConfig turns it off.
	}
	return &http.Client{Transport: &transport{Transport: base}}, nil
}

// TLS returns the settings of TLS that trust those authorities.
func (f Trust) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA == "" {
		return config, nil
	}
	pool, err := f.pool()
	config.RootCAs = pool
	return config, err
}

// pool returns the authorities of the system and those of the file.
func (f Trust) pool() (*x509.CertPool, error) {
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // The system has none.
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca: %s has no certificate in PEM", f.CA)
	}
	return pool, nil
}

// transport adds advice to the error for a certificate of an unknown authority, and marks
// those that a retry does not help against.
type transport struct {
	*http.Transport
	answered atomic.Bool // A server has answered a request.
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(request)
	if err == nil {
		t.answered.Store(true)
		return response, nil
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return nil, untrusted{err}
	}
	if dial, is := errors.AsType[*net.OpError](err); is && dial.Op == "dial" && !t.answered.Load() {
		return nil, unanswered{err}
	}
	return nil, err
}

// untrusted is the error for a certificate of an unknown authority.
type untrusted struct{ error }

// Error names the flag.
func (u untrusted) Error() string {
	return u.error.Error() + ": give the certificate of its authority with --ca FILE (DECAN_CA)"
}

// Unwrap returns the cause.
func (u untrusted) Unwrap() error { return u.error }

// NonRetriable tells the SDK not to retry.
func (untrusted) NonRetriable() {}

// unanswered is the error for the address of a server that has answered no request yet:
// it is wrong, or the server is down. After an answer the server may be starting again.
type unanswered struct{ error }

// Unwrap returns the cause.
func (u unanswered) Unwrap() error { return u.error }

// NonRetriable tells the SDK not to retry.
func (unanswered) NonRetriable() {}

// isFinal reports whether a retry does not help against an error.
func isFinal(err error) bool {
	_, is := errors.AsType[interface {
		error
		NonRetriable()
	}](err)
	return is
}
