package admin

import (
	"net/http"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/cluster"
)

type health struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"`

	Disk       string            `json:"disk,omitempty"`       // its problem
	Clock      string            `json:"clock,omitempty"`      // likewise
	Partitions []partitionHealth `json:"partitions,omitempty"` // with a problem
}

// partitionHealth is a partition with a problem. The reason is only in the log, because
// this answer needs no key.
type partitionHealth struct {
	Database  string          `json:"database"`
	Container string          `json:"container"`
	Partition string          `json:"partition"`
	State     cluster.Ailment `json:"state"`
}

// showAlive answers as long as the process does.
func (h *handler) showAlive(hw http.ResponseWriter, _ *http.Request) {
	_ = write(hw, http.StatusOK, health{Status: "alive", Version: h.version}) // Strings always marshal.
}

// showReady answers 200 while the data plane serves requests, else 503. A full disk, a
// wrong clock or a partition with a problem is reported with 200: the other partitions
// serve, and for 503 a load balancer would stop sending requests to all of them.
func (h *handler) showReady(hw http.ResponseWriter, _ *http.Request) {
	if err := h.ready(); err != nil {
		_ = write(hw, http.StatusServiceUnavailable, health{Status: "not ready", Reason: err.Error()})
		return
	}
	answer := health{Status: "ready", Version: h.version}
	if h.clock != nil {
		answer.Clock = h.clock.Status().Trouble
	}
	if h.health != nil {
		disk, unwell := h.health()
		answer.Disk = disk
		for _, u := range unwell {
			answer.Partitions = append(answer.Partitions, partitionHealth{
				Database: u.Database, Container: u.Container, Partition: u.Partition.String(), State: u.Ailment,
			})
		}
	}
	_ = write(hw, http.StatusOK, answer)
}

// index is the answer of GET /.
type index struct {
	Name    string      `json:"name"`
	Version string      `json:"version"`
	Paths   []indexPath `json:"paths"`
}

type indexPath struct {
	Path string `json:"path"`
	Does string `json:"does"`
	Key  bool   `json:"key"` // the account key is needed
}

func (h *handler) showIndex(hw http.ResponseWriter, _ *http.Request, _ auth.Caller) error {
	return write(hw, http.StatusOK, index{Name: "Decan", Version: h.version, Paths: []indexPath{
		{Path: "GET /alive", Does: "200 while the process runs"},
		{Path: "GET /ready", Does: "200 while requests are served, else 503"},
		{Path: "GET /metrics", Does: "metrics for Prometheus"},
		{Path: "GET /partitions?database=D&container=C", Does: "statistics of the physical partitions of a container: sizes, throughput, consumption, hottest keys", Key: true},
		{Path: "GET /clock", Does: "the clock, the times for writes, expiry and deletion, and whether it is in doubt", Key: true},
		{Path: "POST /clock/accept", Does: "accepts a clock that is in doubt", Key: true},
		{Path: "GET /limits?database=D&container=C", Does: "the limits of a container, and which of them are its own", Key: true},
		{Path: "PUT /limits?database=D&container=C", Does: "sets the limits of the body for a container; null means the limit of the server", Key: true},
		{Path: "GET /queries", Does: "queries and pages of the change feed that have run for more than a second; DELETE /queries/{id} cancels one", Key: true},
		{Path: "POST /cql", Does: "runs SELECT JSON or DESCRIBE of the Cassandra API and answers with a page of rows", Key: true},
		{Path: "POST /workload?database=D&container=C", Does: "begins to record the queries, without their values, and the numbers of writes and reads of a container; DELETE ends it and shows them", Key: true},
		{Path: "POST /advise?database=D&container=C", Does: "compares partition keys on a sample of a container, for the workload and the candidates of the body", Key: true},
		{Path: "POST /partitions/split?database=D&container=C&partition=P", Does: "splits a physical partition, at half of its bytes or at=EPK", Key: true},
		{Path: "POST /partitions/merge?database=D&container=C&partition=P&with=Q", Does: "merges two neighbouring physical partitions", Key: true},
		{Path: "POST " + containerPath + "/partitionMerge", Does: "merges the physical partitions of a container as far as its throughput and size allow", Key: true},
		{Path: "POST /containers?database=D&partitions=N", Does: "creates a container with N physical partitions", Key: true},
		{Path: "GET " + containerPath + settingsPath, Does: "throughput of a container, or without /containers of a database; PUT changes it; POST to /migrateToAutoscale and /migrateToManualThroughput changes its mode", Key: true},
		{Path: "POST " + containerPath + settingsPath + "/retrieveThroughputDistribution", Does: "the throughput of each physical partition; without /containers of all that share the throughput of a database", Key: true},
		{Path: "POST " + containerPath + settingsPath + "/redistributeThroughput", Does: "divides throughput between these physical partitions", Key: true},
		{Path: "PUT " + accountPath + copyJobsPath + "/{job}", Does: "copies containers into others; GET shows the job, or without {job} all; POST to /pause, /resume, /cancel and /complete", Key: true},
		{Path: "POST " + accountPath + "/listKeys", Does: "the account keys; /readonlykeys only the read-only keys; /regenerateKey replaces a key", Key: true},
		{Path: "PUT " + accountPath + definitionsPath + "/{id}", Does: "creates or changes a role of the data plane; GET shows it, or without {id} all; DELETE deletes it", Key: true},
		{Path: "PUT " + accountPath + assignmentsPath + "/{id}", Does: "assigns a role to a principal; GET shows the assignment, or without {id} all; DELETE deletes it", Key: true},
		{Path: "GET /debug/pprof/", Does: "profiles of the process", Key: true},
	}})
}
