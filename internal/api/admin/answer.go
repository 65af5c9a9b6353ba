package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/decandb/decan/internal/status"
)

// write answers with content as JSON.
func write(hw http.ResponseWriter, code int, content any) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	writeJSON(hw, code, body)
	return nil
}

// writeJSON answers with a JSON text.
func writeJSON(hw http.ResponseWriter, code int, body []byte) {
	header := hw.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	hw.WriteHeader(code)
	_, _ = hw.Write(body) // An error means that the client is gone.
}

// fault is the body of an error.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// fail answers with an error. The log, and not the client, gets an error that is not a
// status.
func (h *handler) fail(hw http.ResponseWriter, hr *http.Request, err error) {
	e := status.From(err)
	if e == nil {
		e = status.New(status.CodeInternal, 0, "The request failed because of an internal error. The log of the server has the reason.")
	}
	if e.Code == status.CodeInternal {
		h.logger.LogAttrs(hr.Context(), slog.LevelError, "admin request failed",
			slog.String("path", hr.URL.Path), slog.Any("error", err))
	}
	if e.Sub != 0 {
		hw.Header().Set("x-ms-substatus", strconv.Itoa(int(e.Sub)))
	}
	if e.RetryAfter > 0 {
		hw.Header().Set("x-ms-retry-after-ms", strconv.FormatInt(int64((e.RetryAfter+time.Millisecond-1)/time.Millisecond), 10))
	}
	text := e.Message
	if e.Code == status.CodeNotFound && e.Sub == status.SubOwnerNotFound {
		text = cmp.Or(missingOwner(hr), text)
	}
	_ = write(hw, int(e.Code), fault{e.Code.String(), text}) // Strings always marshal.
}

// missingOwner returns the message for a request whose database or container does not
// exist, with the names from its path or query; "" if those have none.
func missingOwner(hr *http.Request) string {
	query := hr.URL.Query()
	database := cmp.Or(hr.PathValue("database"), query.Get("database"))
	container := cmp.Or(hr.PathValue("container"), query.Get("container"))
	switch {
	case database == "":
		return ""
	case container == "":
		return fmt.Sprintf("The database %s does not exist.", database)
	}
	return fmt.Sprintf("The container %s/%s does not exist.", database, container)
}

// plain replaces the text answers of the mux for unknown paths and methods by JSON
// errors.
func (h *handler) plain(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
		if _, pattern := mux.Handler(hr); pattern != "" {
			mux.ServeHTTP(hw, hr)
			return
		}
		unmatched := &unmatchedWriter{ResponseWriter: hw}
		mux.ServeHTTP(unmatched, hr)
		if unmatched.code == http.StatusMethodNotAllowed {
			h.fail(hw, hr, status.New(status.CodeMethodNotAllowed, 0, "This path does not have the method %s.", hr.Method))
			return
		}
		h.fail(hw, hr, status.New(status.CodeNotFound, 0, "The path does not exist. GET / lists all paths."))
	})
}

// unmatchedWriter records the status of an answer of the mux and drops its text. The
// Allow header of the answer stays.
type unmatchedWriter struct {
	http.ResponseWriter
	code int
}

func (w *unmatchedWriter) WriteHeader(code int)           { w.code = code }
func (w *unmatchedWriter) Write(text []byte) (int, error) { return len(text), nil }
