package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 397 * 24 * time.Hour // the longest that all clients accept
	leafRenewal   = 30 * 24 * time.Hour  // a leaf that ends sooner than this is replaced at start
)

// localNames are in every self-made certificate: the names by which clients on
// the same machine reach the server.
var localNames = []string{"localhost", "127.0.0.1", "::1"}

// authority makes server certificates for clients that trust it. It is stored in
// a directory, so that clients need to trust it only once, or in memory.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// selfMade returns a function that supplies the certificate for a handshake. The
// authority and the leaf are read from dir or created there; if dir is empty they
// are created in memory at the first handshake, so that a server for plain HTTP
// does not spend time on keys.
func selfMade(dir string, hosts []string, now func() time.Time) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	names := append(slices.Clone(localNames), hosts...)
	issue := sync.OnceValues(func() (*tls.Certificate, error) {
		ca, err := loadAuthority(dir, now())
		if err != nil {
			return nil, err
		}
		return ca.leaf(dir, names, now())
	})
	if dir != "" {
		// An error on the disk is reported at the start, not at the first handshake.
		if _, err := issue(); err != nil {
			return nil, err
		}
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return issue() }, nil
}

// AuthorityPEM returns the certificate of the authority in the data directory,
// and creates it if there is none. Clients that trust it trust the server.
func AuthorityPEM(data string, now time.Time) ([]byte, error) {
	ca, err := loadAuthority(tlsDir(data), now)
	if err != nil {
		return nil, err
	}
	return pemOf("CERTIFICATE", ca.certificate.Raw), nil
}

func loadAuthority(dir string, now time.Time) (*authority, error) {
	if dir != "" {
		pair, err := readPair(dir, "ca")
		if err == nil {
			key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
			if !ok {
				return nil, fmt.Errorf("read %s: the key is not an ECDSA key", filepath.Join(dir, "ca-key.pem"))
			}
			return &authority{certificate: pair.Leaf, key: key}, nil
		}
		// Clients may trust an existing certificate: it is never replaced.
		_, missing := os.Stat(filepath.Join(dir, "ca.pem"))
		if !errors.Is(err, fs.ErrNotExist) || !errors.Is(missing, fs.ErrNotExist) {
			return nil, err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "Decan local authority", Organization: []string{"Decan"}},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	if dir != "" {
		if err := writePair(dir, "ca", raw, key); err != nil {
			return nil, err
		}
	}
	return &authority{certificate: certificate, key: key}, nil
}

// leaf returns the server's certificate: the stored one if it covers every name,
// was made by this authority and does not end soon, otherwise a new one.
func (ca *authority) leaf(dir string, names []string, now time.Time) (*tls.Certificate, error) {
	if dir != "" {
		pair, err := readPair(dir, "server")
		if err == nil && ca.serves(pair.Leaf, names, now) {
			pair.Certificate = append(pair.Certificate[:1], ca.certificate.Raw)
			return pair, nil
		}
		// Unreadable files are an error. A pair that does not match is the result
		// of a crash between writing its two files, and is replaced.
		var unreachable *fs.PathError
		if errors.As(err, &unreachable) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the server's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: names[0], Organization: []string{"Decan"}},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, &key.PublicKey, ca.key)
	if err != nil {
		return nil, fmt.Errorf("make the server's certificate: %w", err)
	}
	if dir != "" {
		if err := writePair(dir, "server", raw, key); err != nil {
			return nil, err
		}
	}
	return &tls.Certificate{Certificate: [][]byte{raw, ca.certificate.Raw}, PrivateKey: key}, nil
}

func (ca *authority) serves(leaf *x509.Certificate, names []string, now time.Time) bool {
	if now.Add(leafRenewal).After(leaf.NotAfter) || leaf.CheckSignatureFrom(ca.certificate) != nil {
		return false
	}
	return !slices.ContainsFunc(names, func(name string) bool { return leaf.VerifyHostname(name) != nil })
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic("no randomness: " + err.Error()) // crypto/rand never fails on supported systems
	}
	return n
}

func readPair(dir, name string) (*tls.Certificate, error) {
	certificate := filepath.Join(dir, name+".pem")
	key := filepath.Join(dir, name+"-key.pem")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s and its key %s: %w", certificate, key, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("read the certificate %s: %w", certificate, err)
		}
	}
	return &pair, nil
}

// writePair stores the key first: an authority's certificate without its key is
// an error at the next start, but a key without its certificate is replaced.
func writePair(dir, name string, raw []byte, key *ecdsa.PrivateKey) error {
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a private key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(dir, name+"-key.pem"), pemOf("PRIVATE KEY", encoded), 0o600); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, name+".pem"), pemOf("CERTIFICATE", raw), 0o600)
}

func pemOf(kind string, raw []byte) []byte {
	var out bytes.Buffer
	pem.Encode(&out, &pem.Block{Type: kind, Bytes: raw}) // a buffer does not fail
	return out.Bytes()
}

// replaceFile writes a file atomically, and syncs it and its directory.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // already renamed after a success
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// tlsDir is the part of a data directory that holds certificates and keys.
func tlsDir(data string) string { return filepath.Join(data, "tls") }
