package resource

import (
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// parseSettings reads the members of a container that change nothing at the
// values accepted here, and refuses with status 400 the values that would: a
// feature that is not there is named, never ignored. It returns what clients
// read back: three members always, the others when they were given.
func parseSettings(body value.Value) (value.Value, error) {
	unique, err := parseUniqueKeys(body.Get("uniqueKeyPolicy"))
	if err != nil {
		return value.Value{}, err
	}
	conflict, err := parseConflictResolution(body.Get("conflictResolutionPolicy"))
	if err != nil {
		return value.Value{}, err
	}
	geospatial, err := parseGeospatial(body.Get("geospatialConfig"))
	if err != nil {
		return value.Value{}, err
	}
	if err := refuseTTL(body); err != nil {
		return value.Value{}, err
	}
	if err := refuseChangeFeedPolicy(body.Get("changeFeedPolicy")); err != nil {
		return value.Value{}, err
	}
	settings := []value.Member{
		{Name: "uniqueKeyPolicy", Value: unique},
		{Name: "conflictResolutionPolicy", Value: conflict},
		{Name: "geospatialConfig", Value: geospatial},
	}
	if policy := body.Get("changeFeedPolicy"); !isNull(policy) {
		settings = append(settings, value.Member{Name: "changeFeedPolicy", Value: policy})
	}
	for _, f := range []struct{ member, list, feature string }{
		{"computedProperties", "", "A computed property (computedProperties)"},
		{"vectorEmbeddingPolicy", "vectorEmbeddings", "A vector embedding (vectorEmbeddingPolicy)"},
		{"fullTextPolicy", "fullTextPaths", "Full-text search (fullTextPolicy.fullTextPaths)"},
		{"clientEncryptionPolicy", "includedPaths", "Client-side encryption (clientEncryptionPolicy.includedPaths)"},
		{"dataMaskingPolicy", "includedPaths", "Data masking (dataMaskingPolicy.includedPaths)"},
	} {
		given := body.Get(f.member)
		if isNull(given) {
			continue
		}
		if f.list == "" {
			err = refuseList(body, f.member, f.feature)
		} else if given.Kind() != value.KindObject {
			err = status.BadRequest("The property '%s' is %s. It must be an object.", f.member, nameOf(given.Kind()))
		} else {
			err = refuseList(given, f.list, f.feature)
		}
		if err != nil {
			return value.Value{}, err
		}
		settings = append(settings, value.Member{Name: f.member, Value: given})
	}
	if view := body.Get("materializedViewDefinition"); !isNull(view) {
		return value.Value{}, status.Unsupported("A materialized view (materializedViewDefinition)")
	}
	return value.Object(settings), nil
}

func parseUniqueKeys(policy value.Value) (value.Value, error) {
	if !isNull(policy) && policy.Kind() != value.KindObject {
		return value.Value{}, status.BadRequest("The property 'uniqueKeyPolicy' is %s. It must be an object.", nameOf(policy.Kind()))
	}
	if err := refuseList(policy, "uniqueKeys", "A unique key (uniqueKeyPolicy.uniqueKeys)"); err != nil {
		return value.Value{}, err
	}
	return value.Object([]value.Member{{Name: "uniqueKeys", Value: value.Array(nil)}}), nil
}

// parseConflictResolution accepts the policy that takes the last writer. With
// one region no two writers meet, so its path matters as little as its absence.
func parseConflictResolution(policy value.Value) (value.Value, error) {
	path := "/_ts"
	switch policy.Kind() {
	case value.KindUndefined, value.KindNull:
	case value.KindObject:
		mode := policy.Get("mode")
		switch {
		case isNull(mode), strings.EqualFold(mode.Text(), "LastWriterWins"):
		case strings.EqualFold(mode.Text(), "Custom"):
			return value.Value{}, status.Unsupported("Custom conflict resolution (conflictResolutionPolicy.mode)")
		default:
			return value.Value{}, status.BadRequest("The conflict resolution mode %s is not known. Use 'LastWriterWins'.", clip(mode.String()))
		}
		if procedure := policy.Get("conflictResolutionProcedure"); procedure.Text() != "" {
			return value.Value{}, status.BadRequest("A conflict resolution procedure needs the mode 'Custom', which is not supported.")
		}
		if given := policy.Get("conflictResolutionPath"); given.Kind() == value.KindString {
			path = given.Text()
		} else if !isNull(given) {
			return value.Value{}, status.BadRequest("The property 'conflictResolutionPath' is %s. It must be a string.", nameOf(given.Kind()))
		}
	default:
		return value.Value{}, status.BadRequest("The property 'conflictResolutionPolicy' is %s. It must be an object.", nameOf(policy.Kind()))
	}
	return value.Object([]value.Member{
		{Name: "mode", Value: value.String("LastWriterWins")},
		{Name: "conflictResolutionPath", Value: value.String(path)},
		{Name: "conflictResolutionProcedure", Value: value.String("")},
	}), nil
}

func parseGeospatial(config value.Value) (value.Value, error) {
	name := "Geography"
	switch config.Kind() {
	case value.KindUndefined, value.KindNull:
	case value.KindObject:
		kind := config.Get("type")
		switch {
		case isNull(kind), strings.EqualFold(kind.Text(), "Geography"):
		case strings.EqualFold(kind.Text(), "Geometry"):
			name = "Geometry"
		default:
			return value.Value{}, status.BadRequest("The geospatial type %s is not known. Use 'Geography' or 'Geometry'.", clip(kind.String()))
		}
	default:
		return value.Value{}, status.BadRequest("The property 'geospatialConfig' is %s. It must be an object.", nameOf(config.Kind()))
	}
	return value.Object([]value.Member{{Name: "type", Value: value.String(name)}}), nil
}

// refuseTTL refuses what would let documents expire.
func refuseTTL(body value.Value) error {
	if ttl := body.Get("defaultTtl"); !isNull(ttl) {
		if n, ok := ttl.Int64(); !ok || n == 0 || n < -1 {
			return status.BadRequest("The value of 'defaultTtl' is %s. It must be -1 or a positive integer.", clip(ttl.String()))
		}
		return status.Unsupported("Time to live (defaultTtl)")
	}
	if !isNull(body.Get("ttlPropertyPath")) {
		return status.Unsupported("Time to live (ttlPropertyPath)")
	}
	if !isNothing(body.Get("analyticalStorageTtl")) {
		return status.Unsupported("The analytical store (analyticalStorageTtl)")
	}
	return nil
}

// refuseChangeFeedPolicy refuses to keep every version of a document. The
// retention is minutes, or a duration as text, whose zero has many forms.
func refuseChangeFeedPolicy(policy value.Value) error {
	if isNull(policy) {
		return nil
	}
	if policy.Kind() != value.KindObject {
		return status.BadRequest("The property 'changeFeedPolicy' is %s. It must be an object.", nameOf(policy.Kind()))
	}
	retention := policy.Get("retentionDuration")
	switch {
	case isNothing(retention), retention.Kind() == value.KindString && isZeroDuration(retention.Text()):
		return nil
	case retention.Kind() == value.KindNumber, retention.Kind() == value.KindString && strings.ContainsAny(retention.Text(), "123456789"):
		return status.Unsupported("The change feed with all versions (changeFeedPolicy.retentionDuration)")
	}
	return status.BadRequest("The value of 'retentionDuration' is %s. It must be a duration.", clip(retention.String()))
}

func isZeroDuration(text string) bool {
	return strings.Contains(text, "0") && !strings.ContainsAny(text, "123456789")
}

// refuseList refuses a list that is neither missing nor empty.
func refuseList(object value.Value, member, feature string) error {
	list := object.Get(member)
	switch {
	case isNull(list):
		return nil
	case list.Kind() != value.KindArray:
		return status.BadRequest("The property '%s' is %s. It must be an array.", member, nameOf(list.Kind()))
	case list.Len() > 0:
		return status.Unsupported(feature)
	}
	return nil
}

// isNull reports whether a member is missing or null, which clients take for
// the same.
func isNull(v value.Value) bool {
	return v.Kind() == value.KindUndefined || v.Kind() == value.KindNull
}

// isNothing reports whether a member asks for nothing: missing, null, zero or
// an empty list.
func isNothing(v value.Value) bool {
	n, isInt := v.Int64()
	return isNull(v) || isInt && n == 0 || v.Kind() == value.KindArray && v.Len() == 0
}
