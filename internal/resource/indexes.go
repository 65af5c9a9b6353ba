package resource

import (
	"math"
	"slices"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// CompositePath is one property of a composite index.
type CompositePath struct {
	Path       string `json:"path"` // as given, without an ending: see [ParsePropertyPath]
	Descending bool   `json:"descending,omitzero"`
}

func compositeValue(paths []CompositePath) value.Value {
	return listValue(paths, func(p CompositePath) value.Value {
		order := "ascending"
		if p.Descending {
			order = "descending"
		}
		return value.Object([]value.Member{{Name: "path", Value: value.String(p.Path)}, {Name: "order", Value: value.String(order)}})
	})
}

// parseComposite parses the composite indexes. A property without an order is
// ascending.
func (p *IndexingPolicy) parseComposite(policy value.Value) error {
	list, err := policyList(policy, "compositeIndexes")
	if err != nil || list == nil {
		return err
	}
	paths := 0
	for _, item := range list {
		paths += len(item.Items())
	}
	if paths > CompositePathsMax {
		return status.BadRequest("The composite indexes of the indexing policy have %d paths. At most %d are allowed.", paths, CompositePathsMax)
	}
	p.Composite = make([][]CompositePath, 0, min(len(list), CompositePathsMax))
	for i, item := range list {
		index, err := parseCompositeIndex(i, item)
		if err != nil {
			return err
		}
		p.Composite = append(p.Composite, index)
	}
	return nil
}

func parseCompositeIndex(i int, item value.Value) ([]CompositePath, error) {
	if item.Kind() != value.KindArray {
		return nil, status.BadRequest("The composite index at index (%d) is %s. It must be an array of paths.", i, nameOf(item.Kind()))
	}
	if n := item.Len(); n < compositePropertiesMin || n > CompositePropertiesMax {
		return nil, status.BadRequest("The composite index at index (%d) has %d paths. It must have %d to %d.", i, n, compositePropertiesMin, CompositePropertiesMax)
	}
	index := make([]CompositePath, 0, item.Len())
	seen := map[string]bool{}
	for _, property := range item.Items() {
		c, names, err := parseCompositePath(i, property)
		if err != nil {
			return nil, err
		}
		if !once(seen, names) {
			return nil, status.BadRequest("The composite index at index (%d) has the path '%s' twice.", i, clip(c.Path))
		}
		index = append(index, c)
	}
	return index, nil
}

func parseCompositePath(i int, property value.Value) (c CompositePath, names []string, err error) {
	path := property.Get("path")
	if path.Kind() != value.KindString {
		return c, nil, status.BadRequest("An entry of the composite index at index (%d) has no string 'path'.", i)
	}
	names, ok := ParsePropertyPath(path.Text())
	if !ok {
		return c, nil, status.BadRequest("The composite index at index (%d) contains the invalid path '%s'. A path of a composite index starts with '/' and has neither '/?' nor '/*' at its end.", i, clip(path.Text()))
	}
	c.Path = path.Text()
	order := property.Get("order")
	switch {
	case isNull(order), strings.EqualFold(order.Text(), "ascending"):
	case strings.EqualFold(order.Text(), "descending"):
		c.Descending = true
	default:
		return c, nil, status.BadRequest("The order %s of the path '%s' in the composite index at index (%d) is not known. Use 'ascending' or 'descending'.", clip(order.String()), clip(c.Path), i)
	}
	return c, names, nil
}

// SpatialIndex indexes the geometries at one path.
type SpatialIndex struct {
	Path string `json:"path"` // as given, with an ending: see [ParseIndexPath]

	// Types are the requested types: Point, LineString, Polygon or MultiPolygon.
	// As in the service, the index contains all types whatever is requested.
	Types []string `json:"types"`

	// Box is where positions are expected. It is set in every policy whose
	// positions are points of a plane. Other policies keep it in case they
	// change to a plane.
	Box *BoundingBox `json:"box,omitempty"`
}

// coordinateMax bounds the coordinates of a plane, so that products of
// coordinates are finite.
const coordinateMax = 1e150

// BoundingBox is a rectangle of a plane with finite, positive width and height.
type BoundingBox struct {
	XMin float64 `json:"xmin"`
	YMin float64 `json:"ymin"`
	XMax float64 `json:"xmax"`
	YMax float64 `json:"ymax"`
}

// Equal reports whether both have the same definition, literally.
func (s SpatialIndex) Equal(o SpatialIndex) bool {
	if (s.Box == nil) != (o.Box == nil) || s.Box != nil && *s.Box != *o.Box {
		return false
	}
	return s.Path == o.Path && slices.Equal(s.Types, o.Types)
}

var spatialTypes = []string{"Point", "LineString", "Polygon", "MultiPolygon"}

func (s SpatialIndex) value() value.Value {
	members := []value.Member{
		{Name: "path", Value: value.String(s.Path)},
		{Name: "types", Value: listValue(s.Types, value.String)},
	}
	if b := s.Box; b != nil {
		members = append(members, value.Member{Name: "boundingBox", Value: value.Object([]value.Member{
			{Name: "xmin", Value: value.Number(b.XMin)},
			{Name: "ymin", Value: value.Number(b.YMin)},
			{Name: "xmax", Value: value.Number(b.XMax)},
			{Name: "ymax", Value: value.Number(b.YMax)},
		})})
	}
	return value.Object(members)
}

// parseSpatial parses the spatial indexes and appends them to those that the
// included paths contain.
func (p *IndexingPolicy) parseSpatial(policy value.Value) error {
	list, err := policyList(policy, "spatialIndexes")
	if err != nil {
		return err
	}
	if list != nil && p.Spatial == nil {
		p.Spatial = []SpatialIndex{}
	}
	if len(list) > IndexingPathsMax {
		return status.BadRequest("The property 'spatialIndexes' of the indexing policy has %d paths. At most %d are allowed.", len(list), IndexingPathsMax)
	}
	// It replaces one that comes from an included path: some clients use both
	// ways to ask for it.
	brought, seen := p.spatialPlaces(), map[string]bool{}
	for _, item := range list {
		s, place, err := parseSpatialIndex(item)
		if err != nil {
			return err
		}
		if seen[place] {
			return status.BadRequest("The property 'spatialIndexes' of the indexing policy has the path '%s' twice.", clip(s.Path))
		}
		seen[place] = true
		if i, ok := brought[place]; ok {
			p.Spatial[i] = s
		} else {
			p.Spatial = append(p.Spatial, s)
		}
	}
	if !p.Geometry {
		return nil
	}
	for _, s := range p.Spatial {
		if s.Box == nil {
			return status.BadRequest("The spatial index of the path '%s' has no 'boundingBox'. It needs one in a container of the geospatial type 'Geometry'.", clip(s.Path))
		}
	}
	return nil
}

// spatialPlaces returns the indexes in p.Spatial by the normalized path.
func (p *IndexingPolicy) spatialPlaces() map[string]int {
	places := make(map[string]int, len(p.Spatial))
	for i, s := range p.Spatial {
		path, _ := ParseIndexPath(s.Path)
		places[path.place()] = i
	}
	return places
}

// parseSpatialIndex also returns the normalized path.
func parseSpatialIndex(item value.Value) (s SpatialIndex, place string, err error) {
	path := item.Get("path")
	if path.Kind() != value.KindString {
		return s, "", status.BadRequest("An entry of 'spatialIndexes' in the indexing policy has no string 'path'.")
	}
	s.Path = path.Text()
	if place, err = spatialPlace(s.Path); err != nil {
		return s, "", err
	}
	types := item.Get("types")
	switch {
	case isNull(types), types.Kind() == value.KindArray && types.Len() == 0:
		return s, "", status.Service("The spatial data types array cannot be empty. Assign at least one spatial type for the 'types' array for the path '%s'.", clip(s.Path))
	case types.Kind() != value.KindArray:
		return s, "", status.BadRequest("The property 'types' of the spatial index of the path '%s' is %s. It must be an array.", clip(s.Path), nameOf(types.Kind()))
	}
	for _, t := range types.Items() {
		if s.Types, err = addSpatialType(s.Types, s.Path, t); err != nil {
			return s, "", err
		}
	}
	s.Box, err = parseBox(s.Path, item.Get("boundingBox"))
	return s, place, err
}

// spatialPlace returns the normalized form of a spatial index's path.
func spatialPlace(path string) (string, error) {
	parsed, err := parsePolicyPath(path)
	if err == nil && parsed.Tuple != nil {
		err = status.BadRequest("The path '%s' of a spatial index is a tuple. A spatial index has one place.", clip(path))
	}
	return parsed.place(), err
}

// addSpatialType adds a type in the service's spelling unless types contains it.
func addSpatialType(types []string, path string, t value.Value) ([]string, error) {
	for _, name := range spatialTypes {
		switch {
		case !strings.EqualFold(name, t.Text()):
		case slices.Contains(types, name):
			return types, nil
		default:
			return append(types, name), nil
		}
	}
	return nil, status.BadRequest("The type %s of the spatial index of the path '%s' is not known. Use %s.", clip(t.String()), clip(path), strings.Join(spatialTypes, ", "))
}

func parseBox(path string, v value.Value) (*BoundingBox, error) {
	if isNull(v) {
		return nil, nil
	}
	var sides [4]float64
	for i, name := range []string{"xmin", "ymin", "xmax", "ymax"} {
		side := v.Get(name)
		if side.Kind() != value.KindNumber || !(math.Abs(side.Float()) <= coordinateMax) {
			return nil, status.BadRequest("The bounding box of the spatial index of the path '%s' has no number '%s' between -%g and %g.", clip(path), name, coordinateMax, coordinateMax)
		}
		sides[i] = side.Float()
	}
	box := &BoundingBox{XMin: sides[0], YMin: sides[1], XMax: sides[2], YMax: sides[3]}
	if !wide(box.XMin, box.XMax) || !wide(box.YMin, box.YMax) {
		return nil, status.BadRequest("The bounding box of the spatial index of the path '%s' is too small: xmin must be below xmax and ymin below ymax, by more than a millionth of either.", clip(path))
	}
	return box, nil
}

// wide reports whether a side of a box can be divided into the cells of an
// index. A cell is its 2^30th part and must be wider than the distance between
// two adjacent doubles.
func wide(low, high float64) bool {
	const part, least = 1e-6, 1e-150
	return high-low > part*max(math.Abs(low), math.Abs(high)) && high-low >= least
}

// parseLegacy parses the kinds of index that earlier versions of the protocol
// specify with an included path. A spatial kind becomes a spatial index; other
// kinds have no effect.
func (p *IndexingPolicy) parseLegacy(included []value.Value) error {
	places := map[string]int{}
	for _, item := range included {
		s := SpatialIndex{Path: item.Get("path").Text()}
		var err error
		for _, kind := range item.Get("indexes").Items() {
			if !strings.EqualFold(kind.Get("kind").Text(), "Spatial") {
				continue
			}
			if s.Types, err = addSpatialType(s.Types, s.Path, kind.Get("dataType")); err != nil {
				return err
			}
		}
		if s.Types == nil {
			continue
		}
		place, err := spatialPlace(s.Path)
		if err != nil {
			return err
		}
		i, again := places[place]
		if !again {
			places[place] = len(p.Spatial)
			p.Spatial = append(p.Spatial, s)
			continue
		}
		for _, name := range s.Types {
			if !slices.Contains(p.Spatial[i].Types, name) {
				p.Spatial[i].Types = append(p.Spatial[i].Types, name)
			}
		}
	}
	return nil
}

// FullTextIndex indexes the words of the text at one path.
type FullTextIndex struct {
	Path     string `json:"path"`     // as given, without an ending or []: see [ParsePropertyPath]
	Language string `json:"language"` // of the path in the full-text policy, such as en-US
}

func (f FullTextIndex) value() value.Value { return pathValue(f.Path) }

// parseFullText parses the full-text indexes. The wording of some errors comes
// from tests of the service's clients.
func (p *IndexingPolicy) parseFullText(policy value.Value) error {
	list, err := policyList(policy, "fullTextIndexes")
	if err != nil || list == nil {
		return err
	}
	p.FullText = make([]FullTextIndex, 0, len(list))
	languages, seen := p.Texts.places(), map[string]bool{}
	for i, item := range list {
		path := item.Get("path")
		if path.Kind() != value.KindString {
			return status.BadRequest("Missing path in full-text index specification at index (%d).", i)
		}
		names, ok := ParsePropertyPath(path.Text())
		if !ok || throughArray(names) {
			return status.BadRequest("Full-text index specification at index (%d) contains invalid path '%s'.", i, clip(path.Text()))
		}
		if !once(seen, names) {
			return status.BadRequest("Full-text index specification at index (%d) has the path '%s', which has a full-text index already.", i, clip(path.Text()))
		}
		language, ok := languages[samePlace(names)]
		if !ok {
			return status.BadRequest("The path of the Full Text Index %s does not match the path specified in the Full Text Policy.", clip(path.Text()))
		}
		p.FullText = append(p.FullText, FullTextIndex{Path: path.Text(), Language: language})
	}
	return nil
}

// VectorIndexType says how a vector index is searched.
type VectorIndexType string

// The types of vector indexes, as the service spells them.
const (
	VectorFlat          VectorIndexType = "flat"          // exactly, all vectors
	VectorQuantizedFlat VectorIndexType = "quantizedFlat" // all vectors, by short codes
	VectorDiskANN       VectorIndexType = "diskANN"       // by short codes and a graph
)

// VectorIndex indexes the vectors at one path.
type VectorIndex struct {
	VectorEmbedding // of the path, from the vector embedding policy; Path is that of the index

	Type VectorIndexType `json:"type"`

	// QuantizerType is how codes are made, "product" or "spherical"; empty if
	// not given.
	QuantizerType string `json:"quantizerType,omitzero"`
	// QuantizationBytes is the requested length of a code; 0 if not given.
	QuantizationBytes int `json:"quantizationBytes,omitzero"`
	// SearchListSize is how many neighbours are examined while a graph is built;
	// 0 if not given.
	SearchListSize int `json:"searchListSize,omitzero"`
	// ShardKey holds at most one path, as given. Vectors with different values
	// at that path are searched separately.
	ShardKey []string `json:"shardKey,omitzero"`
}

// Equal reports whether both have the same definition, literally.
func (v VectorIndex) Equal(o VectorIndex) bool {
	return v.VectorEmbedding == o.VectorEmbedding && v.Type == o.Type && v.QuantizerType == o.QuantizerType &&
		v.QuantizationBytes == o.QuantizationBytes && v.SearchListSize == o.SearchListSize && slices.Equal(v.ShardKey, o.ShardKey)
}

func (v VectorIndex) value() value.Value {
	members := []value.Member{{Name: "path", Value: value.String(v.Path)}, {Name: "type", Value: value.String(string(v.Type))}}
	if v.QuantizerType != "" {
		members = append(members, value.Member{Name: "quantizerType", Value: value.String(v.QuantizerType)})
	}
	if v.QuantizationBytes != 0 {
		members = append(members, value.Member{Name: "quantizationByteSize", Value: value.Int(int64(v.QuantizationBytes))})
	}
	if v.SearchListSize != 0 {
		members = append(members, value.Member{Name: "indexingSearchListSize", Value: value.Int(int64(v.SearchListSize))})
	}
	if v.ShardKey != nil {
		members = append(members, value.Member{Name: "vectorIndexShardKey", Value: listValue(v.ShardKey, value.String)})
	}
	return value.Object(members)
}

// parseVector parses the vector indexes. The wording of most errors comes from
// tests of the service's clients.
func (p *IndexingPolicy) parseVector(policy value.Value) error {
	list, err := policyList(policy, "vectorIndexes")
	if err != nil || list == nil {
		return err
	}
	p.Vector = make([]VectorIndex, 0, len(list))
	embeddings, seen := map[string]VectorEmbedding{}, map[string]bool{}
	for _, e := range p.Embeddings {
		names, _ := ParsePropertyPath(e.Path)
		embeddings[samePlace(names)] = e
	}
	for _, item := range list {
		v, err := parseVectorIndex(item, embeddings)
		if err != nil {
			return err
		}
		names, _ := ParsePropertyPath(v.Path)
		if !once(seen, names) {
			return status.BadRequest("The Vector Indexing Policy has the path %s twice.", clip(v.Path))
		}
		p.Vector = append(p.Vector, v)
	}
	return nil
}

func parseVectorIndex(item value.Value, embeddings map[string]VectorEmbedding) (v VectorIndex, err error) {
	path := item.Get("path")
	if path.Kind() != value.KindString {
		return v, status.BadRequest("An entry of 'vectorIndexes' in the indexing policy has no string 'path'.")
	}
	names, ok := ParsePropertyPath(path.Text())
	if !ok || throughArray(names) {
		return v, status.BadRequest("The Vector Indexing Policy has an invalid Path: %s. It starts with '/' and has neither [] nor '/?' nor '/*'.", clip(path.Text()))
	}
	if v.VectorEmbedding, ok = embeddings[samePlace(names)]; !ok {
		return v, status.BadRequest("The Vector Indexing Policy's path::%s not matching in Embedding's path.", clip(path.Text()))
	}
	v.Path = path.Text()
	if v.Type, err = parseVectorType(item.Get("type")); err != nil {
		return v, err
	}
	if v.Type == VectorFlat && v.Dimensions > FlatDimensionsMax {
		return v, status.BadRequest("The Vector Indexing Policy has an index of type 'flat' on the path %s, whose vectors have %d dimensions. At most %d are allowed; use 'quantizedFlat' or 'diskANN'.", clip(v.Path), v.Dimensions, FlatDimensionsMax)
	}
	if v.QuantizerType, err = parseQuantizer(item.Get("quantizerType")); err != nil {
		return v, err
	}
	if v.QuantizationBytes, err = parseRange("QuantizationByteSize", item.Get("quantizationByteSize"), 1, min(v.Dimensions, QuantizationBytesMax)); err != nil {
		return v, err
	}
	if v.SearchListSize, err = parseRange("IndexingSearchListSize", item.Get("indexingSearchListSize"), searchListMin, searchListMax); err != nil {
		return v, err
	}
	v.ShardKey, err = parseShardKey(item.Get("vectorIndexShardKey"))
	return v, err
}

func parseVectorType(v value.Value) (VectorIndexType, error) {
	for _, known := range []VectorIndexType{VectorFlat, VectorQuantizedFlat, VectorDiskANN} {
		if strings.EqualFold(string(known), v.Text()) {
			return known, nil
		}
	}
	text := v.Text()
	if v.Kind() != value.KindString {
		text = v.String()
	}
	return "", status.BadRequest("The Vector Indexing Policy's Index Type::%s is invalid. Use 'flat', 'quantizedFlat' or 'diskANN'.", clip(text))
}

func parseQuantizer(v value.Value) (string, error) {
	if isNull(v) {
		return "", nil
	}
	for _, known := range []string{"product", "spherical"} {
		if strings.EqualFold(known, v.Text()) {
			return known, nil
		}
	}
	return "", status.BadRequest("The Vector Indexing Policy has an invalid QuantizerType: %s. Use 'product' or 'spherical'.", clip(v.String()))
}

// parseRange parses an optional parameter; a missing one is 0.
func parseRange(name string, v value.Value, low, high int) (int, error) {
	if isNull(v) {
		return 0, nil
	}
	n, ok := v.Int64()
	if !ok || n < int64(low) || n > int64(high) {
		return 0, status.BadRequest("The Vector Indexing Policy parameter %s value :: %s is out of range. The allowed range is between %d and %d.", name, clip(v.String()), low, high)
	}
	return int(n), nil
}

func parseShardKey(v value.Value) ([]string, error) {
	if isNull(v) {
		return nil, nil
	}
	if v.Kind() != value.KindArray {
		return nil, status.BadRequest("One of the specified inputs is invalid: 'vectorIndexShardKey' is %s. It must be an array of paths.", nameOf(v.Kind()))
	}
	if v.Len() > shardPathsMax {
		return nil, status.BadRequest("The number of shard paths defined in the Vector Indexing Policy: %d exceeds the maximum: %d.", v.Len(), shardPathsMax)
	}
	paths := make([]string, 0, v.Len())
	for _, path := range v.Items() {
		names, ok := ParsePropertyPath(path.Text())
		if !ok || throughArray(names) {
			text := path.Text()
			if path.Kind() != value.KindString {
				text = path.String()
			}
			return nil, status.BadRequest("The Vector Indexing Policy has an invalid Shard Path: %s.", clip(text))
		}
		paths = append(paths, path.Text())
	}
	return paths, nil
}
