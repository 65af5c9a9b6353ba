package advisecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/cmd/decan/internal/copycmd"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/simulate"
)

// applyFlags say what to do with the best candidate.
type applyFlags struct {
	Apply  bool   `env:"-" help:"Make a container with the best key and copy the documents of --container into it (S106). The source stays as it is."`
	Into   string `env:"-" placeholder:"NAME" help:"The container that --apply makes, in the same database (default: the source's name with -rekeyed)."`
	Online bool   `env:"-" help:"With --apply, also copy later changes of the source, until decan copy complete."`
	Admin  string `name:"admin" default:"http://127.0.0.1:8080" env:"DECAN_ADMIN" placeholder:"URL" help:"The admin port of the server, for --record and --apply (default: port 8080 of the machine of the endpoint)."`
}

// check refuses what cannot be applied.
func (f *applyFlags) check(c *Command) error {
	switch {
	case !f.Apply && (f.Into != "" || f.Online):
		return errors.New("--into and --online belong to --apply: give it too")
	case !f.Apply:
		return nil
	case c.Container == "":
		return errors.New("--apply copies a container: give --database and --container instead of files; load files with decan container create and decan import")
	case c.Table:
		return errors.New("--apply copies containers of documents, not tables")
	case c.JSON:
		return errors.New("give --json or --apply, not both")
	}
	return nil
}

func (c *Command) admin() remote.Admin {
	return remote.Admin{Endpoint: c.Admin, Key: c.Account.Key, Trust: c.Trust}
}

func (c *Command) target() string {
	if c.Into != "" {
		return c.Into
	}
	return c.Container + "-rekeyed"
}

// hint says how to get the best candidate, if there is something to do.
func (c *Command) hint(out io.Writer, a *simulate.Advice, present []string) {
	best := a.Candidates[0].Paths
	switch {
	case c.Table || c.Apply:
	case c.Container == "":
		fmt.Fprintf(out, "\nTo use this key: decan container create DATABASE CONTAINER -k %s, then decan import.\n", strings.Join(best, " -k "))
	case !slices.Equal(best, present):
		fmt.Fprintf(out, "\nThe same command with --apply makes the container %s/%s with this key and copies the documents into it.\n", c.Database, c.target())
	}
}

// apply makes a container with the best key, which has everything else from the source,
// and copies the documents. It shows the progress until the job ends, or has caught up if
// it is online; an interrupt ends only the watching.
func (c *Command) apply(ctx context.Context, out io.Writer, a *simulate.Advice, present []string) error {
	best := &a.Candidates[0]
	key := strings.Join(best.Paths, ", ")
	fmt.Fprintln(out)
	switch limit := c.limits().LogicalPartitionBytes; {
	case slices.Equal(best.Paths, present):
		_, err := fmt.Fprintf(out, "Nothing to apply: %s/%s has the best key of the candidates, %s.\n", c.Database, c.Container, key)
		return err
	case best.LargestBytes > limit:
		return fmt.Errorf("nothing is applied: the server would refuse writes under every candidate, also under the best, %s", key)
	}
	documents, err := c.Documents(1)
	if err != nil {
		return err
	}
	defer documents.Close()
	source, target := c.Database+"/"+c.Container, c.Database+"/"+c.target()
	answer, err := documents.Call(ctx, "the container "+source, http.MethodGet, []string{"dbs", c.Database, "colls", c.Container}, nil)
	if err != nil {
		return err
	}
	definition, rid, err := rekeyed(answer.Body, c.target(), best.Paths)
	if err != nil {
		return fmt.Errorf("the container %s: %w", source, err)
	}
	headers, said, err := throughputOf(ctx, documents, rid)
	if err != nil {
		return err
	}
	_, err = documents.Call(ctx, "", http.MethodPost, []string{"dbs", c.Database, "colls"}, definition, headers...)
	if r := (remote.Refused{}); errors.As(err, &r) && r.Status == http.StatusConflict {
		return fmt.Errorf("there is a container %s: give another name with --into", target)
	}
	if err != nil {
		return fmt.Errorf("the container %s: %w", target, err)
	}
	fmt.Fprintf(out, "The container %s is created with the key %s and %s.\n", target, key, said)
	job := copycmd.Job{Name: jobName(c.target()), From: source, To: target, Online: c.Online}
	if err := copycmd.Start(ctx, c.admin(), job, out); err != nil {
		return fmt.Errorf("the copy job %s, after the container %s was created: %w", job.Name, target, err)
	}
	if c.Online {
		_, err = fmt.Fprintf(out, "Let the application write to %s, then end the job: decan copy complete %s\n", target, job.Name)
	}
	return err
}

// rekeyed returns the definition of a container with another name and another key, and
// the resource id of the one it is made from. Everything else stays.
func rekeyed(definition []byte, name string, paths []string) (changed map[string]any, rid string, err error) {
	if err := decodeExactly(definition, &changed); err != nil {
		return nil, "", err
	}
	rid, _ = changed["_rid"].(string)
	for member := range changed {
		if strings.HasPrefix(member, "_") {
			delete(changed, member)
		}
	}
	kind := "Hash"
	if len(paths) > 1 {
		kind = "MultiHash"
	}
	changed["id"] = name
	changed["partitionKey"] = map[string]any{"paths": paths, "kind": kind, "version": 2}
	return changed, rid, nil
}

// decodeExactly keeps the digits of numbers.
func decodeExactly(text []byte, out any) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	return decoder.Decode(out)
}

// throughputOf returns the headers that create a container with the throughput of
// another, and its description.
func throughputOf(ctx context.Context, documents *remote.Documents, rid string) (headers []string, said string, err error) {
	answer, err := documents.Call(ctx, "the throughput", http.MethodPost, []string{"offers"}, map[string]any{
		"query":      "SELECT * FROM root WHERE root.offerResourceId = @rid",
		"parameters": []map[string]string{{"name": "@rid", "value": rid}},
	}, "content-type", "application/query+json", "x-ms-documentdb-isquery", "True")
	if err != nil {
		return nil, "", err
	}
	var page struct {
		Offers []struct {
			Content struct {
				Manual    int `json:"offerThroughput"`
				Autoscale *struct {
					Max int `json:"maxThroughput"`
				} `json:"offerAutopilotSettings"`
			} `json:"content"`
		}
	}
	if err := json.Unmarshal(answer.Body, &page); err != nil {
		return nil, "", fmt.Errorf("the throughput: %w", err)
	}
	if len(page.Offers) == 0 {
		return nil, "the throughput of its database", nil
	}
	content := page.Offers[0].Content
	if content.Autoscale != nil {
		return []string{"x-ms-cosmos-offer-autopilot-settings", fmt.Sprintf(`{"maxThroughput":%d}`, content.Autoscale.Max)},
			fmt.Sprintf("autoscale to %d RU/s", content.Autoscale.Max), nil
	}
	return []string{"x-ms-offer-throughput", strconv.Itoa(content.Manual)}, fmt.Sprintf("%d RU/s", content.Manual), nil
}

// jobName returns the name of the copy job into a container: the names of jobs have
// fewer characters than those of containers.
func jobName(container string) string {
	const most = 60
	name := "advise-" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, container)
	return name[:min(len(name), most)]
}
