package partitionkey

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The published vectors: what official clients compute, or state in their own
// tests. The file explains its format in its member "about".

type vectorDefinition struct {
	Kind    Kind
	Version int
	Paths   int
}

func (v vectorDefinition) definition() Definition {
	d := Definition{Kind: v.Kind, Version: v.Version}
	for i := range v.Paths {
		d.Paths = append(d.Paths, fmt.Sprintf("/p%d", i))
	}
	return d
}

type vectorFile struct {
	Vectors []struct {
		Category   string
		Definition vectorDefinition
		Values     []json.RawMessage
		EPK        string
		Range      *struct{ Min, Max string }
	}
	Layouts []struct {
		Definition vectorDefinition
		Partitions int
		Ranges     []struct{ Min, Max string }
	}
	Splits []struct {
		Definition       vectorDefinition
		Min, Max, Middle string
	}
	Compare []struct {
		A, B  string
		Order int
	}
}

func readVectors(t *testing.T) vectorFile {
	t.Helper()
	text, err := os.ReadFile("testdata/effective-partition-keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 500 || len(file.Layouts) < 20 || len(file.Splits) < 10 || len(file.Compare) < 20 {
		t.Fatalf("the vector file is not complete: %d vectors, %d layouts, %d splits, %d comparisons",
			len(file.Vectors), len(file.Layouts), len(file.Splits), len(file.Compare))
	}
	return file
}

// vectorComponent parses one value of the file. Numbers given as bits are used
// unchanged, where Number would normalize -0 and NaN.
func vectorComponent(t *testing.T, raw json.RawMessage) Component {
	t.Helper()
	if raw[0] != '{' {
		return vectorElement(t, string(raw))
	}
	var special struct {
		Undefined   bool
		Token, Bits string
	}
	if err := json.Unmarshal(raw, &special); err != nil {
		t.Fatal(err)
	}
	switch {
	case special.Undefined:
		return vectorElement(t, "{}")
	case special.Token != "":
		return vectorElement(t, special.Token)
	}
	bits, err := strconv.ParseUint(special.Bits, 16, 64)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return Component{typ: TypeNumber, bits: bits}
}

func vectorElement(t *testing.T, element string) Component {
	t.Helper()
	key, err := Parse("[" + element + "]")
	if err != nil || key.Len() != 1 {
		t.Fatalf("Parse([%s]) = %v, %v", element, key, err)
	}
	return key.At(0)
}

func mustEPK(t testing.TB, digits string) EPK {
	t.Helper()
	e, err := ParseEPK(digits)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestVectorsHash(t *testing.T) {
	t.Parallel()
	for i, v := range readVectors(t).Vectors {
		t.Run(fmt.Sprintf("%d-%s-v%d", i, v.Category, v.Definition.Version), func(t *testing.T) {
			d := v.Definition.definition()
			var key Key
			for _, raw := range v.Values {
				key = key.Append(vectorComponent(t, raw))
			}
			got := d.Hash(key)
			if got.String() != v.EPK {
				t.Errorf("Hash(%s) = %s, want %s", key, got, v.EPK)
			}
			if appended := d.AppendHash([]byte("x"), key); string(appended) != "x"+string(got) {
				t.Errorf("AppendHash(%s) = %X, want x and %s", key, appended, v.EPK)
			}
			if key.Len() < len(d.Paths) {
				r, err := d.Prefix(key)
				if err != nil {
					t.Fatal(err)
				}
				want := "[,FF)"
				if v.Range != nil {
					want = "[" + v.Range.Min + "," + v.Range.Max + ")"
				} else if key.Len() > 0 {
					t.Fatal("a prefix without a range")
				}
				if r.String() != want {
					t.Errorf("Prefix(%s) = %v, want %v", key, r, want)
				}
			}
		})
	}
}

func TestVectorsDivide(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Layouts {
		var want []string
		for _, r := range v.Ranges {
			want = append(want, "["+r.Min+","+r.Max+")")
		}
		got := fmt.Sprint(v.Definition.definition().Divide(v.Partitions))
		if want := fmt.Sprint(want); got != want {
			t.Errorf("%v: Divide(%d) =\n%v, want\n%v", v.Definition, v.Partitions, got, want)
		}
	}
}

func TestVectorsMiddle(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Splits {
		r := Range{mustEPK(t, v.Min), mustEPK(t, v.Max)}
		if got := v.Definition.definition().Middle(r).String(); got != v.Middle {
			t.Errorf("%v: Middle(%v) = %v, want %v", v.Definition, r, got, v.Middle)
		}
	}
}

func TestVectorsCompare(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Compare {
		a, b := mustEPK(t, v.A), mustEPK(t, strings.ToLower(v.B))
		if got := a.Compare(b); got != v.Order {
			t.Errorf("%v.Compare(%v) = %d, want %d", a, b, got, v.Order)
		}
		if got := b.Compare(a); got != -v.Order {
			t.Errorf("%v.Compare(%v) = %d, want %d", b, a, got, -v.Order)
		}
		if same := a.Canonical() == b.Canonical(); same != (v.Order == 0) {
			t.Errorf("%v and %v: same canonical form is %v", a, b, same)
		}
	}
}

// TestVectorsCanonical checks that each vector is its own logical partition:
// canonical bytes differ wherever the hashed values do. Version 1 is omitted,
// because it cuts.
func TestVectorsCanonical(t *testing.T) {
	t.Parallel()
	seen := make(map[string]Key)
	for _, v := range readVectors(t).Vectors {
		if v.Definition.Version != 2 {
			continue
		}
		var key Key
		for _, raw := range v.Values {
			key = key.Append(vectorComponent(t, raw))
		}
		canonical := key.Canonical(v.Definition.definition())
		if other, ok := seen[string(canonical)]; ok && !other.Equal(key) {
			t.Errorf("%s and %s have the same canonical bytes", key, other)
		}
		seen[string(canonical)] = key
		if !bytes.Equal(canonical, key.Append().Canonical(v.Definition.definition())) {
			t.Errorf("%s: canonical bytes change", key)
		}
	}
}
