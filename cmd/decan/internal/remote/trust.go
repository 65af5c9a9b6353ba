package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
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
	return &http.Client{Transport: trusting{base}}, nil
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

// trusting adds advice to the error for a certificate of an unknown authority.
type trusting struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t trusting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(request)
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		err = untrusted{err}
	}
	return response, err
}

// untrusted is the error for a certificate of an unknown authority. A retry does not
// help.
type untrusted struct{ cause error }

// Error names the flag.
func (u untrusted) Error() string {
	return u.cause.Error() + ": give the certificate of its authority with --ca FILE (DECAN_CA)"
}

// Unwrap returns the cause.
func (u untrusted) Unwrap() error { return u.cause }

// NonRetriable tells the SDK not to retry.
func (untrusted) NonRetriable() {}

// IsUntrusted reports whether an error means a certificate of an unknown authority.
func IsUntrusted(err error) bool {
	_, is := errors.AsType[untrusted](err)
	return is
}
