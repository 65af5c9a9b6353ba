package resource

import (
	"strings"
	"unicode/utf8"

	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// ValidID returns nil if id can name a database or a container: 1 to 255
// characters, none of / \ ? #, and no blank at the end, because such names
// cannot be used in a link. The error is status 400.
func ValidID(id string) error {
	switch {
	case id == "":
		return invalidName(id, NameCharsMax)
	case utf8.RuneCountInString(id) > NameCharsMax:
		return invalidName(id, NameCharsMax)
	case !utf8.ValidString(id):
		return status.BadRequest("The id is not valid UTF-8.")
	case strings.ContainsAny(id, `/\?#`):
		return status.BadRequest(`The id '%s' contains one of the characters / \ ? #, which are not allowed.`, clip(id))
	case strings.HasSuffix(id, " "):
		return status.BadRequest("The id '%s' ends in a blank, which is not allowed.", clip(id))
	}
	return nil
}

// ValidItemID returns nil if id can name a document: any text of 1 to 1,023
// bytes. The error is status 400.
func ValidItemID(id string) error {
	switch {
	case id == "":
		return invalidName(id, ItemIDBytesMax)
	case len(id) > ItemIDBytesMax:
		return invalidName(id, ItemIDBytesMax)
	}
	return nil
}

// invalidName returns the error for an id that is empty or too long.
func invalidName(id string, most int) error {
	return status.Service("The input name '%s' is invalid. Ensure to provide a unique non-empty string less than '%d' characters.", clip(id), most+1)
}

// parseID returns the id of a definition from a client.
func parseID(body value.Value) (string, error) {
	if body.Kind() != value.KindObject {
		return "", status.BadRequest("The body of the request is not a JSON object.")
	}
	id := body.Get("id")
	switch id.Kind() {
	case value.KindString:
		return id.Text(), ValidID(id.Text())
	case value.KindUndefined:
		return "", missingProperty("id")
	}
	return "", status.BadRequest("The property 'id' is %s. It must be a string.", nameOf(id.Kind()))
}

// missingProperty returns the error for a definition without a property.
func missingProperty(name string) error {
	return status.Service("The input content is invalid because the required properties - '%s; ' - are missing", name)
}

// nameOf returns the kind with its article, for messages.
func nameOf(k value.Kind) string {
	switch k {
	case value.KindArray, value.KindObject:
		return "an " + k.String()
	case value.KindUndefined, value.KindNull:
		return k.String()
	}
	return "a " + k.String()
}

// clip shortens text from a caller for use in a message.
func clip(s string) string { return status.Clip(s, nameCharsShown) }

// nameCharsShown is how much of a name a message shows.
const nameCharsShown = 64
