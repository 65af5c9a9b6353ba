package resource

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
	"github.com/decandb/decan/partitionkey"
)

// ParseContainer parses the definition of a container from a client and fills in
// every default. The caller sets RID, ETag and TS, and checks the queries of
// computed properties. Errors are status 400; for an unsupported feature the
// error names it.
func ParseContainer(body value.Value) (Container, error) {
	id, err := parseID(body)
	if err != nil {
		return Container{}, err
	}
	definition, err := parseDefinition(body.Get("partitionKey"), partitionkey.Definition{})
	if err != nil {
		return Container{}, err
	}
	c := Container{ID: id, PartitionKey: definition}
	if c.UniqueKeys, err = parseUniqueKeys(body.Get("uniqueKeyPolicy")); err != nil {
		return Container{}, err
	}
	if err := c.parseChangeable(body); err != nil {
		return Container{}, err
	}
	if err := c.refuseBlanks(); err != nil {
		return Container{}, err
	}
	return c, c.refuseSystemPaths()
}

// refuseBlanks rejects a partition key path with a blank in a segment that is not
// quoted, as the service does. Containers of earlier versions may have one.
func (c *Container) refuseBlanks() error {
	for _, path := range c.PartitionKey.Paths {
		if i := strings.IndexByte(path, ' '); i >= 0 && !strings.ContainsAny(path, `"'`) {
			rest := strings.TrimLeft(path[i:], " ")
			if rest == "" || rest[0] == '/' || strings.HasSuffix(path[:i], "/") {
				continue // around a segment
			}
			return status.Service("The partition key component definition path '%s' could not be accepted, failed near position '%d'. "+
				"Partition key paths must contain only valid characters and not contain a trailing slash or wildcard character.", clip(path), len(path)-len(rest))
		}
	}
	return nil
}

// refuseSystemPaths rejects a partition key at or below a system property. The
// server sets those after it has extracted the key, so a document would be
// stored under another key than the one it shows.
func (c *Container) refuseSystemPaths() error {
	for i, path := range c.keyPaths {
		if name := path[0].Name; isSystemProperty(name) {
			return status.BadRequest("The partition key path %q is not valid: '%s' is a property that the server sets.", c.PartitionKey.Paths[i], name)
		}
	}
	return nil
}

// parseChangeable parses the members that a replace may change. Those that it
// may not change must be set already.
func (c *Container) parseChangeable(body value.Value) error {
	var err error
	if c.keyPaths, err = keyPaths(c.PartitionKey); err != nil {
		return err
	}
	var with IndexingPolicy
	if with.Geometry, err = parseGeospatial(body.Get("geospatialConfig")); err != nil {
		return err
	}
	if with.Texts, err = parseTexts(body.Get("fullTextPolicy")); err != nil {
		return err
	}
	if with.Embeddings, err = parseEmbeddings(body.Get("vectorEmbeddingPolicy")); err != nil {
		return err
	}
	if with.Computed, err = parseComputed(body.Get("computedProperties")); err != nil {
		return err
	}
	for _, p := range with.Computed {
		if err := c.refuseKeyName(p.Name); err != nil {
			return err
		}
	}
	if c.Indexing, err = parseIndexing(body.Get("indexingPolicy"), with); err != nil {
		return err
	}
	if err := c.Indexing.refuseSpatial(); err != nil {
		return err
	}
	if c.DefaultTTL, err = parseTTL(body.Get("defaultTtl"), c.Indexing.Mode); err != nil {
		return err
	}
	return c.parseSettings(body)
}

// refuseKeyName rejects a computed property with the name of a partition key: a
// filter on it would be routed by the stored values.
func (c *Container) refuseKeyName(name string) error {
	for i, path := range c.keyPaths {
		if path[0].Name == name {
			return status.BadRequest("The computed property '%s' has the name of the partition key path %s. Choose another name.", clip(name), c.PartitionKey.Paths[i])
		}
	}
	return nil
}

// parseDefinition parses a partition key definition. A missing kind or version
// comes from defaults, or else is Hash and 2.
func parseDefinition(body value.Value, defaults partitionkey.Definition) (partitionkey.Definition, error) {
	d := partitionkey.Definition{Kind: defaults.Kind, Version: defaults.Version}
	switch body.Kind() {
	case value.KindUndefined, value.KindNull:
		return d, status.BadRequest("The partition key definition (partitionKey) is missing. A container needs one.")
	case value.KindObject:
	default:
		return d, status.BadRequest("The property 'partitionKey' is %s. It must be an object.", nameOf(body.Kind()))
	}
	paths := body.Get("paths")
	if !isNull(paths) && paths.Kind() != value.KindArray {
		return d, status.BadRequest("The property 'paths' of the partition key is %s. It must be an array of strings.", nameOf(paths.Kind()))
	}
	for _, path := range paths.Items() {
		if path.Kind() != value.KindString {
			return d, status.BadRequest("A path of the partition key is %s. It must be a string.", nameOf(path.Kind()))
		}
		d.Paths = append(d.Paths, path.Text())
	}
	if kind := body.Get("kind"); kind.Kind() == value.KindString {
		if err := d.Kind.UnmarshalText([]byte(kind.Text())); err != nil {
			return d, badKey(err)
		}
	} else if !isNull(kind) {
		return d, status.BadRequest("The property 'kind' of the partition key is %s. It must be a string.", nameOf(kind.Kind()))
	}
	if version := body.Get("version"); !isNull(version) {
		n, ok := version.Int64()
		if version.Kind() == value.KindString { // as the Java SDK sends it
			n, ok = map[string]int64{"V1": 1, "V2": 2}[strings.ToUpper(version.Text())]
		}
		if !ok || n < 1 || n > 2 {
			return d, status.BadRequest("The partition key version %s is not known. Use 1 or 2 for kind 'Hash', and 2 for kind 'MultiHash'.", clip(version.String()))
		}
		d.Version = int(n)
	}
	if system := body.Get("systemKey"); !isNull(system) && (system.Kind() != value.KindBool || system.Bool()) {
		return d, status.BadRequest("The property 'systemKey' of the partition key cannot be set.")
	}
	if d.Kind == partitionkey.KindToken {
		return d, status.BadRequest("The partition key kind 'Token' is that of tables, which CQL creates. Use 'Hash' or 'MultiHash'.")
	}
	if err := d.Validate(); err != nil {
		return d, badKey(err)
	}
	return d.Normalize(), nil
}

// badKey converts an error of partitionkey to status 400.
func badKey(err error) error { return status.Service("%s", err.Error()) }

func keyPaths(d partitionkey.Definition) ([]value.Path, error) {
	paths := make([]value.Path, len(d.Paths))
	for i, text := range d.Paths {
		names, err := partitionkey.ParsePath(text)
		if err != nil {
			return nil, badKey(err)
		}
		path := make(value.Path, len(names))
		for j, name := range names {
			path[j].Name = name
		}
		paths[i] = path
	}
	return paths, nil
}

// Replace returns the container with a new definition from a client. The id, the
// partition key definition and the unique keys must not change; a missing kind,
// version or unique key policy counts as unchanged. Entries of the vector and
// full-text policies and vector indexes may be added and removed but not
// changed, and a new computed property must not have the name of a property with
// a path in the old policy. Errors are status 400.
func (c Container) Replace(body value.Value) (Container, error) {
	id, err := parseID(body)
	if err != nil {
		return Container{}, err
	}
	if id != c.ID {
		return Container{}, status.BadRequest("The id of a container cannot be changed: it is '%s', not '%s'.", c.ID, clip(id))
	}
	definition, err := parseDefinition(body.Get("partitionKey"), c.PartitionKey)
	if err != nil {
		return Container{}, err
	}
	if !definition.Equal(c.PartitionKey) {
		return Container{}, status.BadRequest("Document collection partition key cannot be changed: it is %s.", definitionValue(c.PartitionKey).JSON())
	}
	if policy := body.Get("uniqueKeyPolicy"); !isNull(policy) {
		keys, err := parseUniqueKeys(policy)
		if err != nil {
			return Container{}, err
		}
		if !sameUniqueKeys(keys, c.UniqueKeys) {
			return Container{}, status.BadRequest("The unique key policy of a container cannot be changed: it is %s.", clip(uniqueKeysValue(c.UniqueKeys).JSON()))
		}
	}
	replaced := Container{ID: c.ID, PartitionKey: c.PartitionKey, UniqueKeys: c.UniqueKeys}
	if err := replaced.parseChangeable(body); err != nil {
		return Container{}, err
	}
	if err := c.Indexing.allows(replaced.Indexing); err != nil {
		return Container{}, err
	}
	replaced.RID, replaced.ETag, replaced.TS, replaced.Limits = c.RID, c.ETag, c.TS, c.Limits
	return replaced, nil
}

// IsTable reports whether the container is a table of the Cassandra API: it has rows
// instead of documents.
func (c *Container) IsTable() bool { return len(c.Table) > 0 }

// NewTable returns the container of a table: id is its name, columns are those of its
// partition key in order, and definition is what package table writes. The caller sets
// RID, ETag and TS. The error is BadRequest.
func NewTable(id string, columns []string, definition json.RawMessage) (Container, error) {
	c := Container{
		ID:           id,
		PartitionKey: partitionkey.Definition{Kind: partitionkey.KindToken, Version: 2},
		Indexing:     IndexingPolicy{Mode: IndexingNone},
		DefaultTTL:   -1, // an item has its own if its cells expire
		Settings:     value.Object(nil),
		Table:        definition,
	}
	for _, name := range columns {
		c.PartitionKey.Paths = append(c.PartitionKey.Paths, columnPath(name))
	}
	if err := c.PartitionKey.Validate(); err != nil {
		return Container{}, badKey(err)
	}
	var err error
	c.keyPaths, err = keyPaths(c.PartitionKey)
	return c, err
}

// columnPath returns the path that names a column: the name itself if it needs no
// quotes, otherwise in quotes, with the characters that a quoted path cannot have in
// hexadecimal.
func columnPath(name string) string {
	plain := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
	if plain {
		return "/" + name
	}
	return `/"` + strings.NewReplacer("%", "%25", `"`, "%22", `\`, "%5C").Replace(name) + `"`
}

// KeyOf returns the full partition key of a document: one component per path. The
// component is undefined if the path does not exist or its value is an object or array.
func (c *Container) KeyOf(doc value.Value) partitionkey.Key {
	var room [partitionkey.LevelsMax]partitionkey.Component
	components := room[:0]
	for _, path := range c.keyPaths {
		components = append(components, component(doc.At(path)))
	}
	return partitionkey.NewKey(components...)
}

func component(v value.Value) partitionkey.Component {
	switch v.Kind() {
	case value.KindNull:
		return partitionkey.Null()
	case value.KindBool:
		return partitionkey.Bool(v.Bool())
	case value.KindNumber:
		return partitionkey.Number(v.Float())
	case value.KindString:
		return partitionkey.String(v.Text())
	}
	return partitionkey.Undefined()
}

// KeyPaths returns the parsed paths of the partition key, one per level. The
// caller must not change them.
func (c *Container) KeyPaths() []value.Path { return c.keyPaths }

// Self returns the _self link.
func (c Container) Self() string { return c.RID.self() }

// DocumentSelf appends the _self link of a document of the container to dst.
func (c *Container) DocumentSelf(dst []byte, document RID) []byte {
	return document.AppendSelf(dst)
}

// Value returns the container in the form that clients read.
func (c Container) Value() value.Value {
	members := []value.Member{
		{Name: "id", Value: value.String(c.ID)},
		{Name: "indexingPolicy", Value: c.Indexing.Value()},
		{Name: "partitionKey", Value: definitionValue(c.PartitionKey)},
	}
	members = append(members, c.Settings.Members()...)
	return value.Object(append(members,
		value.Member{Name: "_rid", Value: value.String(c.RID.String())},
		value.Member{Name: "_ts", Value: value.Int(int64(c.TS))},
		value.Member{Name: "_self", Value: value.String(c.Self())},
		value.Member{Name: "_etag", Value: value.String(string(c.ETag))},
		value.Member{Name: "_docs", Value: value.String("docs/")},
		value.Member{Name: "_sprocs", Value: value.String("sprocs/")},
		value.Member{Name: "_triggers", Value: value.String("triggers/")},
		value.Member{Name: "_udfs", Value: value.String("udfs/")},
		value.Member{Name: "_conflicts", Value: value.String("conflicts/")},
	))
}

func definitionValue(d partitionkey.Definition) value.Value {
	if d.Kind == partitionkey.KindToken { // SDKs know no such kind.
		d.Kind = partitionkey.KindHash
		if len(d.Paths) > 1 {
			d.Kind = partitionkey.KindMultiHash
		}
	}
	paths := make([]value.Value, len(d.Paths))
	for i, path := range d.Paths {
		paths[i] = value.String(path)
	}
	return value.Object([]value.Member{
		{Name: "paths", Value: value.Array(paths)},
		{Name: "kind", Value: value.String(d.Kind.String())},
		{Name: "version", Value: value.Int(int64(d.Version))},
	})
}

// UnmarshalJSON parses the output of [json.Marshal], checks it and parses the
// key paths. A struct that embeds a Container promotes this method, which skips
// the struct's own members: use a named field instead.
func (c *Container) UnmarshalJSON(data []byte) error {
	type plain Container // the same fields without this method
	var stored plain
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	if err := stored.PartitionKey.Validate(); err != nil {
		return fmt.Errorf("stored container %q: %w", stored.ID, err)
	}
	paths, err := keyPaths(stored.PartitionKey)
	if err != nil {
		return fmt.Errorf("stored container %q: %w", stored.ID, err)
	}
	*c = Container(stored)
	c.keyPaths = paths
	return nil
}
