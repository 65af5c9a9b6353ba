package engine

import (
	"context"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/throughput"
)

// Ranges returns the container's physical partitions in range order, all in one
// page. Result.ETag is the version of the list. With req.IfNoneMatch it returns
// only those that are new since that version, because clients add them to the
// list they have; if there are none, the error is status.CodeNotModified.
func (e *Engine) Ranges(_ context.Context, caller auth.Caller, req ContainerRequest) (Feed, error) {
	var meter throughput.Meter
	var out Feed
	err := e.allow(caller, auth.Access{Action: auth.Read, On: auth.Container}, req.Link)
	if err == nil {
		err = e.control.metadataRequest(auth.Container, throughput.MetadataRead)
	}
	if err != nil {
		return out, fail(err)
	}
	err = e.ranges(req, &out)
	meter.Add(throughput.MetadataRead)
	out.Charge = meter.Charge()
	return out, fail(err)
}

func (e *Engine) ranges(req ContainerRequest, out *Feed) error {
	c, err := e.anyOwner(req.Link, "", &out.Result)
	if err != nil {
		return err
	}
	out.ParentRID = c.RID
	out.ETag = rangesETag(c)
	if err := unmodified(req.IfNoneMatch, out.ETag); err != nil {
		return err
	}
	known := knownVersion(c, req.IfNoneMatch)
	fractions := e.fractions(c)
	for i := range c.Ranges.Len() {
		p := c.Ranges.At(i).Value
		if known > 0 && c.Since[p.ID] <= known {
			continue
		}
		// A closed partition is not opened for its LSN, which is a hint: the
		// list must be available even if a partition is damaged.
		lsn, _ := e.node.LSN(c, p.ID)
		out.Rows = append(out.Rows, p.Describe(c.RID, fractions[i], lsn).Append(nil))
	}
	return nil
}

// rangesETag differs between containers, so that a client that uses names
// notices that a container was replaced.
func rangesETag(c *catalog.Container) resource.ETag {
	return resource.ETag(rangesETagPrefix(c) + strconv.FormatUint(c.Version, 10) + `"`)
}

func rangesETagPrefix(c *catalog.Container) string { return `"` + c.RID.String() + "-" }

// knownVersion returns the version of the list that an etag denotes, or zero if
// it is not an earlier version of this container.
func knownVersion(c *catalog.Container, etag resource.ETag) uint64 {
	digits, ours := strings.CutPrefix(string(etag), rangesETagPrefix(c))
	version, err := strconv.ParseUint(strings.TrimSuffix(digits, `"`), 10, 64)
	if !ours || err != nil || version >= c.Version {
		return 0
	}
	return version
}

// PartitionStats returns statistics of each physical partition of a container,
// in range order. It opens those that are closed.
func (e *Engine) PartitionStats(ctx context.Context, caller auth.Caller, link Link) ([]PartitionStats, error) {
	if err := e.allow(caller, auth.Access{Action: auth.Read, On: auth.Statistics}, link); err != nil {
		return nil, fail(err)
	}
	c, ok := locateContainer(e.catalog.View(), link)
	if !ok {
		return nil, status.OwnerNotFound()
	}
	all, err := e.stats(ctx, c)
	return all, fail(err)
}

// QueryVisits returns how many physical partitions the queries of a container
// ask. The error is 404/1003 if the container does not exist.
func (e *Engine) QueryVisits(caller auth.Caller, link Link) (QueryVisits, error) {
	if err := e.allow(caller, auth.Access{Action: auth.Read, On: auth.Statistics}, link); err != nil {
		return QueryVisits{}, fail(err)
	}
	c, ok := locateContainer(e.catalog.View(), link)
	if !ok {
		return QueryVisits{}, status.OwnerNotFound()
	}
	return e.metrics.fanouts.of(c.RID), nil
}

// stats reads the statistics of every partition of a container. If one is split
// or merged meanwhile, it reads all of them again, so that no document counts
// twice.
func (e *Engine) stats(ctx context.Context, c *catalog.Container) ([]PartitionStats, error) {
	for attempt := 0; ; attempt++ {
		all, err := e.statsOnce(ctx, c)
		if !e.moved(ctx, err, attempt, c) {
			return all, err
		}
		now, ok := e.catalog.View().ContainerByRID(c.RID)
		if !ok {
			return nil, status.OwnerNotFound() // deleted meanwhile
		}
		c = now
	}
}

func (e *Engine) statsOnce(ctx context.Context, c *catalog.Container) ([]PartitionStats, error) {
	e.node.Warm(ctx, c)
	all := make([]PartitionStats, 0, c.Ranges.Len())
	for _, p := range c.Partitions() {
		replica, release, err := e.node.Replica(ctx, c, p.ID)
		if err != nil {
			return nil, err
		}
		s, load := replica.Stats(), replica.Load()
		release()
		all = append(all, PartitionStats{
			Partition:     p,
			Change:        c.Change(p.ID),
			Documents:     s.Documents,
			DocumentBytes: s.Bytes,
			IndexBytes:    max(0, s.StoreBytes-s.Bytes),
			LSN:           s.LSN,
			Reads:         s.Reads,
			Writes:        s.Writes,
			Queries:       s.Queries,
			Purging:       s.Purging,
			Cleared:       s.Cleared,
			Load:          load,
		})
	}
	return all, nil
}
