package nosql

import (
	"strings"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
)

// segmentsMax is the longest path of the protocol:
// dbs/d/colls/c/docs/x/attachments/a.
const segmentsMax = 8

// target is a request's path, split before decoding: an id may contain an encoded
// slash, and a raw question mark, which one client sends. Segments with an even
// index are type words, the others ids.
type target struct {
	segments [segmentsMax]string // decoded
	count    int
	query    string // of /addresses and /media, the only paths that have one
	path     string // the segments joined, if nothing was encoded; otherwise empty
}

// parse reads the raw request target. It ignores slashes at both ends. Every
// error is a 400.
func (t *target) parse(uri string) error {
	*t = target{}
	path := strings.Trim(origin(uri), "/")
	if path == "" || path[0] == '?' {
		return nil
	}
	if strings.HasPrefix(path, "addresses") || strings.HasPrefix(path, "media") {
		path, t.query, _ = strings.Cut(path, "?")
		path = strings.TrimRight(path, "/")
	}
	plain := true
	for rest, more := path, true; more; t.count++ {
		if t.count == segmentsMax {
			return badTarget("it is longer than that of any resource")
		}
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if t.count%2 == 0 {
			// A type word has no question mark, so this is a query string. No
			// path accepts one.
			word, _, cut := strings.Cut(segment, "?")
			if cut {
				segment, more, plain = word, false, false
			}
			if !utf8.ValidString(segment) {
				return badTarget("it is not UTF-8")
			}
		} else {
			decoded, err := unescape(segment)
			if err != nil {
				return err
			}
			plain = plain && len(decoded) == len(segment)
			segment = decoded
		}
		if segment == "" {
			return badTarget("it has an empty segment")
		}
		t.segments[t.count] = segment
	}
	if plain {
		t.path = path
	}
	return nil
}

// origin removes scheme and host from a target in absolute form, as proxies send
// it.
func origin(uri string) string {
	if strings.HasPrefix(uri, "/") {
		return uri
	}
	if _, after, found := strings.Cut(uri, "://"); found {
		_, path, _ := strings.Cut(after, "/")
		return path
	}
	return uri
}

// id returns the i-th id of the path, or "" for a feed's last.
func (t *target) id(i int) string {
	if 2*i+1 < t.count {
		return t.segments[2*i+1]
	}
	return ""
}

// item reports whether the path names one resource instead of a feed.
func (t *target) item() bool { return t.count%2 == 0 }

// signed returns the resource type and the link that clients sign: those of the
// resource itself, or for a feed the word of the feed and the link of its parent.
func (t *target) signed() (kind, link string) {
	n := t.count
	switch {
	case n == 0:
		return "", ""
	case t.segments[0] == "addresses":
		// Address resolution is signed as the resource that it resolves.
		var resolved target
		if resolved.parse("/"+resolveFor(t.query)) == nil && resolved.segments[0] != "addresses" {
			return resolved.signed()
		}
	case n == 6 && t.segments[4] == "operations":
		return "colls", t.join(4) // An operation is signed as its container.
	case t.item():
		return t.segments[n-2], t.join(n)
	}
	return t.segments[n-1], t.join(n - 1)
}

// resolveFor takes the resource's path from the query of /addresses.
func resolveFor(query string) string {
	for pair := range strings.SplitSeq(query, "&") {
		if name, path, found := strings.Cut(pair, "="); found && (name == "$resolveFor" || name == "%24resolveFor") {
			path, _ = unescape(path)
			return path
		}
	}
	return ""
}

// join returns the first n segments as a link.
func (t *target) join(n int) string {
	if t.path == "" {
		return strings.Join(t.segments[:n], "/")
	}
	end := len(t.path)
	for i := t.count; i > n; i-- {
		end = max(strings.LastIndexByte(t.path[:end], '/'), 0)
	}
	return t.path[:end]
}

// unescape decodes percent escapes and nothing else; a plus remains a plus.
// Without escapes the result is segment itself.
func unescape(segment string) (string, error) {
	if strings.IndexByte(segment, '%') < 0 {
		if !utf8.ValidString(segment) {
			return "", badTarget("an id is not UTF-8")
		}
		return segment, nil
	}
	decoded := make([]byte, 0, len(segment))
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c != '%' {
			decoded = append(decoded, c)
			continue
		}
		if i+2 >= len(segment) || !isHex(segment[i+1]) || !isHex(segment[i+2]) {
			return "", badTarget("a percent sign is not followed by two hexadecimal digits")
		}
		decoded = append(decoded, fromHex(segment[i+1])<<4|fromHex(segment[i+2]))
		i += 2
	}
	if !utf8.Valid(decoded) {
		return "", badTarget("an id is not UTF-8")
	}
	return string(decoded), nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func fromHex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	}
	return c - 'a' + 10
}

func badTarget(fault string) error {
	return status.BadRequest("The request url is invalid: %s.", fault)
}
