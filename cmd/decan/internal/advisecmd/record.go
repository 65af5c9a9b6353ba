package advisecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/simulate"
)

// recordFlags say how the workload is recorded.
type recordFlags struct {
	Record time.Duration `env:"-" placeholder:"TIME" help:"Record the queries, without their values, and the writes and reads of --container on the server for this time, such as 5m, and take them as the workload."`
	Save   string        `name:"save-workload" env:"-" placeholder:"FILE" help:"Write the workload with what is recorded into this file, for --workload."`
}

// recordMax is the longest recording: the server drops one after a day.
const recordMax = 23 * time.Hour

// check refuses what cannot be recorded.
func (f *recordFlags) check(c *Command) error {
	switch {
	case f.Record == 0 && f.Save == "":
		return nil
	case f.Record == 0:
		return errors.New("--save-workload belongs to --record: give it too")
	case f.Record < 0 || f.Record > recordMax:
		return fmt.Errorf("--record must be a time up to %v, not %v", recordMax, f.Record)
	case c.Container == "":
		return errors.New("--record records a container: give --database and --container")
	case c.Table:
		return errors.New("--record records containers of documents, not tables")
	}
	return nil
}

// record asks the server for what clients do with the container, and adds it to the
// workload. An interrupt ends the recording on the server, and is the error.
func (c *Command) record(ctx context.Context, notes io.Writer, w *simulate.Workload) error {
	if len(w.Queries) > 0 || w.WritesPerSecond > 0 || w.ReadsPerSecond > 0 {
		return errors.New("the file of --workload has queries, writes or reads, which --record finds out: leave them out of it")
	}
	path := url.Values{"database": {c.Database}, "container": {c.Container}}
	server := c.admin()
	var raw json.RawMessage
	if err := server.Ask(ctx, http.MethodPost, "workload", path, &raw); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	fmt.Fprintf(notes, "Recording the workload of %s/%s for %v.\n", c.Database, c.Container, c.Record)
	timer := time.NewTimer(c.Record)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var recorded struct {
		WritesPerSecond float64          `json:"writesPerSecond"`
		ReadsPerSecond  float64          `json:"readsPerSecond"`
		Queries         []simulate.Query `json:"queries"`
		LeftOut         int64            `json:"leftOut"`
	}
	if err := server.Ask(ending, http.MethodDelete, "workload", path, &recorded); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	if ctx.Err() != nil {
		return errors.New("the recording is interrupted")
	}
	w.WritesPerSecond, w.ReadsPerSecond, w.Queries = recorded.WritesPerSecond, recorded.ReadsPerSecond, recorded.Queries
	fmt.Fprintf(notes, "Recorded %s, %.3g writes and %.3g reads per second.\n", console.Counted(int64(len(w.Queries)), "query shape"), w.WritesPerSecond, w.ReadsPerSecond)
	if recorded.LeftOut > 0 {
		fmt.Fprintf(notes, "%s left out, beyond the bounds of a recording: docs/advisor.md.\n", console.Counted(recorded.LeftOut, "execution"))
	}
	if c.Save == "" {
		return nil
	}
	text, err := json.MarshalIndent(w, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.Save, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("--save-workload: %w", err)
	}
	return nil
}
