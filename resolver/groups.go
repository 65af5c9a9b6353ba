package resolver

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// ErrNotRegistered means that no routing is registered for a group.
var ErrNotRegistered = errors.New("no routing is registered")

// Groups maps names to routings. A name identifies a group of containers in the
// application, as a database did in the legacy SDKs. The zero value is ready to
// use. It is safe for concurrent use.
type Groups struct {
	views atomic.Pointer[map[string]*Live]
}

// Register sets the view of a group; later calls of Get return it. Leading and
// trailing slashes of the name are ignored. A nil view removes the group.
func (g *Groups) Register(name string, view *Live) {
	for {
		old := g.views.Load()
		views := map[string]*Live{}
		if old != nil {
			for n, v := range *old {
				views[n] = v
			}
		}
		if view == nil {
			delete(views, strings.Trim(name, "/"))
		} else {
			views[strings.Trim(name, "/")] = view
		}
		if g.views.CompareAndSwap(old, &views) {
			return
		}
	}
}

// Get returns the view of a group, or ErrNotRegistered.
func (g *Groups) Get(name string) (*Live, error) {
	if views := g.views.Load(); views != nil {
		if view := (*views)[strings.Trim(name, "/")]; view != nil {
			return view, nil
		}
	}
	return nil, fmt.Errorf("%w for %q", ErrNotRegistered, name)
}
