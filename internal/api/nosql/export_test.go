package nosql

// Signed returns what a client signs for a request target.
func Signed(uri string) (kind, link string) {
	var t target
	if err := t.parse(uri); err != nil {
		return "", ""
	}
	return t.signed()
}
