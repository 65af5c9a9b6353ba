package statement

import (
	"errors"
	"regexp"

	"github.com/decandb/decan/internal/table"
)

// texts311 are the texts of errors that differ in 3.11: a pattern of 4.1's, and 3.11's.
var texts311 = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`^table (\S+) does not exist$`), "unconfigured table $1"},
	{regexp.MustCompile(`^(Undefined column name .+) in table \S+$`), "$1"},
	{regexp.MustCompile(`^(No PRIMARY KEY specifed) for table '.+' (\(exactly one required\))$`), "$1 $2"},
	{regexp.MustCompile(`^Duplicate column '(.+)' declaration for table '.+'$`), "Multiple definition of identifier $1"},
	{regexp.MustCompile(`^Unknown column '(.+)' referenced in PRIMARY KEY for table '.+'$`), "Unknown definition $1 referenced in PRIMARY KEY"},
	{regexp.MustCompile(`^Invalid non-frozen user-defined type ".+" for PRIMARY KEY column '(.+)'$`), "Invalid non-frozen collection type for PRIMARY KEY component $1"},
	{regexp.MustCompile(`^Column with name '(.+)' already exists$`), "Invalid column name $1 because it conflicts with an existing column"},
	{regexp.MustCompile(`^(Column .+ was not found in table) '.+\.(.+)'$`), "$1 $2"},
	{regexp.MustCompile(`^(Cannot drop PRIMARY KEY|Cannot rename non PRIMARY KEY) column (.+)$`), "$1 part $2"},
	{regexp.MustCompile(`^Altering (column|field) types is no longer supported$`), "Altering of types is not allowed"},
	{regexp.MustCompile(`^Type '(.+)' doesn't exist$`), "No user type named $1 exists."},
	{regexp.MustCompile(`^(Cannot create \w+\(\) index on frozen column .+\. Frozen collections) are immutable .*$`), "$1 only support full() indexes"},
	{regexp.MustCompile(`^Index '(.+)\.(.+)' doesn't exist'$`), "Index '$2' could not be found in any of the tables of keyspace '$1'"},
}

// in311 returns an error with the text that 3.11 has for it.
func in311(err error) error {
	known := (*table.Error)(nil)
	if !errors.As(err, &known) {
		return err
	}
	for _, t := range texts311 {
		if t.pattern.MatchString(known.Text) {
			worded := *known
			worded.Text = t.pattern.ReplaceAllString(known.Text, t.text)
			return &worded
		}
	}
	return err
}
