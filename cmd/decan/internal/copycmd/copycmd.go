// Package copycmd is decan copy: the commands that create, watch and end the copy jobs
// of a server.
//
// Page: docs/copy.md
package copycmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

// Command is decan copy.
type Command struct {
	Create   createCommand   `cmd:"" help:"Copy a container into another that exists, such as one with a hierarchical partition key."`
	List     listCommand     `cmd:"" help:"Show all copy jobs."`
	Show     showCommand     `cmd:"" help:"Show the progress of a copy job."`
	Pause    pauseCommand    `cmd:"" help:"Stop a copy job until it is resumed."`
	Resume   resumeCommand   `cmd:"" help:"Resume a copy job that is paused or faulted."`
	Cancel   cancelCommand   `cmd:"" help:"Cancel a copy job. Documents that are already copied stay."`
	Complete completeCommand `cmd:"" help:"Complete an online copy job after it has copied all changes made so far."`
}

// job is the answer of the admin port for a job; docs/copy.md describes it.
type job struct {
	Name       string `json:"name"`
	Properties struct {
		JobProperties struct {
			Tasks []task `json:"tasks"`
		} `json:"jobProperties"`
		Mode      string `json:"mode"`
		Status    string `json:"status"`
		Processed int64  `json:"processedCount"`
		Total     int64  `json:"totalCount"`
		Workers   int    `json:"workerCount"`
		Duration  string `json:"duration"`
		Error     *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Decan struct {
			CaughtUp    bool    `json:"caughtUp"`
			Completing  bool    `json:"completing"`
			ReadCharge  float64 `json:"sourceCharge"`
			WriteCharge float64 `json:"destinationCharge"`
			Removed     int64   `json:"removedCount"`
			Skipped     int64   `json:"skippedCount"`
			Failures    []struct {
				ID      string `json:"id"`
				Key     string `json:"partitionKey"`
				Message string `json:"message"`
			} `json:"skipped"`
		} `json:"decan"`
	} `json:"properties"`
}

type task struct {
	Source      containerName `json:"source"`
	Destination containerName `json:"destination"`
}

type containerName struct {
	Database  string `json:"databaseName"`
	Container string `json:"containerName"`
}

func (e containerName) String() string { return e.Database + "/" + e.Container }

// parseEnd reads DATABASE/CONTAINER.
func parseEnd(text string) (containerName, error) {
	database, container, found := strings.Cut(text, "/")
	if !found || database == "" || container == "" || strings.Contains(container, "/") {
		return containerName{}, fmt.Errorf("%q is not the name of a container: give DATABASE/CONTAINER", text)
	}
	return containerName{database, container}, nil
}

// jobServer is the server whose jobs a command is about.
type jobServer struct{ remote.Admin }

// exchange sends a request about copy jobs and decodes the answer into out.
func (s jobServer) exchange(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.Send(ctx, method, path, bytes.NewReader(text), out)
}

func jobPath(name string) string { return "copyJobs/" + url.PathEscape(name) }

type createCommand struct {
	Name    string `arg:"" help:"A name for the job, of letters, digits, hyphens, underscores and full stops."`
	From    string `arg:"" placeholder:"DATABASE/CONTAINER" help:"The container to copy, as DATABASE/CONTAINER."`
	To      string `arg:"" placeholder:"DATABASE/CONTAINER" help:"The container to copy into, as DATABASE/CONTAINER. It must exist."`
	Online  bool   `env:"-" help:"Also copy later changes of the source, until decan copy complete (default: the job ends after it has copied the present documents)."`
	Workers int    `env:"-" placeholder:"N" help:"How many documents to write at the same time (default: 8)."`
	Skip    bool   `name:"skip-failures" env:"-" help:"Skip documents that cannot be copied (default: the first one stops the job)."`
	Mirror  bool   `env:"-" help:"Before the job ends, delete from the destination the documents that the source no longer has. The destination must be empty now, and nothing else may write to it."`
	Watch   bool   `env:"-" help:"Show the progress until the job ends or stops, or has caught up if it is online."`

	jobServer
}

// Run creates the job.
func (c *createCommand) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	created, err := c.create(ctx, Job{c.Name, c.From, c.To, c.Online, c.Workers, c.Skip, c.Mirror})
	if err != nil {
		return err
	}
	if c.Watch {
		return c.watch(ctx, c.Name, streams.Out)
	}
	_, err = fmt.Fprintln(streams.Out, created.line())
	return err
}

// Job is a copy job to create.
type Job struct {
	Name     string
	From, To string // as DATABASE/CONTAINER
	Online   bool   // until it is completed, later changes are copied too
	Workers  int    // 0: the server's default
	Skip     bool   // documents that cannot be copied
	Mirror   bool   // delete what the source no longer has
}

// Start creates a job and shows its progress until it ends or stops, or has caught up if
// it is online. The error is the server's reason if it has refused the job or the job has
// failed. When ctx ends, Start returns nil and the job continues.
func Start(ctx context.Context, server remote.Admin, c Job, out io.Writer) error {
	s := jobServer{server}
	if _, err := s.create(ctx, c); err != nil {
		return err
	}
	return s.watch(ctx, c.Name, out)
}

func (s jobServer) create(ctx context.Context, c Job) (*job, error) {
	from, err := parseEnd(c.From)
	if err != nil {
		return nil, err
	}
	to, err := parseEnd(c.To)
	if err != nil {
		return nil, err
	}
	ours := map[string]any{"mirror": c.Mirror}
	if c.Skip {
		ours["onFailure"] = "Skip"
	}
	properties := map[string]any{
		"jobProperties": map[string]any{"jobType": "NoSqlRUToNoSqlRU", "tasks": []task{{from, to}}},
		"mode":          "Offline",
		"decan":         ours,
	}
	if c.Online {
		properties["mode"] = "Online"
	}
	if c.Workers != 0 {
		properties["workerCount"] = c.Workers
	}
	var created job
	if err := s.exchange(ctx, http.MethodPut, jobPath(c.Name), map[string]any{"properties": properties}, &created); err != nil {
		return nil, err
	}
	return &created, nil
}

type listCommand struct {
	JSON bool `env:"-" help:"Print what the server sends."`

	jobServer
}

// Run lists the jobs.
func (c *listCommand) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	var raw json.RawMessage
	if err := c.exchange(ctx, http.MethodGet, "copyJobs", nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return console.PrintJSON(streams.Out, raw)
	}
	var list struct{ Value []job }
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	table := tabwriter.NewWriter(streams.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "job\tfrom\tto\tmode\tstatus\tcopied\tof")
	for _, job := range list.Value {
		p := &job.Properties
		for i, t := range p.JobProperties.Tasks {
			if i > 0 {
				fmt.Fprintf(table, "\t%s\t%s\n", t.Source, t.Destination)
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", job.Name, t.Source, t.Destination, p.Mode, job.state(), console.Grouped(p.Processed), console.Grouped(p.Total))
		}
	}
	return table.Flush()
}

type showCommand struct {
	Name  string `arg:"" help:"The job."`
	Watch bool   `env:"-" help:"Show the progress until the job ends or stops, or has caught up if it is online."`
	JSON  bool   `env:"-" help:"Print what the server sends."`

	jobServer
}

// Run shows one job.
func (c *showCommand) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	if c.Watch {
		return c.watch(ctx, c.Name, streams.Out)
	}
	var raw json.RawMessage
	if err := c.exchange(ctx, http.MethodGet, jobPath(c.Name), nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return console.PrintJSON(streams.Out, raw)
	}
	var job job
	if err := json.Unmarshal(raw, &job); err != nil {
		return err
	}
	return job.print(streams.Out)
}

// watchEvery is the time between two requests for the progress of a job.
const watchEvery = 250 * time.Millisecond

// watch shows the progress of a job until it ends, stops or has caught up. It fails if
// the job has failed.
func (s jobServer) watch(ctx context.Context, name string, out io.Writer) error {
	meter := console.NewMeter(out)
	for {
		var job job
		err := s.exchange(ctx, http.MethodGet, jobPath(name), nil, &job)
		if ctx.Err() != nil {
			meter.End()
			return nil
		}
		if err != nil {
			meter.End()
			return err
		}
		p := &job.Properties
		part := 1.0
		if p.Total > 0 {
			part = float64(p.Processed) / float64(p.Total)
		}
		meter.Show(part, fmt.Sprintf("%s of %s  %s", console.Grouped(p.Processed), console.Grouped(p.Total), job.state()))
		switch {
		case p.Status == "Faulted":
			meter.End()
			return job.failure()
		case p.Status != "Running" && p.Status != "Pending", p.Decan.CaughtUp && !p.Decan.Completing:
			meter.End()
			return job.print(out)
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
		}
	}
}

// state returns the status, with the details that Decan adds to it.
func (j *job) state() string {
	p := &j.Properties
	switch {
	case p.Status != "Running":
		return p.Status
	case p.Decan.Completing:
		return "Running, completing"
	case p.Decan.CaughtUp:
		return "Running, caught up"
	}
	return p.Status
}

func (j *job) failure() error {
	reason := "the server gives no reason"
	if e := j.Properties.Error; e != nil {
		reason = e.Message
	}
	return fmt.Errorf("the copy job %s is faulted: %s", j.Name, reason)
}

// line describes a job in one line.
func (j *job) line() string {
	var pairs []string
	for _, t := range j.Properties.JobProperties.Tasks {
		pairs = append(pairs, fmt.Sprintf("%s to %s", t.Source, t.Destination))
	}
	return fmt.Sprintf("%s: %s, %s, %s", j.Name, strings.Join(pairs, ", "), strings.ToLower(j.Properties.Mode), j.state())
}

// print describes a job in full.
func (j *job) print(out io.Writer) error {
	p := &j.Properties
	var b strings.Builder
	fmt.Fprintln(&b, j.line())
	fmt.Fprintf(&b, "copied       %s of %s\n", console.Grouped(p.Processed), console.Grouped(p.Total))
	if p.Decan.Removed > 0 {
		fmt.Fprintf(&b, "removed      %s\n", console.Counted(p.Decan.Removed, "document"))
	}
	fmt.Fprintf(&b, "charge       %s in the source, %s in the destination\n", console.Units(p.Decan.ReadCharge), console.Units(p.Decan.WriteCharge))
	fmt.Fprintf(&b, "took         %s with %s\n", p.Duration, console.Counted(int64(p.Workers), "worker"))
	if p.Error != nil {
		fmt.Fprintf(&b, "faulted      %s\n", p.Error.Message)
	}
	if p.Decan.Skipped > 0 {
		fmt.Fprintf(&b, "skipped      %s that cannot be copied\n", console.Counted(p.Decan.Skipped, "document"))
		for _, f := range p.Decan.Failures {
			fmt.Fprintf(&b, "  %q under %s: %s\n", f.ID, f.Key, f.Message)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// change is a command that changes a job.
type change struct {
	Name string `arg:"" help:"The job."`

	jobServer
}

// tell sends a verb and prints the changed job.
func (c *change) tell(streams console.Streams, verb string) error {
	ctx, stop := console.Interruptible()
	defer stop()
	var job job
	if err := c.exchange(ctx, http.MethodPost, jobPath(c.Name)+"/"+verb, nil, &job); err != nil {
		return err
	}
	_, err := fmt.Fprintln(streams.Out, job.line())
	return err
}

type pauseCommand struct{ change }

// Run pauses a job.
func (c *pauseCommand) Run(streams console.Streams) error { return c.tell(streams, "pause") }

type resumeCommand struct{ change }

// Run resumes a job.
func (c *resumeCommand) Run(streams console.Streams) error { return c.tell(streams, "resume") }

type cancelCommand struct{ change }

// Run cancels a job.
func (c *cancelCommand) Run(streams console.Streams) error { return c.tell(streams, "cancel") }

type completeCommand struct {
	change
	Watch bool `env:"-" help:"Show the progress until the job has ended."`
}

// Run completes a job.
func (c *completeCommand) Run(streams console.Streams) error {
	if !c.Watch {
		return c.tell(streams, "complete")
	}
	ctx, stop := console.Interruptible()
	defer stop()
	var job job
	if err := c.exchange(ctx, http.MethodPost, jobPath(c.Name)+"/complete", nil, &job); err != nil {
		return err
	}
	return c.watch(ctx, c.Name, streams.Out)
}
