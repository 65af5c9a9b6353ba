package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Rows of a page of POST /cql.
const (
	selectRowsDefault = 100
	selectRowsMax     = 5000
)

// Select is a statement of the Cassandra API that only reads, and the page of its result.
type Select struct {
	Query    string
	Keyspace string // in use; may be empty
	Rows     int    // of the page, at most
	State    []byte // of the page before; nil for the first
}

// Selected is a page of a result.
type Selected struct {
	Rows       []json.RawMessage // objects; those of SELECT JSON are its texts
	State      []byte            // nil after the last page
	Charge     float64           // request units
	Partitions string            // the physical partitions that were asked, with commas
	Warnings   []string
}

// selected is the answer of POST /cql.
type selected struct {
	Rows         []json.RawMessage `json:"rows"`
	Continuation string            `json:"continuation,omitempty"`
	Charge       float64           `json:"requestCharge"`
	Partitions   string            `json:"partitions"`
	Warnings     []string          `json:"warnings,omitempty"`
}

// selectRoutes adds the path of statements of the Cassandra API to the table.
func (h *handler) selectRoutes(mux *http.ServeMux, run func(context.Context, auth.Caller, Select) (Selected, error)) {
	mux.HandleFunc("POST /cql", h.keyed(func(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
		if run == nil {
			return status.New(status.CodeNotFound, 0, "The Cassandra API of this server is off: start it with --cql.")
		}
		body, err := h.readObject(hw, hr)
		if err != nil {
			return err
		}
		page, err := readSelect(body)
		if err != nil {
			return err
		}
		done, err := run(hr.Context(), caller, page)
		if err != nil {
			return err
		}
		answer := selected{Rows: done.Rows, Continuation: base64.StdEncoding.EncodeToString(done.State), Charge: round(done.Charge), Partitions: done.Partitions, Warnings: done.Warnings}
		if answer.Rows == nil {
			answer.Rows = []json.RawMessage{}
		}
		return write(hw, http.StatusOK, answer)
	}))
}

// readSelect reads the body of POST /cql.
func readSelect(body value.Value) (Select, error) {
	page := Select{Rows: selectRowsDefault}
	for _, m := range body.Members() {
		text := m.Value.Kind() == value.KindString
		switch m.Name {
		case "query":
			page.Query = m.Value.Text()
		case "keyspace":
			page.Keyspace = m.Value.Text()
		case "continuation":
			state, err := base64.StdEncoding.DecodeString(m.Value.Text())
			if text = text && err == nil; len(state) > 0 {
				page.State = state
			}
		case "pageSize":
			n, ok := m.Value.Int64()
			if !ok || n < 1 || n > selectRowsMax {
				return page, status.BadRequest("The member pageSize must be a whole number from 1 to %d.", selectRowsMax)
			}
			page.Rows, text = int(n), true
		default:
			return page, status.BadRequest("The member %q is not known. The body has query, keyspace, pageSize and continuation.", m.Name)
		}
		if !text {
			return page, status.BadRequest("The member %s must be a text, as an earlier answer has it if it is the continuation.", m.Name)
		}
	}
	if page.Query == "" {
		return page, status.BadRequest("Give the statement in the member query.")
	}
	return page, nil
}
