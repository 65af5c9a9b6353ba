package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
)

// trustFlags say which authorities a client command trusts.
type trustFlags struct {
	CA string `name:"ca" env:"DECAN_CA" placeholder:"FILE" help:"Trust the certificates of this PEM file for https, beside those that the system trusts; decan cert writes that of a server's own authority."`
}

// client returns an HTTP client that trusts what the flags say. base has its other
// settings and is changed.
func (f trustFlags) client(base *http.Transport) (*http.Client, error) {
	if f.CA != "" {
		pool, err := f.pool()
		if err != nil {
			return nil, err
		}
		base.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		base.ForceAttemptHTTP2 = true // A config of its own turns it off otherwise.
	}
	return &http.Client{Transport: trusting{base}}, nil
}

// pool returns the system's authorities and those of the file.
func (f trustFlags) pool() (*x509.CertPool, error) {
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // There are none.
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

// untrusted is the error for a certificate of an unknown authority. Retrying cannot help.
type untrusted struct{ cause error }

// Error names the flag.
func (u untrusted) Error() string {
	return u.cause.Error() + ": give the certificate of its authority with --ca FILE (DECAN_CA)"
}

// Unwrap returns the cause.
func (u untrusted) Unwrap() error { return u.cause }

// NonRetriable has the SDK not try again.
func (untrusted) NonRetriable() {}

// isUntrusted reports whether an error is one of trust.
func isUntrusted(err error) bool {
	_, is := errors.AsType[untrusted](err)
	return is
}
