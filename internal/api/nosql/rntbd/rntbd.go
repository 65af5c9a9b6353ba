// Package rntbd is the wire of direct mode: it speaks RNTBD, the binary protocol that
// the Java and .NET SDKs use for most operations unless they are told otherwise.
//
// A [Handler] answers a [Request] with a [Response]. Both are sets of tokens, numbered
// values that stand for headers, and a payload. request_tokens.go and response_tokens.go
// have the tables of the tokens, token.go their encoding, context.go the exchange with
// which a connection begins.
//
// # Invariants
//
// No input panics. Memory is allocated for bytes that have arrived, never for a length
// alone. What a client sends affects no connection but its own. Every answer has the
// tokens PayloadPresent and TransportRequestID, without which clients cannot use it.
//
// The package knows no document, no status code but that of a refused context, and no
// header. It authenticates no one: each request carries its own authorization.
//
// Page: docs/direct.md
package rntbd

import "context"

// Handler answers the requests of clients.
type Handler interface {
	// Serve answers r by setting w. It is called in a goroutine of the request, for
	// many requests at the same time. ctx ends when the client is gone. Neither r nor w
	// may be used after Serve has returned.
	Serve(ctx context.Context, r *Request, w *Response)
}
