package nosql

import (
	"net/http"
	"strings"

	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// listRanges answers with the physical partitions of a container. As an
// incremental feed it answers 304 once the client has seen them all; several
// clients repeat the request until then.
func (h *handler) listRanges(r *request) (*response, error) {
	page, err := h.ranges(r, r.incrementalETag())
	if err != nil {
		return nil, err
	}
	return r.feed("PartitionKeyRanges", &page), nil
}

// readRange answers with one physical partition, identified by id or RID. Its
// ETag depends only on its bounds; the LSN in it is a hint.
func (h *handler) readRange(r *request) (*response, error) {
	page, err := h.ranges(r, "")
	if err != nil {
		return nil, err
	}
	id := r.target.id(2)
	for _, row := range page.Rows {
		entry, err := value.Parse(row)
		if err != nil {
			return nil, err
		}
		if entry.Get("id").Text() == id || entry.Get("_rid").Text() == id {
			code, etag := http.StatusOK, resource.ETag(entry.Get("_etag").Text())
			if known := r.ifNoneMatch(); known == etag || known == "*" {
				code, row = http.StatusNotModified, nil
			}
			answer := r.answer(code, row)
			answer.etag = etag
			return answer, nil
		}
	}
	return nil, status.NotFound()
}

func (h *handler) ranges(r *request, known resource.ETag) (engine.Feed, error) {
	page, err := h.engine.Ranges(r.ctx, r.caller, engine.ContainerRequest{
		Link:        r.container(),
		IfNoneMatch: known,
	})
	r.result = page.Result
	return page, err
}

// incrementalETag returns the version that the client has seen, if it requests
// the changes since.
func (r *request) incrementalETag() resource.ETag {
	if strings.EqualFold(strings.TrimSpace(r.header(headerIncremental)), "incremental feed") {
		return r.ifNoneMatch()
	}
	return ""
}

// listConflicts answers with an empty feed: one region with one writer per
// partition never has conflicting versions.
func (h *handler) listConflicts(r *request) (*response, error) {
	parent, err := h.owner(r)
	if err != nil {
		return nil, err
	}
	return r.feed("Conflicts", &engine.Feed{ParentRID: parent.RID}), nil
}

// missingConflict answers requests for a single conflict.
func (h *handler) missingConflict(r *request) (*response, error) {
	if _, err := h.owner(r); err != nil {
		return nil, err
	}
	return nil, status.NotFound()
}

// owner reads the container above the resource in the path.
func (h *handler) owner(r *request) (engine.Resource, error) {
	res, err := h.engine.ReadContainer(r.ctx, r.caller, engine.ContainerRequest{Link: r.container()})
	if status.CodeOf(err) == status.CodeNotFound {
		err = status.OwnerNotFound()
	}
	r.result.Charge = res.Charge
	return res, err
}
