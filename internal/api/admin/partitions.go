package admin

import (
	"encoding/json"
	"math"
	"net/http"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
)

// partitionList is the statistics of a container's physical partitions, in the order of
// their ranges.
type partitionList struct {
	Database   string      `json:"database"`
	Container  string      `json:"container"`
	Limits     limits      `json:"limits"`
	Visits     visits      `json:"queryVisits"`
	Partitions []partition `json:"partitions"`
}

// visits is the number of partitions that the queries of the container have visited.
type visits struct {
	Queries    int64   `json:"queries"`    // and document lists, since the server started
	Partitions int64   `json:"partitions"` // visited by them, each once per query
	Mean       float64 `json:"mean"`       // partitions per query
}

// limits are the limits of one partition.
type limits struct {
	PartitionBytes int64 `json:"partitionBytes"` // documents; a larger partition is split
	LogicalBytes   int64 `json:"logicalBytes"`   // documents of one full partition key
	PartitionRUs   int   `json:"partitionRUs"`   // maximum RU/s
}

type partition struct {
	ID            string   `json:"id"`
	Min           string   `json:"min"` // first hashed key, hexadecimal
	Max           string   `json:"max"` // first hashed key after it
	Parents       []string `json:"parents"`
	Change        string   `json:"change,omitempty"` // in progress: split or merge
	Documents     int64    `json:"documents"`
	DocumentBytes int64    `json:"documentBytes"`
	IndexBytes    int64    `json:"indexBytes"`
	LSN           uint64   `json:"lsn"`
	Requests      requests `json:"requests"`
	Purging       int      `json:"purgingKeys,omitempty"`      // deleted partition keys and prefixes whose documents still count
	Cleared       int64    `json:"clearedDocuments,omitempty"` // documents of deleted keys that are deleted since it was opened

	Share         float64 `json:"share"`                   // its RU/s; 0 for no limit
	ConsumedRUs   float64 `json:"consumedRUs"`             // in the last whole second
	ConsumedTotal float64 `json:"consumedTotal"`           // request units since it was opened
	Normalized    float64 `json:"normalizedRUConsumption"` // percent of the share, in the busiest second of this minute and the one before
	SavedRUs      float64 `json:"savedRUs"`                // for a burst
	AutoscaledRUs int     `json:"autoscaledRUs,omitempty"` // autoscale: the RU/s that the load needs
	BilledRUs     int     `json:"billedRUs,omitempty"`     // autoscale: the highest value of the hour
	Throttled     int64   `json:"throttled"`               // requests above the share, refused or logged
	Capped        int64   `json:"capped"`                  // requests above the cap of their throughput bucket
	Keys          []hot   `json:"hottestKeys"`             // of this minute and the one before, in descending order
	Prefixes      []hot   `json:"hottestPrefixes"`         // of a hierarchical key, the same
}

// hot is a partition key, or a prefix of one, with a high consumption.
type hot struct {
	Key   json.RawMessage `json:"key,omitempty"` // in the form of the header; missing if only queries have used it
	EPK   string          `json:"epk"`
	Units float64         `json:"requestUnits"`
	Error float64         `json:"error"` // maximum error of requestUnits, which may be too high
}

// requests are the requests since the partition was opened.
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
		return status.BadRequest("Give the container: /partitions?database=D&container=C.")
	}
	stats, err := h.engine.PartitionStats(hr.Context(), caller, link)
	if err != nil {
		return err
	}
	list := partitionList{Database: link.Database, Container: link.Container, Partitions: make([]partition, len(stats))}
	all, err := h.engine.LimitsOf(caller, link)
	if err != nil {
		return err
	}
	v, err := h.engine.QueryVisits(caller, link)
	if err != nil {
		return err
	}
	list.Visits = visits{Queries: v.Queries, Partitions: v.Partitions, Mean: round(v.Mean())}
	l := all.Limits
	list.Limits = limits{PartitionBytes: l.PhysicalPartitionBytes, LogicalBytes: l.LogicalPartitionBytes, PartitionRUs: l.PartitionRUs}
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
		Change:        s.Change,
		Documents:     s.Documents,
		DocumentBytes: s.DocumentBytes,
		IndexBytes:    s.IndexBytes,
		LSN:           uint64(s.LSN),
		Requests:      requests{Reads: s.Reads, Writes: s.Writes, Queries: s.Queries},
		Purging:       s.Purging,
		Cleared:       s.Cleared,

		Share:         round(s.Load.Rate),
		ConsumedRUs:   round(s.Load.Second),
		ConsumedTotal: round(s.Load.Total),
		Normalized:    round(s.Load.Normalized),
		SavedRUs:      round(s.Load.Saved),
		AutoscaledRUs: s.Load.Autoscaled,
		BilledRUs:     s.Load.Billed,
		Throttled:     s.Load.Throttled,
		Capped:        s.Load.Capped,
		Keys:          hottest(s.Load.Keys),
		Prefixes:      hottest(s.Load.Prefixes),
	}
}

// round rounds to hundredths, like charges.
func round(n float64) float64 { return math.Round(n*100) / 100 }

func hottest(keys []cluster.HotKey) []hot {
	all := make([]hot, len(keys))
	for i, k := range keys {
		all[i] = hot{EPK: k.EPK.String(), Units: round(k.Units), Error: round(k.Error)}
		if text, err := k.Key.AppendText(nil); err == nil && k.Key.Len() > 0 {
			all[i].Key = text
		}
	}
	return all
}
