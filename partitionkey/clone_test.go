package partitionkey

import (
	"testing"
	"unsafe"
)

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	text := "a tenant"
	k := NewKey(String(text), Number(1), String(""), Null())
	c := k.Clone()
	if !c.Equal(k) {
		t.Fatalf("%s is not %s", c, k)
	}
	if &c.components[0] == &k.components[0] || unsafe.StringData(c.components[0].text) == unsafe.StringData(text) {
		t.Error("the clone shares memory")
	}
	if empty := (Key{}).Clone(); empty.Len() != 0 {
		t.Errorf("the clone of the empty key is %s", empty)
	}
}
