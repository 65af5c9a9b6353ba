package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/decandb/decan/internal/audit"
	"github.com/decandb/decan/internal/auth"
)

// metrics serves the metrics without a key, or if configured, to callers with an account
// key.
func (h *handler) metrics(serve http.Handler) http.Handler {
	if !h.locked {
		return serve
	}
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		if _, err := h.verify(hr, auth.Read); err != nil {
			h.fail(hw, hr, err)
			return
		}
		serve.ServeHTTP(hw, hr)
	})
}

// notedWriter records the status of the answer.
type notedWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader records the status and sends it.
func (w *notedWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for [http.ResponseController].
func (w *notedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// record returns the line of the audit log for a request: its method and path, and the
// database and container of its query parameters.
func record(hr *http.Request, caller auth.Caller, begun time.Time, code int) audit.Record {
	kind, name := audit.Name(caller)
	resource := ""
	if query := hr.URL.Query(); query.Get("database") != "" {
		resource = "dbs/" + query.Get("database")
		if container := query.Get("container"); container != "" {
			resource += "/colls/" + container
		}
	}
	path := hr.URL.Path
	const pathBytesMax = 512
	path = strconv.Quote(path[:min(len(path), pathBytesMax)])
	return audit.Record{
		Time: begun.UTC(), Address: hr.RemoteAddr, Caller: kind, Name: name,
		Operation: hr.Method + " " + path[1:len(path)-1], Resource: resource, Status: code,
	}
}
