package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/simulate"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// Bounds of POST /advise. Together they bound the time of a simulation, which is in
// proportion to candidates, queries and documents.
const (
	adviseSample     = 1000 // documents, unless the request says more or less
	adviseSampleMax  = 5000
	adviseBytesMax   = 64 << 20 // of the sample
	adviseKeysMax    = 40
	adviseQueriesMax = 100
	adviseWaitMax    = 30 * time.Second // for the throughput of the container, in total
)

// adviseRequest is the body of POST /advise.
type adviseRequest struct {
	Sample     int               `json:"sample"`     // documents at most; 0: adviseSample
	Candidates [][]string        `json:"candidates"` // paths of each; none: keys are proposed
	Workload   simulate.Workload `json:"workload"`
}

// advised is the answer: the advice, and what it was made from.
type advised struct {
	Present       []string         `json:"present"` // paths of the container's key
	Documents     int64            `json:"documents"`
	RequestCharge float64          `json:"requestCharge"` // of reading the sample
	LogicalBytes  int64            `json:"logicalBytes"`  // limits that are simulated
	PhysicalBytes int64            `json:"partitionBytes"`
	Advice        *simulate.Advice `json:"advice"`
}

// adviseRoutes adds the path of the key advisor to the table.
func (h *handler) adviseRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /advise", h.keyed(h.advise))
}

// advise answers POST /advise?database=D&container=C: it compares partition keys on a
// sample of the container, with the limits and the indexing policy of the container. One
// simulation runs at a time, because each keeps a processor busy.
func (h *handler) advise(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	link := engine.Link{Database: hr.URL.Query().Get("database"), Container: hr.URL.Query().Get("container")}
	if link.Database == "" || link.Container == "" {
		return status.BadRequest("Give the container: /advise?database=D&container=C.")
	}
	body, err := h.readBody(hw, hr)
	if err != nil {
		return err
	}
	asked, err := readAdvise(body)
	if err != nil {
		return err
	}
	ctx := hr.Context()
	select {
	case h.advising <- struct{}{}:
		defer func() { <-h.advising }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s := &sampler{handler: h, caller: caller, link: link, most: asked.Sample}
	defer s.release()
	if err := s.read(ctx); err != nil {
		return err
	}
	if asked.Workload.Documents == 0 {
		asked.Workload.Documents = s.total
	}
	limits, err := h.engine.LimitsOf(caller, link)
	if err != nil {
		return err
	}
	settings := simulate.Settings{Limits: limits.Limits, Indexing: s.container.Indexing, ReadTwice: h.engine.Account().Consistency.DoublesReads()}
	advice, err := simulate.Advise(ctx, simulate.Sample{Documents: s.documents}, asked.Workload, s.candidates(asked.Candidates), settings)
	if err != nil {
		return err
	}
	return write(hw, http.StatusOK, advised{
		Present: s.container.PartitionKey.Paths, Documents: s.total, RequestCharge: round(s.charge), Advice: advice,
		LogicalBytes: limits.Limits.LogicalPartitionBytes, PhysicalBytes: limits.Limits.PhysicalPartitionBytes,
	})
}

// readAdvise reads the body of POST /advise. An unknown member is an error, because it is
// a wish that would not be simulated.
func readAdvise(body []byte) (adviseRequest, error) {
	var asked adviseRequest
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil && !errors.Is(err, io.EOF) {
		return asked, status.BadRequest("The body is not valid: %s.", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return asked, status.BadRequest("The body has more than one JSON value.")
	}
	switch {
	case asked.Sample < 0 || asked.Sample > adviseSampleMax:
		return asked, status.BadRequest("The sample must have 1 to %d documents, not %d.", adviseSampleMax, asked.Sample)
	case len(asked.Candidates) > adviseKeysMax:
		return asked, status.BadRequest("There are %d candidates; give at most %d.", len(asked.Candidates), adviseKeysMax)
	case len(asked.Workload.Queries) > adviseQueriesMax:
		return asked, status.BadRequest("The workload has %d queries; give at most %d.", len(asked.Workload.Queries), adviseQueriesMax)
	}
	if asked.Sample == 0 {
		asked.Sample = adviseSample
	}
	return asked, nil
}

// sampler reads a sample of a container: the first documents of each physical partition,
// as many as its share of all.
type sampler struct {
	*handler
	caller auth.Caller
	link   engine.Link
	most   int // documents

	container resource.Container
	total     int64 // documents of the container
	documents []value.Value
	charge    float64
	bytes     int           // taken of the memory of requests
	waited    time.Duration // for throughput
}

func (s *sampler) read(ctx context.Context) error {
	found, err := s.engine.ReadContainer(ctx, s.caller, engine.ContainerRequest{Link: s.link})
	if err != nil {
		return err
	}
	definition, err := parseObject(found.Body)
	if err != nil {
		return err
	}
	if s.container, err = resource.ParseContainer(definition); err != nil {
		return err
	}
	partitions, err := s.engine.PartitionStats(ctx, s.caller, s.link)
	if err != nil {
		return err
	}
	for _, p := range partitions {
		s.total += p.Documents
	}
	for _, p := range partitions {
		share := int64(s.most)
		if s.total > share {
			share = (p.Documents*share + s.total - 1) / s.total
		}
		if err := s.partition(ctx, p.Partition.ID, len(s.documents)+int(min(share, p.Documents))); err != nil {
			return err
		}
	}
	return nil
}

// partition reads documents of one physical partition until the sample has so many, or
// the partition no more.
func (s *sampler) partition(ctx context.Context, id resource.PartitionID, until int) error {
	req := engine.QueryRequest{Link: s.link, Partition: &id, Former: true}
	req.LowPriority = true
	for len(s.documents) < until {
		req.MaxItems = until - len(s.documents)
		page, err := s.engine.List(ctx, s.caller, req)
		s.charge += page.Charge
		if e := status.From(err); e != nil && e.Code == status.CodeTooManyRequests && s.waited < adviseWaitMax {
			pause := max(e.RetryAfter, 10*time.Millisecond)
			s.waited += pause
			if err := pacing.Sleep(ctx, pause); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, row := range page.Rows {
			if s.bytes+len(row) > adviseBytesMax {
				return status.TooLarge("The sample has more than %d bytes: ask for fewer documents.", adviseBytesMax)
			}
			if s.memory != nil && !s.memory.Take(len(row), s.bytes+len(row)) {
				return s.memory.Refusal()
			}
			s.bytes += len(row)
			document, err := value.Parse(row)
			if err != nil {
				return err
			}
			s.documents = append(s.documents, document.Without("_rid", "_self", "_etag", "_attachments", "_ts"))
		}
		if req.Continuation = page.Continuation; req.Continuation == "" {
			return nil
		}
	}
	return nil
}

func (s *sampler) release() {
	if s.memory != nil {
		s.memory.Release(s.bytes)
	}
}

// candidates returns the candidates of a request with the present key among them.
func (s *sampler) candidates(asked [][]string) [][]string {
	if len(asked) == 0 {
		return nil
	}
	present := strings.Join(s.container.PartitionKey.Paths, "\x00")
	for _, paths := range asked {
		if strings.Join(paths, "\x00") == present {
			return asked
		}
	}
	return append(asked, s.container.PartitionKey.Paths)
}
