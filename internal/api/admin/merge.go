package admin

import (
	"net/http"
	"strconv"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// mergeOutcome is the result of a merge.
type mergeOutcome struct {
	Parents      []string `json:"parents"` // in the order of their ranges
	Child        string   `json:"child"`
	PauseMillis  float64  `json:"pauseMilliseconds"` // time that writes waited
	Milliseconds float64  `json:"milliseconds"`      // total time
}

// mergePartitions answers POST /partitions/merge?database=D&container=C&partition=P&with=Q,
// for two neighbours in either order. It answers when their child serves.
func (h *handler) mergePartitions(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	query := hr.URL.Query()
	req := engine.MergeRequest{Link: engine.Link{Database: query.Get("database"), Container: query.Get("container")}}
	named := req.Link.Database != "" && req.Link.Container != ""
	for i, name := range []string{"partition", "with"} {
		id, err := strconv.ParseUint(query.Get(name), 10, 32)
		req.Partitions[i], named = resource.PartitionID(id), named && err == nil
	}
	if !named {
		return status.BadRequest("Give the container and the numbers of two neighbouring partitions: /partitions/merge?database=D&container=C&partition=P&with=Q.")
	}
	result, err := h.engine.MergePartitions(hr.Context(), caller, req)
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, mergeOutcome{
		Parents:      []string{result.Parents[0].String(), result.Parents[1].String()},
		Child:        result.Child.ID.String(),
		PauseMillis:  milliseconds(result.Pause),
		Milliseconds: milliseconds(result.Took),
	})
}

// mergeRoutes adds the paths of a merge in the form of the service's management
// API to the table.
func (h *handler) mergeRoutes(mux *http.ServeMux) {
	for _, account := range []string{accountPath, ""} {
		for _, owner := range []string{account + databasePath, account + containerPath} {
			mux.HandleFunc("POST "+owner+"/partitionMerge", h.keyed(h.mergeAll))
		}
	}
}

// mergeAll merges the partitions of a container, or of the containers that share the
// throughput of a database, as far as throughput and size allow. It answers with the
// remaining partitions; for {"isDryRun":true} it only computes them.
func (h *handler) mergeAll(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	link, err := h.managed(hr)
	if err != nil {
		return err
	}
	body, err := h.optionalObject(hw, hr)
	if err != nil {
		return err
	}
	dry := value.Bool(false)
	for _, m := range body.Members() {
		if m.Name != "isDryRun" { // A misspelled isDryRun would merge.
			return status.BadRequest("A merge has no property %q. Its only property is isDryRun.", m.Name)
		}
		dry = m.Value
	}
	if dry.Kind() != value.KindBool {
		return status.BadRequest("The property 'isDryRun' is %s. It must be true or false.", dry.JSON())
	}
	left, err := h.engine.MergeAll(hr.Context(), caller, link, dry.Bool())
	if err != nil {
		return err
	}
	infos := make([]value.Value, len(left))
	for i, p := range left {
		infos[i] = value.Object([]value.Member{
			{Name: "id", Value: value.String(mergedID(link, p))},
			{Name: "storageInKB", Value: value.Number(round(float64(p.Bytes) / 1024))},
		})
	}
	answer := value.Object([]value.Member{{Name: "physicalPartitionStorageInfoCollection", Value: value.Array(infos)}})
	writeJSON(hw, http.StatusOK, answer.Append(nil))
	return nil
}

// mergedID returns the id of a partition: its number, or for several containers, in
// which numbers are ambiguous, its RID.
func mergedID(link engine.Link, p cluster.PartitionSize) string {
	if link.Container == "" {
		return resource.PartitionRID(p.Container, p.ID).String()
	}
	return p.ID.String()
}
