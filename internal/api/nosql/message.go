package nosql

import (
	"context"
	"io"
)

// message is a request as its door received it. A door fills one and the rest of the
// package reads it, so that no handler knows which protocol carried it.
type message struct {
	base    context.Context // ends when the client is gone
	method  string          // as of HTTP: GET, POST, ...
	uri     string          // the raw target; empty if the door has filled in request.target itself
	headers headers
	remote  string    // address of the client
	host    string    // the host and port that the client addressed
	secure  bool      // it arrived over TLS
	source  io.Reader // of the body, for a door that has not read it; nil for none
	length  int64     // of source as announced; negative if unknown
	payload []byte    // the whole body, for a door that has read it; valid until the answer is written
}

// headers are those of a message, whatever form they arrived in.
type headers interface {
	// get returns the value of the header whose name is in the canonical form of
	// headers.go, or "".
	get(name string) string
}
