package resource

import (
	"strconv"
	"strings"
	"time"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// parseSettings parses the members of a container whose accepted values have no effect.
// Any other value is status 400, and the error names the unsupported feature.
// parseSettings returns these members, and those in the typed fields of c, in the form
// that clients read: three members always, the others if they were given.
func (c *Container) parseSettings(body value.Value) error {
	conflict, err := parseConflictResolution(body.Get("conflictResolutionPolicy"))
	if err != nil {
		return err
	}
	if err := refuseExpiry(body); err != nil {
		return err
	}
	if c.Retention, err = parseRetention(body.Get("changeFeedPolicy")); err != nil {
		return err
	}
	if c.ReplacedImages, err = parsePreviousImages(body.Get("previousImageRetentionPolicy")); err != nil {
		return err
	}
	encrypted, err := settingList(body.Get("clientEncryptionPolicy"), "clientEncryptionPolicy", "includedPaths")
	if err != nil {
		return err
	}
	if len(encrypted) > 0 {
		// The service's words for a key that does not exist: none can be created here.
		return status.Service("ClientEncryptionKey with id '[%s]' does not exist. Client-side encryption is not supported by this version of Decan. See docs/compatibility.md.",
			clip(encrypted[0].Get("clientEncryptionKeyId").Text()))
	}
	masked, err := settingList(body.Get("dataMaskingPolicy"), "dataMaskingPolicy", "includedPaths")
	if err != nil {
		return err
	}
	if len(masked) > 0 {
		return status.Unsupported("Data masking (dataMaskingPolicy.includedPaths)")
	}
	if view := body.Get("materializedViewDefinition"); !isNull(view) {
		return status.Unsupported("A materialized view (materializedViewDefinition)")
	}
	if schema := body.Get("schemaPolicy"); !isNull(schema) {
		return status.Unsupported("A schema for the rows of a container (schemaPolicy)")
	}
	settings := []value.Member{
		{Name: "uniqueKeyPolicy", Value: uniqueKeysValue(c.UniqueKeys)},
		{Name: "conflictResolutionPolicy", Value: conflict},
		{Name: "geospatialConfig", Value: geospatialValue(c.Indexing.Geometry)},
	}
	for _, name := range []string{
		"defaultTtl", "changeFeedPolicy", "previousImageRetentionPolicy", "computedProperties", "vectorEmbeddingPolicy", "fullTextPolicy", "clientEncryptionPolicy", "dataMaskingPolicy",
	} {
		if given := body.Get(name); !isNull(given) {
			settings = append(settings, value.Member{Name: name, Value: given})
		}
	}
	c.Settings = value.Object(settings)
	return nil
}

// parseConflictResolution accepts the last-writer-wins policy. With one region
// there are no conflicts, so its path does not matter.
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

// refuseExpiry rejects ways to expire documents that are older than defaultTtl
// or belong to the analytical store.
func refuseExpiry(body value.Value) error {
	if !isNull(body.Get("ttlPropertyPath")) {
		return status.Unsupported("Time to live (ttlPropertyPath)")
	}
	if !isNothing(body.Get("analyticalStorageTtl")) {
		return status.Unsupported("The analytical store (analyticalStorageTtl)")
	}
	return nil
}

// parseRetention parses how long every version of a document is kept: whole
// minutes as a number, or a duration as text, such as PT10M or 00:10:00.
func parseRetention(policy value.Value) (time.Duration, error) {
	if isNull(policy) {
		return 0, nil
	}
	if policy.Kind() != value.KindObject {
		return 0, status.BadRequest("The property 'changeFeedPolicy' is %s. It must be an object.", nameOf(policy.Kind()))
	}
	given := policy.Get("retentionDuration")
	if isNothing(given) {
		return 0, nil
	}
	var kept time.Duration
	minutes, ok := given.Int64()
	switch {
	case given.Kind() == value.KindString:
		kept, ok = parseDuration(given.Text())
	case ok && minutes >= 0 && minutes <= int64(RetentionMax/time.Minute):
		kept = time.Duration(minutes) * time.Minute
	case ok:
		kept = -1
	}
	if !ok {
		return 0, status.BadRequest("The value of 'retentionDuration' is %s. It must be a duration.", clip(given.String()))
	}
	if kept < 0 || kept > RetentionMax || kept%time.Minute != 0 {
		return 0, status.BadRequest("The value of 'retentionDuration' is %s. It must be whole minutes, at most %d.", clip(given.String()), RetentionMax/time.Minute)
	}
	return kept, nil
}

// parsePreviousImages parses the policy by which a container asks for the versions
// before its changes, and reports whether it asks for those before replaces. The mode is
// a sum: 1 for replaces, 2 for deletions. A mode outside of supportedFeatures is the
// earlier form.
func parsePreviousImages(policy value.Value) (replaced bool, err error) {
	const name, feature = "previousImageRetentionPolicy", "allVersionsAndDeletes"
	features := policy.Get("supportedFeatures")
	for _, v := range []value.Value{policy, features, features.Get(feature)} {
		if !isNull(v) && v.Kind() != value.KindObject {
			return false, status.BadRequest("The property '%s' contains %s. It must contain objects.", name, nameOf(v.Kind()))
		}
	}
	for _, m := range features.Members() {
		if m.Name != feature && !isNothing(m.Value.Get("mode")) {
			return false, status.Unsupported("Keeping previous images for the feature '" + clip(m.Name) + "' (" + name + ")")
		}
	}
	all := features.Get(feature)
	if paths := all.Get("includedPaths").Items(); len(paths) > 1 || len(paths) == 1 && paths[0].Text() != "/" {
		return false, status.Unsupported("Keeping parts of previous images (" + name + ".supportedFeatures." + feature + ".includedPaths)")
	}
	mode := all.Get("mode")
	if isNull(mode) {
		mode = policy.Get("mode")
	}
	if isNull(mode) {
		return false, nil
	}
	bits, ok := mode.Int64()
	if !ok || bits < 0 || bits > 3 {
		return false, status.BadRequest("The mode of '%s' is %s. It must be 0, 1, 2 or 3.", name, clip(mode.String()))
	}
	return bits&1 != 0, nil
}

// parseDuration parses hours, minutes and seconds in ISO 8601, PT1H2M3S, or in
// the form of .NET, 1:02:03.
func parseDuration(text string) (time.Duration, bool) {
	if strings.Contains(text, "0") && !strings.ContainsAny(text, "123456789") {
		return 0, true // P0D and other forms of zero
	}
	if iso, ok := strings.CutPrefix(text, "PT"); ok {
		d, err := time.ParseDuration(strings.ToLower(iso))
		return d, err == nil && iso == strings.ToUpper(iso) && !strings.ContainsAny(iso, "+-")
	}
	var d time.Duration
	parts := strings.Split(text, ":")
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || len(parts) != 3 || i > 0 && n > 59 {
			return 0, false
		}
		d = d*60 + time.Duration(n)*time.Second
	}
	return d, true
}

// isNull reports whether a member is missing or null, which clients treat alike.
func isNull(v value.Value) bool {
	return v.Kind() == value.KindUndefined || v.Kind() == value.KindNull
}

// isNothing reports whether a member asks for nothing: it is missing, null, zero
// or an empty list.
func isNothing(v value.Value) bool {
	n, isInt := v.Int64()
	return isNull(v) || isInt && n == 0 || v.Kind() == value.KindArray && v.Len() == 0
}
