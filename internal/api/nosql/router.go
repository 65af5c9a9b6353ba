package nosql

import (
	"net/http"
	"strings"

	"github.com/decandb/decan/internal/status"
)

// serve is a handler: decode, call the engine, encode.
type serve func(*handler, *request) (*response, error)

// action is the effect of one verb on one kind of path. A handler that learns
// more about the request, as with POST, sets a more precise operation itself.
type action struct {
	operation operation
	serve     serve
}

// verbs are the actions of one kind of path; a nil serve is an unsupported verb.
type verbs struct {
	get, post, put, patch, delete action
}

// resourceType is a row of the routing table: the actions for paths with these
// type words.
type resourceType struct {
	words   string // joined by slashes
	feed    verbs
	item    verbs
	feature string // the name of the kind if Decan does not support it yet; then feed and item are empty
}

// resourceTypes is the routing table, searched from the top; frequent requests
// come first. It never changes.
var resourceTypes = []resourceType{
	{
		words: "dbs/colls/docs",
		feed: verbs{
			get:  action{opDocumentList, (*handler).listDocuments},
			post: action{opDocumentCreate, (*handler).postDocuments},
		},
		item: verbs{
			get:    action{opDocumentRead, (*handler).readDocument},
			put:    action{opDocumentReplace, (*handler).replaceDocument},
			patch:  action{opDocumentPatch, (*handler).patchDocument},
			delete: action{opDocumentDelete, (*handler).deleteDocument},
		},
	},
	{
		words: "dbs/colls/pkranges",
		feed:  verbs{get: action{opRangeList, (*handler).listRanges}},
		item:  verbs{get: action{opRangeRead, (*handler).readRange}},
	},
	{
		words: "dbs/colls",
		feed: verbs{
			get:  action{opContainerList, (*handler).listContainers},
			post: action{opContainerCreate, (*handler).postContainers},
		},
		item: verbs{
			get:    action{opContainerRead, (*handler).readContainer},
			put:    action{opContainerReplace, (*handler).replaceContainer},
			delete: action{opContainerDelete, (*handler).deleteContainer},
		},
	},
	{
		words: "dbs",
		feed: verbs{
			get:  action{opDatabaseList, (*handler).listDatabases},
			post: action{opDatabaseCreate, (*handler).postDatabases},
		},
		item: verbs{
			get:    action{opDatabaseRead, (*handler).readDatabase},
			delete: action{opDatabaseDelete, (*handler).deleteDatabase},
		},
	},
	{
		words: "dbs/colls/udfs",
		feed: verbs{
			get:  action{opFunctionList, (*handler).listScripts},
			post: action{opFunctionCreate, (*handler).postScripts},
		},
		item: verbs{
			get:    action{opFunctionRead, (*handler).readScript},
			put:    action{opFunctionReplace, (*handler).replaceScript},
			delete: action{opFunctionDelete, (*handler).deleteScript},
		},
	},
	{
		words: "dbs/colls/triggers",
		feed: verbs{
			get:  action{opTriggerList, (*handler).listScripts},
			post: action{opTriggerCreate, (*handler).postScripts},
		},
		item: verbs{
			get:    action{opTriggerRead, (*handler).readScript},
			put:    action{opTriggerReplace, (*handler).replaceScript},
			delete: action{opTriggerDelete, (*handler).deleteScript},
		},
	},
	{
		words: "dbs/colls/sprocs",
		feed: verbs{
			get:  action{opProcedureList, (*handler).listScripts},
			post: action{opProcedureCreate, (*handler).postScripts},
		},
		item: verbs{
			get:    action{opProcedureRead, (*handler).readScript},
			post:   action{opProcedureExecute, (*handler).executeProcedure},
			put:    action{opProcedureReplace, (*handler).replaceScript},
			delete: action{opProcedureDelete, (*handler).deleteScript},
		},
	},
	{
		words: "offers",
		feed: verbs{
			get:  action{opOfferList, (*handler).listOffers},
			post: action{opOfferQuery, (*handler).queryOffers},
		},
		item: verbs{
			get: action{opOfferRead, (*handler).readOffer},
			put: action{opOfferReplace, (*handler).replaceOffer},
		},
	},
	{
		words: "dbs/colls/conflicts",
		feed: verbs{
			get:  action{opConflict, (*handler).listConflicts},
			post: action{opConflict, (*handler).listConflicts},
		},
		item: verbs{
			get:    action{opConflict, (*handler).missingConflict},
			delete: action{opConflict, (*handler).missingConflict},
		},
	},
	{
		words: "dbs/colls/operations",
		item:  verbs{post: action{opDocumentPurge, (*handler).containerOperation}},
	},
	{words: "dbs/colls/docs/attachments", feature: "attachments"},
	{words: "dbs/colls/schemas", feature: "schemas"},
	{
		words: "dbs/users",
		feed: verbs{
			get:  action{opUserList, (*handler).listUsers},
			post: action{opUserCreate, (*handler).postUsers},
		},
		item: verbs{
			get:    action{opUserRead, (*handler).readUser},
			put:    action{opUserReplace, (*handler).replaceUser},
			delete: action{opUserDelete, (*handler).deleteUser},
		},
	},
	{
		words: "dbs/users/permissions",
		feed: verbs{
			get:  action{opPermissionList, (*handler).listPermissions},
			post: action{opPermissionCreate, (*handler).postPermissions},
		},
		item: verbs{
			get:    action{opPermissionRead, (*handler).readPermission},
			put:    action{opPermissionReplace, (*handler).replacePermission},
			delete: action{opPermissionDelete, (*handler).deletePermission},
		},
	},
	{words: "dbs/clientencryptionkeys", feature: "client encryption keys"},
	{words: "dbs/udts", feature: "user-defined types"},
	{
		words: "addresses",
		feed:  verbs{get: action{opAddresses, (*handler).readAddresses}},
	},
	{words: "media", feature: "attachments"},
	{words: "operations", feature: "distributed transactions"},
	{words: "snapshots", feature: "snapshots"},
}

// lookup returns the row of the path, or nil if no resource has such a path.
func lookup(t *target) *resourceType {
	for i := range resourceTypes {
		if matches(resourceTypes[i].words, t) {
			return &resourceTypes[i]
		}
	}
	return nil
}

// matches compares the type words without splitting them for each request.
func matches(words string, t *target) bool {
	for i := 0; i < t.count; i += 2 {
		word := t.segments[i]
		if !strings.HasPrefix(words, word) {
			return false
		}
		words = words[len(word):]
		if words != "" {
			if words[0] != '/' || i+2 >= t.count {
				return false
			}
			words = words[1:]
		}
	}
	return words == ""
}

// route returns the action for the request's method and path. It is called after
// authentication, so that unauthenticated callers learn nothing.
func route(t *target, method string) (action, error) {
	if t.count == 0 {
		return verbs{get: action{opAccountRead, (*handler).readAccount}}.action(method, true)
	}
	row := lookup(t)
	switch {
	case row == nil:
		return action{opUnknown, nil}, badTarget("no resource has such a path")
	case row.feature != "":
		word := row.words[strings.LastIndexByte(row.words, '/')+1:]
		return action{opRefused, nil}, status.Unsupported("The resource type " + word + ", for " + row.feature + ",")
	case t.item():
		return row.item.action(method, true)
	}
	return row.feed.action(method, false)
}

// action selects the verb. On single resources, HEAD is GET without the body,
// which net/http omits.
func (v verbs) action(method string, item bool) (action, error) {
	var found action
	switch method {
	case http.MethodGet:
		found = v.get
	case http.MethodHead:
		if item {
			found = v.get
		}
	case http.MethodPost:
		found = v.post
	case http.MethodPut:
		found = v.put
	case http.MethodPatch:
		found = v.patch
	case http.MethodDelete:
		found = v.delete
	}
	if found.serve == nil {
		return action{opUnknown, nil}, methodNotAllowed(method, v.allowed())
	}
	return found, nil
}

// allowed lists the verbs for the Allow header.
func (v verbs) allowed() string {
	var names []string
	for _, verb := range []struct {
		name string
		action
	}{{"GET", v.get}, {"POST", v.post}, {"PUT", v.put}, {"PATCH", v.patch}, {"DELETE", v.delete}} {
		if verb.serve != nil {
			names = append(names, verb.name)
		}
	}
	return strings.Join(names, ", ")
}

func methodNotAllowed(method, allowed string) error {
	e := status.New(status.CodeMethodNotAllowed, 0, "%s is not a verb of this resource, which has %s.", method, allowed)
	e.Info = allowed
	return e
}

// containerOperation answers the paths below a container's operations.
func (h *handler) containerOperation(r *request) (*response, error) {
	if r.target.id(2) == "partitionkeydelete" {
		return h.deleteByKey(r)
	}
	r.operation = opUnknown
	return nil, badTarget("no resource has such a path")
}
