package nosql

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// changeFeed answers with a page of the change feed of a container, or of the
// part of it that the request names. The etag of the answer is the position of
// the next page; 304 means that there are no more changes yet. q selects the rows of
// the page; nil returns the documents.
func (h *handler) changeFeed(r *request, q *engine.FeedQuery) (*response, error) {
	r.operation = opDocumentFeed
	complete, err := r.feedMode()
	if err != nil {
		return nil, err
	}
	separate := !complete && r.header(headerFeedFormat) == feedWireFormat
	if separate && q != nil {
		return nil, status.BadRequest("A query over the change feed returns its own rows: send it without x-ms-cosmos-changefeed-wire-format-version.")
	}
	scope, err := r.scope()
	if err != nil {
		return nil, err
	}
	req := engine.FeedRequest{
		Link:      scope.Link,
		Key:       scope.Key,
		Partition: scope.Partition,
		Clip:      scope.Clip,
		MaxItems:  scope.MaxItems,
		Complete:  complete,
		Query:     q,
		After:     r.ifNoneMatch(),
		Options:   scope.Options,
	}
	if req.Since, err = r.ifModifiedSince(); err != nil {
		return nil, err
	}
	page, err := h.engine.Feed(r.ctx, r.caller, req)
	r.result = page.Result
	if status.CodeOf(err) == status.CodeNotModified {
		answer := r.answer(http.StatusNotModified, nil)
		answer.set(headerItemCount, "0")
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	if separate {
		for i, document := range page.Rows {
			page.Rows[i] = separateMetadata(document)
		}
	}
	return r.feed("Documents", &page), nil
}

// queryChangeFeed is changeFeed for a POST with a query, as .NET sends it (F38).
func (h *handler) queryChangeFeed(r *request) (*response, error) {
	r.operation = opDocumentFeed
	if err := r.unexplained(); err != nil {
		return nil, err
	}
	asked, err := h.readQuery(r)
	if err == nil && asked.resume != nil {
		err = status.BadRequest("Only a query over documents can be resumed by a resumeFilter.")
	}
	if err != nil {
		return nil, err
	}
	return h.changeFeed(r, &engine.FeedQuery{Text: asked.text, Params: asked.params})
}

// feedWireFormat is the form of the feed that separates documents from the
// metadata of their changes: the only one for all versions. Some clients also use
// it for the latest versions.
const feedWireFormat = "2021-09-15"

// separateMetadata returns a document of the latest-version feed, which ends in
// its _ts and _lsn, as {"current":document,"metadata":{"lsn":_lsn,"crts":_ts}}.
// The kind of change is not known for latest versions.
func separateMetadata(document []byte) []byte {
	const lsnName, tsName = `,"_lsn":`, `,"_ts":`
	own := bytes.LastIndex(document, []byte(lsnName))
	ts := bytes.LastIndex(document[:own], []byte(tsName))
	out := make([]byte, 0, len(document)+64)
	out = append(append(append(out, `{"current":`...), document[:own]...), `},"metadata":{"lsn":`...)
	out = append(append(out, document[own+len(lsnName):len(document)-1]...), `,"crts":`...)
	return append(append(out, document[ts+len(tsName):own]...), "}}"...)
}

// feedMode reports whether the client requests all versions instead of only the
// latest.
func (r *request) feedMode() (complete bool, err error) {
	mode := strings.TrimSpace(r.header(headerIncremental))
	complete = strings.EqualFold(mode, "full-fidelity feed")
	if !complete && !strings.EqualFold(mode, "incremental feed") {
		return false, status.BadRequest("The mode %q in A-IM is none of the change feed: Incremental Feed, Full-Fidelity Feed.", mode)
	}
	if format := r.header(headerFeedFormat); format != "" && format != feedWireFormat {
		return false, status.BadRequest("The form %q in x-ms-cosmos-changefeed-wire-format-version is not known. Use %s.", format, feedWireFormat)
	}
	return complete, nil
}

// ifModifiedSince reads the start time of the requested changes; the zero value
// means any time. Clients write the zone as GMT or as UTC, and the day with one
// digit or two.
func (r *request) ifModifiedSince() (time.Time, error) {
	text := r.header(headerIfModifiedSince)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse("Mon, 2 Jan 2006 15:04:05 MST", text)
	if zone, _ := t.Zone(); err != nil || zone != "GMT" && zone != "UTC" {
		return time.Time{}, status.BadRequest("The time %q in If-Modified-Since is not in the form of RFC 1123, such as Tue, 15 Nov 1994 12:45:26 GMT.", text)
	}
	return t, nil
}
