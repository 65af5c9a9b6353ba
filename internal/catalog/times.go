package catalog

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/storage"
)

// RepairTimes sets each time in the store of a catalog that is later than now to now,
// and returns how many rows had such a time, and the latest one. It writes one synced
// batch and keeps the version, since the routing does not change. The catalog must not
// be open.
func RepairTimes(store *storage.Store, now resource.Timestamp) (rows int, latest resource.Timestamp, err error) {
	r := timesRepair{snapshot: store.Snapshot(), batch: store.NewBatch(), now: now}
	defer r.batch.Close()
	r.run()
	if err = r.snapshot.Close(); r.err == nil {
		r.err = err
	}
	if r.err == nil && r.rows > 0 {
		r.err = store.Apply(r.batch)
	}
	if r.err != nil {
		return 0, 0, fmt.Errorf("repair the times of the catalog: %w", r.err)
	}
	return r.rows, r.latest, nil
}

// timesRepair is one call of RepairTimes.
type timesRepair struct {
	snapshot *storage.Snapshot
	batch    *storage.Batch
	now      resource.Timestamp
	rows     int
	latest   resource.Timestamp
	err      error
}

func (r *timesRepair) run() {
	repairRows(r, databaseRow, func(d *resource.Database) []*resource.Timestamp { return []*resource.Timestamp{&d.TS} })
	repairRows(r, containerRow, func(c *storedContainer) []*resource.Timestamp {
		times := []*resource.Timestamp{&c.Container.TS}
		for i := range c.Partitions {
			times = append(times, &c.Partitions[i].CreatedAt)
		}
		for i := range c.Splits {
			for child := range c.Splits[i].Children {
				times = append(times, &c.Splits[i].Children[child].CreatedAt)
			}
		}
		for i := range c.Merges {
			times = append(times, &c.Merges[i].Child.CreatedAt)
		}
		return times
	})
	repairRows(r, offerRow, func(t *resource.Throughput) []*resource.Timestamp {
		times := []*resource.Timestamp{&t.TS, &t.Replaced, &t.BucketsAt}
		for i := range t.Earlier {
			times = append(times, &t.Earlier[i].TS)
		}
		return times
	})
	for _, kind := range resource.ScriptKinds {
		repairRows(r, scriptRow(kind), func(s *resource.Script) []*resource.Timestamp { return []*resource.Timestamp{&s.TS} })
	}
	repairRows(r, userRow, func(u *resource.User) []*resource.Timestamp { return []*resource.Timestamp{&u.TS} })
	repairRows(r, permissionRow, func(p *resource.Permission) []*resource.Timestamp { return []*resource.Timestamp{&p.TS} })
	r.copyJobs()
}

// repairRows repairs the rows of a kind; times returns pointers to the times.
func repairRows[T any](r *timesRepair, kind string, times func(*T) []*resource.Timestamp) {
	r.each(kind, func(key, value []byte) error {
		var content T
		if err := json.Unmarshal(value, &content); err != nil {
			return err
		}
		changed := false
		for _, at := range times(&content) {
			if *at > r.now {
				r.latest = max(r.latest, *at)
				*at, changed = r.now, true
			}
		}
		if !changed {
			return nil
		}
		return r.put(key, content)
	})
}

// copyJobs repairs when copy jobs were made and changed.
func (r *timesRepair) copyJobs() {
	r.each(copyJobRow, func(key, value []byte) error {
		var job resource.CopyJob
		if err := json.Unmarshal(value, &job); err != nil {
			return err
		}
		changed := false
		for _, at := range []*time.Time{&job.Created, &job.Updated} {
			if at.Unix() > int64(r.now) {
				r.latest = max(r.latest, resource.Timestamp(at.Unix()))
				*at, changed = time.Unix(int64(r.now), 0).UTC(), true
			}
		}
		if !changed {
			return nil
		}
		return r.put(key, job)
	})
}

func (r *timesRepair) put(key []byte, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	r.rows++
	return r.batch.Set(key, text)
}

// each calls repair for each row of a kind, unless something has failed.
func (r *timesRepair) each(kind string, repair func(key, value []byte) error) {
	if r.err != nil {
		return
	}
	rows := r.snapshot.Iter(storage.MetaKey(nil, kind), append(storage.MetaKey(nil, kind), 0xff))
	for ok := rows.First(); ok && r.err == nil; ok = rows.Next() {
		if err := repair(rows.Key(), rows.Value()); err != nil {
			r.err = fmt.Errorf("row %q: %w", rows.Key(), err)
		}
	}
	if err := rows.Close(); r.err == nil {
		r.err = err
	}
}
