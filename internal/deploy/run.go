package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// Target is where a deployment is carried out.
type Target interface {
	// Read returns what exists: of a container, a script or a role its definition, of a
	// throughput its settings, of a table its schema in the form of a template. It returns
	// nil if there is nothing.
	Read(ctx context.Context, item Item) (*jsonc.Object, error)
	// Write carries a change out.
	Write(ctx context.Context, change Change) error
	// List carries out an operation of the account such as listKeys.
	List(ctx context.Context, operation string) (any, error)
}

// Fatal is an error after which the deployment cannot continue, such as that of a server
// that does not answer or of a key that is refused.
type Fatal struct{ Err error }

// Error returns the message of the cause.
func (f Fatal) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f Fatal) Unwrap() error { return f.Err }

// Result is what became of a resource.
type Result struct {
	Change
	Err error
	// Needs names the resource that failed, because of which this one was left.
	Needs string
	// Done means that the change was written, or that there was none to write.
	Done bool
}

// Run carries a deployment out, resource by resource; with whatIf it only compares.
// observe is called before and after each resource with its position among the items.
// The error is a [Fatal]; errors of single resources are in the results, of which there
// may be fewer than items if the deployment ends early. runtime evaluates outputs; with
// whatIf as if the resources were deployed.
func (d *Deployment) Run(ctx context.Context, items []Item, target Target, whatIf bool, observe func(position int, r *Result)) (results []Result, runtime expression.Runtime, err error) {
	run := &run{ctx: ctx, target: target, whatIf: whatIf, account: d.account, planned: map[string]*jsonc.Object{}}
	failed := map[*Resource]string{}
	for i, item := range items {
		if err := ctx.Err(); err != nil {
			return results, run, Fatal{err}
		}
		if observe != nil {
			observe(i, nil)
		}
		r := Result{Change: Change{Item: item}}
		for _, need := range item.Needs {
			if name, is := failed[d.Resources[need]]; is && r.Needs == "" {
				r.Needs = name
				failed[item.Resource] = name
			}
		}
		if r.Needs == "" {
			r.Change, r.Err = run.one(item)
			r.Done = r.Err == nil
		}
		if fatal := (Fatal{}); errors.As(r.Err, &fatal) {
			return results, run, fatal
		}
		if r.Err != nil {
			failed[item.Resource] = item.Title()
		}
		results = append(results, r)
		if observe != nil {
			observe(i, &results[len(results)-1])
		}
	}
	return results, run, nil
}

// run is a deployment that is being carried out. It answers for what exists.
type run struct {
	ctx     context.Context
	target  Target
	whatIf  bool
	account string                   // The one whose resources are deployed; "" if there is only one.
	planned map[string]*jsonc.Object // The properties of resources by id, for what-if.
}

// one deploys a resource.
func (r *run) one(item Item) (Change, error) {
	nothing := Change{Item: item}
	body, err := item.Resolve(r)
	if fatal := (Fatal{}); err != nil && errors.As(err, &fatal) {
		return nothing, fatal
	} else if err != nil && !r.whatIf {
		return nothing, err
	} else if err != nil {
		return Change{Item: item, Action: Uncertain, Notes: []string{err.Error()}}, nil
	}
	if condition, has := body.Get("condition"); has {
		return nothing, &Error{
			Code: invalidTemplate, File: item.File, Line: item.Line, Column: item.Column,
			Message: fmt.Sprintf("The condition of the resource '%s' is %s; it must be true or false.", item.Name, jsonc.Text(condition)),
		}
	}
	raw, _ := body.Get("properties")
	properties, is := raw.(*jsonc.Object)
	if !is {
		properties = jsonc.NewObject()
	}
	r.planned[strings.ToLower(item.ID)] = properties
	for attempt := 0; ; attempt++ {
		current, err := r.target.Read(r.ctx, item)
		if err != nil {
			return nothing, err
		}
		if item.Kind == Throughput && current == nil && r.whatIf {
			current = r.plannedThroughput(item)
		}
		change, err := item.Compare(properties, current)
		if err != nil || r.whatIf || change.Action == NoChange {
			return change, err
		}
		err = r.target.Write(r.ctx, change)
		if !errors.Is(err, ErrExists) || attempt > 0 {
			return change, err
		}
	}
}

// ErrExists is the error of a write for a resource that another client has created since
// it was read. It is read and compared again.
var ErrExists = errors.New("the resource exists already")

// plannedThroughput returns the throughput that the owner will have, if the template
// creates it.
func (r *run) plannedThroughput(item Item) *jsonc.Object {
	id, _, _ := strings.Cut(strings.ToLower(item.ID), "/throughputsettings/")
	id, _, _ = strings.Cut(id, "/settings/")
	owner := r.planned[id]
	if owner == nil {
		return nil
	}
	ownerItem, known := ItemOf(id)
	if !known {
		return nil
	}
	clean, _ := ownerItem.Clean(owner)
	options, _ := clean.Get("options")
	out := jsonc.NewObject("throughput", int64(400))
	if o, is := options.(*jsonc.Object); is && o.Len() > 0 {
		return o
	}
	return out
}

// ItemOf returns the resource with an id.
func ItemOf(id string) (Item, bool) {
	at := strings.LastIndex(lowerASCII(id), "/providers/")
	if at < 0 {
		return Item{}, false
	}
	segments := strings.Split(id[at+len("/providers/"):], "/")
	if len(segments)%2 != 1 {
		return Item{}, false
	}
	kind := segments[0]
	var names []string
	for i := 1; i+1 < len(segments); i += 2 {
		kind += "/" + segments[i]
		names = append(names, segments[i+1])
	}
	rest, ours := cutFold(kind, provider)
	known, found := typeKinds[strings.ToLower(rest)]
	if !ours || !found {
		return Item{}, false
	}
	item := Item{Resource: &Resource{ID: id, Type: kind, Name: strings.Join(names, "/")}, Kind: known.kind, shape: known.shape}
	for _, i := range known.names {
		item.Names = append(item.Names, names[i])
	}
	return item, true
}

// ErrOtherAccount is the error of an expression that asks for a resource of an account
// that was not chosen.
var ErrOtherAccount = errors.New("the resource is of another account")

// other reports whether a resource is of an account that was not chosen.
func (r *run) other(item Item) bool {
	account, _, _ := strings.Cut(item.Name, "/")
	return r.account != "" && !strings.EqualFold(account, r.account)
}

// Reference implements [expression.Runtime].
func (r *run) Reference(id, apiVersion string, full bool) (any, error) {
	item, known := ItemOf(id)
	if !known {
		return nil, fmt.Errorf("the resource '%s' does not exist here", id)
	}
	if r.other(item) {
		return nil, fmt.Errorf("%s: %w", id, ErrOtherAccount)
	}
	current, err := r.target.Read(r.ctx, item)
	if err != nil {
		return nil, err
	}
	properties := r.planned[strings.ToLower(id)]
	switch {
	case current == nil && properties == nil:
		return nil, fmt.Errorf("the %s does not exist", item.Title())
	case current == nil: // It will exist after the deployment.
	case item.Kind == Account || item.Kind == RoleDefinition || item.Kind == RoleAssignment:
		properties = current
	default:
		properties = jsonc.NewObject("resource", current)
	}
	if !full {
		return properties, nil
	}
	return jsonc.NewObject("apiVersion", apiVersion, "properties", properties, "resourceId", id, "type", item.Type, "location", ""), nil
}

// List implements [expression.Runtime].
func (r *run) List(operation, id, _ string, _ []any) (any, error) {
	item, known := ItemOf(id)
	if !known || item.Kind != Account {
		return nil, fmt.Errorf("the resource '%s' has no operation '%s' here", id, operation)
	}
	if r.other(item) {
		return nil, fmt.Errorf("%s: %w", id, ErrOtherAccount)
	}
	return r.target.List(r.ctx, operation)
}
