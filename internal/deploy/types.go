package deploy

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

// typesText are the published properties; tools/templatetypes writes the file.
//
//go:embed types.json
var typesText []byte

// propertyTable says which properties a resource may have.
type propertyTable struct {
	APIVersion string
	// Shapes has the members of each object, by the notation of the vendor's types: string,
	// int, bool, any, [X] for a list, #Name for an object, A|B|* for words; then flags, of
	// which r means read-only.
	Shapes map[string]map[string]any
	// Since has the API version of members that came after their type.
	Since map[string]map[string]string
}

var properties = sync.OnceValue(func() *propertyTable {
	table := &propertyTable{}
	if err := json.Unmarshal(typesText, table); err != nil {
		panic(err) // A test reads the file.
	}
	return table
})

// extensions are members of a container that the vendor's types do not have, and that
// the data plane has.
var extensions = []string{"geospatialConfig", "changeFeedPolicy", "previousImageRetentionPolicy"}

// cleaner walks the properties of a resource.
type cleaner struct {
	table *propertyTable
	item  Item
	notes []string
}

// Clean returns the properties of a resource as they are to be sent: without members that
// are null, read-only or unknown, with names and words in their published spelling, and
// with numbers as numbers. notes are sentences about what was left out, and about
// members that are newer than the API version of the resource.
func (i Item) Clean(raw *jsonc.Object) (clean *jsonc.Object, notes []string) {
	c := &cleaner{table: properties(), item: i}
	clean, _ = c.object(raw, strings.TrimPrefix(c.shape(i.shape, "properties"), "#"), "").(*jsonc.Object)
	if clean == nil {
		clean = jsonc.NewObject()
	}
	return c.hoist(raw, clean), c.notes
}

// shape returns the notation of a member, without flags.
func (c *cleaner) shape(of, member string) string {
	text, _ := c.table.Shapes[of][member].(string)
	base, _, _ := strings.Cut(text, " ")
	return base
}

// hoist takes options that are in the member resource, as some templates have them.
func (c *cleaner) hoist(raw, clean *jsonc.Object) *jsonc.Object {
	if _, has := clean.Get("options"); has {
		return clean
	}
	resource, _ := raw.Get("resource")
	inner, is := resource.(*jsonc.Object)
	if !is {
		return clean
	}
	options, found := inner.Get("options")
	if object, is := options.(*jsonc.Object); found && is && c.shape(strings.TrimPrefix(c.shape(c.item.shape, "properties"), "#"), "options") != "" {
		out := jsonc.NewObject()
		for _, m := range clean.Members() {
			out.Set(m.Name, m.Value)
		}
		out.Set("options", c.value(object, c.shape(strings.TrimPrefix(c.shape(c.item.shape, "properties"), "#"), "options"), "options"))
		return out
	}
	return clean
}

func (c *cleaner) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// object cleans an object of a shape.
func (c *cleaner) object(o *jsonc.Object, shape, path string) any {
	members := c.table.Shapes[shape]
	out := jsonc.NewObject()
	for _, m := range o.Members() {
		if m.Value == nil {
			continue
		}
		name, notation := m.Name, ""
		for known, text := range members {
			if strings.EqualFold(known, m.Name) {
				name = known
				notation, _ = text.(string)
			}
		}
		inside := strings.TrimPrefix(path+"."+name, ".")
		base, flags, _ := strings.Cut(notation, " ")
		if notation == "" {
			if kept, note := c.unknown(name, path, inside, members); !kept {
				if note {
					c.note("properties.%s is not a property of %s%s; it is left out", inside, provider, c.item.shape)
				}
				continue
			}
			base = "any"
		}
		if strings.Contains(flags, "r") {
			c.note("properties.%s is read-only; it is left out", inside)
			continue
		}
		c.since(inside)
		if v := c.value(m.Value, base, inside); v != nil {
			out.Set(name, v)
		}
	}
	return out
}

// unknown says whether a member that a shape does not have is kept, and if not, whether
// that is worth a note.
func (c *cleaner) unknown(name, path, inside string, members map[string]any) (kept, note bool) {
	if members == nil || members["*"] != nil {
		return true, false
	}
	for known := range members {
		if strings.HasPrefix(known, "?") {
			return true, false
		}
	}
	if path == "resource" && c.item.Kind == Container && slices.Contains(extensions, name) {
		return true, false
	}
	if path == "resource" && strings.EqualFold(name, "options") {
		return false, false // See hoist.
	}
	_, preview := c.table.Since[c.item.shape][inside]
	return preview, !preview
}

// since notes a member that is newer than the API version.
func (c *cleaner) since(path string) {
	version := c.table.Since[c.item.shape][path]
	if version == "" || c.item.Resource == nil {
		return
	}
	have, need := c.item.APIVersion, version
	if len(have) >= 10 && have[:10] < need[:10] {
		c.note("properties.%s exists since the API version %s; the template names %s", path, version, have)
	}
}

// value cleans a value of a shape; nil means that it is left out.
func (c *cleaner) value(v any, shape, path string) any {
	switch v := v.(type) {
	case nil:
		return nil
	case *jsonc.Object:
		name, _ := strings.CutPrefix(shape, "#")
		return c.object(v, name, path)
	case *jsonc.Array:
		inner := "any"
		if strings.HasPrefix(shape, "[") && strings.HasSuffix(shape, "]") {
			inner = shape[1 : len(shape)-1]
		}
		var items []any
		for _, item := range v.Items() {
			if cleaned := c.value(item, inner, path+"[]"); cleaned != nil {
				items = append(items, cleaned)
			}
		}
		return jsonc.NewArray(items...)
	case string:
		return scalar(v, shape)
	}
	return v
}

// scalar returns a string as the shape wants it: a number, a truth value, or a word in
// its published spelling.
func scalar(text, shape string) any {
	switch {
	case shape == "int" || strings.HasPrefix(shape, "int("):
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case shape == "bool":
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	case strings.Contains(shape, "|"):
		for word := range strings.SplitSeq(shape, "|") {
			if word != "*" && strings.EqualFold(word, text) {
				return word
			}
		}
	}
	return text
}
