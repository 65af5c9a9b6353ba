package auth

import (
	"bytes"
	"strings"

	"github.com/decandb/decan/internal/status"
)

// The maximum lengths of the decoded text of a token, by its type.
const (
	masterBytesMax   = 1 << 10
	resourceBytesMax = 8 << 10
	bearerBytesMax   = 16 << 10
)

// form is the type of token in an authorization header.
type form uint8

const (
	masterForm form = iota
	resourceForm
	bearerForm
)

// forms are the accepted tokens of each type. It never changes.
var forms = [...]struct {
	name, version string
	bytesMax      int
}{
	masterForm:   {"master", "1.0", masterBytesMax},
	resourceForm: {"resource", "1.0", resourceBytesMax},
	bearerForm:   {"aad", "1.0", bearerBytesMax},
}

// parse returns the type of the token in the authorization header, and its signature,
// which s owns. The header is the percent-encoded form of "type=master&ver=1.0&sig=...",
// in which '+' is not a space, because base64 contains it. The text after a comma is
// ignored.
func (s *scratch) parse(header string) (kind form, signature []byte, err error) {
	header, _, _ = strings.Cut(header, ",")
	// Encoding makes at most three bytes of one.
	if len(header) > 3*bearerBytesMax {
		return 0, nil, malformed("it is too long for a token")
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
			return 0, nil, malformed("it is too long for a token of type '" + f.name + "'")
		}
		// The resource tokens of the service have version 1.
		if string(version) != f.version && (form(kind) == masterForm || string(version) != "1") {
			return 0, nil, malformed("its version is not '1.0'")
		}
		return form(kind), signature, nil
	}
	return 0, nil, malformed("its type is not 'master', 'resource' or 'aad'")
}

func malformed(what string) error {
	return status.Unauthorized(status.SubAuthorizationMalformed, "The authorization header cannot be read: %s. The format should be 'type={typetoken}&ver={tokenversion}&sig={hashsignature}', percent-encoded.", what)
}

// cutParts returns the values of the three parts, which may have any order. Each occurs
// once.
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

// appendDecoded appends the text after one percent-decoding.
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
