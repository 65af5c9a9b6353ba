package throughput

import (
	"fmt"
	"testing"
	"time"
)

// borrowed is a value that is good as long as its owner says.
type borrowed struct {
	text   string
	copies *int
}

func (b borrowed) Clone() borrowed {
	*b.copies++
	return borrowed{text: b.text + " copied", copies: b.copies}
}

// What Heavy keeps of a value is a copy, made once for each candidate: a key that was
// read from a document does not keep the document in memory.
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
	// A newcomer in the place of another has its own value, also when that comes later.
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

// A window has room for what was asked for, and none for what nobody asks for any more.
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
	for range 2 { // in which nothing is asked for
		now = now.Add(time.Minute)
		h.Top(1, now)
	}
	if n := cap(h.now.hot) + cap(h.earlier.hot); n > 0 {
		t.Errorf("two idle minutes keep the room of %d", n)
	}
}
