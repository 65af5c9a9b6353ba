package resource

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

const (
	rootPath = "/*"
	etagPath = `/"_etag"/?`
)

// DefaultIndexing returns the policy of a container that was created without
// one: everything is indexed but the etag.
func DefaultIndexing() IndexingPolicy {
	return IndexingPolicy{
		Mode:      IndexingConsistent,
		Automatic: true,
		Included:  []string{rootPath},
		Excluded:  []string{etagPath},
	}
}

// Equal reports whether both policies index the same by the same words.
func (p IndexingPolicy) Equal(o IndexingPolicy) bool {
	return p.Mode == o.Mode && p.Automatic == o.Automatic &&
		slices.Equal(p.Included, o.Included) && slices.Equal(p.Excluded, o.Excluded)
}

// Value returns the policy as clients read it.
func (p IndexingPolicy) Value() value.Value {
	return value.Object([]value.Member{
		{Name: "indexingMode", Value: value.String(string(p.Mode))},
		{Name: "automatic", Value: value.Bool(p.Automatic)},
		{Name: "includedPaths", Value: pathObjects(p.Included)},
		{Name: "excludedPaths", Value: pathObjects(p.Excluded)},
	})
}

func pathObjects(paths []string) value.Value {
	items := make([]value.Value, len(paths))
	for i, path := range paths {
		items[i] = value.Object([]value.Member{{Name: "path", Value: value.String(path)}})
	}
	return value.Array(items)
}

// parseIndexing reads the indexing policy of a container, fills in what is
// missing and refuses with status 400 what cannot be.
func parseIndexing(body value.Value) (IndexingPolicy, error) {
	switch body.Kind() {
	case value.KindUndefined, value.KindNull:
		return DefaultIndexing(), nil
	case value.KindObject:
	default:
		return IndexingPolicy{}, status.BadRequest("The indexing policy is %s. It must be an object.", nameOf(body.Kind()))
	}
	for _, kind := range []struct{ member, feature string }{
		{"compositeIndexes", "A composite index (indexingPolicy.compositeIndexes)"},
		{"spatialIndexes", "A spatial index (indexingPolicy.spatialIndexes)"},
		{"vectorIndexes", "A vector index (indexingPolicy.vectorIndexes)"},
		{"fullTextIndexes", "A full-text index (indexingPolicy.fullTextIndexes)"},
	} {
		if err := refuseList(body, kind.member, kind.feature); err != nil {
			return IndexingPolicy{}, err
		}
	}
	p := IndexingPolicy{Automatic: true}
	var err error
	if p.Mode, err = parseMode(body.Get("indexingMode")); err != nil {
		return IndexingPolicy{}, err
	}
	if automatic := body.Get("automatic"); automatic.Kind() == value.KindBool {
		p.Automatic = automatic.Bool()
	} else if !isNull(automatic) {
		return IndexingPolicy{}, status.BadRequest("The property 'automatic' of the indexing policy is %s. It must be a boolean.", nameOf(automatic.Kind()))
	}
	if p.Included, err = parsePaths(body, "includedPaths"); err != nil {
		return IndexingPolicy{}, err
	}
	if p.Excluded, err = parsePaths(body, "excludedPaths"); err != nil {
		return IndexingPolicy{}, err
	}
	return p.complete()
}

// parseMode reads an indexing mode in any case. Lazy was indexing at leisure;
// the service keeps it as a name only, and so it is consistent.
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

// parsePaths reads the paths of one list. What else stands beside a path is left
// from earlier kinds of indexes: a spatial one is refused, the others mean
// nothing.
func parsePaths(policy value.Value, member string) ([]string, error) {
	list := policy.Get(member)
	if isNull(list) {
		return nil, nil
	}
	if list.Kind() != value.KindArray {
		return nil, status.BadRequest("The property '%s' of the indexing policy is %s. It must be an array.", member, nameOf(list.Kind()))
	}
	if list.Len() > IndexingPathsMax {
		return nil, status.BadRequest("The property '%s' of the indexing policy has %d paths. At most %d are allowed.", member, list.Len(), IndexingPathsMax)
	}
	paths := make([]string, 0, list.Len())
	for _, item := range list.Items() {
		path := item.Get("path")
		if path.Kind() != value.KindString {
			return nil, status.BadRequest("An entry of '%s' in the indexing policy has no string 'path'.", member)
		}
		if _, _, err := ParseIndexingPath(path.Text()); err != nil {
			return nil, err
		}
		for _, kind := range item.Get("indexes").Items() {
			if strings.EqualFold(kind.Get("kind").Text(), "Spatial") {
				return nil, status.Unsupported("A spatial index (indexingPolicy." + member + ".indexes)")
			}
		}
		paths = append(paths, path.Text())
	}
	return paths, nil
}

// complete fills in the paths that are left to a default, and checks the lists
// against each other.
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
		// The service excludes it for everybody who does not ask otherwise.
		p.Excluded = append(slices.Clip(p.Excluded), etagPath)
	}
	return p, nil
}

// The keys of the two special paths, as pathSet makes them.
const (
	rootKey = "*"
	etagKey = "_etag\xff?"
)

// pathSet returns the paths by what they mean, however they are written.
func pathSet(paths []string) (map[string]string, error) {
	set := make(map[string]string, len(paths))
	for _, path := range paths {
		names, subtree, err := ParseIndexingPath(path)
		if err != nil {
			return nil, err
		}
		ending := "?"
		if subtree {
			ending = "*"
		}
		set[strings.Join(append(names, ending), "\xff")] = path
	}
	return set, nil
}

// ParseIndexingPath reads a path of an indexing policy: names, quoted unless
// they are letters, digits and underscores, and [] for the elements of an
// array, each behind a slash. It returns the names; subtree is true when the
// path ends in /* and false when it ends in /?. In quotes a backslash takes the
// next character as it is. Anything else is a 400 that says where it fails.
func ParseIndexingPath(path string) (names []string, subtree bool, err error) {
	if !utf8.ValidString(path) {
		return nil, false, status.BadRequest("The indexing path %q is not valid UTF-8.", clip(path))
	}
	at := 0
	for at < len(path) && path[at] == '/' {
		at++
		rest := path[at:]
		switch {
		case rest == "*" || rest == "?":
			if rest == "?" && names == nil {
				return nil, false, malformedPath(path, at)
			}
			return names, rest == "*", nil
		case strings.HasPrefix(rest, "{"):
			return nil, false, status.Unsupported("A tuple index (path '" + clip(path) + "')")
		}
		name, size := indexingName(rest)
		if size == 0 {
			return nil, false, malformedPath(path, at)
		}
		names = append(names, name)
		at += size
	}
	return nil, false, malformedPath(path, at)
}

func malformedPath(path string, at int) error {
	return status.BadRequest("The indexing path '%s' could not be accepted, failed near position '%d'. Please ensure that the path is a valid path: it starts with '/', ends in '/?' or '/*', and has quotes around names of other than letters, digits and underscores.", clip(path), at)
}

// indexingName reads one segment and returns how many bytes it took, 0 when
// there is none.
func indexingName(text string) (name string, size int) {
	if strings.HasPrefix(text, "[]") {
		return "[]", 2
	}
	if !strings.HasPrefix(text, `"`) {
		for _, r := range text {
			if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				break
			}
			size += utf8.RuneLen(r)
		}
		return text[:size], size
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), i + 1
		case '\\':
			if i++; i == len(text) {
				return "", 0
			}
		}
		b.WriteByte(text[i])
	}
	return "", 0
}
