package nosql

import (
	"errors"
	"strings"

	"github.com/decandb/decan/internal/api/nosql/binaryjson"
	"github.com/decandb/decan/internal/status"
)

// The names of serialization formats in headers.
const (
	formatText   = "JsonText"
	formatBinary = "CosmosBinary"
)

// jsonText returns a body as JSON text of at most limit bytes: text as it is, and
// binary JSON converted. It counts the memory of the text if that is much longer
// than the body.
func (r *request) jsonText(body []byte, limit int) ([]byte, error) {
	if !binaryjson.Is(body) {
		return body, nil
	}
	expected := min(4*len(body)+countedMin, limit)
	text, rest, err := binaryjson.AppendText(nil, body, expected)
	if errors.Is(err, binaryjson.ErrTooLong) && expected < limit {
		if !r.takeBody(limit) {
			return nil, r.memory.Refusal()
		}
		text, rest, err = binaryjson.AppendText(nil, body, limit)
	}
	switch {
	case errors.Is(err, binaryjson.ErrTooLong):
		return nil, status.TooLarge("Request size is too large: the body is longer than %d bytes as JSON text.", limit)
	case err != nil:
		return nil, status.BadRequest("The body is not valid JSON: %s.", err)
	case len(rest) > 0:
		return nil, status.BadRequest("The body is not valid JSON: %d bytes follow the binary JSON.", len(rest))
	}
	return text, nil
}

// answersBinary reports whether the client wants binary JSON: if it names that
// format for the content, or accepts it and no text. Clients that accept both get
// text.
func (r *request) answersBinary() (bool, error) {
	switch given := r.header(headerContentFormat); {
	case given == "":
	case strings.EqualFold(given, formatBinary):
		return true, nil
	case strings.EqualFold(given, formatText):
		return false, nil
	default:
		return false, status.BadRequest("The value %.64q of %s is none of %s and %s.", given, headerContentFormat, formatText, formatBinary)
	}
	binary := false
	for format := range strings.SplitSeq(r.header(headerFormats), ",") {
		switch format = strings.TrimSpace(format); {
		case strings.EqualFold(format, formatText):
			return false, nil
		case strings.EqualFold(format, formatBinary):
			binary = true
		}
	}
	return binary, nil
}

// convert turns the body of an answer about documents into binary JSON. Errors and
// other resources are always text.
func (r *request) convert(answer *response) error {
	if answer.binary || answer.media != "" || len(answer.body) == 0 {
		return nil
	}
	out, err := binaryjson.Append(make([]byte, 0, len(answer.body)), answer.body)
	if err != nil {
		return err
	}
	answer.body = out
	return nil
}
