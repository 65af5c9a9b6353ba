package advisecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"

	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/cmd/decan/internal/transfercmd"
	"github.com/decandb/decan/internal/value"
)

// found is a sample and where it comes from.
type found struct {
	documents []value.Value
	total     int64    // documents of the files or of the container
	key       []string // paths of the container's present key; nil for files
}

func (c *Command) sample(ctx context.Context, in io.Reader) (found, error) {
	if c.Container != "" {
		return c.ofContainer(ctx)
	}
	// Each document of the files has the same chance: the first fill the sample, and the
	// n-th replaces one of it with the chance size/n (reservoir sampling). The choice is the
	// same in every run.
	random := rand.New(rand.NewPCG(1, 1))
	var f found
	read := func(name string) error {
		file := in
		if name != "-" {
			opened, err := os.Open(name)
			if err != nil {
				return err
			}
			defer opened.Close()
			file = opened
		}
		for d, err := range transfercmd.Documents(c.Format, name, file) {
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f.total++
			if len(f.documents) < c.Sample {
				f.documents = append(f.documents, d)
			} else if at := random.Int64N(f.total); at < int64(c.Sample) {
				f.documents[at] = d
			}
		}
		return nil
	}
	for _, name := range c.Files {
		if err := read(name); err != nil {
			return f, err
		}
	}
	return f, nil
}

// ofContainer takes a sample from each physical partition, in proportion to its
// documents: the first in the order of the server.
func (c *Command) ofContainer(ctx context.Context) (found, error) {
	var f found
	documents, err := c.Documents(1)
	if err != nil {
		return f, err
	}
	defer documents.Close()
	path := []string{"dbs", c.Database, "colls", c.Container}
	what := fmt.Sprintf("the container %s/%s", c.Database, c.Container)
	answer, err := documents.Call(ctx, what, http.MethodGet, path, nil)
	if err != nil {
		return f, err
	}
	var definition struct {
		PartitionKey struct{ Paths []string }
	}
	if err := json.Unmarshal(answer.Body, &definition); err != nil {
		return f, fmt.Errorf("%s: %w", what, err)
	}
	f.key = definition.PartitionKey.Paths
	list, err := documents.List(ctx, what, append(path[:len(path):len(path)], "pkranges"), "PartitionKeyRanges")
	if err != nil {
		return f, err
	}
	counts := make([]int64, len(list))
	ids := make([]string, len(list))
	for i, raw := range list {
		var r struct{ ID string }
		if err := json.Unmarshal(raw, &r); err != nil {
			return f, fmt.Errorf("%s: %w", what, err)
		}
		ids[i] = r.ID
		rows, err := ask(ctx, documents, path, r.ID, "SELECT VALUE COUNT(1) FROM c", 1)
		if err != nil {
			return f, fmt.Errorf("%s: %w", what, err)
		}
		for _, row := range rows {
			n, _ := row.Int64()
			counts[i] += n
		}
		f.total += counts[i]
	}
	for i, id := range ids {
		most := int64(c.Sample)
		if f.total > most {
			most = (counts[i]*most + f.total - 1) / f.total
		}
		if counts[i] == 0 {
			continue
		}
		rows, err := ask(ctx, documents, path, id, "SELECT TOP "+strconv.FormatInt(most, 10)+" * FROM c", int(most))
		if err != nil {
			return f, fmt.Errorf("%s: %w", what, err)
		}
		for _, row := range rows {
			f.documents = append(f.documents, row.Without("_rid", "_self", "_etag", "_attachments", "_ts"))
		}
	}
	return f, nil
}

// ask returns the first rows of a query of one physical partition.
func ask(ctx context.Context, c *remote.Documents, container []string, id, text string, most int) ([]value.Value, error) {
	body, err := remote.QueryBody(text, nil)
	if err != nil {
		return nil, err
	}
	var rows []value.Value
	for position := ""; ; {
		headers := remote.QueryHeaders("x-ms-documentdb-partitionkeyrangeid", id, "x-ms-max-item-count", "1000")
		if position != "" {
			headers = append(headers, "x-ms-continuation", position)
		}
		a, err := remote.Throttled(ctx, func() (remote.Answer, error) {
			return c.Do(ctx, http.MethodPost, append(container[:len(container):len(container)], "docs"), body, headers...)
		})
		if err != nil {
			return nil, err
		}
		if a.Status != http.StatusOK {
			return nil, remote.Refusal(a.Status, a.Body)
		}
		answered, err := value.Parse(a.Body)
		if err != nil {
			return nil, err
		}
		rows = append(rows, answered.Get("Documents").Items()...)
		if position = a.Header.Get("x-ms-continuation"); position == "" || len(rows) >= most {
			return rows, nil
		}
	}
}
