package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// WellKnownKey is the documented key of the emulators of the service. Everybody
// knows it, so it protects nothing.
const WellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// IsWellKnown reports whether the text stands for the same bytes as
// [WellKnownKey], however it is written.
func IsWellKnown(text string) bool {
	key, err := ParseKey(text)
	if err != nil {
		return false
	}
	known, err := ParseKey(WellKnownKey)
	return err == nil && key == known
}

// Keys is the two keys of an account as base64 text. Either is good at any
// time, so that one can be changed while clients use the other. Secondary may
// be empty. They print as nothing of themselves.
type Keys struct {
	Primary   string
	Secondary string
}

func (k Keys) parse() ([]Key, error) {
	primary, err := ParseKey(k.Primary)
	if err != nil {
		return nil, fmt.Errorf("primary account key: %w", err)
	}
	if k.Secondary == "" {
		return []Key{primary}, nil
	}
	secondary, err := ParseKey(k.Secondary)
	if err != nil {
		return nil, fmt.Errorf("secondary account key: %w", err)
	}
	return []Key{primary, secondary}, nil
}

// keyBytesMin keeps keys from being guessed. The service's have 64 bytes.
const keyBytesMin = 16

// Key is an account key, which prints as nothing of itself.
type Key struct {
	secret string
}

// ParseKey reads a key from base64 text; white space around it does not count.
// The error does not show the key.
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

// Format prints that there is a key, whatever the verb.
func (Key) Format(f fmt.State, _ rune) { hide(f) }

// Format prints that there are keys, whatever the verb.
func (Keys) Format(f fmt.State, _ rune) { hide(f) }

// hide keeps keys out of logs and messages. A printer that cannot write has
// nobody to tell.
func hide(f fmt.State) { _, _ = io.WriteString(f, "(hidden)") }
