package admin

import (
	"net/http"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/status"
)

// clockAnswer is what is known of the clock.
type clockAnswer struct {
	Clock   time.Time `json:"clock"`   // what the machine says
	Writes  time.Time `json:"writes"`  // what _ts is made from
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

// acceptClock takes a clock that is in doubt as right. One that is not stays as it is.
func (h *handler) acceptClock(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	if h.clock == nil {
		return status.NotFound()
	}
	h.clock.Accept()
	return h.showClock(hw, hr, caller)
}
