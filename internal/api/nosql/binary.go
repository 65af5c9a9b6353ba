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
	formatRows   = "HybridRow"
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
// text. Lists of documents and the change feed are text for all clients; unknown
// formats are refused there as well.
func (r *request) answersBinary() (bool, error) {
	binary, err := r.accepts()
	if err != nil {
		return false, err
	}
	list := r.operation == opDocumentList
	switch given := r.header(headerContentFormat); {
	case given == "":
	case strings.EqualFold(given, formatBinary):
		return !list, nil
	case strings.EqualFold(given, formatText):
		return false, nil
	default:
		return false, status.BadRequest("The value %.64q of %s is none of %s and %s.", given, headerContentFormat, formatText, formatBinary)
	}
	return binary && !list, nil
}

// accepts reads the formats that the client accepts, and reports whether they
// include binary JSON and not text. A format may be followed by its features, such
// as CosmosBinary+UInt64, which answers do without.
func (r *request) accepts() (binary bool, err error) {
	given := r.header(headerFormats)
	if given == "" {
		return false, nil
	}
	text := false
	for format := range strings.SplitSeq(given, ",") {
		format, _, _ = strings.Cut(strings.TrimSpace(format), "+")
		switch {
		case strings.EqualFold(format, formatText):
			text = true
		case strings.EqualFold(format, formatBinary):
			binary = true
		case !strings.EqualFold(format, formatRows):
			return false, status.BadRequest("The value %.64q of %s is not a list of %s, %s and %s.", given, headerFormats, formatText, formatBinary, formatRows)
		}
	}
	return binary && !text, nil
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
