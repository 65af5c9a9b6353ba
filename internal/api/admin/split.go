package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// splitOutcome is the result of a split.
type splitOutcome struct {
	Parent       string   `json:"parent"`
	At           string   `json:"at"` // the first hashed key of the second child, hexadecimal
	Children     []string `json:"children"`
	PauseMillis  float64  `json:"pauseMilliseconds"` // time that writes waited
	Milliseconds float64  `json:"milliseconds"`      // total time
}

// splitPartition answers POST /partitions/split?database=D&container=C&partition=P,
// with an optional at=EPK, where the second child begins. It answers when both children
// serve.
func (h *handler) splitPartition(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	query := hr.URL.Query()
	req := engine.SplitRequest{Link: engine.Link{Database: query.Get("database"), Container: query.Get("container")}}
	id, err := strconv.ParseUint(query.Get("partition"), 10, 32)
	if req.Link.Database == "" || req.Link.Container == "" || err != nil {
		return status.BadRequest("Give the container and the number of the partition: /partitions/split?database=D&container=C&partition=P.")
	}
	req.Partition = resource.PartitionID(id)
	if req.At, err = partitionkey.ParseEPK(query.Get("at")); err != nil {
		return status.BadRequest("at=%q is not an effective partition key: %s.", query.Get("at"), err)
	}
	result, err := h.engine.SplitPartition(hr.Context(), caller, req)
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, splitOutcome{
		Parent:       result.Parent.String(),
		At:           result.At.String(),
		Children:     []string{result.Children[0].ID.String(), result.Children[1].ID.String()},
		PauseMillis:  milliseconds(result.Pause),
		Milliseconds: milliseconds(result.Took),
	})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
