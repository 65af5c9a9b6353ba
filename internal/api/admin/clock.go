package admin

import (
	"net/http"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// clockAnswer is the answer of GET /clock.
type clockAnswer struct {
	Clock   time.Time `json:"clock"`   // of the machine
	Writes  time.Time `json:"writes"`  // for _ts
	Certain time.Time `json:"certain"` // by which documents expire
	Removal time.Time `json:"removal"` // by which they are deleted
	Doubt   float64   `json:"doubtSeconds"`
	Behind  float64   `json:"behindSeconds"`
	Trouble string    `json:"trouble,omitempty"`
}

func (h *handler) showClock(hw http.ResponseWriter, _ *http.Request, _ auth.Caller) error {
	if h.clock == nil {
		return status.NotFound()
	}
	st := h.clock.Status()
	return write(hw, http.StatusOK, clockAnswer{
		Clock: st.Clock.UTC(), Writes: st.Writes.UTC(), Certain: st.Certain.UTC(), Removal: st.Removal.UTC(),
		Doubt: st.Doubt.Seconds(), Behind: st.Behind.Seconds(), Trouble: st.Trouble,
	})
}

// acceptClock accepts a clock that is in doubt. It does nothing for another clock.
func (h *handler) acceptClock(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if h.clock == nil {
		return status.NotFound()
	}
	h.clock.Accept()
	return h.showClock(hw, hr, caller)
}
