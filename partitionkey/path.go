package partitionkey

import (
	"strings"
	"unicode/utf8"
)

// ParsePath splits a path such as "/address/city" into the names of the
// properties to follow, outermost first. A segment in double or single quotes is
// taken literally, including backslashes and slashes, and ends at the next such
// quote that is not preceded by a backslash. White space around other segments
// is removed. A trailing slash is ignored. Array positions and wildcards are
// errors. The error is an *Error.
func ParsePath(path string) ([]string, error) {
	if !utf8.ValidString(path) {
		return nil, errorf("The partition key path %q is not valid UTF-8.", clip(path))
	}
	var segments []string
	for rest := path; rest != "" && (rest != "/" || segments == nil); {
		if rest[0] != '/' {
			return nil, badPath(path, rest, "every segment must start with '/'")
		}
		segment, after, fault := cutSegment(rest[1:])
		if fault != "" {
			return nil, badPath(path, rest, fault)
		}
		segments = append(segments, segment)
		rest = after
	}
	if segments == nil {
		return nil, errorf("A partition key path is empty. Write it as '/property' or '/outer/inner'.")
	}
	return segments, nil
}

// badPath returns the error for a path whose rest cannot be read, in the words of
// the service.
func badPath(path, rest, fault string) *Error {
	return errorf("The partition key component definition path '%s' could not be accepted, failed near position '%d'. "+
		"Partition key paths must contain only valid characters and not contain a trailing slash or wildcard character: %s.",
		clip(path), len(path)-len(rest), fault)
}

// cutSegment returns the first segment of s and the rest, or the fault.
func cutSegment(s string) (segment, after, fault string) {
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		return cutQuoted(s)
	}
	if i := strings.IndexByte(s, '/'); i >= 0 {
		s, after = s[:i], s[i:]
	}
	segment = strings.TrimSpace(s)
	switch {
	case segment == "":
		return "", "", "a segment is empty"
	case segment == "*" || segment == "?":
		return "", "", "wildcards are not allowed"
	case segment[0] == '[' && segment[len(segment)-1] == ']':
		return "", "", "array positions are not allowed"
	}
	return segment, after, ""
}

func cutQuoted(s string) (segment, after, fault string) {
	for i := 1; i < len(s); i++ {
		if s[i] != s[0] || s[i-1] == '\\' {
			continue
		}
		if after = s[i+1:]; after != "" && after[0] != '/' {
			return "", "", "a quote must enclose a whole segment"
		}
		return s[1:i], after, ""
	}
	return "", "", "a quote is not closed"
}
