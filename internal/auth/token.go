package auth

import (
	"bytes"
	"strings"

	"github.com/decandb/decan/internal/status"
)

// How long the text of a token may be, by its kind, after decoding.
const (
	masterBytesMax   = 1 << 10
	resourceBytesMax = 8 << 10
	bearerBytesMax   = 16 << 10
)

// form is what kind of token an authorization header has.
type form uint8

const (
	masterForm form = iota
	resourceForm
	bearerForm
)

// forms are what is accepted of each kind. It never changes.
var forms = [...]struct {
	name, version string
	bytesMax      int
}{
	masterForm:   {"master", "1.0", masterBytesMax},
	resourceForm: {"resource", "1.0", resourceBytesMax},
	bearerForm:   {"aad", "1.0", bearerBytesMax},
}

// parse returns the kind of token in the authorization header and its signature,
// which belongs to s. The header is the percent-encoded form of
// "type=master&ver=1.0&sig=...", in which '+' stands for itself, since base64
// has it and no client encodes a blank. What follows a comma is ignored.
func (s *scratch) parse(header string) (kind form, signature []byte, err error) {
	header, _, _ = strings.Cut(header, ",")
	// Encoding makes three bytes of one at most.
	if len(header) > 3*bearerBytesMax {
		return 0, nil, malformed("it is longer than any token may be")
	}
	var ok bool
	if s.token, ok = appendDecoded(s.token[:0], header); !ok {
		return 0, nil, malformed("a percent sign is not followed by two hexadecimal digits")
	}
	text, _, _ := bytes.Cut(s.token, []byte(","))
	name, version, signature, ok := cutParts(text)
	if !ok {
		return 0, nil, malformed("it does not have the form 'type=...&ver=...&sig=...'")
	}
	for kind := range forms {
		f := &forms[kind]
		if string(name) != f.name {
			continue
		}
		if len(text) > f.bytesMax {
			return 0, nil, malformed("it is longer than a token of type '" + f.name + "' may be")
		}
		// The service's own resource tokens say 1.
		if string(version) != f.version && (form(kind) == masterForm || string(version) != "1") {
			return 0, nil, malformed("its version is not '1.0'")
		}
		return form(kind), signature, nil
	}
	return 0, nil, malformed("its type is none of 'master', 'resource' and 'aad'")
}

func malformed(what string) error {
	return status.Unauthorized(status.SubAuthorizationMalformed, "The authorization header cannot be read: %s. The format should be 'type={typetoken}&ver={tokenversion}&sig={hashsignature}', percent-encoded.", what)
}

// cutParts returns the values of the three parts, which may come in any order
// but only once each.
func cutParts(text []byte) (kind, version, signature []byte, ok bool) {
	parts := 0
	for part := range bytes.SplitSeq(text, []byte("&")) {
		name, content, found := bytes.Cut(part, []byte("="))
		var into *[]byte
		switch string(name) {
		case "type":
			into = &kind
		case "ver":
			into = &version
		case "sig":
			into = &signature
		}
		if !found || into == nil || *into != nil || len(content) == 0 {
			return nil, nil, nil, false
		}
		*into = content
		parts++
	}
	return kind, version, signature, parts == 3
}

// appendDecoded appends the text with its percent escapes replaced once.
func appendDecoded(dst []byte, text string) ([]byte, bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			dst = append(dst, text[i])
			continue
		}
		if i+2 >= len(text) {
			return dst, false
		}
		high, low := hexDigit(text[i+1]), hexDigit(text[i+2])
		if high < 0 || low < 0 {
			return dst, false
		}
		dst = append(dst, byte(high<<4|low))
		i += 2
	}
	return dst, true
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
