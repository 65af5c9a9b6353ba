package resolver

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// ErrNotRegistered says that a group has no routing.
var ErrNotRegistered = errors.New("no routing is registered")

// Groups has a routing for each name under which an application knows a group of
// containers, as the legacy SDKs had one for a database. The zero value is ready. Many
// goroutines may use it.
type Groups struct {
	views atomic.Pointer[map[string]*Live]
}

// Register sets the view of a group; it holds from the next call of Get on. Slashes
// around the name do not count. nil takes the group away.
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
