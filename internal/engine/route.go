package engine

import (
	"context"
	"errors"
	"time"

	"github.com/decandb/decan/internal/catalog"
	"github.com/decandb/decan/internal/pacing"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/partitionkey"
)

// locateDatabase finds a database by link: by name, or by the text of its RID.
func locateDatabase(view *catalog.View, link Link) (resource.Database, bool) {
	if d, ok := view.Database(link.Database); ok {
		return d, true
	}
	rid, err := resource.ParseRID(link.Database)
	if err != nil {
		return resource.Database{}, false
	}
	return view.DatabaseByRID(rid)
}

// locateContainer finds a container by link, each segment by name first.
func locateContainer(view *catalog.View, link Link) (*catalog.Container, bool) {
	if c, ok := view.Container(link.Database, link.Container); ok {
		return c, true
	}
	d, ok := locateDatabase(view, link)
	if !ok {
		return nil, false
	}
	if c, ok := view.Container(d.ID, link.Container); ok {
		return c, true
	}
	rid, err := resource.ParseRID(link.Container)
	if err != nil {
		return nil, false
	}
	c, ok := view.ContainerByRID(rid)
	if !ok || c.Database.RID != d.RID {
		return nil, false
	}
	return c, true
}

// owner finds the container of a request on documents, as anyOwner does. The error of
// a table is BadRequest.
func (e *Engine) owner(link Link, intended string, result *Result) (*catalog.Container, error) {
	c, err := e.anyOwner(link, intended, result)
	if err == nil && c.IsTable() {
		return nil, status.BadRequest("The container '%s' is a table. Its rows are read and written with CQL.", c.ID)
	}
	return c, err
}

// anyOwner finds the container that a request names, checks that it has the RID that
// the client expects, and sets the owner in the result.
func (e *Engine) anyOwner(link Link, intended string, result *Result) (*catalog.Container, error) {
	c, ok := locateContainer(e.catalog.View(), link)
	if !ok {
		return nil, status.OwnerNotFound()
	}
	result.Owner = Owner{Database: c.Database.ID, Container: c.ID}
	result.OwnerRID = c.RID
	if intended != "" && intended != c.RID.String() {
		return nil, status.New(status.CodeBadRequest, status.SubContainerRecreated,
			"The container has RID %s, not %s as the request expects: it was deleted and created again.", c.RID, intended)
	}
	return c, nil
}

// onContainer calls try with the container that a request names, and sets the
// owner in result. While try fails because a partition has moved, it calls try
// again with a newer version of the container. If try returns more as false, a
// newer version cannot help, and onContainer returns the error unchanged.
func (e *Engine) onContainer(ctx context.Context, link Link, intended string, result *Result, try func(*catalog.Container) (more bool, err error)) error {
	for attempt := 0; ; attempt++ {
		container, err := e.owner(link, intended, result)
		if err != nil {
			return err
		}
		more, err := try(container)
		if err == nil || !more || !e.moved(ctx, err, attempt, container) {
			return err
		}
	}
}

// onCommit calls try, and again while another change of the same definition is
// committed first. conditional is true if the client named a version: then the
// client gets that error.
func onCommit(conditional bool, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if conditional || attempt >= attemptsMax || status.CodeOf(err) != status.CodePreconditionFailed {
			return err
		}
	}
}

// upsert replaces the definition that find returns, or creates it if there is
// none. It tries again if another request creates or deletes the definition
// meanwhile. created is true if create has succeeded.
func upsert[T any](find func() (T, bool), create func() error, replace func(old T) error) (created bool, err error) {
	for attempt := 0; ; attempt++ {
		old, found := find()
		lost := status.CodeNotFound
		if found {
			err = replace(old)
		} else {
			lost, err = status.CodeConflict, create()
		}
		if err == nil || attempt >= attemptsMax || status.CodeOf(err) != lost {
			return err == nil && !found, err
		}
		if _, now := find(); now == found {
			return false, err // for another reason
		}
	}
}

// attemptsMax bounds how often a request follows a partition that has moved. A
// split or merge moves it once; more attempts allow for several in a row.
const attemptsMax = 8

// moved reports whether err is due to a stale view, so that the caller tries
// again with a newer one. It pauses if there is no newer view yet: the
// partition knows about a change shortly before the catalog does.
func (e *Engine) moved(ctx context.Context, err error, attempt int, seen *catalog.Container) bool {
	if status.CodeOf(err) != status.CodeGone || attempt+1 >= attemptsMax {
		return false
	}
	e.metrics.retries.Inc()
	if now, ok := e.catalog.View().ContainerByRID(seen.RID); !ok || now != seen {
		return true
	}
	return pacing.Sleep(ctx, time.Duration(attempt+1)*5*time.Millisecond) == nil
}

// keyError turns an error of partitionkey into a status.
func keyError(err error) error {
	var e *partitionkey.Error
	if errors.As(err, &e) {
		switch {
		case e.Levels > 0:
			return status.Because(status.CodeBadRequest, status.SubPartitionKeyMismatch, status.KeyLevels{Given: e.Given, Levels: e.Levels})
		case e.Mismatch:
			return status.PartitionKeyMismatch("%s", e.Message)
		}
		return status.BadRequest("%s", e.Message)
	}
	return err
}

// given returns the key that a request means. With one path, an empty list
// denotes the key of documents without the property.
func given(d partitionkey.Definition, key partitionkey.Key) partitionkey.Key {
	if key.Len() == 0 && d.Levels() == 1 {
		return d.None()
	}
	return key
}

// fail makes every error of the engine a status: the end of a context is a
// timeout, and any other error is internal.
func fail(err error) error {
	if err == nil || status.From(err) != nil {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e := status.New(status.CodeRequestTimeout, 0, "The request was cancelled or ran out of time.")
		e.Cause = err
		return e
	}
	e := status.New(status.CodeInternal, 0, "An internal error occurred.")
	e.Cause = err
	return e
}
