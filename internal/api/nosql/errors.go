package nosql

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// requestAttrs are the attributes of a failed request in the log.
func requestAttrs(r *request, err error) []slog.Attr {
	return []slog.Attr{
		slog.String("activity", r.activity),
		slog.String("operation", r.operation.String()),
		slog.Any("error", err),
	}
}

// errorAnswer writes a status in the clients' form: code and message in JSON, the
// sub-status and the wait in headers.
func (h *handler) errorAnswer(r *request, e *status.Error) *response {
	out := append(r.out[:0], `{"code":`...)
	out = value.AppendQuoted(out, e.Code.String())
	out = append(out, `,"message":`...)
	out = value.AppendQuoted(out, h.message(r, e))
	if e.Code == status.CodeBadRequest && e.Info != "" {
		out = append(out, `,"additionalErrorInfo":`...)
		out = value.AppendQuoted(out, e.Info)
	}
	out = append(out, '}')
	r.out = out

	r.sub = e.Sub
	answer := r.answer(int(e.Code), out)
	if e.Sub != 0 {
		answer.set(headerSubStatus, strconv.Itoa(int(e.Sub)))
	}
	if e.RetryAfter > 0 {
		millis := (e.RetryAfter + time.Millisecond - 1) / time.Millisecond
		answer.set(headerRetryAfter, strconv.FormatInt(int64(millis), 10))
	}
	if e.Code == status.CodeMethodNotAllowed {
		answer.set(headerAllow, e.Info)
	}
	return answer
}

// described returns the kinds of resource and operation in the form of the service,
// which clients find in the message of a 404; empty for a request of no such kind.
func described(o operation) string {
	name, action, _ := strings.Cut(o.String(), "_")
	kind, known := serviceKinds[name]
	if !known {
		return ""
	}
	did, known := serviceActions[action]
	if !known {
		return ""
	}
	return ", ResourceType: " + kind + ", OperationType: " + did
}

// serviceKinds and serviceActions are the service's words for the two parts of an
// operation's name.
var (
	serviceKinds = map[string]string{
		"database": "Database", "container": "Collection", "document": "Document", "query": "Document",
		"function": "UserDefinedFunction", "trigger": "Trigger", "procedure": "StoredProcedure",
		"user": "User", "permission": "Permission", "range": "PartitionKeyRange", "offer": "Offer",
	}
	serviceActions = map[string]string{
		"create": "Create", "read": "Read", "replace": "Replace", "upsert": "Upsert", "patch": "Patch", "delete": "Delete",
		"list": "ReadFeed", "feed": "ReadFeed", "query": "Query", "batch": "Batch", "execute": "ExecuteJavaScript",
		"plan": "QueryPlan", "delete_by_key": "Delete",
	}
)

// message adds the line that clients print and users quote. Lists of query errors
// follow a word, as clients expect.
func (h *handler) message(r *request, e *status.Error) string {
	text := wording(e)
	if strings.HasPrefix(text, "{") {
		text = "Message: " + text
	}
	text += "\r\nActivityId: " + r.activity
	if e.Code == status.CodeNotFound {
		text += described(r.operation)
	}
	return text + ", " + h.agent
}
