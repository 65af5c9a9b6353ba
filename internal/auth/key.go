package auth

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// WellKnownKey is the documented key of the emulators of the service. It is public, so
// it protects nothing.
const WellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// IsWellKnown reports whether the text encodes the same bytes as [WellKnownKey].
func IsWellKnown(text string) bool {
	key, err := ParseKey(text)
	if err != nil {
		return false
	}
	known, err := ParseKey(WellKnownKey)
	return err == nil && key == known
}

// Keys are the keys of an account as base64 text. There are two of each kind, both
// valid at any time, so that one can be changed while clients use the other. All but
// Primary may be empty. Keys never print themselves.
type Keys struct {
	Primary           string
	Secondary         string
	PrimaryReadonly   string
	SecondaryReadonly string
}

// signers returns the signers of the keys, that of the primary key first. The error
// names the invalid key.
func (k Keys) signers() ([]*signer, error) {
	var all []*signer
	for _, given := range []struct {
		name, text string
		readOnly   bool
	}{
		{"primary", k.Primary, false},
		{"secondary", k.Secondary, false},
		{"primary read-only", k.PrimaryReadonly, true},
		{"secondary read-only", k.SecondaryReadonly, true},
	} {
		if given.text == "" && given.name != "primary" {
			continue
		}
		key, err := ParseKey(given.text)
		if err != nil {
			return nil, fmt.Errorf("%s account key: %w", given.name, err)
		}
		all = append(all, newSigner(key, given.readOnly))
	}
	return all, nil
}

// NewKey returns a new random key as base64 text, as long as those of the service.
func NewKey() string {
	secret := make([]byte, newKeyBytes)
	_, _ = rand.Read(secret) // It never fails.
	return base64.StdEncoding.EncodeToString(secret)
}

const newKeyBytes = 64

// keyBytesMin prevents keys that can be guessed. Those of the service have 64 bytes.
const keyBytesMin = 16

// Key is an account key. It never prints itself.
type Key struct {
	secret string
}

// ParseKey reads a key from base64 text, without surrounding white space. The error
// does not show the key.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Key{}, errors.New("the key is empty")
	}
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return Key{}, errors.New("the key is not base64 text, such as 'openssl rand -base64 64 | tr -d \"\\n\"' prints")
	}
	if len(secret) < keyBytesMin {
		return Key{}, fmt.Errorf("the key is %d bytes long, and at least %d are needed", len(secret), keyBytesMin)
	}
	return Key{string(secret)}, nil
}

// Format prints a placeholder instead of the key, for every verb.
func (Key) Format(f fmt.State, _ rune) { hide(f) }

// Format prints a placeholder instead of the keys, for every verb.
func (Keys) Format(f fmt.State, _ rune) { hide(f) }

// hide prints the placeholder. Format cannot return an error of the printer.
func hide(f fmt.State) { _, _ = io.WriteString(f, "(hidden)") }
