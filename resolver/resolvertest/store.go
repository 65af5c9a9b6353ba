package resolvertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/decandb/decan/resolver"
)

// storeRounds is how many times documents are swapped.
const storeRounds = 10

// RunStore runs the suite that every resolver.Store must pass. The store must be
// empty.
func RunStore(t *testing.T, store resolver.Store) {
	t.Helper()
	s := storeSuite{store}
	t.Run("nothing", s.nothing)
	t.Run("versions", s.versions)
	t.Run("swap", s.swap)
	t.Run("names", s.names)
}

type storeSuite struct{ resolver.Store }

// nothing checks that a document that does not exist can be neither loaded nor
// replaced.
func (s storeSuite) nothing(t *testing.T) {
	if _, _, err := s.Load(t.Context(), "nothing"); !errors.Is(err, resolver.ErrNotFound) {
		t.Errorf("Load of nothing: %v, want ErrNotFound", err)
	}
	if _, err := s.Save(t.Context(), "nothing", []byte(`{}`), "some version"); !errors.Is(err, resolver.ErrChanged) {
		t.Errorf("Save over nothing: %v, want ErrChanged", err)
	}
	if _, _, err := s.Load(t.Context(), "nothing"); !errors.Is(err, resolver.ErrNotFound) {
		t.Errorf("Load after a Save that failed: %v, want ErrNotFound", err)
	}
}

// versions checks that each save returns a new version, even for an equal
// document, and that Load returns the last.
func (s storeSuite) versions(t *testing.T) {
	version, seen := "", map[string]bool{"": true}
	for i, document := range []string{`{"n":1}`, `{"n":2,"list":["é",null,1.5]}`, `{"n":1}`, `{"n":1}`} {
		next, err := s.Save(t.Context(), "versions", []byte(document), version)
		if err != nil || seen[next] {
			t.Fatalf("save %d: version %q, %v, want a new one", i, next, err)
		}
		loaded, present, err := s.Load(t.Context(), "versions")
		if err != nil || present != next || !sameJSON(loaded, []byte(document)) {
			t.Errorf("after save %d: %s in version %q, %v, want %s in %q", i, loaded, present, err, document, next)
		}
		version, seen[next] = next, true
	}
}

func sameJSON(a, b []byte) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// swap checks that exactly one of many clients succeeds that replace the same
// version, or create the document.
func (s storeSuite) swap(t *testing.T) {
	version := ""
	for round := range storeRounds {
		var wait sync.WaitGroup
		var mu sync.Mutex
		wins := map[string]string{} // version by document
		for i := range 4 {
			wait.Go(func() {
				document := fmt.Sprintf(`{"round":%d,"by":%d}`, round, i)
				next, err := s.Save(t.Context(), "swap", []byte(document), version)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					wins[document] = next
				} else if !errors.Is(err, resolver.ErrChanged) {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		document, loaded, err := s.Load(t.Context(), "swap")
		if err != nil || len(wins) != 1 || wins[string(document)] != loaded {
			t.Fatalf("round %d: %s in version %s, %v; saved %v", round, document, loaded, err, wins)
		}
		if _, err := s.Save(t.Context(), "swap", []byte(`{}`), version); !errors.Is(err, resolver.ErrChanged) {
			t.Errorf("round %d: an old version was replaced: %v, want ErrChanged", round, err)
		}
		version = loaded
	}
}

// names checks that a document is independent of documents whose names begin
// with its name.
func (s storeSuite) names(t *testing.T) {
	for _, name := range []string{"names", "names-move"} {
		if _, err := s.Save(t.Context(), name, []byte(fmt.Sprintf(`{"name":%q}`, name)), ""); err != nil {
			t.Fatalf("Save under %s: %v", name, err)
		}
	}
	for _, name := range []string{"names", "names-move"} {
		document, _, err := s.Load(t.Context(), name)
		if want := fmt.Sprintf(`{"name":%q}`, name); err != nil || !sameJSON(document, []byte(want)) {
			t.Errorf("Load of %s: %s, %v, want %s", name, document, err, want)
		}
	}
}
