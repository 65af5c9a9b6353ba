package resource

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// IndexingMode says whether writes maintain the index.
type IndexingMode string

// The indexing modes.
const (
	IndexingConsistent IndexingMode = "consistent"
	IndexingNone       IndexingMode = "none"
)

// IndexingPolicy says how a container's documents are indexed. It contains
// everything on which the index depends, including settings of the container, so
// that a holder of the policy needs nothing else. [IndexingPolicy.Value] returns
// only what clients know as the indexing policy.
//
// A list is nil if the client did not give it, and empty if the client gave an
// empty one.
type IndexingPolicy struct {
	Mode      IndexingMode `json:"mode"`
	Automatic bool         `json:"automatic"` // as given; false has no effect, as in the service, which returns it in mode none only
	Included  []string     `json:"included"`  // as given, such as /a/b/?, /a/* or /a/[]/{b, c}/?; see [ParseIndexPath]
	Excluded  []string     `json:"excluded"`

	Composite [][]CompositePath `json:"composite,omitzero"`
	Spatial   []SpatialIndex    `json:"spatial,omitzero"`
	FullText  []FullTextIndex   `json:"fullText,omitzero"`
	Vector    []VectorIndex     `json:"vector,omitzero"`

	// Geometry means that positions are points of a plane (geospatialConfig)
	// instead of the globe.
	Geometry bool `json:"geometry,omitzero"`

	Texts      TextPolicy         `json:"texts,omitzero"`      // fullTextPolicy
	Embeddings []VectorEmbedding  `json:"embeddings,omitzero"` // vectorEmbeddingPolicy
	Computed   []ComputedProperty `json:"computed,omitzero"`   // computedProperties

	// Rows are the definitions of the secondary indexes of a table, as package row writes
	// them. Documents have none.
	Rows []string `json:"rows,omitzero"`
}

const (
	rootPath = "/*"
	etagPath = `/"_etag"/?`
)

// DefaultIndexing returns the policy of a container that was created without
// one: it indexes everything except the etag.
func DefaultIndexing() IndexingPolicy {
	return IndexingPolicy{
		Mode:      IndexingConsistent,
		Automatic: true,
		Included:  []string{rootPath},
		Excluded:  []string{etagPath},
	}
}

// Equal reports whether both policies have the same definition, literally.
func (p IndexingPolicy) Equal(o IndexingPolicy) bool {
	return p.Mode == o.Mode && p.Automatic == o.Automatic && p.Geometry == o.Geometry &&
		slices.Equal(p.Included, o.Included) && slices.Equal(p.Excluded, o.Excluded) &&
		slices.EqualFunc(p.Composite, o.Composite, slices.Equal[[]CompositePath]) &&
		slices.EqualFunc(p.Spatial, o.Spatial, SpatialIndex.Equal) &&
		slices.Equal(p.FullText, o.FullText) &&
		slices.EqualFunc(p.Vector, o.Vector, VectorIndex.Equal) &&
		p.Texts.Equal(o.Texts) &&
		slices.Equal(p.Embeddings, o.Embeddings) &&
		slices.Equal(p.Computed, o.Computed) && slices.Equal(p.Rows, o.Rows)
}

// Value returns the policy in the form that clients read.
func (p IndexingPolicy) Value() value.Value {
	members := []value.Member{
		{Name: "indexingMode", Value: value.String(string(p.Mode))},
		{Name: "automatic", Value: value.Bool(p.Automatic || p.Mode == IndexingConsistent)},
		{Name: "includedPaths", Value: listValue(p.Included, pathValue)},
		{Name: "excludedPaths", Value: listValue(p.Excluded, pathValue)},
	}
	if p.Composite != nil {
		members = append(members, value.Member{Name: "compositeIndexes", Value: listValue(p.Composite, compositeValue)})
	}
	if p.Spatial != nil {
		members = append(members, value.Member{Name: "spatialIndexes", Value: listValue(p.Spatial, SpatialIndex.value)})
	}
	if p.Vector != nil {
		members = append(members, value.Member{Name: "vectorIndexes", Value: listValue(p.Vector, VectorIndex.value)})
	}
	if p.FullText != nil {
		members = append(members, value.Member{Name: "fullTextIndexes", Value: listValue(p.FullText, FullTextIndex.value)})
	}
	return value.Object(members)
}

func listValue[T any](list []T, item func(T) value.Value) value.Value {
	items := make([]value.Value, len(list))
	for i, x := range list {
		items[i] = item(x)
	}
	return value.Array(items)
}

func pathValue(path string) value.Value {
	return value.Object([]value.Member{{Name: "path", Value: value.String(path)}})
}

// parseIndexing parses the indexing policy of a container and fills in defaults.
// Errors are status 400. with holds the fields that Value does not return.
func parseIndexing(body value.Value, with IndexingPolicy) (IndexingPolicy, error) {
	switch body.Kind() {
	case value.KindUndefined, value.KindNull:
		p := DefaultIndexing()
		p.Geometry, p.Texts, p.Embeddings, p.Computed = with.Geometry, with.Texts, with.Embeddings, with.Computed
		return p, nil
	case value.KindObject:
	default:
		return IndexingPolicy{}, status.BadRequest("The indexing policy is %s. It must be an object.", nameOf(body.Kind()))
	}
	p := with
	p.Automatic = true
	var err error
	if p.Mode, err = parseMode(body.Get("indexingMode")); err != nil {
		return IndexingPolicy{}, err
	}
	if automatic := body.Get("automatic"); automatic.Kind() == value.KindBool {
		p.Automatic = automatic.Bool()
	} else if !isNull(automatic) {
		return IndexingPolicy{}, status.BadRequest("The property 'automatic' of the indexing policy is %s. It must be a boolean.", nameOf(automatic.Kind()))
	}
	for _, parse := range []func(value.Value) error{
		p.parseIncluded, p.parseExcluded, p.parseComposite, p.parseSpatial, p.parseFullText, p.parseVector,
	} {
		if err := parse(body); err != nil {
			return IndexingPolicy{}, err
		}
	}
	return p.complete()
}

// parseMode parses an indexing mode in any letter case. The service accepts lazy
// but indexes consistently.
func parseMode(v value.Value) (IndexingMode, error) {
	if isNull(v) {
		return IndexingConsistent, nil
	}
	switch strings.ToLower(v.Text()) {
	case "consistent", "lazy":
		return IndexingConsistent, nil
	case "none":
		return IndexingNone, nil
	}
	return "", status.BadRequest("The indexing mode %s is not known. Use 'consistent' or 'none'.", clip(v.String()))
}

// parseIncluded parses the included paths. The other members of an entry come
// from earlier kinds of indexes: a spatial kind becomes a spatial index, other
// kinds have no effect.
func (p *IndexingPolicy) parseIncluded(policy value.Value) error {
	paths, err := parsePaths(policy, "includedPaths")
	if err != nil {
		return err
	}
	p.Included = paths
	return p.parseLegacy(policy.Get("includedPaths").Items())
}

func (p *IndexingPolicy) parseExcluded(policy value.Value) (err error) {
	if p.Excluded, err = parsePaths(policy, "excludedPaths"); err != nil {
		return err
	}
	for _, path := range p.Excluded {
		if parsed, _ := ParseIndexPath(path); parsed.Tuple != nil {
			return status.BadRequest("The tuple path '%s' is excluded. A tuple can only be included.", clip(path))
		}
	}
	return nil
}

// parsePaths parses the paths of one list.
func parsePaths(policy value.Value, member string) ([]string, error) {
	list, err := policyList(policy, member)
	if err != nil || list == nil {
		return nil, err
	}
	// The path that the server adds does not count. Otherwise a client could not
	// send back a policy with the maximum number of paths.
	paths, most := make([]string, 0, min(len(list), IndexingPathsMax+1)), IndexingPathsMax
	for _, item := range list {
		path := item.Get("path")
		if path.Kind() != value.KindString {
			return nil, status.BadRequest("An entry of '%s' in the indexing policy has no string 'path'.", member)
		}
		text := path.Text()
		if text == "/" {
			text = rootPath // samples of the SDKs use the form from before there were wildcards
		}
		parsed, err := parsePolicyPath(text)
		if err != nil {
			return nil, err
		}
		if parsed.place() == etagKey {
			most = IndexingPathsMax + 1
		}
		if len(paths) == most {
			return nil, status.BadRequest("The property '%s' of the indexing policy has %d paths. At most %d are allowed.", member, len(list), IndexingPathsMax)
		}
		paths = append(paths, text)
	}
	return paths, nil
}

// policyList returns the items of a member of the indexing policy: nil if it is
// missing, and not nil if it is present.
func policyList(policy value.Value, member string) ([]value.Value, error) {
	list := policy.Get(member)
	if isNull(list) {
		return nil, nil
	}
	if list.Kind() != value.KindArray {
		return nil, status.BadRequest("The property '%s' of the indexing policy is %s. It must be an array.", member, nameOf(list.Kind()))
	}
	if list.Len() == 0 {
		return []value.Value{}, nil
	}
	return list.Items(), nil
}

// complete fills in default paths and checks the lists against each other.
func (p IndexingPolicy) complete() (IndexingPolicy, error) {
	included, err := pathSet(p.Included)
	if err != nil {
		return IndexingPolicy{}, err
	}
	excluded, err := pathSet(p.Excluded)
	if err != nil {
		return IndexingPolicy{}, err
	}
	for at, path := range excluded {
		if twin, both := included[at]; both {
			return IndexingPolicy{}, status.BadRequest("The indexing path '%s' is included as '%s' and excluded too. Remove one of them.", clip(path), clip(twin))
		}
	}
	if p.Mode == IndexingNone {
		return p, nil
	}
	if len(p.Included) == 0 && len(p.Excluded) == 0 {
		p.Included = []string{rootPath}
		included = map[string]string{rootKey: rootPath}
	}
	if included[rootKey] == "" && excluded[rootKey] == "" {
		return IndexingPolicy{}, status.BadRequest("The special mandatory indexing path \"/*\" is missing: include it or exclude it.")
	}
	if included[rootKey] != "" && included[etagKey] == "" && excluded[etagKey] == "" {
		// The service excludes it unless the policy says otherwise.
		p.Excluded = append(slices.Clip(p.Excluded), etagPath)
	}
	return p, nil
}

// The normalized forms of the two special paths, as IndexPath.place returns
// them.
const (
	rootKey = "*"
	etagKey = "_etag\xff?"
)

// pathSet returns the paths by their normalized form. It allows at most
// TuplesMax tuples per array.
func pathSet(paths []string) (map[string]string, error) {
	set := make(map[string]string, len(paths))
	tuples := map[string]int{}
	for _, path := range paths {
		parsed, err := ParseIndexPath(path)
		if err != nil {
			return nil, err
		}
		place := parsed.place()
		if _, again := set[place]; parsed.Tuple != nil && !again {
			array := samePlace(parsed.Names)
			if tuples[array]++; tuples[array] > TuplesMax {
				return nil, status.BadRequest("The tuple path '%s' is one of more than %d for the same array.", clip(path), TuplesMax)
			}
		}
		set[place] = path
	}
	return set, nil
}
