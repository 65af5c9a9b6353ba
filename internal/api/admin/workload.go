package admin

import (
	"net/http"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// workload is the answer of DELETE /workload. Without its first and last member it is a
// workload of the key advisor.
type workload struct {
	Seconds         float64         `json:"seconds"`
	WritesPerSecond float64         `json:"writesPerSecond"`
	ReadsPerSecond  float64         `json:"readsPerSecond"`
	Queries         []workloadQuery `json:"queries"`
	LeftOut         int64           `json:"leftOut"` // queries beyond the bounds of a recording
}

type workloadQuery struct {
	engine.RecordedQuery
	PerSecond float64 `json:"perSecond"`
}

// workloadRoutes adds the paths of recordings to the table.
func (h *handler) workloadRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /workload", h.keyed(h.startRecording))
	mux.HandleFunc("DELETE /workload", h.keyed(h.stopRecording))
}

func recordedLink(hr *http.Request) (engine.Link, error) {
	link := engine.Link{Database: hr.URL.Query().Get("database"), Container: hr.URL.Query().Get("container")}
	if link.Database == "" || link.Container == "" {
		return link, status.BadRequest("Give the container: /workload?database=D&container=C.")
	}
	return link, nil
}

// startRecording answers POST /workload.
func (h *handler) startRecording(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	link, err := recordedLink(hr)
	if err == nil {
		err = h.engine.StartRecording(caller, link)
	}
	if err != nil {
		return err
	}
	hw.WriteHeader(http.StatusNoContent)
	return nil
}

// stopRecording answers DELETE /workload.
func (h *handler) stopRecording(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	link, err := recordedLink(hr)
	if err != nil {
		return err
	}
	recorded, err := h.engine.StopRecording(caller, link)
	if err != nil {
		return err
	}
	seconds := max(recorded.Time.Seconds(), 0.001)
	answer := workload{
		Seconds: seconds, LeftOut: recorded.LeftOut, Queries: make([]workloadQuery, len(recorded.Queries)),
		WritesPerSecond: float64(recorded.Writes) / seconds, ReadsPerSecond: float64(recorded.Reads) / seconds,
	}
	for i, q := range recorded.Queries {
		answer.Queries[i] = workloadQuery{q, float64(q.Times) / seconds}
	}
	return write(hw, http.StatusOK, answer)
}
