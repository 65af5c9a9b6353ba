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
	// ID stands for the path and everything that the stored bytes depend on. It
	// has 8 bytes, as the ids in terms have.
	ID Term

	Metric     vector.Metric
	Element    vector.Element
	Dimensions int

	// Quantizer makes the code in front of a stored vector; nil when there is
	// none, because the index is flat.
	Quantizer *vector.Quantizer
}

// vectorIndex is a vector index.
type vectorIndex struct {
	path Path
	form VectorForm
}

// VectorEntry is a vector of a document as it is stored.
type VectorEntry struct {
	ID     Term // of its [VectorForm]
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
		return f, status.BadRequest("The vector index of the path '%s' has the data type '%s', the distance function '%s' and %d dimensions, which cannot be.", clip(v.Path), clip(v.DataType), clip(v.Distance), v.Dimensions)
	}
	size := 0
	switch v.Type {
	case resource.VectorFlat:
	case resource.VectorQuantizedFlat, resource.VectorDiskANN:
		if size = v.QuantizationBytes; size == 0 {
			size = vector.QuantizationDefault(v.Dimensions)
		}
		// The center is the origin: codes depend on their vector alone, so they
		// are the same wherever and whenever a document is written.
		if f.Quantizer, known[0] = vector.NewQuantizer(f.Metric, v.Dimensions, size, nil); !known[0] {
			return f, status.BadRequest("The vector index of the path '%s' asks for codes of %d bytes, which cannot be.", clip(v.Path), size)
		}
	default:
		return f, status.BadRequest("The type '%s' of the vector index of the path '%s' is not known.", clip(string(v.Type)), clip(v.Path))
	}
	form := fmt.Sprintf("%s %d %s %d %d", f.Element, f.Dimensions, f.Metric, size, vector.Version)
	f.ID = x.walk(rootState.mark(vectorKind), path).mark(form).id()
	return f, nil
}

// Append appends the stored form of a vector: its code, if the index has codes,
// and its elements. It is false, and dst is as it was, when the vector has
// another number of dimensions or an element that is not finite.
func (f *VectorForm) Append(dst []byte, v []float32) ([]byte, bool) {
	if len(v) != f.Dimensions {
		return dst, false
	}
	if f.Quantizer != nil {
		var ok bool
		if dst, ok = f.Quantizer.Append(dst, v); !ok {
			return dst, false
		}
	}
	return vector.AppendVector(dst, f.Element, v), true
}

// Size returns how many bytes a stored vector has.
func (f *VectorForm) Size() int {
	size := f.Dimensions * f.Element.Size()
	if f.Quantizer != nil {
		size += f.Quantizer.Size()
	}
	return size
}

// Split returns the parts of a stored vector: its code, empty when the index has
// none, and its elements, for [vector.DecodeVector]. It is false for bytes of
// another length.
func (f *VectorForm) Split(stored []byte) (code, elements []byte, ok bool) {
	if len(stored) != f.Size() {
		return nil, nil, false
	}
	at := len(stored) - f.Dimensions*f.Element.Size()
	return stored[:at], stored[at:], true
}

// Vectors appends to dst the vectors of a document that are indexed, at most one
// for each vector index, and returns it. What is no array of as many finite
// numbers as the policy says has none. The bytes belong to the caller.
func (x *Index) Vectors(dst []VectorEntry, doc value.Value) []VectorEntry {
	var elements []float32
	for i := range x.vectors {
		v, ok := &x.vectors[i], false
		// The length first: a long array of something else costs nothing.
		at := v.path.at(doc)
		if at.Kind() != value.KindArray || at.Len() != v.form.Dimensions {
			continue
		}
		if elements, ok = vector.Parse(at, elements[:0]); !ok {
			continue
		}
		if stored, ok := v.form.Append(make([]byte, 0, v.form.Size()), elements); ok {
			dst = append(dst, VectorEntry{ID: v.form.ID, Stored: stored})
		}
	}
	return dst
}

// VectorForm returns how the vectors at path are stored, and false when the path
// has no vector index.
func (x *Index) VectorForm(path Path) (*VectorForm, bool) {
	for i := range x.vectors {
		if slices.Equal(x.vectors[i].path, path) {
			return &x.vectors[i].form, true
		}
	}
	return nil, false
}

// VectorAt returns what the policies say of the vectors at path: the vector
// index, or with an empty Type the mere entry of the vector embedding policy. It
// is false when neither names the path.
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
