package main

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
)

type copyCommand struct {
	Create   copyCreateCommand   `cmd:"" help:"Copy a container into another that exists, such as one with a hierarchical partition key."`
	List     copyListCommand     `cmd:"" help:"Show all copy jobs."`
	Show     copyShowCommand     `cmd:"" help:"Show how far a copy job is."`
	Pause    copyPauseCommand    `cmd:"" help:"Stop a copy job until it is resumed."`
	Resume   copyResumeCommand   `cmd:"" help:"Go on with a copy job that is paused or faulted."`
	Cancel   copyCancelCommand   `cmd:"" help:"Give a copy job up. What it has copied stays."`
	Complete copyCompleteCommand `cmd:"" help:"End an online copy job, once it has copied all changes made by now."`
}

// copyJob is a job as the admin port tells it; docs/copy.md describes it.
type copyJob struct {
	Name       string `json:"name"`
	Properties struct {
		JobProperties struct {
			Tasks []copyTask `json:"tasks"`
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

type copyTask struct {
	Source      copyEnd `json:"source"`
	Destination copyEnd `json:"destination"`
}

type copyEnd struct {
	Database  string `json:"databaseName"`
	Container string `json:"containerName"`
}

func (e copyEnd) String() string { return e.Database + "/" + e.Container }

// parseEnd reads DATABASE/CONTAINER.
func parseEnd(text string) (copyEnd, error) {
	database, container, found := strings.Cut(text, "/")
	if !found || database == "" || container == "" || strings.Contains(container, "/") {
		return copyEnd{}, fmt.Errorf("%q names no container: write DATABASE/CONTAINER", text)
	}
	return copyEnd{database, container}, nil
}

// exchange sends a request about copy jobs and decodes the answer into out.
func (s adminServer) exchange(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.send(ctx, method, path, bytes.NewReader(text), out)
}

func jobPath(name string) string { return "copyJobs/" + url.PathEscape(name) }

type copyCreateCommand struct {
	Name    string `arg:"" help:"A name for the job: letters, digits, hyphens, underscores and full stops."`
	From    string `arg:"" placeholder:"DATABASE/CONTAINER" help:"The container to copy, as DATABASE/CONTAINER."`
	To      string `arg:"" placeholder:"DATABASE/CONTAINER" help:"The container to copy into, which exists."`
	Online  bool   `env:"-" help:"Follow the changes of the source until decan copy complete; without it the job ends when what is there now is copied."`
	Workers int    `env:"-" placeholder:"N" help:"How many documents to write at the same time (8)."`
	Skip    bool   `name:"skip-failures" env:"-" help:"Go on behind documents that cannot be copied; without it the first one stops the job."`
	Mirror  bool   `env:"-" help:"Before the job ends, remove from the destination what the source does not have any more. The destination has to be empty now, and to be written to by nobody else."`
	Watch   bool   `env:"-" help:"Show the progress until the job ends, is stopped or, when it is online, has caught up."`

	adminServer
}

// Run makes the job.
func (c *copyCreateCommand) Run(streams streams) error {
	from, err := parseEnd(c.From)
	if err != nil {
		return err
	}
	to, err := parseEnd(c.To)
	if err != nil {
		return err
	}
	ours := map[string]any{"mirror": c.Mirror}
	if c.Skip {
		ours["onFailure"] = "Skip"
	}
	properties := map[string]any{
		"jobProperties": map[string]any{"jobType": "NoSqlRUToNoSqlRU", "tasks": []copyTask{{from, to}}},
		"mode":          "Offline",
		"decan":         ours,
	}
	if c.Online {
		properties["mode"] = "Online"
	}
	if c.Workers != 0 {
		properties["workerCount"] = c.Workers
	}
	ctx, stop := interruptible()
	defer stop()
	var job copyJob
	if err := c.exchange(ctx, http.MethodPut, jobPath(c.Name), map[string]any{"properties": properties}, &job); err != nil {
		return err
	}
	if c.Watch {
		return c.watch(ctx, c.Name, streams.out)
	}
	_, err = fmt.Fprintln(streams.out, job.line())
	return err
}

type copyListCommand struct {
	JSON bool `env:"-" help:"Print what the server sends."`

	adminServer
}

// Run lists the jobs.
func (c *copyListCommand) Run(streams streams) error {
	ctx, stop := interruptible()
	defer stop()
	var raw json.RawMessage
	if err := c.exchange(ctx, http.MethodGet, "copyJobs", nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams.out, raw)
	}
	var list struct{ Value []copyJob }
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	table := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "job\tfrom\tto\tmode\tstatus\tcopied\tof")
	for _, job := range list.Value {
		p := &job.Properties
		for i, t := range p.JobProperties.Tasks {
			if i > 0 {
				fmt.Fprintf(table, "\t%s\t%s\n", t.Source, t.Destination)
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", job.Name, t.Source, t.Destination, p.Mode, job.state(), grouped(p.Processed), grouped(p.Total))
		}
	}
	return table.Flush()
}

type copyShowCommand struct {
	Name  string `arg:"" help:"The job."`
	Watch bool   `env:"-" help:"Show the progress until the job ends, is stopped or, when it is online, has caught up."`
	JSON  bool   `env:"-" help:"Print what the server sends."`

	adminServer
}

// Run shows one job.
func (c *copyShowCommand) Run(streams streams) error {
	ctx, stop := interruptible()
	defer stop()
	if c.Watch {
		return c.watch(ctx, c.Name, streams.out)
	}
	var raw json.RawMessage
	if err := c.exchange(ctx, http.MethodGet, jobPath(c.Name), nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams.out, raw)
	}
	var job copyJob
	if err := json.Unmarshal(raw, &job); err != nil {
		return err
	}
	return job.print(streams.out)
}

// watchEvery is the time between two looks at a job.
const watchEvery = 250 * time.Millisecond

// watch shows the progress of a job until there is none to wait for. It fails
// when the job has.
func (s adminServer) watch(ctx context.Context, name string, out io.Writer) error {
	meter := &meter{out: out, terminal: isTerminal(out)}
	for {
		var job copyJob
		err := s.exchange(ctx, http.MethodGet, jobPath(name), nil, &job)
		if ctx.Err() != nil {
			meter.end()
			return nil
		}
		if err != nil {
			meter.end()
			return err
		}
		p := &job.Properties
		part := 1.0
		if p.Total > 0 {
			part = float64(p.Processed) / float64(p.Total)
		}
		meter.show(part, fmt.Sprintf("%s of %s  %s", grouped(p.Processed), grouped(p.Total), job.state()))
		switch {
		case p.Status == "Faulted":
			meter.end()
			return job.failure()
		case p.Status != "Running" && p.Status != "Pending", p.Decan.CaughtUp && !p.Decan.Completing:
			meter.end()
			return job.print(out)
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
		}
	}
}

// state is the status with what Decan knows beyond it.
func (j *copyJob) state() string {
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

func (j *copyJob) failure() error {
	reason := "it does not say why"
	if e := j.Properties.Error; e != nil {
		reason = e.Message
	}
	return fmt.Errorf("the copy job %s is faulted: %s", j.Name, reason)
}

// line is a job in few words.
func (j *copyJob) line() string {
	var pairs []string
	for _, t := range j.Properties.JobProperties.Tasks {
		pairs = append(pairs, fmt.Sprintf("%s to %s", t.Source, t.Destination))
	}
	return fmt.Sprintf("%s: %s, %s, %s", j.Name, strings.Join(pairs, ", "), strings.ToLower(j.Properties.Mode), j.state())
}

// print shows a job in full.
func (j *copyJob) print(out io.Writer) error {
	p := &j.Properties
	var b strings.Builder
	fmt.Fprintln(&b, j.line())
	fmt.Fprintf(&b, "copied       %s of %s\n", grouped(p.Processed), grouped(p.Total))
	if p.Decan.Removed > 0 {
		fmt.Fprintf(&b, "removed      %s\n", counted(p.Decan.Removed, "document"))
	}
	fmt.Fprintf(&b, "charge       %.2f RU in the source, %.2f RU in the destination\n", p.Decan.ReadCharge, p.Decan.WriteCharge)
	fmt.Fprintf(&b, "took         %s with %s\n", p.Duration, counted(int64(p.Workers), "worker"))
	if p.Error != nil {
		fmt.Fprintf(&b, "faulted      %s\n", p.Error.Message)
	}
	if p.Decan.Skipped > 0 {
		fmt.Fprintf(&b, "skipped      %s that cannot be copied\n", counted(p.Decan.Skipped, "document"))
		for _, f := range p.Decan.Failures {
			fmt.Fprintf(&b, "  %q under %s: %s\n", f.ID, f.Key, f.Message)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// copyVerb tells a job what to do.
type copyVerb struct {
	Name string `arg:"" help:"The job."`

	adminServer
}

func (c *copyVerb) tell(streams streams, verb string) error {
	ctx, stop := interruptible()
	defer stop()
	var job copyJob
	if err := c.exchange(ctx, http.MethodPost, jobPath(c.Name)+"/"+verb, nil, &job); err != nil {
		return err
	}
	_, err := fmt.Fprintln(streams.out, job.line())
	return err
}

type copyPauseCommand struct{ copyVerb }

// Run pauses a job.
func (c *copyPauseCommand) Run(streams streams) error { return c.tell(streams, "pause") }

type copyResumeCommand struct{ copyVerb }

// Run resumes a job.
func (c *copyResumeCommand) Run(streams streams) error { return c.tell(streams, "resume") }

type copyCancelCommand struct{ copyVerb }

// Run cancels a job.
func (c *copyCancelCommand) Run(streams streams) error { return c.tell(streams, "cancel") }

type copyCompleteCommand struct {
	copyVerb
	Watch bool `env:"-" help:"Show the progress until the job has ended."`
}

// Run completes a job.
func (c *copyCompleteCommand) Run(streams streams) error {
	if !c.Watch {
		return c.tell(streams, "complete")
	}
	ctx, stop := interruptible()
	defer stop()
	var job copyJob
	if err := c.exchange(ctx, http.MethodPost, jobPath(c.Name)+"/complete", nil, &job); err != nil {
		return err
	}
	return c.watch(ctx, c.Name, streams.out)
}
