package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// KeySet is the public keys of an issuer of bearer tokens. Nil has no key.
type KeySet struct {
	keys []issuerKey
}

type issuerKey struct {
	id  string // "" for one without: it may have signed any token
	alg string // "" for any that fits the key
	key crypto.PublicKey
}

// Bounds of a key set. A longer RSA key takes long to verify with, a shorter one
// is no protection.
const (
	keysMax    = 100
	rsaBitsMin = 2048
	rsaBitsMax = 8192
)

// jsonKey is a key in the form of RFC 7517.
type jsonKey struct {
	Kind  string `json:"kty"`
	Use   string `json:"use"`
	ID    string `json:"kid"`
	Alg   string `json:"alg"`
	N     string `json:"n"`
	E     string `json:"e"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

// ParseKeySet reads public keys: a JSON web key set, or PEM blocks of public keys
// and certificates. Keys of kinds that no accepted signature uses are skipped; a set
// without other keys is an error.
func ParseKeySet(text []byte) (*KeySet, error) {
	var set *KeySet
	var err error
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		set, err = parseJSONKeys(text)
	} else {
		set, err = parsePEMKeys(text)
	}
	if err != nil {
		return nil, err
	}
	switch n := len(set.keys); {
	case n == 0:
		return nil, errors.New("there is no public key in it: a JSON web key set or PEM is expected")
	case n > keysMax:
		return nil, fmt.Errorf("it has %d keys, and at most %d are allowed", n, keysMax)
	}
	return set, nil
}

// Has reports whether a key of that id is in the set.
func (s *KeySet) Has(kid string) bool {
	if s == nil {
		return false
	}
	for _, key := range s.keys {
		if key.id == kid {
			return true
		}
	}
	return false
}

// matching returns the keys that may have signed a token.
func (s *KeySet) matching(kid, alg string) []jwt.VerificationKey {
	if s == nil {
		return nil
	}
	var fit []jwt.VerificationKey
	for _, key := range s.keys {
		if (key.id == "" || kid == "" || key.id == kid) && (key.alg == "" || key.alg == alg) && fits(key.key, alg) {
			fit = append(fit, key.key)
		}
	}
	return fit
}

// fits reports whether a key is of the kind that an algorithm takes.
func fits(key crypto.PublicKey, alg string) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == curveAlgs[key.Curve.Params().Name]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// curveAlgs maps curves to the only algorithm that takes them. It never changes.
var curveAlgs = map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}

func parseJSONKeys(text []byte) (*KeySet, error) {
	var file struct {
		Keys []jsonKey `json:"keys"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read the JSON web key set: %w", err)
	}
	set := &KeySet{}
	for _, given := range file.Keys {
		if given.Use != "" && given.Use != "sig" {
			continue
		}
		key, err := given.public()
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", given.ID, err)
		}
		if key != nil {
			set.keys = append(set.keys, issuerKey{id: given.ID, alg: given.Alg, key: key})
		}
	}
	return set, nil
}

// public returns the key, nil for one of another kind.
func (k *jsonKey) public() (crypto.PublicKey, error) {
	switch k.Kind {
	case "RSA":
		n, err := decodeNumber(k.N)
		if err != nil {
			return nil, err
		}
		e, err := decodeNumber(k.E)
		if err != nil {
			return nil, err
		}
		exponent := new(big.Int).SetBytes(e)
		if exponent.BitLen() > 31 {
			return nil, errors.New("its exponent is too large")
		}
		return checkRSA(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())})
	case "EC":
		for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
			if curve.Params().Name == k.Curve {
				return k.point(curve)
			}
		}
	case "OKP":
		x, err := decodeNumber(k.X)
		if k.Curve == "Ed25519" {
			if err != nil || len(x) != ed25519.PublicKeySize {
				return nil, errors.New("its point is not 32 bytes long")
			}
			return ed25519.PublicKey(x), nil
		}
	}
	return nil, nil
}

func (k *jsonKey) point(curve elliptic.Curve) (crypto.PublicKey, error) {
	x, errX := decodeNumber(k.X)
	y, errY := decodeNumber(k.Y)
	if err := errors.Join(errX, errY); err != nil {
		return nil, err
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return nil, fmt.Errorf("its coordinates are not %d bytes long", size)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
	if err != nil {
		return nil, errors.New("its point is not on the curve")
	}
	return key, nil
}

func decodeNumber(text string) ([]byte, error) {
	number, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(number) == 0 {
		return nil, errors.New("a number in it is missing or not base64url text")
	}
	return number, nil
}

func checkRSA(key *rsa.PublicKey) (crypto.PublicKey, error) {
	if bits := key.N.BitLen(); bits < rsaBitsMin || bits > rsaBitsMax {
		return nil, fmt.Errorf("it has %d bits, and %d to %d are accepted", bits, rsaBitsMin, rsaBitsMax)
	}
	if key.E < 3 || key.E%2 == 0 {
		return nil, errors.New("its exponent is not valid")
	}
	return key, nil
}

func parsePEMKeys(text []byte) (*KeySet, error) {
	set := &KeySet{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key crypto.PublicKey
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var certificate *x509.Certificate
			if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = certificate.PublicKey
			}
		case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
			return nil, errors.New("it has a private key: give the server the public one")
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", block.Type, err)
		}
		switch known := key.(type) {
		case *rsa.PublicKey:
			if key, err = checkRSA(known); err != nil {
				return nil, err
			}
		case *ecdsa.PublicKey:
			if curveAlgs[known.Curve.Params().Name] == "" {
				continue
			}
		case ed25519.PublicKey:
		default:
			continue
		}
		set.keys = append(set.keys, issuerKey{key: key})
	}
	return set, nil
}
