package admin

import (
	"net/http"

	"github.com/decandb/decan/internal/auth"
)

// queryList is the answer of GET /queries.
type queryList struct {
	Queries []runningQuery `json:"queries"`
}

// runningQuery is a long request. It contains no text, key or document of the request.
type runningQuery struct {
	ID         string  `json:"id"`
	Database   string  `json:"database"`
	Container  string  `json:"container"`
	Operation  string  `json:"operation"` // query, document list or change feed page
	Caller     string  `json:"caller"`    // kind: master, reader, token or bearer
	State      string  `json:"state"`     // waiting, for its first turn, or running
	Seconds    float64 `json:"seconds"`
	Processor  float64 `json:"processorSeconds"`
	Partitions int64   `json:"partitions"`    // visited so far
	Documents  int64   `json:"documents"`     // read so far
	Charge     float64 `json:"requestCharge"` // of the partitions that are done
}

// queryRoutes adds the paths of running queries to the table.
func (h *handler) queryRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /queries", h.keyed(h.listQueries))
	mux.HandleFunc("DELETE /queries/{id}", h.keyed(h.cancelQuery))
}

// listQueries answers GET /queries.
func (h *handler) listQueries(hw http.ResponseWriter, _ *http.Request, caller auth.Caller) error {
	all, err := h.engine.RunningQueries(caller)
	if err != nil {
		return err
	}
	list := queryList{Queries: make([]runningQuery, len(all))}
	for i, q := range all {
		state := "running"
		if q.Waiting {
			state = "waiting"
		}
		list.Queries[i] = runningQuery{
			ID:         q.ID,
			Database:   q.Database,
			Container:  q.Container,
			Operation:  q.Operation,
			Caller:     q.Caller.String(),
			State:      state,
			Seconds:    round(q.Time.Seconds()),
			Processor:  round(q.Processor.Seconds()),
			Partitions: q.Partitions,
			Documents:  q.Documents,
			Charge:     round(q.Charge),
		}
	}
	return write(hw, http.StatusOK, list)
}

// cancelQuery answers DELETE /queries/{id}. The query ends at its next check, which may
// be shortly after the answer.
func (h *handler) cancelQuery(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if err := h.engine.CancelQuery(caller, hr.PathValue("id")); err != nil {
		return err
	}
	hw.WriteHeader(http.StatusNoContent)
	return nil
}
