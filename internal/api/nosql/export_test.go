package nosql

import "github.com/decandb/decan/internal/resource"

// Parsers has an element for each large body that is parsed now, and room for as many
// as are parsed at a time.
func (m *Memory) Parsers() chan struct{} { return m.parsers }

// Place returns the path of a replica; container is empty for definitions.
func Place(container resource.RID, partition string, number int) string {
	return string(appendPlace(nil, container, partition, number))
}

// Signed returns the text that a client signs for a request target.
func Signed(uri string) (kind, link string) {
	var t target
	if err := t.parse(uri); err != nil {
		return "", ""
	}
	return t.signed()
}
