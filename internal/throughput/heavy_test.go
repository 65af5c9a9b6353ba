package throughput

import (
	"fmt"
	"testing"
	"time"
)

// borrowed is a value that is valid until its owner changes it.
type borrowed struct {
	text   string
	copies *int
}

func (b borrowed) Clone() borrowed {
	*b.copies++
	return borrowed{text: b.text + " copied", copies: b.copies}
}

// TestHeavyKeepsCopies checks that Heavy keeps a copy of a value, made once per
// candidate: a key that was read from a document must not keep the document in
// memory.
func TestHeavyKeepsCopies(t *testing.T) {
	t.Parallel()
	var h Heavy[borrowed]
	now := time.Unix(1_000_000, 0)
	copies := 0
	b := borrowed{text: "a", copies: &copies}
	h.Add("a", nil, 1, now)
	for range 3 {
		h.Add("a", &b, 1, now)
	}
	top := h.Top(1, now)
	if len(top) != 1 || top[0].Value.text != "a copied" || copies != 1 || top[0].Units != 4 {
		t.Errorf("%+v after %d copies", top, copies)
	}
	// A new candidate in the place of another has its own value, even if the
	// value comes later.
	for i := range heavyKept {
		h.Add(fmt.Sprint("other ", i), nil, 10, now)
	}
	b.text = "z"
	h.Add("z", nil, 100, now)
	h.Add("z", &b, 100, now)
	if top := h.Top(1, now); top[0].ID != "z" || top[0].Value.text != "z copied" || copies != 2 {
		t.Errorf("%+v after %d copies", top, copies)
	}
}

// TestHeavyTakesWhatItNeeds checks that a window has space for the ids that were
// added, and releases the space of those that are no longer added.
func TestHeavyTakesWhatItNeeds(t *testing.T) {
	t.Parallel()
	var h Heavy[int]
	now := time.Unix(1_000_000, 0)
	h.Add("a", nil, 1, now)
	if n := cap(h.now.hot); n > heavyKept/8 {
		t.Errorf("one candidate takes the room of %d", n)
	}
	for i := range 2 * heavyKept {
		h.Add(fmt.Sprint(i), nil, 1, now)
	}
	if len(h.now.hot) != heavyKept {
		t.Errorf("%d candidates", len(h.now.hot))
	}
	for range 2 { // in which nothing is added
		now = now.Add(time.Minute)
		h.Top(1, now)
	}
	if n := cap(h.now.hot) + cap(h.earlier.hot); n > 0 {
		t.Errorf("two idle minutes keep the room of %d", n)
	}
}
