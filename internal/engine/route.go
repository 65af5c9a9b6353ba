package engine

import (
	"context"
	"errors"
	"time"

	"github.com/decandb/decan/internal/catalog"
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

// owner finds the container of a request on documents, checks that it is the
// one the client remembers, and notes it in the result.
func (e *Engine) owner(link Link, intended string, result *Result) (*catalog.Container, error) {
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

// onContainer calls try with the container that a request names, which it notes in
// result, and again with a newer version while try fails because a partition has
// moved. If more is false, a newer version cannot help, and the error is returned
// as it is.
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
// committed first. If the request is for one version only, conditional is true, and
// that error is for the client.
func onCommit(conditional bool, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if conditional || attempt >= attemptsMax || status.CodeOf(err) != status.CodePreconditionFailed {
			return err
		}
	}
}

// attemptsMax bounds how often a request follows a partition that has moved. A
// split or merge moves it once; the rest is for several in a row.
const attemptsMax = 8

// moved reports whether err says that the view was stale, and so whether to try
// again with a newer one. It waits a moment when there is no newer one yet:
// the partition knows of its change shortly before the catalog does.
func (e *Engine) moved(ctx context.Context, err error, attempt int, seen *catalog.Container) bool {
	if status.CodeOf(err) != status.CodeGone || attempt+1 >= attemptsMax {
		return false
	}
	e.metrics.retries.Inc()
	if now, ok := e.catalog.View().ContainerByRID(seen.RID); !ok || now != seen {
		return true
	}
	pause := time.NewTimer(time.Duration(attempt+1) * 5 * time.Millisecond)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// keyError turns what partitionkey says into a status.
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

// given returns the key as the request means it. An empty list stands for "no
// key" where there is one path, which is the document without the property.
func given(d partitionkey.Definition, key partitionkey.Key) partitionkey.Key {
	if key.Len() == 0 && d.Levels() == 1 {
		return d.None()
	}
	return key
}

// fail makes sure that only statuses leave the engine: a context that ended is
// a timeout, and what is no status is the world's trouble.
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
