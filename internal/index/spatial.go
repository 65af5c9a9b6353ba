package index

import (
	"encoding/binary"
	"math"

	"github.com/decandb/decan/internal/geo"
	"github.com/decandb/decan/internal/resource"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// cellsMax is the maximum number of cells that cover a shape in the index. It
// determines which cells are on disk: a write removes those that it computes for
// the old document.
const cellsMax = 12

// A document can be one geometry of ten thousand positions or twenty thousand
// geometries. Parsing and covering them could take half a minute, so the work
// for a document is bounded. Of its geometries other than points, in written
// order, those up to shapeWorkMax positions together are covered; each counts at
// least shapeWorkMin. The others are stored in all cells of level 0, so every
// query finds them and the filter decides. These numbers also determine which
// cells are on disk.
const (
	shapeWorkMax = 1 << 15
	shapeWorkMin = 64
)

// spatialIndex is the definition in a path of the spatial indexes.
type spatialIndex struct {
	grid   geo.Grid
	system geo.System
	// salt distinguishes the terms of different grids at the same place.
	salt string
}

// spatialNode is one segment of the paths of the spatial indexes.
type spatialNode struct {
	children map[string]*spatialNode
	subtree  *spatialIndex // of a path that ends in /* here
	leaf     *spatialIndex // of a path that ends in /? here, has precedence over subtree
}

func (x *Index) addSpatial(p resource.IndexingPolicy) error {
	for _, s := range p.Spatial {
		path, err := resource.ParseIndexPath(s.Path)
		if err != nil {
			return err
		}
		compiled, err := compileSpatial(s, p.Geometry)
		if err != nil {
			return err
		}
		if x.spatial == nil {
			x.spatial = new(spatialNode)
		}
		n := x.spatial
		for _, name := range path.Names {
			child := n.children[name]
			if child == nil {
				child = new(spatialNode)
				if n.children == nil {
					n.children = map[string]*spatialNode{}
				}
				n.children[name] = child
			}
			n = child
		}
		if path.Subtree {
			n.subtree = compiled
		} else {
			n.leaf = compiled
		}
	}
	return nil
}

func compileSpatial(s resource.SpatialIndex, geometry bool) (*spatialIndex, error) {
	if !geometry {
		return &spatialIndex{system: geo.Geography}, nil
	}
	if s.Box == nil {
		return nil, status.BadRequest("The spatial index of the path '%s' has no bounding box.", clip(s.Path))
	}
	grid, err := geo.NewGrid(geo.Box{XMin: s.Box.XMin, YMin: s.Box.YMin, XMax: s.Box.XMax, YMax: s.Box.YMax})
	if err != nil {
		return nil, status.BadRequest("The spatial index of the path '%s' has a bounding box that cannot be used: %v.", clip(s.Path), err)
	}
	var salt []byte
	for _, side := range []float64{s.Box.XMin, s.Box.YMin, s.Box.XMax, s.Box.YMax} {
		salt = binary.BigEndian.AppendUint64(salt, math.Float64bits(side+0)) // -0 is 0
	}
	return &spatialIndex{grid: grid, system: geo.Geometry, salt: string(salt)}, nil
}

func (n *spatialNode) child(name string) *spatialNode {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// decide returns the index of places below n and of the place itself; inherited
// is that of the places above.
func (n *spatialNode) decide(inherited *spatialIndex) (below, here *spatialIndex) {
	below = inherited
	if n != nil && n.subtree != nil {
		below = n.subtree
	}
	here = below
	if n != nil && n.leaf != nil {
		here = n.leaf
	}
	return below, here
}

// spatialAt returns the spatial index of a place, nil if it has none.
func (x *Index) spatialAt(path Path) *spatialIndex {
	if x.spatial == nil || len(path) == 0 || unindexed(path[0]) {
		return nil
	}
	n := x.spatial
	below, here := n.decide(nil)
	for i, name := range path {
		if _, computed := x.computed[name]; i == 0 && computed {
			below = nil
		}
		n = n.child(name)
		below, here = n.decide(below)
	}
	return here
}

// unindexed reports whether a top-level property has no terms of special kinds:
// it is set by the database, or it is the id.
func unindexed(name string) bool {
	return name == idName || name == timestampName || system(name)
}

func (x *Index) spatialID(path Path, s *spatialIndex) Term {
	return x.walk(rootState.mark(spatialKind), path).mark(s.salt).id()
}

// spatialTop adds the terms of all geometries in a document.
func (w *walker) spatialTop(doc value.Value, x *Index) {
	below, _ := x.spatial.decide(nil)
	start := rootState.mark(spatialKind)
	w.work = 0
	for _, m := range doc.Members() {
		if unindexed(m.Name) {
			continue
		}
		inherited := below
		if _, computed := x.computed[m.Name]; computed {
			inherited = nil
		}
		w.spatial(m.Value, x.top(start, m.Name), x.spatial.child(m.Name), inherited)
	}
}

// spatial adds the terms of the geometries at and below v, whose place is s.
func (w *walker) spatial(v value.Value, s pathState, n *spatialNode, inherited *spatialIndex) {
	below, here := n.decide(inherited)
	if w.stopped != nil || below == nil && here == nil && (n == nil || n.children == nil) {
		return
	}
	switch v.Kind() {
	case value.KindObject:
		if here != nil {
			w.shape(v, s, here)
		}
		for _, m := range v.Members() {
			w.spatial(m.Value, s.down(m.Name), n.child(m.Name), below)
		}
	case value.KindArray:
		s, n := s.down(Element), n.child(Element)
		for _, item := range v.Items() {
			w.spatial(item, s, n, below)
		}
	}
}

// shape adds the terms of v if it is a geometry.
func (w *walker) shape(v value.Value, s pathState, index *spatialIndex) {
	kind, positions := geo.Weigh(v)
	if kind == 0 || positions == 0 {
		return
	}
	if kind != geo.Point {
		w.work += max(positions, shapeWorkMin)
	}
	w.cells = w.cells[:0]
	if kind != geo.Point && w.work > shapeWorkMax {
		w.cells = index.grid.Everything(w.cells)
	} else if shape, ok := geo.Parse(v, index.system); ok {
		w.cells = index.grid.Cells(w.cells, shape, cellsMax)
	}
	s = s.mark(index.salt)
	for _, cell := range w.cells {
		w.buf = binary.BigEndian.AppendUint64(s.appendID(w.buf), cell)
		w.end()
	}
}

// Spatial returns the documents with a geometry at path that has one of the
// cells, and false if the place has no spatial index. They are a superset of
// those that satisfy the predicate for which the intervals were computed with
// the grid of the place ([Index.Grid]).
func (x *Index) Spatial(path Path, cells []geo.Interval) (Expr, bool) {
	at := x.spatialAt(path)
	if at == nil {
		return Expr{}, false
	}
	id := x.spatialID(path, at)
	args := make([]Expr, 0, len(cells))
	for _, c := range cells {
		low := Term(binary.BigEndian.AppendUint64([]byte(id), c.Low))
		high := Term(binary.BigEndian.AppendUint64([]byte(id), c.High))
		args = append(args, Expr{Op: Leaf, Span: Span{
			Low: low, High: successor(high), One: c.Low == c.High, Label: "spatial " + path.String(), cellsOf: path,
		}})
	}
	if len(args) == 1 {
		// Never a single Leaf: two spans of cells are independent and must not
		// be merged to one, as two spans of a value may be.
		args[0] = Expr{Op: And, Args: []Expr{args[0]}}
	}
	return Expr{Op: Or, Args: args}, true
}

// Grid returns the grid of the spatial index at path, with which to compute the
// intervals for [Index.Spatial], and false if the place has no spatial index.
func (x *Index) Grid(path Path) (geo.Grid, bool) {
	at := x.spatialAt(path)
	if at == nil {
		return geo.Grid{}, false
	}
	return at.grid, true
}

// System returns the meaning of positions in the container.
func (x *Index) System() geo.System {
	if x.policy.Geometry {
		return geo.Geometry
	}
	return geo.Geography
}
