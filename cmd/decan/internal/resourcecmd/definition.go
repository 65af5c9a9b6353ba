package resourcecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
)

// definitionFlags are the parts of a definition that can change.
type definitionFlags struct {
	File string `short:"f" env:"-" placeholder:"FILE" help:"The definition as JSON, as decan container show --json prints it; - is standard input. Flags replace its parts."`

	TTL          string   `name:"ttl" env:"-" placeholder:"SECONDS" help:"How long items live after their last write; on: only those with a property ttl expire; off: none does."`
	Indexing     string   `env:"-" placeholder:"JSON" help:"The whole indexing policy: JSON, or @FILE."`
	IndexingMode string   `env:"-" placeholder:"MODE" help:"consistent or none."`
	Include      []string `name:"include-path" sep:"none" env:"-" placeholder:"PATH" help:"Index this path, such as /name/?; the first one replaces the included paths."`
	Exclude      []string `name:"exclude-path" sep:"none" env:"-" placeholder:"PATH" help:"Do not index this path, such as /text/*; the first one replaces the excluded paths."`
	Composite    []string `name:"composite-index" sep:"none" env:"-" placeholder:"PATHS" help:"A composite index, such as '/name ASC, /age DESC'."`
	Spatial      []string `name:"spatial-index" sep:"none" env:"-" placeholder:"PATH" help:"A spatial index of points, lines and polygons, such as /place/*."`
	Geometry     string   `name:"geometry" env:"-" placeholder:"KIND" help:"How coordinates are read: Geography or Geometry."`

	Computed []string `name:"computed-property" sep:"none" env:"-" placeholder:"NAME=QUERY" help:"A computed property, such as 'low=SELECT VALUE LOWER(c.name) FROM c'."`

	Vectors       []string `name:"vector" sep:"none" env:"-" placeholder:"PATH=TYPE,N,HOW" help:"A path with vectors: type, dimensions and distance, such as /v=float32,1536,cosine."`
	VectorIndex   []string `name:"vector-index" sep:"none" env:"-" placeholder:"PATH=KIND" help:"A vector index: flat, quantizedFlat or diskANN, such as /v=diskANN."`
	FullText      []string `name:"full-text" sep:"none" env:"-" placeholder:"PATH=LANGUAGE" help:"A path with text for full-text search, such as /text=en-US."`
	FullTextIndex []string `name:"full-text-index" sep:"none" env:"-" placeholder:"PATH" help:"A full-text index, such as /text."`
	Language      string   `name:"full-text-language" env:"-" placeholder:"LANGUAGE" help:"The language of texts whose path names none, such as en-US."`

	Conflict    string         `env:"-" placeholder:"POLICY" help:"How conflicts are resolved: last-writer-wins:PATH, or custom:LINK of a stored procedure."`
	AllVersions *time.Duration `env:"-" placeholder:"DURATION" help:"Keep all versions and deletes for the change feed this long, in minutes: 10m; 0s for not at all."`
	Encryption  string         `env:"-" placeholder:"JSON" help:"The policy of client encryption: JSON, or @FILE."`
}

// serverProperties are the properties of a container that the server sets.
var serverProperties = []string{"_rid", "_ts", "_self", "_etag", "_docs", "_sprocs", "_triggers", "_udfs", "_conflicts", "statistics"}

// file returns the definition of --file without what the server sets; an empty one
// without the flag.
func (f *definitionFlags) file(streams console.Streams) (map[string]any, error) {
	if f.File == "" {
		return map[string]any{}, nil
	}
	text, err := readFile(streams, f.File)
	if err != nil {
		return nil, fmt.Errorf("--file: %w", err)
	}
	var body map[string]any
	if err := decodeObject(text, &body); err != nil {
		return nil, fmt.Errorf("--file %s: %w", f.File, err)
	}
	for _, name := range serverProperties {
		delete(body, name)
	}
	return body, nil
}

// put puts the key into a definition.
func (f *keyFlags) put(body map[string]any) error {
	if len(f.Keys) > 0 {
		key := map[string]any{"paths": f.Keys, "version": f.Version, "kind": f.Kind}
		if f.Kind == "" {
			key["kind"] = "Hash"
			if len(f.Keys) > 1 {
				key["kind"] = "MultiHash"
			}
		}
		body["partitionKey"] = key
	}
	if body["partitionKey"] == nil {
		return errors.New("a container needs a partition key: give --key-path PATH, such as --key-path /tenant, or --file")
	}
	if len(f.Unique) > 0 {
		var keys []map[string]any
		for _, text := range f.Unique {
			keys = append(keys, map[string]any{"paths": list(text)})
		}
		body["uniqueKeyPolicy"] = map[string]any{"uniqueKeys": keys}
	}
	return nil
}

// list returns the parts between commas.
func list(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

// put puts what the flags say into a definition.
func (f *definitionFlags) put(streams console.Streams, body map[string]any) error {
	switch f.TTL {
	case "":
	case "off":
		delete(body, "defaultTtl")
	case "on":
		body["defaultTtl"] = -1
	default:
		seconds, err := strconv.Atoi(f.TTL)
		if err != nil || seconds < 1 {
			return fmt.Errorf("--ttl %s: give a number of seconds from 1 on, on or off", f.TTL)
		}
		body["defaultTtl"] = seconds
	}
	for _, policy := range []struct{ flag, text, member string }{
		{"--indexing", f.Indexing, "indexingPolicy"},
		{"--encryption", f.Encryption, "clientEncryptionPolicy"},
	} {
		if policy.text == "" {
			continue
		}
		text, err := readText(streams, policy.text)
		if err != nil {
			return fmt.Errorf("%s: %w", policy.flag, err)
		}
		var object map[string]any
		if err := decodeObject(text, &object); err != nil {
			return fmt.Errorf("%s: %w", policy.flag, err)
		}
		body[policy.member] = object
	}
	if f.Geometry != "" {
		body["geospatialConfig"] = map[string]any{"type": f.Geometry}
	}
	if f.AllVersions != nil {
		minutes := int64(*f.AllVersions / time.Minute)
		if *f.AllVersions < 0 || *f.AllVersions%time.Minute != 0 {
			return fmt.Errorf("--all-versions %s: give whole minutes, such as 10m", *f.AllVersions)
		}
		body["changeFeedPolicy"] = map[string]any{"retentionDuration": minutes}
	}
	if err := f.putIndexes(body); err != nil {
		return err
	}
	return f.putPolicies(body)
}

// putIndexes puts the parts of the indexing policy into a definition.
func (f *definitionFlags) putIndexes(body map[string]any) error {
	policy, _ := body["indexingPolicy"].(map[string]any)
	if policy == nil {
		policy = map[string]any{}
	}
	paths := func(member string, given []string) {
		if len(given) == 0 {
			return
		}
		var all []map[string]any
		for _, path := range given {
			all = append(all, map[string]any{"path": path})
		}
		policy[member] = all
	}
	if f.IndexingMode != "" {
		policy["indexingMode"], policy["automatic"] = f.IndexingMode, f.IndexingMode != "none"
	}
	included, excluded := f.Include, f.Exclude
	if len(included)+len(excluded) > 0 && !slices.Contains(included, "/*") && !slices.Contains(excluded, "/*") {
		// A policy must say something about all paths.
		switch {
		case len(included) > 0:
			excluded = append([]string{"/*"}, excluded...)
		case !hasPath(policy["includedPaths"], "/*"):
			included = []string{"/*"}
		}
	}
	paths("includedPaths", included)
	paths("excludedPaths", excluded)
	paths("fullTextIndexes", f.FullTextIndex)
	var composites [][]map[string]any
	for _, text := range f.Composite {
		var index []map[string]any
		for _, part := range list(text) {
			path, order, _ := strings.Cut(part, " ")
			switch strings.ToUpper(strings.TrimSpace(order)) {
			case "", "ASC":
				order = "ascending"
			case "DESC":
				order = "descending"
			default:
				return fmt.Errorf("--composite-index %q: the order is ASC or DESC, not %s", text, order)
			}
			index = append(index, map[string]any{"path": path, "order": order})
		}
		composites = append(composites, index)
	}
	if composites != nil {
		policy["compositeIndexes"] = composites
	}
	var spatial []map[string]any
	for _, path := range f.Spatial {
		spatial = append(spatial, map[string]any{"path": path, "types": []string{"Point", "LineString", "Polygon", "MultiPolygon"}})
	}
	if spatial != nil {
		policy["spatialIndexes"] = spatial
	}
	var vectors []map[string]any
	for _, text := range f.VectorIndex {
		path, kind, found := strings.Cut(text, "=")
		if !found {
			return fmt.Errorf("--vector-index %q: give PATH=KIND, such as /v=diskANN", text)
		}
		vectors = append(vectors, map[string]any{"path": path, "type": kind})
	}
	if vectors != nil {
		policy["vectorIndexes"] = vectors
	}
	if len(policy) > 0 {
		body["indexingPolicy"] = policy
	}
	return nil
}

// hasPath reports whether a list of paths of a policy, as JSON, has one.
func hasPath(paths any, path string) bool {
	all, _ := paths.([]any)
	return slices.ContainsFunc(all, func(p any) bool {
		object, _ := p.(map[string]any)
		return object["path"] == path
	})
}

// putPolicies puts computed properties, vectors, texts and the conflict policy into a
// definition.
func (f *definitionFlags) putPolicies(body map[string]any) error {
	var computed []map[string]any
	for _, text := range f.Computed {
		name, query, found := strings.Cut(text, "=")
		if !found {
			return fmt.Errorf("--computed-property %q: give NAME=QUERY", text)
		}
		computed = append(computed, map[string]any{"name": name, "query": query})
	}
	if computed != nil {
		body["computedProperties"] = computed
	}
	var vectors []map[string]any
	for _, text := range f.Vectors {
		path, what, _ := strings.Cut(text, "=")
		parts := list(what)
		if len(parts) != 3 {
			return fmt.Errorf("--vector %q: give PATH=TYPE,DIMENSIONS,DISTANCE, such as /v=float32,1536,cosine", text)
		}
		dimensions, err := strconv.Atoi(parts[1])
		if err != nil {
			return fmt.Errorf("--vector %q: the number of dimensions is %q", text, parts[1])
		}
		vectors = append(vectors, map[string]any{"path": path, "dataType": parts[0], "dimensions": dimensions, "distanceFunction": parts[2]})
	}
	if vectors != nil {
		body["vectorEmbeddingPolicy"] = map[string]any{"vectorEmbeddings": vectors}
	}
	if len(f.FullText) > 0 || f.Language != "" {
		policy, _ := body["fullTextPolicy"].(map[string]any)
		if policy == nil {
			policy = map[string]any{"defaultLanguage": "en-US"}
		}
		if f.Language != "" {
			policy["defaultLanguage"] = f.Language
		}
		var texts []map[string]any
		for _, text := range f.FullText {
			path, language, found := strings.Cut(text, "=")
			if !found {
				language, _ = policy["defaultLanguage"].(string)
			}
			texts = append(texts, map[string]any{"path": path, "language": language})
		}
		if texts != nil {
			policy["fullTextPaths"] = texts
		}
		body["fullTextPolicy"] = policy
	}
	if f.Conflict == "" {
		return nil
	}
	mode, what, _ := strings.Cut(f.Conflict, ":")
	switch mode {
	case "last-writer-wins":
		if what == "" {
			what = "/_ts"
		}
		body["conflictResolutionPolicy"] = map[string]any{"mode": "LastWriterWins", "conflictResolutionPath": what}
	case "custom":
		body["conflictResolutionPolicy"] = map[string]any{"mode": "Custom", "conflictResolutionProcedure": what}
	default:
		return fmt.Errorf("--conflict %s: give last-writer-wins:PATH or custom:LINK", f.Conflict)
	}
	return nil
}

// definition is what a container is shown with.
type definition struct {
	ID  string `json:"id"`
	Key struct {
		Paths   []string `json:"paths"`
		Kind    string   `json:"kind"`
		Version int      `json:"version"`
	} `json:"partitionKey"`
	TTL      *int64 `json:"defaultTtl"`
	Indexing struct {
		Mode      string    `json:"indexingMode"`
		Included  []indexed `json:"includedPaths"`
		Excluded  []indexed `json:"excludedPaths"`
		Composite [][]struct {
			Path  string `json:"path"`
			Order string `json:"order"`
		} `json:"compositeIndexes"`
		Spatial  []indexed `json:"spatialIndexes"`
		Vector   []indexed `json:"vectorIndexes"`
		FullText []indexed `json:"fullTextIndexes"`
	} `json:"indexingPolicy"`
	Unique struct {
		Keys []struct {
			Paths []string `json:"paths"`
		} `json:"uniqueKeys"`
	} `json:"uniqueKeyPolicy"`
	Computed []struct {
		Name  string `json:"name"`
		Query string `json:"query"`
	} `json:"computedProperties"`
	Vectors struct {
		All []struct {
			Path       string `json:"path"`
			Type       string `json:"dataType"`
			Dimensions int    `json:"dimensions"`
			Distance   string `json:"distanceFunction"`
		} `json:"vectorEmbeddings"`
	} `json:"vectorEmbeddingPolicy"`
	FullText struct {
		Language string `json:"defaultLanguage"`
		Paths    []struct {
			Path     string `json:"path"`
			Language string `json:"language"`
		} `json:"fullTextPaths"`
	} `json:"fullTextPolicy"`
	Conflicts struct {
		Mode      string `json:"mode"`
		Path      string `json:"conflictResolutionPath"`
		Procedure string `json:"conflictResolutionProcedure"`
	} `json:"conflictResolutionPolicy"`
	Feed struct {
		Minutes int64 `json:"retentionDuration"`
	} `json:"changeFeedPolicy"`
	Geometry struct {
		Type string `json:"type"`
	} `json:"geospatialConfig"`
	Encryption json.RawMessage `json:"clientEncryptionPolicy"`
}

// indexed is a path of an index.
type indexed struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

func parseDefinition(raw json.RawMessage) (definition, error) {
	var d definition
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, fmt.Errorf("read the container: %w", err)
	}
	return d, nil
}

// key returns the paths of the key in their order.
func (d *definition) key() string { return strings.Join(d.Key.Paths, ", ") }

// describe writes a line for each property that is not the default.
func (d *definition) describe(b *strings.Builder) {
	line(b, "key", "%s (%s, version %d)", d.key(), d.Key.Kind, max(d.Key.Version, 1))
	switch {
	case d.TTL == nil:
		line(b, "time to live", "off")
	case *d.TTL < 0:
		line(b, "time to live", "on, for items with a property ttl")
	default:
		line(b, "time to live", "%s", console.Took(time.Duration(*d.TTL)*time.Second))
	}
	line(b, "indexing", "%s; included %s; excluded %s", d.Indexing.Mode, join(d.Indexing.Included), join(d.Indexing.Excluded))
	for _, index := range d.Indexing.Composite {
		var parts []string
		for _, p := range index {
			order := "ASC"
			if p.Order == "descending" {
				order = "DESC"
			}
			parts = append(parts, p.Path+" "+order)
		}
		line(b, "  composite", "%s", strings.Join(parts, ", "))
	}
	for _, kind := range []struct {
		name  string
		paths []indexed
	}{{"  spatial", d.Indexing.Spatial}, {"  vector", d.Indexing.Vector}, {"  full text", d.Indexing.FullText}} {
		if len(kind.paths) > 0 {
			line(b, kind.name, "%s", join(kind.paths))
		}
	}
	for _, u := range d.Unique.Keys {
		line(b, "unique key", "%s", strings.Join(u.Paths, ", "))
	}
	for _, p := range d.Computed {
		line(b, "computed", "%s = %s", p.Name, p.Query)
	}
	for _, v := range d.Vectors.All {
		line(b, "vectors", "%s: %s, %s, %s", v.Path, v.Type, console.Counted(v.Dimensions, "dimension"), v.Distance)
	}
	for _, p := range d.FullText.Paths {
		line(b, "texts", "%s: %s", p.Path, p.Language)
	}
	switch {
	case d.Conflicts.Mode == "Custom":
		line(b, "conflicts", "custom %s", d.Conflicts.Procedure)
	case d.Conflicts.Path != "" && d.Conflicts.Path != "/_ts":
		line(b, "conflicts", "the item with the highest %s wins", d.Conflicts.Path)
	}
	if d.Feed.Minutes > 0 {
		line(b, "change feed", "all versions and deletes of %s", console.Took(time.Duration(d.Feed.Minutes)*time.Minute))
	}
	if d.Geometry.Type == "Geometry" {
		line(b, "coordinates", "Geometry")
	}
	if d.Encryption != nil {
		line(b, "encryption", "a policy of client encryption (--json shows it)")
	}
}

// join returns paths, with their kind if they have one.
func join(paths []indexed) string {
	if len(paths) == 0 {
		return "nothing"
	}
	var all []string
	for _, p := range paths {
		text := p.Path
		if p.Type != "" {
			text += " (" + p.Type + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
