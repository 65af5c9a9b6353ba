package admin

import (
	"net/http"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// partitionList is the state of a container's physical partitions, in the order
// of their ranges.
type partitionList struct {
	Database   string      `json:"database"`
	Container  string      `json:"container"`
	Partitions []partition `json:"partitions"`
}

type partition struct {
	ID            string   `json:"id"`
	Min           string   `json:"min"` // first hashed key, hexadecimal
	Max           string   `json:"max"` // first hashed key behind it
	Parents       []string `json:"parents"`
	Documents     int64    `json:"documents"`
	DocumentBytes int64    `json:"documentBytes"`
	IndexBytes    int64    `json:"indexBytes"`
	LSN           uint64   `json:"lsn"`
	Requests      requests `json:"requests"`
}

// requests counts since the partition was opened.
type requests struct {
	Reads   int64 `json:"reads"`
	Writes  int64 `json:"writes"`
	Queries int64 `json:"queries"`
}

// listPartitions answers GET /partitions?database=D&container=C.
func (h *handler) listPartitions(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	query := hr.URL.Query()
	link := engine.Link{Database: query.Get("database"), Container: query.Get("container")}
	if link.Database == "" || link.Container == "" {
		return status.BadRequest("Name the container: /partitions?database=D&container=C.")
	}
	stats, err := h.engine.PartitionStats(hr.Context(), caller, link)
	if err != nil {
		return err
	}
	list := partitionList{Database: link.Database, Container: link.Container, Partitions: make([]partition, len(stats))}
	for i, s := range stats {
		list.Partitions[i] = describe(s)
	}
	return write(hw, http.StatusOK, list)
}

func describe(s engine.PartitionStats) partition {
	parents := make([]string, len(s.Partition.Parents))
	for i, id := range s.Partition.Parents {
		parents[i] = id.String()
	}
	return partition{
		ID:            s.Partition.ID.String(),
		Min:           s.Partition.Range.Min.String(),
		Max:           s.Partition.Range.Max.String(),
		Parents:       parents,
		Documents:     s.Documents,
		DocumentBytes: s.DocumentBytes,
		IndexBytes:    s.IndexBytes,
		LSN:           uint64(s.LSN),
		Requests:      requests{Reads: s.Reads, Writes: s.Writes, Queries: s.Queries},
	}
}
