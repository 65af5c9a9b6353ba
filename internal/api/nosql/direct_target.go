package nosql

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/decandb/decan/internal/api/nosql/rntbd"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
)

// directKinds are the resources of direct mode: the type words above their name, and the
// tokens with the names. The last word is that of the resource itself.
var directKinds = map[rntbd.Resource]struct {
	words []string
	names []rntbd.RequestID
}{
	rntbd.Database:        {[]string{"dbs"}, []rntbd.RequestID{rntbd.RequestDatabaseName}},
	rntbd.Collection:      {[]string{"dbs", "colls"}, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName}},
	rntbd.Document:        {[]string{"dbs", "colls", "docs"}, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName, rntbd.RequestDocumentName}},
	rntbd.StoredProcedure: {[]string{"dbs", "colls", "sprocs"}, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName, rntbd.RequestStoredProcedureName}},
	rntbd.Conflict:        {[]string{"dbs", "colls", "conflicts"}, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName, rntbd.RequestConflictName}},
	rntbd.User:            {[]string{"dbs", "users"}, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestUserName}},
	rntbd.Permission:      {[]string{"dbs", "users", "permissions"}, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestUserName, rntbd.RequestPermissionName}},
	rntbd.Attachment:      {[]string{"dbs", "colls", "docs", "attachments"}, []rntbd.RequestID{rntbd.RequestDatabaseName, rntbd.RequestCollectionName, rntbd.RequestDocumentName, rntbd.RequestAttachmentName}},
}

// directOperations are the operations of direct mode: the verb of each, and whether it is
// on the feed of its kind instead of on one resource.
var directOperations = map[rntbd.Operation]struct {
	method string
	feed   bool
}{
	rntbd.Create:            {http.MethodPost, true},
	rntbd.Upsert:            {http.MethodPost, true},
	rntbd.Query:             {http.MethodPost, true},
	rntbd.SQLQuery:          {http.MethodPost, true},
	rntbd.Batch:             {http.MethodPost, true},
	rntbd.ReadFeed:          {http.MethodGet, true},
	rntbd.HeadFeed:          {http.MethodHead, true},
	rntbd.Read:              {http.MethodGet, false},
	rntbd.Head:              {http.MethodHead, false},
	rntbd.Replace:           {http.MethodPut, false},
	rntbd.Patch:             {http.MethodPatch, false},
	rntbd.Delete:            {http.MethodDelete, false},
	rntbd.ExecuteJavaScript: {http.MethodPost, false},
}

// translate sets method and target as the REST protocol has them. The error is 400 for
// a request that no client sends.
func (r *request) translate() error {
	q := r.direct.from
	r.direct.asked = parsePlace(q.Text(rntbd.RequestReplicaPath))
	kind, known := directKinds[q.Resource]
	operation, possible := directOperations[q.Operation]
	if !known || !possible || q.Operation == rntbd.ExecuteJavaScript && q.Resource != rntbd.StoredProcedure {
		return status.BadRequest("Direct mode does not have the operation %s on %s.", q.Operation, q.Resource)
	}
	r.method = operation.method
	words := kind.words
	named := len(words)
	if operation.feed {
		named-- // The feed has its word and no name.
	}
	if err := r.direct.setTarget(&r.target, words, kind.names[:named]); err != nil {
		return err
	}
	if q.Operation == rntbd.Head && q.Resource == rntbd.Collection || q.Operation == rntbd.HeadFeed && q.Resource == rntbd.Database {
		r.action = action{opBarrier, (*handler).barrier}
	}
	return nil
}

// setTarget sets words and names of a target: by the names of the request, or by the RID
// in it.
func (d *directRequest) setTarget(t *target, words []string, names []rntbd.RequestID) error {
	*t = target{}
	rids, err := d.byRID(len(names))
	if err != nil {
		return err
	}
	for i, word := range words {
		t.segments[t.count] = word
		t.count++
		if i == len(names) {
			break
		}
		id := ""
		if rids != nil {
			id = rids[i]
		} else {
			id = d.from.Text(names[i])
		}
		switch {
		case id == "":
			return badTarget("the request does not name all parts of its resource")
		case !utf8.ValidString(id):
			return badTarget("an id is not UTF-8")
		}
		t.segments[t.count] = id
		t.count++
	}
	return nil
}

// byRID returns the n ids of the path by RIDs, or nil for a request by names. The
// DocumentClient reads documents so.
func (d *directRequest) byRID(n int) ([]string, error) {
	if n == 0 || d.from.Has(rntbd.RequestDatabaseName) {
		return nil, nil
	}
	raw := resource.RID(d.from.Text(rntbd.RequestResourceID))
	if raw == "" {
		// Its queries name the container only together with the partition.
		text, _, found := strings.Cut(d.from.Text(rntbd.RequestPartitionKeyRangeID), ",")
		if !found {
			return nil, nil
		}
		rid, err := resource.ParseRID(text)
		if err != nil {
			return nil, err
		}
		raw = rid
	}
	var list []string
	for _, size := range [...]int{4, 8, 16} {
		if len(raw) >= size {
			list = append(list, raw[:size].String())
		}
	}
	if len(list) < n || len(raw) != 4 && len(raw) != 8 && len(raw) != 16 {
		return nil, status.BadRequest("The resource id of %d bytes does not name the resource.", len(raw))
	}
	return list[:n], nil
}

// onDefinitions reports whether the request is for the partition of the definitions. A
// barrier for a container is for one of its own.
func (r *request) onDefinitions() bool {
	switch q := r.direct.from; q.Resource {
	case rntbd.Database, rntbd.User, rntbd.Permission:
		return true
	case rntbd.Collection:
		return q.Operation != rntbd.Head
	}
	return false
}

// writes reports whether only the primary replica may answer.
func (d *directRequest) writes() bool {
	switch d.from.Operation {
	case rntbd.Create, rntbd.Upsert, rntbd.Replace, rntbd.Patch, rntbd.Delete, rntbd.Batch, rntbd.ExecuteJavaScript:
		return true
	}
	return false
}

// containerRID returns the RID of the container as the client knows it, or "".
func (d *directRequest) containerRID() (resource.RID, error) {
	if text := d.from.Text(rntbd.RequestCollectionRID); text != "" {
		return resource.ParseRID(text)
	}
	if raw := d.from.Text(rntbd.RequestResourceID); len(raw) >= 8 {
		return resource.RID(raw[:8]), nil
	}
	return "", nil
}
