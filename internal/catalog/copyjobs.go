package catalog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/storage"
)

// copyJobRow is the kind of the rows of copy jobs; the name of the job follows.
const copyJobRow = "copyjob/"

// Copy jobs are separate from the versions of the catalog: their progress is
// stored every few seconds, no request is routed by them, and a new version for
// each update would copy every map. So no view contains them; the runner of the
// jobs reads them once.

// CopyJobs reads the stored copy jobs, oldest first.
func (c *Catalog) CopyJobs() ([]resource.CopyJob, error) {
	snapshot := c.store.Snapshot()
	defer snapshot.Close()
	var all []resource.CopyJob
	err := scan(snapshot, copyJobRow, func(job resource.CopyJob) error {
		all = append(all, job)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read copy jobs: %w", err)
	}
	slices.SortFunc(all, func(a, b resource.CopyJob) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

// PutCopyJob stores a job in place of the one with its name, in one synced row.
// It returns the errors of [Catalog.Commit].
func (c *Catalog) PutCopyJob(job *resource.CopyJob) error {
	text, err := json.Marshal(job)
	if err != nil {
		return fmt.Errorf("encode copy job %s: %w", job.Name, err)
	}
	return c.writeRow(row{key: copyJobKey(job.Name), value: text})
}

// DeleteCopyJob deletes a job. A missing job is not an error.
func (c *Catalog) DeleteCopyJob(name string) error {
	return c.writeRow(row{key: copyJobKey(name)})
}

func copyJobKey(name string) []byte { return storage.MetaKey(nil, copyJobRow+name) }

// writeRow writes one row that belongs to no version. It is serialized with the
// commits, and its failure stops them like that of a commit.
func (c *Catalog) writeRow(r row) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return status.Unavailable(c.failed, "The catalog has stopped after a failed write%s. It takes changes again when the server is restarted.", storage.Because(c.failed))
	}
	batch := c.store.NewBatch()
	defer batch.Close()
	var err error
	if r.value == nil {
		err = batch.Delete(r.key)
	} else {
		err = batch.Set(r.key, r.value)
	}
	if err == nil {
		err = c.store.Apply(batch)
	}
	if err != nil {
		c.failed = err
		return status.Unavailable(errors.Join(errUnknown, err), "The catalog could not store the change%s; its outcome is unknown.", storage.Because(err))
	}
	return nil
}
