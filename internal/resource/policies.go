package resource

import (
	"slices"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// VectorEmbedding describes the vectors at one path: an entry of the vector
// embedding policy.
type VectorEmbedding struct {
	Path       string `json:"path"`       // as given, without an ending or []: see [ParsePropertyPath]
	DataType   string `json:"dataType"`   // float32, float16, int8 or uint8
	Dimensions int    `json:"dimensions"` // 1 to [VectorDimensionsMax]
	Distance   string `json:"distance"`   // cosine, dotproduct or euclidean
}

var (
	vectorDataTypes = []string{"float32", "float16", "int8", "uint8"}
	vectorDistances = []string{"cosine", "dotproduct", "euclidean"}
)

// parseEmbeddings parses the vector embedding policy. The defaults of an entry
// are float32, 1,536 dimensions and cosine.
func parseEmbeddings(policy value.Value) ([]VectorEmbedding, error) {
	list, err := settingList(policy, "vectorEmbeddingPolicy", "vectorEmbeddings")
	if err != nil {
		return nil, err
	}
	if len(list) > EmbeddingsMax {
		return nil, status.BadRequest("The Vector Embedding Policy has %d paths. At most %d are allowed.", len(list), EmbeddingsMax)
	}
	var embeddings []VectorEmbedding
	seen := map[string]bool{}
	for _, item := range list {
		e, names, err := parseEmbedding(item)
		if err != nil {
			return nil, err
		}
		if !once(seen, names) {
			return nil, status.BadRequest("The Vector Embedding Policy has the Path:%s twice.", clip(e.Path))
		}
		embeddings = append(embeddings, e)
	}
	return embeddings, nil
}

func parseEmbedding(item value.Value) (e VectorEmbedding, names []string, err error) {
	path := item.Get("path")
	if path.Kind() != value.KindString {
		return e, nil, status.BadRequest("An entry of the Vector Embedding Policy has no string 'path'.")
	}
	names, ok := ParsePropertyPath(path.Text())
	if !ok || throughArray(names) {
		return e, nil, status.BadRequest("The Vector Embedding Policy has an invalid Path:%s. It starts with '/' and has neither [] nor '/?' nor '/*'.", clip(path.Text()))
	}
	e.Path = path.Text()
	if e.DataType, err = oneOf("DataType", item.Get("dataType"), vectorDataTypes); err != nil {
		return e, nil, err
	}
	if e.Distance, err = oneOf("DistanceFunction", item.Get("distanceFunction"), vectorDistances); err != nil {
		return e, nil, err
	}
	e.Dimensions, err = parseDimensions(e.Path, item.Get("dimensions"))
	return e, names, err
}

// oneOf parses one of some words. A missing value means the first word.
func oneOf(name string, v value.Value, words []string) (string, error) {
	if isNull(v) {
		return words[0], nil
	}
	for _, word := range words {
		if strings.EqualFold(word, v.Text()) {
			return word, nil
		}
	}
	text := v.Text()
	if v.Kind() != value.KindString {
		text = v.String()
	}
	return "", status.BadRequest("The Vector Embedding Policy has an invalid %s:%s. Use %s.", name, clip(text), strings.Join(words, ", "))
}

func parseDimensions(path string, v value.Value) (int, error) {
	const usual = 1536 // the service's default
	if isNull(v) {
		return usual, nil
	}
	n, ok := v.Int64()
	switch {
	case !ok || n < 1:
		return 0, status.BadRequest("The Vector Embedding Policy has Dimensions:%s for the path %s. It must be an integer from 1 to %d.", clip(v.String()), clip(path), VectorDimensionsMax)
	case n > VectorDimensionsMax:
		return 0, status.BadRequest("The Vector Embedding Policy has Dimensions:%d which is more than the maximum supported value: %d.", n, VectorDimensionsMax)
	}
	return int(n), nil
}

// TextPolicy says which language the texts have.
type TextPolicy struct {
	Default string     `json:"default,omitzero"` // of paths without a language; empty if there is no policy
	Paths   []TextPath `json:"paths,omitzero"`
}

// TextPath is an entry of the full-text policy.
type TextPath struct {
	Path     string `json:"path"`     // as given, without an ending or []: see [ParsePropertyPath]
	Language string `json:"language"` // such as en-US: its own, or the default
}

// Equal reports whether both have the same definition, literally.
func (t TextPolicy) Equal(o TextPolicy) bool {
	return t.Default == o.Default && slices.Equal(t.Paths, o.Paths)
}

// languages are the languages that a full-text policy can name, the default
// first.
var languages = []string{"en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-PT", "pt-BR"}

// DefaultLanguage is the language of texts without a policy.
const DefaultLanguage = "en-US"

// windowsEnglish is the Windows number of en-US, which public samples of the
// SDKs use.
const windowsEnglish = "1033"

// Languages returns the languages that a full-text policy can name, the default
// first.
func Languages() []string { return slices.Clone(languages) }

// places returns the language by normalized path.
func (t TextPolicy) places() map[string]string {
	places := make(map[string]string, len(t.Paths))
	for _, p := range t.Paths {
		names, _ := ParsePropertyPath(p.Path)
		places[samePlace(names)] = p.Language
	}
	return places
}

// parseTexts reads the full-text policy.
func parseTexts(policy value.Value) (t TextPolicy, err error) {
	list, err := settingList(policy, "fullTextPolicy", "fullTextPaths")
	if err != nil || isNull(policy) {
		return t, err
	}
	if len(list) > TextPathsMax {
		return t, status.BadRequest("The Full Text Policy has %d paths. At most %d are allowed.", len(list), TextPathsMax)
	}
	if t.Default, err = parseLanguage(policy.Get("defaultLanguage"), DefaultLanguage); err != nil {
		return t, err
	}
	seen := map[string]bool{}
	for _, item := range list {
		path := item.Get("path")
		if path.Kind() != value.KindString {
			return t, status.BadRequest("The Full Text Policy contains invalid syntax: an entry of 'fullTextPaths' has no string 'path'.")
		}
		names, ok := ParsePropertyPath(path.Text())
		if !ok || throughArray(names) {
			return t, status.BadRequest("The Full Text Policy contains an invalid Path: %s. It starts with '/' and has neither [] nor '/?' nor '/*'.", clip(path.Text()))
		}
		if !once(seen, names) {
			return t, status.BadRequest("The Full Text Policy contains the Path: %s twice.", clip(path.Text()))
		}
		language, err := parseLanguage(item.Get("language"), t.Default)
		if err != nil {
			return t, err
		}
		t.Paths = append(t.Paths, TextPath{Path: path.Text(), Language: language})
	}
	return t, nil
}

func parseLanguage(v value.Value, missing string) (string, error) {
	if isNull(v) {
		return missing, nil
	}
	if v.Text() == windowsEnglish {
		return "en-US", nil
	}
	for _, language := range languages {
		if strings.EqualFold(language, v.Text()) {
			return language, nil
		}
	}
	text := v.Text()
	if v.Kind() != value.KindString {
		text = v.String()
	}
	return "", status.BadRequest("The Full Text Policy contains an unsupported language %s. Supported languages are: %s.", clip(text), strings.Join(languages, ", "))
}

// settingList returns the items of the list in a policy of the container. A
// missing policy or list has no items.
func settingList(policy value.Value, name, list string) ([]value.Value, error) {
	if isNull(policy) {
		return nil, nil
	}
	if policy.Kind() != value.KindObject {
		return nil, status.BadRequest("The property '%s' is %s. It must be an object.", name, nameOf(policy.Kind()))
	}
	items := policy.Get(list)
	if !isNull(items) && items.Kind() != value.KindArray {
		return nil, status.BadRequest("The property '%s' of '%s' is %s. It must be an array.", list, name, nameOf(items.Kind()))
	}
	return items.Items(), nil
}

// ComputedProperty is a property that documents have in queries but not in
// storage.
type ComputedProperty struct {
	Name  string `json:"name"`  // of the top-level property
	Query string `json:"query"` // SELECT VALUE of an expression; package query checks and compiles it
}

// parseComputed parses the computed properties without checking their queries.
func parseComputed(list value.Value) ([]ComputedProperty, error) {
	if isNull(list) {
		return nil, nil
	}
	if list.Kind() != value.KindArray {
		return nil, status.BadRequest("The property 'computedProperties' is %s. It must be an array.", nameOf(list.Kind()))
	}
	if list.Len() > ComputedMax {
		return nil, status.BadRequest("The container has %d computed properties. At most %d are allowed.", list.Len(), ComputedMax)
	}
	var properties []ComputedProperty
	for _, item := range list.Items() {
		name, query := item.Get("name"), item.Get("query")
		if name.Kind() != value.KindString || query.Kind() != value.KindString {
			return nil, status.Service("One of the specified inputs is invalid")
		}
		p := ComputedProperty{Name: name.Text(), Query: query.Text()}
		if p.Name == "" {
			return nil, status.Service("Computed property 'name' is either empty or unspecified.")
		}
		if strings.TrimSpace(p.Query) == "" {
			return nil, status.Service("Computed property 'query' is either empty or unspecified.")
		}
		if p.Name == "id" || isSystemProperty(p.Name) {
			return nil, status.Service("The system property name '%s' cannot be used as a computed property name.", clip(p.Name))
		}
		for _, before := range properties {
			if before.Name == p.Name {
				return nil, status.Service("Computed property name '%s' cannot be used in multiple definitions.", clip(p.Name))
			}
		}
		properties = append(properties, p)
	}
	return properties, nil
}

// refuseSpatial rejects a computed property with a spatial index, as the service does.
func (p *IndexingPolicy) refuseSpatial() error {
	for i, c := range p.Computed {
		for _, s := range p.Spatial {
			if path, err := ParseIndexPath(s.Path); err == nil && len(path.Names) > 0 && path.Names[0] == c.Name {
				return status.Service("Computed property '%s' at index (%d) has a spatial index. Remove the spatial index on this path.", clip(c.Name), i)
			}
		}
	}
	return nil
}

// isSystemProperty reports whether the server sets the top-level property.
func isSystemProperty(name string) bool {
	switch name {
	case "_rid", "_self", "_etag", "_attachments", "_ts":
		return true
	}
	return false
}

// mentions reports whether the policy has a path at or below a top-level
// property.
func (p *IndexingPolicy) mentions(property string) bool {
	for _, paths := range [][]string{p.Included, p.Excluded} {
		for _, path := range paths {
			if parsed, err := ParseIndexPath(path); err == nil && len(parsed.Names) > 0 && parsed.Names[0] == property {
				return true
			}
		}
	}
	for _, s := range p.Spatial {
		if parsed, err := ParseIndexPath(s.Path); err == nil && len(parsed.Names) > 0 && parsed.Names[0] == property {
			return true
		}
	}
	var paths []string
	for _, index := range p.Composite {
		for _, c := range index {
			paths = append(paths, c.Path)
		}
	}
	for _, v := range p.Vector {
		paths = append(paths, v.Path)
	}
	for _, f := range p.FullText {
		paths = append(paths, f.Path)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		names, ok := ParsePropertyPath(path)
		return ok && names[0] == property
	})
}

// allows returns an error if the next policy changes what may only be added or
// removed. The wording of some errors comes from tests of the service's clients.
func (p *IndexingPolicy) allows(next IndexingPolicy) error {
	place := func(path string) string {
		names, _ := ParsePropertyPath(path)
		return samePlace(names)
	}
	embeddings := map[string]VectorEmbedding{}
	for _, e := range p.Embeddings {
		embeddings[place(e.Path)] = e
	}
	for _, e := range next.Embeddings {
		before, kept := embeddings[place(e.Path)]
		if before.Path = e.Path; kept && before != e {
			return status.BadRequest("Paths in existing embedding policy cannot be modified in Collection Replace: %s. Remove the path first.", clip(e.Path))
		}
	}
	vectors := map[string]VectorIndex{}
	for _, v := range p.Vector {
		vectors[place(v.Path)] = v
	}
	for _, v := range next.Vector {
		before, kept := vectors[place(v.Path)]
		if before.Path = v.Path; kept && !before.Equal(v) {
			return status.BadRequest("Paths in existing vector indexing policy cannot be modified in Collection Replace: %s. Remove the index first.", clip(v.Path))
		}
	}
	languages := p.Texts.places()
	for _, t := range next.Texts.Paths {
		if before, kept := languages[place(t.Path)]; kept && before != t.Language {
			return status.BadRequest("Paths in existing full text policy cannot be modified in Collection Replace: the language of %s is %s. Remove the path first.", clip(t.Path), before)
		}
	}
	for _, c := range next.Computed {
		fresh := !slices.ContainsFunc(p.Computed, func(before ComputedProperty) bool { return before.Name == c.Name })
		if fresh && p.mentions(c.Name) {
			return status.BadRequest("The computed property '%s' has the name of a property with a path in the indexing policy. Remove the path first, or choose another name.", clip(c.Name))
		}
	}
	return nil
}

// UniqueKey is a set of paths. No two documents of one partition key may have
// the same values at all of them.
type UniqueKey struct {
	Paths []string `json:"paths"` // as given, without an ending or []: see [ParsePropertyPath]
}

// parseUniqueKeys parses a unique key policy. In documents, a missing value
// counts as null.
func parseUniqueKeys(policy value.Value) ([]UniqueKey, error) {
	list, err := settingList(policy, "uniqueKeyPolicy", "uniqueKeys")
	if err != nil {
		return nil, err
	}
	if len(list) > UniqueKeysMax {
		return nil, status.BadRequest("The unique key policy has %d unique keys. At most %d are allowed.", len(list), UniqueKeysMax)
	}
	var keys []UniqueKey
	for i, item := range list {
		paths := item.Get("paths")
		if paths.Kind() != value.KindArray || paths.Len() == 0 {
			return nil, status.BadRequest("The unique key at index (%d) has no 'paths'. It must be an array of at least one path.", i)
		}
		if paths.Len() > UniqueKeyPathsMax {
			return nil, status.BadRequest("The unique key at index (%d) has %d paths. At most %d are allowed.", i, paths.Len(), UniqueKeyPathsMax)
		}
		var key UniqueKey
		seen := map[string]bool{}
		for _, path := range paths.Items() {
			names, err := uniquePath(i, path)
			if err != nil {
				return nil, err
			}
			if !once(seen, names) {
				return nil, status.BadRequest("The unique key at index (%d) has the path '%s' twice.", i, clip(path.Text()))
			}
			key.Paths = append(key.Paths, path.Text())
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// uniquePath parses a path of the i-th unique key.
func uniquePath(i int, path value.Value) ([]string, error) {
	if path.Kind() != value.KindString {
		return nil, status.BadRequest("A path of the unique key at index (%d) is %s. It must be a string.", i, nameOf(path.Kind()))
	}
	names, ok := ParsePropertyPath(path.Text())
	if !ok || throughArray(names) {
		return nil, status.BadRequest("The unique key at index (%d) has the invalid path '%s'. A path starts with '/' and has neither [] nor '/?' nor '/*'.", i, clip(path.Text()))
	}
	if isSystemProperty(names[0]) {
		return nil, status.BadRequest("The unique key at index (%d) has the path '%s', a property that the server sets.", i, clip(path.Text()))
	}
	return names, nil
}

func uniqueKeysValue(keys []UniqueKey) value.Value {
	return value.Object([]value.Member{{Name: "uniqueKeys", Value: listValue(keys, func(k UniqueKey) value.Value {
		return value.Object([]value.Member{{Name: "paths", Value: listValue(k.Paths, value.String)}})
	})}})
}

// sameUniqueKeys reports whether two policies have the same meaning, however
// their paths are written.
func sameUniqueKeys(a, b []UniqueKey) bool {
	return slices.EqualFunc(a, b, func(a, b UniqueKey) bool {
		return slices.EqualFunc(a.Paths, b.Paths, func(a, b string) bool {
			x, _ := ParsePropertyPath(a)
			y, _ := ParsePropertyPath(b)
			return slices.Equal(x, y)
		})
	})
}

// ValidTTL reports whether a value is a time to live: -1 for unlimited, or a
// positive number of seconds.
func ValidTTL(v value.Value) bool {
	n, ok := v.Int64()
	return ok && (n == -1 || n > 0 && n <= TTLMax)
}

// parseTTL parses the default time to live, 0 if there is none.
func parseTTL(v value.Value, mode IndexingMode) (int32, error) {
	if isNull(v) {
		return 0, nil
	}
	n, _ := v.Int64()
	if !ValidTTL(v) {
		return 0, status.BadRequest("The value of 'defaultTtl' is %s. It must be -1 or a positive integer of at most %d.", clip(v.String()), TTLMax)
	}
	if mode == IndexingNone {
		return 0, status.BadRequest("The value of 'defaultTtl' is %d, and the indexing mode is 'none'. Documents can only expire where the indexing mode is 'consistent'.", n)
	}
	return int32(n), nil
}
