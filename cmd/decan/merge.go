package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
)

type partitionsMergeCommand struct {
	Database   string   `arg:"" help:"The database."`
	Container  string   `arg:"" help:"The container."`
	Partitions []string `arg:"" optional:"" name:"partition" help:"The ids of two neighbouring physical partitions (default: all partitions of the container, the smallest pairs first)."`
	DryRun     bool     `env:"-" help:"Only show which partitions the merge would leave."`
	Lower      int      `name:"lower-throughput" env:"-" placeholder:"RUS" help:"First lower the throughput of the container to this: at a high one every partition is needed, and a merge changes nothing."`

	remote.Admin
}

// mergeOutcome is the answer of POST /partitions/merge.
type mergeOutcome struct {
	Parents []string `json:"parents"`
	Child   string   `json:"child"`
	Pause   float64  `json:"pauseMilliseconds"`
	Took    float64  `json:"milliseconds"`
}

// mergeLayout is the answer of POST .../partitionMerge.
type mergeLayout struct {
	Partitions []struct {
		ID      string  `json:"id"`
		Storage float64 `json:"storageInKB"`
	} `json:"physicalPartitionStorageInfoCollection"`
}

// Run merges the partitions and prints the result.
func (c *partitionsMergeCommand) Run(streams console.Streams) error {
	ctx, stop := console.Interruptible()
	defer stop()
	switch {
	case c.Lower < 0:
		return errors.New("--lower-throughput must be positive")
	case c.Lower > 0 && c.DryRun:
		return errors.New("--dry-run shows what the present throughput allows: leave out --lower-throughput")
	case c.Lower > 0 && len(c.Partitions) > 0:
		return errors.New("--lower-throughput is for a whole container: leave out the ids of partitions")
	case len(c.Partitions) == 0:
		return c.all(ctx, streams.Out)
	case len(c.Partitions) != 2:
		return errors.New("give the ids of two neighbouring partitions, or none for all partitions of the container")
	case c.DryRun:
		return errors.New("--dry-run is for a whole container: leave out the ids of partitions")
	}
	query := url.Values{"database": {c.Database}, "container": {c.Container}, "partition": {c.Partitions[0]}, "with": {c.Partitions[1]}}
	var out mergeOutcome
	if err := c.Ask(ctx, http.MethodPost, "partitions/merge", query, &out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(streams.Out, "Partitions %s are now %s. The merge took %.0f ms; writes waited for %.1f ms.\n",
		strings.Join(out.Parents, " and "), out.Child, out.Took, out.Pause)
	return err
}

// containerURL returns the path of the container in the form of the management API.
func (c *partitionsMergeCommand) containerURL() string {
	return fmt.Sprintf("sqlDatabases/%s/containers/%s", url.PathEscape(c.Database), url.PathEscape(c.Container))
}

// all lowers the throughput if that is wanted, merges the whole container, and says why
// no fewer partitions are left.
func (c *partitionsMergeCommand) all(ctx context.Context, out io.Writer) error {
	lowered := ""
	if c.Lower > 0 {
		was, err := c.lower(ctx)
		if err != nil {
			return err
		}
		lowered = fmt.Sprintf("The throughput of %s/%s was %s RU/s, and is %s RU/s.\n", c.Database, c.Container, console.Grouped(was), console.Grouped(c.Lower))
		if _, err := io.WriteString(out, lowered); err != nil {
			return err
		}
	}
	before, err := c.table(ctx)
	if err != nil {
		return err
	}
	var layout mergeLayout
	if err := c.Send(ctx, http.MethodPost, c.containerURL()+"/partitionMerge", strings.NewReader(fmt.Sprintf(`{"isDryRun":%t}`, c.DryRun)), &layout); err != nil {
		if lowered != "" {
			return fmt.Errorf("%w; the throughput stays lowered", err)
		}
		return err
	}
	has := "has"
	if c.DryRun {
		has = "would have"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s %s %s:\n", c.Database, c.Container, has, console.Counted(int64(len(layout.Partitions)), "physical partition"))
	for _, p := range layout.Partitions {
		fmt.Fprintf(&b, "%-5s %9s\n", p.ID, console.Size(int64(p.Storage*1024)))
	}
	reason, err := c.reason(ctx, len(before.Partitions), layout, before.Limits)
	if err != nil {
		return err
	}
	b.WriteString(reason)
	_, err = io.WriteString(out, b.String())
	return err
}

// table returns the partitions of the container.
func (c *partitionsMergeCommand) table(ctx context.Context) (table partitionTable, err error) {
	err = c.Ask(ctx, http.MethodGet, "partitions", url.Values{"database": {c.Database}, "container": {c.Container}}, &table)
	return table, err
}

// throughputSettings is the answer of GET .../throughputSettings/default.
type throughputSettings struct {
	Properties struct {
		Resource struct {
			Throughput int `json:"throughput"`
			Autoscale  *struct {
				Max int `json:"maxThroughput"`
			} `json:"autoscaleSettings,omitempty"`
		} `json:"resource"`
	} `json:"properties"`
}

// rate returns the throughput in RU/s, of autoscale the maximum.
func (t *throughputSettings) rate() int {
	if auto := t.Properties.Resource.Autoscale; auto != nil && auto.Max > 0 {
		return auto.Max
	}
	return t.Properties.Resource.Throughput
}

// settings returns the throughput of the container. found is false if it has none of its
// own.
func (c *partitionsMergeCommand) settings(ctx context.Context) (t throughputSettings, found bool, err error) {
	err = c.Ask(ctx, http.MethodGet, c.containerURL()+"/throughputSettings/default", nil, &t)
	if answered := (remote.Refused{}); errors.As(err, &answered) && answered.Status == http.StatusNotFound {
		return t, false, nil
	}
	return t, err == nil, err
}

// lower lowers the throughput and returns the former one. The order is that of a load at
// a high throughput (S110 to S112) in which the merge has an effect: while the
// throughput is high, it needs all partitions.
func (c *partitionsMergeCommand) lower(ctx context.Context) (was int, err error) {
	if _, err := c.table(ctx); err != nil {
		return 0, err // There is no such container.
	}
	now, found, err := c.settings(ctx)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, fmt.Errorf("--lower-throughput: %s/%s has no throughput of its own", c.Database, c.Container)
	case c.Lower > now.rate():
		return 0, fmt.Errorf("--lower-throughput %d: the throughput is %s RU/s already, and a merge does not raise it", c.Lower, console.Grouped(now.rate()))
	case c.Lower == now.rate():
		return now.rate(), nil
	}
	resource := map[string]any{"throughput": c.Lower}
	if now.Properties.Resource.Autoscale != nil {
		resource = map[string]any{"autoscaleSettings": map[string]int{"maxThroughput": c.Lower}}
	}
	body, err := json.Marshal(map[string]any{"properties": map[string]any{"resource": resource}})
	if err != nil {
		return 0, err
	}
	var changed json.RawMessage
	return now.rate(), c.Send(ctx, http.MethodPut, c.containerURL()+"/throughputSettings/default", strings.NewReader(string(body)), &changed)
}

// reason says why a merge leaves more than one partition, and what to do about it
// (S111); "" if it leaves one.
func (c *partitionsMergeCommand) reason(ctx context.Context, before int, layout mergeLayout, limits partitionLimit) (string, error) {
	left := len(layout.Partitions)
	if left < 2 {
		return "", nil
	}
	said := "No fewer are possible"
	if left == before {
		said = "Nothing was merged"
		if c.DryRun {
			said = "Nothing would be merged"
		}
	}
	now, found, err := c.settings(ctx)
	if err != nil {
		return "", err
	}
	if most := int(limits.RUs); found && most > 0 {
		if needed := (now.rate() + most - 1) / most; needed >= left {
			return fmt.Sprintf("%s: %s RU/s need %s of at most %s RU/s each. Lower the throughput first, to %s RU/s or less: --lower-throughput RUS does both.\n",
				said, console.Grouped(now.rate()), console.Counted(needed, "partition"), console.Grouped(most), console.Grouped((left-1)*most)), nil
		}
	}
	return fmt.Sprintf("%s: two neighbours are merged if together they fill at most four fifths of %s, and if neither is being split or merged.\n", said, console.Size(limits.Bytes)), nil
}
