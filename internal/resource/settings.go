package resource

import (
	"strings"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// parseSettings reads the members of a container that change nothing at the
// values accepted here, and refuses with status 400 the values that would: a
// feature that is not there is named, never ignored. It returns what clients
// read back of these and of the members that the typed fields of c hold: three
// members always, the others when they were given.
func (c *Container) parseSettings(body value.Value) error {
	conflict, err := parseConflictResolution(body.Get("conflictResolutionPolicy"))
	if err != nil {
		return err
	}
	if err := refuseExpiry(body); err != nil {
		return err
	}
	if err := refuseChangeFeedPolicy(body.Get("changeFeedPolicy")); err != nil {
		return err
	}
	for _, f := range []struct{ member, list, feature string }{
		{"clientEncryptionPolicy", "includedPaths", "Client-side encryption (clientEncryptionPolicy.includedPaths)"},
		{"dataMaskingPolicy", "includedPaths", "Data masking (dataMaskingPolicy.includedPaths)"},
	} {
		items, err := settingList(body.Get(f.member), f.member, f.list)
		if err != nil {
			return err
		}
		if len(items) > 0 {
			return status.Unsupported(f.feature)
		}
	}
	if view := body.Get("materializedViewDefinition"); !isNull(view) {
		return status.Unsupported("A materialized view (materializedViewDefinition)")
	}
	settings := []value.Member{
		{Name: "uniqueKeyPolicy", Value: uniqueKeysValue(c.UniqueKeys)},
		{Name: "conflictResolutionPolicy", Value: conflict},
		{Name: "geospatialConfig", Value: geospatialValue(c.Indexing.Geometry)},
	}
	for _, name := range []string{
		"defaultTtl", "changeFeedPolicy", "computedProperties", "vectorEmbeddingPolicy", "fullTextPolicy", "clientEncryptionPolicy", "dataMaskingPolicy",
	} {
		if given := body.Get(name); !isNull(given) {
			settings = append(settings, value.Member{Name: name, Value: given})
		}
	}
	c.Settings = value.Object(settings)
	return nil
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

// parseGeospatial reports whether positions are points of a plane.
func parseGeospatial(config value.Value) (geometry bool, err error) {
	switch config.Kind() {
	case value.KindUndefined, value.KindNull:
		return false, nil
	case value.KindObject:
	default:
		return false, status.BadRequest("The property 'geospatialConfig' is %s. It must be an object.", nameOf(config.Kind()))
	}
	kind := config.Get("type")
	switch {
	case isNull(kind), strings.EqualFold(kind.Text(), "Geography"):
		return false, nil
	case strings.EqualFold(kind.Text(), "Geometry"):
		return true, nil
	}
	return false, status.BadRequest("The geospatial type %s is not known. Use 'Geography' or 'Geometry'.", clip(kind.String()))
}

func geospatialValue(geometry bool) value.Value {
	name := "Geography"
	if geometry {
		name = "Geometry"
	}
	return value.Object([]value.Member{{Name: "type", Value: value.String(name)}})
}

// refuseExpiry refuses the ways to let documents expire that are older than
// defaultTtl or of another store.
func refuseExpiry(body value.Value) error {
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
