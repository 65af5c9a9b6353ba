package resource

import "github.com/decandb/decan/internal/value"

// ParseDatabase parses the definition of a database from a client. It uses only
// the id. Errors are status 400.
func ParseDatabase(body value.Value) (Database, error) {
	id, err := parseID(body)
	if err != nil {
		return Database{}, err
	}
	return Database{ID: id}, nil
}

// Self returns the _self link.
func (d Database) Self() string { return d.RID.self() }

// Value returns the database in the form that clients read.
func (d Database) Value() value.Value {
	return value.Object([]value.Member{
		{Name: "id", Value: value.String(d.ID)},
		{Name: "_rid", Value: value.String(d.RID.String())},
		{Name: "_self", Value: value.String(d.Self())},
		{Name: "_etag", Value: value.String(string(d.ETag))},
		{Name: "_colls", Value: value.String("colls/")},
		{Name: "_users", Value: value.String("users/")},
		{Name: "_ts", Value: value.Int(int64(d.TS))},
	})
}
