package nosql

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// begin returns a request for a message that a door is about to fill in. The door
// calls end after it has written the answer.
func (h *handler) begin(begun time.Time) *request {
	r := h.requests.Get().(*request)
	r.memory, r.pages, r.begun = h.memory, &h.pages, begun
	return r
}

// end returns the request to the pool.
func (h *handler) end(r *request) {
	r.end()
	h.requests.Put(r)
}

// respond returns the answer to a request: to serve it, or to refuse it if the door
// found a fault in it.
func (h *handler) respond(r *request, fault error) *response {
	answer, err := (*response)(nil), fault
	if err == nil {
		answer, err = h.serve(r)
	}
	if err == nil {
		err = r.takeAnswer(len(answer.body))
	}
	if err != nil {
		answer = h.failure(r, err)
	}
	return answer
}

// count adds an answered request to the metrics and to the audit log.
func (h *handler) count(r *request, answer *response) {
	h.metrics.observe(r, answer.status, h.now().Sub(r.begun))
	if h.watch.Wants(r.operation.changes(), answer.status) {
		h.watch.Write(h.record(r, r.begun, answer.status))
	}
}

// serve authenticates, routes and calls the handler. A handler that panics fails only
// its own request.
func (h *handler) serve(r *request) (answer *response, err error) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if e, ok := fault.(error); ok && errors.Is(e, http.ErrAbortHandler) {
			panic(fault)
		}
		answer, err = nil, fmt.Errorf("serve %s: panic: %v\n%s", r.operation, fault, debug.Stack())
	}()

	if r.method == http.MethodOptions {
		return nil, status.Forbidden(0, "Requests from pages of other origins (CORS) are not enabled.")
	}
	if r.uri != "" {
		if err := r.target.parse(r.uri); err != nil {
			return nil, err
		}
	}
	if wantsPage(r) {
		return h.welcome(r), nil
	}
	who := credentials(r)
	if r.caller, err = h.engine.Verify(who); err != nil {
		h.watch.Refused(auth.Refusal(who, err), r.remote)
		return nil, err
	}
	if err := h.watch.Ready(); err != nil {
		return nil, err
	}
	found, err := r.action, error(nil)
	if found.serve == nil {
		found, err = route(&r.target, r.method)
	}
	r.operation = found.operation
	if err != nil {
		return nil, err
	}
	if r.direct.from != nil {
		if err := h.locate(r); err != nil {
			return nil, err
		}
	}
	if found.operation != opDocumentRead && h.limits.RequestTimeout > 0 {
		// A point read does not wait, and a timer would be a significant part of
		// its cost.
		r.limitTime(h.limits.RequestTimeout)
		defer func() { r.cancel() }()
	}
	if h.switches.StrictItemIDs {
		if err := strictItemID(r.target.id(2)); err != nil {
			return nil, err
		}
	}
	binary := false
	if found.operation.onDocuments() {
		if binary, err = r.answersBinary(); err != nil {
			return nil, err
		}
	}
	answer, err = found.serve(h, r)
	if err == nil && binary {
		err = r.convert(answer)
	}
	return answer, err
}

// strictItemID refuses the item ids in a path that the official emulator's main
// port cannot serve: its front end changes the path before the signature is
// checked. The SDKs' test suites expect exactly these answers.
func strictItemID(id string) error {
	if strings.ContainsFunc(id, unicode.IsControl) {
		return status.BadRequest("The request URL is invalid: an item id with control characters is refused on this port.")
	}
	if strings.ContainsAny(id, `/\#`) || strings.HasSuffix(id, " ") || hasPercentEscape(id) {
		return status.Unauthorized(0, "The input authorization token can't serve the request: "+
			"an item id with / \\ # or a percent escape in it or a blank at its end is refused on this port.")
	}
	return nil
}

// hasPercentEscape reports whether decoding the decoded text again would change
// it.
func hasPercentEscape(text string) bool {
	for i := range len(text) - 2 {
		if text[i] != '%' {
			continue
		}
		if _, err := hex.DecodeString(text[i+1 : i+3]); err == nil {
			return true
		}
	}
	return false
}

// credentials collects the parts of the request that the signature covers.
func credentials(r *request) auth.Credentials {
	c := auth.Credentials{
		Method:        r.method,
		Authorization: r.header(headerAuthorization),
		Date:          r.header(headerDate),
		HTTPDate:      r.header(headerHTTPDate),
	}
	c.ResourceType, c.ResourceLink = r.target.signed()
	return c
}

// failure turns an error into an answer. An error that is not a status is
// internal: the client receives only the activity id, which also identifies the
// details in the log.
func (h *handler) failure(r *request, err error) *response {
	e := status.From(err)
	switch {
	case e != nil:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e = status.New(status.CodeRequestTimeout, 0, "The request was given up before it was done.")
	default:
		e = status.New(status.CodeInternal, 0, "The server failed to carry out the request. Its log has the reason under the activity id.")
	}
	switch e.Code {
	case status.CodeInternal:
		h.logger.LogAttrs(r.ctx, slog.LevelError, "request failed", requestAttrs(r, err)...)
	case status.CodeUnavailable:
		h.logger.LogAttrs(r.ctx, slog.LevelWarn, "request unavailable", requestAttrs(r, err)...)
	case status.CodeNotModified:
		return r.answer(http.StatusNotModified, nil)
	}
	if r.direct.from != nil {
		e = moved(e)
	}
	return h.errorAnswer(r, e)
}

// activityID returns the client's id if it is a GUID, otherwise a new one.
func activityID(given string) string {
	if isGUID(given) {
		return given
	}
	const digits = "0123456789abcdef"
	high, low := rand.Uint64(), rand.Uint64()
	high = high&^0xF000 | 0x4000 // version 4: random
	low = low&^(3<<62) | 2<<62   // the variant of RFC 9562
	var id [36]byte
	for i, nibble := 0, 0; i < len(id); i++ {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			id[i] = '-'
			continue
		case nibble < 16:
			id[i] = digits[high>>(60-4*nibble)&15]
		default:
			id[i] = digits[low>>(124-4*nibble)&15]
		}
		nibble++
	}
	return string(id[:])
}

func isGUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return false
			}
		} else if !isHex(text[i]) {
			return false
		}
	}
	return true
}
