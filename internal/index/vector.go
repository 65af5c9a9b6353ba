package index

import (
	"fmt"
	"slices"

	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/internal/vector"
)

// VectorForm says how the vectors of one index are stored. It is immutable.
type VectorForm struct {
	// ID identifies the path and everything on which the bytes of a stored
	// vector depend. It has 8 bytes, like the ids in terms.
	ID Term

	Metric     vector.Metric
	Element    vector.Element
	Dimensions int

	// Quantizer makes the codes of vectors. Codes have their own id, so that a
	// search reads them without the vectors. Both are nil and "" if the index is
	// flat.
	Quantizer *vector.Quantizer
	CodeID    Term
}

// vectorIndex is a vector index.
type vectorIndex struct {
	path Path
	form VectorForm
}

// VectorEntry is the stored form of a vector of a document, or of its code.
type VectorEntry struct {
	ID     Term // the ID or the CodeID of its [VectorForm]
	Stored []byte
}

func (x *Index) addVectors(p resource.IndexingPolicy) error {
	for _, v := range p.Vector {
		path, ok := resource.ParsePropertyPath(v.Path)
		if !ok || Path(path).elements() {
			return status.BadRequest("The path '%s' of a vector index is not valid.", clip(v.Path))
		}
		form, err := x.vectorForm(path, v)
		if err != nil {
			return err
		}
		if !unindexed(path[0]) {
			x.vectors = append(x.vectors, vectorIndex{path: path, form: form})
		}
	}
	return nil
}

func (x *Index) vectorForm(path Path, v resource.VectorIndex) (VectorForm, error) {
	f := VectorForm{Dimensions: v.Dimensions}
	var known [2]bool
	f.Metric, known[0] = vector.ParseMetric(v.Distance)
	f.Element, known[1] = vector.ParseElement(v.DataType)
	if !known[0] || !known[1] || v.Dimensions < 1 || v.Dimensions > resource.VectorDimensionsMax {
		return f, status.BadRequest("The vector index of the path '%s' has the data type '%s', the distance function '%s' and %d dimensions, which is not a valid combination.", clip(v.Path), clip(v.DataType), clip(v.Distance), v.Dimensions)
	}
	size := 0
	switch v.Type {
	case resource.VectorFlat:
	case resource.VectorQuantizedFlat, resource.VectorDiskANN:
		if size = v.QuantizationBytes; size == 0 {
			size = vector.QuantizationDefault(v.Dimensions)
		}
		// The center is the origin: codes depend only on their vector, so they
		// are the same wherever and whenever a document is written.
		if f.Quantizer, known[0] = vector.NewQuantizer(f.Metric, v.Dimensions, size, nil); !known[0] {
			return f, status.BadRequest("The vector index of the path '%s' asks for codes of %d bytes, which is out of range.", clip(v.Path), size)
		}
	default:
		return f, status.BadRequest("The type '%s' of the vector index of the path '%s' is not known.", clip(string(v.Type)), clip(v.Path))
	}
	at := x.walk(rootState.mark(vectorKind), path)
	f.ID = at.mark(fmt.Sprintf("%s %d", f.Element, f.Dimensions)).id()
	if f.Quantizer != nil {
		f.CodeID = at.mark(fmt.Sprintf("code %d %s %d %d", f.Dimensions, f.Metric, size, vector.Version)).id()
	}
	return f, nil
}

// Size returns the size of a stored vector in bytes.
func (f *VectorForm) Size() int { return f.Dimensions * f.Element.Size() }

// entries appends the stored entries of a vector to dst, and nothing if it has
// another number of dimensions or an element that is not finite.
func (f *VectorForm) entries(dst []VectorEntry, v []float32) []VectorEntry {
	if len(v) != f.Dimensions {
		return dst
	}
	if f.Quantizer != nil {
		code, ok := f.Quantizer.Append(make([]byte, 0, f.Quantizer.Size()), v)
		if !ok {
			return dst
		}
		dst = append(dst, VectorEntry{ID: f.CodeID, Stored: code})
	}
	return append(dst, VectorEntry{ID: f.ID, Stored: vector.AppendVector(make([]byte, 0, f.Size()), f.Element, v)})
}

// Vectors appends the indexed vectors of a document to dst, at most one per
// vector index, each after its code if the index has codes, and returns it. A
// value that is not an array of the policy's number of finite numbers has no
// vector. The caller owns the bytes.
func (x *Index) Vectors(dst []VectorEntry, doc value.Value) []VectorEntry {
	var elements []float32
	for i := range x.vectors {
		v, ok := &x.vectors[i], false
		// Check the length first: a long array of something else then costs
		// nothing.
		at := v.path.at(doc)
		if at.Kind() != value.KindArray || at.Len() != v.form.Dimensions {
			continue
		}
		if elements, ok = vector.Parse(at, elements[:0]); !ok {
			continue
		}
		dst = v.form.entries(dst, elements)
	}
	return dst
}

// VectorForm returns how the vectors at path are stored, and false if the path
// has no vector index.
func (x *Index) VectorForm(path Path) (*VectorForm, bool) {
	for i := range x.vectors {
		if slices.Equal(x.vectors[i].path, path) {
			return &x.vectors[i].form, true
		}
	}
	return nil, false
}

// VectorAt returns the definition of the vectors at path: the vector index or,
// with an empty Type, only the entry of the vector embedding policy. It returns
// false if neither names the path.
func (x *Index) VectorAt(path Path) (resource.VectorIndex, bool) {
	if _, stored := x.VectorForm(path); stored {
		for _, v := range x.policy.Vector {
			if names, ok := resource.ParsePropertyPath(v.Path); ok && slices.Equal(names, path) {
				return v, true
			}
		}
	}
	for _, e := range x.policy.Embeddings {
		if names, ok := resource.ParsePropertyPath(e.Path); ok && slices.Equal(names, path) {
			return resource.VectorIndex{VectorEmbedding: e}, true
		}
	}
	return resource.VectorIndex{}, false
}
