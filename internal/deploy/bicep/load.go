package bicep

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// loaded is what a function that loads a file, or that reads the environment,
// returns.
type loaded struct {
	key   string // equal for equal calls
	value any
}

// constantString returns an argument that must be a literal string.
func (k *checker) constantString(x expr) (string, bool) {
	switch s := bare(x).(type) {
	case *stringExpr:
		if len(s.holes) == 0 {
			return s.parts[0], true
		}
	case *skipped:
		return "", false
	case *nameExpr:
		// A variable that holds a literal string is constant too.
		if v := k.names[s]; v != nil && v.target().kind == symVariable && v.target().decl.value != nil {
			t := v.target()
			if l, ok := t.decl.value.(*stringExpr); ok && len(l.holes) == 0 {
				return l.parts[0], true
			}
		}
	}
	k.add(x.at(), "BCP032", "The value must be a compile-time constant.")
	return "", false
}

// loadCall reads the file that a load function names.
func (k *checker) loadCall(x *callExpr, function string) *typ {
	args := make([]string, len(x.args))
	for i, a := range x.args {
		s, ok := k.constantString(a)
		if !ok {
			return anyType
		}
		args[i] = s
	}
	key := function + "\x00" + strings.Join(args, "\x00")
	if l := k.content[x]; l != nil {
		return typeOfValue(l.value, 0)
	}
	for i := range k.loads {
		if k.loads[i].key == key {
			k.content[x] = &k.loads[i]
			return typeOfValue(k.loads[i].value, 0)
		}
	}
	at := x.args[0].at()
	if function == "loadDirectoryFileInfo" {
		k.add(x.name.span, CodeUnsupported, "The function %q is not read here.", function)
		return anyType
	}
	name, _, ok := k.relativePath(args[0], at)
	if !ok {
		return anyType
	}
	limit := 4 * jsonLengthMax
	switch function {
	case "loadTextContent":
		limit = 4 * textLengthMax
	case "loadFileAsBase64":
		limit = base64SizeMax
	}
	b, err := k.c.readFile(name, limit)
	if errors.Is(err, errLimit) && k.c.read <= filesMax {
		k.add(at, "BCP184", "File '%s' exceeded maximum size of %d bytes.", args[0], limit)
		return anyType
	}
	if err != nil {
		k.unreadable(at, args[0], err)
		return anyType
	}
	v, ok := k.decode(x, function, args, b)
	if !ok {
		return anyType
	}
	k.loads = append(k.loads, loaded{key, v})
	k.content[x] = &loaded{key, v}
	return typeOfValue(v, 0)
}

// decode turns the bytes of a file into the value of the call.
func (k *checker) decode(x *callExpr, function string, args []string, b []byte) (any, bool) {
	if function == "loadFileAsBase64" {
		return base64.StdEncoding.EncodeToString(b), true
	}
	encodingArg, limit := 2, jsonLengthMax
	if function == "loadTextContent" {
		encodingArg, limit = 1, textLengthMax
	}
	encoding := "utf-8"
	if len(args) > encodingArg {
		encoding = args[encodingArg]
	}
	s, ok := decodeText(b, encoding)
	if !ok {
		k.add(x.args[encodingArg].at(), "BCP070", "Argument of type \"'%s'\" is not assignable to parameter of type \"'iso-8859-1' | 'us-ascii' | 'utf-16' | 'utf-16BE' | 'utf-8'\".", encoding)
		return nil, false
	}
	units := 0
	for _, r := range s {
		units += max(utf16.RuneLen(r), 1)
	}
	if units > limit {
		k.add(x.args[0].at(), "BCP184", "File '%s' exceeded maximum size of %d characters.", args[0], limit)
		return nil, false
	}
	if function == "loadTextContent" {
		return s, true
	}
	var v any
	var err error
	if function == "loadYamlContent" {
		v, err = parseYAML(s)
	} else {
		v, err = parseJSON([]byte(s), false)
	}
	if err != nil {
		code, form := "BCP186", "JSON"
		if function == "loadYamlContent" {
			code, form = "BCP340", "YAML"
		}
		k.add(x.args[0].at(), code, "Unable to parse %s file '%s': %s.", form, args[0], err)
		return nil, false
	}
	if len(args) > 1 && args[1] != "" {
		v, err = selectPath(v, args[1])
		if err != nil {
			k.add(x.args[1].at(), "BCP235", "Specified JSONPath does not exist in the given file or is invalid: %s.", err)
			return nil, false
		}
	}
	return v, true
}

// decodeText decodes a file of one of the encodings that the functions know.
func decodeText(b []byte, encoding string) (string, bool) {
	switch strings.ToLower(encoding) {
	case "utf-8":
		return strings.ToValidUTF8(strings.TrimPrefix(string(b), "\ufeff"), "\ufffd"), true
	case "us-ascii":
		r := make([]rune, len(b))
		for i, c := range b {
			r[i] = rune(c)
			if c >= utf8.RuneSelf {
				r[i] = '?'
			}
		}
		return string(r), true
	case "iso-8859-1":
		r := make([]rune, len(b))
		for i, c := range b {
			r[i] = rune(c)
		}
		return string(r), true
	case "utf-16", "utf-16be":
		u := make([]uint16, len(b)/2)
		for i := range u {
			if strings.HasSuffix(strings.ToLower(encoding), "be") {
				u[i] = uint16(b[2*i])<<8 | uint16(b[2*i+1])
			} else {
				u[i] = uint16(b[2*i+1])<<8 | uint16(b[2*i])
			}
		}
		return strings.TrimPrefix(string(utf16.Decode(u)), "\ufeff"), true
	}
	return "", false
}

// yamlNodesMax bounds what the aliases of a YAML file expand to.
const yamlNodesMax = 200000

func parseYAML(s string) (any, error) {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(s), &n); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if n.Kind == 0 {
		return nil, nil //nolint:nilnil // an empty file is the value null
	}
	left := yamlNodesMax
	return yamlValue(&n, 0, &left)
}

func yamlValue(n *yaml.Node, depth int, left *int) (any, error) {
	if *left--; *left < 0 || depth > nestingMax {
		return nil, errors.New("the file expands to too many values")
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return yamlValue(n.Content[0], depth, left)
	case yaml.AliasNode:
		return yamlValue(n.Alias, depth+1, left)
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			v, err := yamlValue(c, depth+1, left)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		o := &object{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := yamlValue(n.Content[i+1], depth+1, left)
			if err != nil {
				return nil, err
			}
			o.set(n.Content[i].Value, v)
		}
		return o, nil
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, nil //nolint:nilnil // the value null
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int":
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return v, nil
		}
	case "!!float":
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil {
			if b, err := json.Marshal(v); err == nil {
				return json.Number(b), nil
			}
		}
	}
	return n.Value, nil
}

// selectPath follows a path of members and indexes: $.a.b[0]['c'].
func selectPath(v any, path string) (any, error) {
	rest := strings.TrimPrefix(path, "$")
	for rest != "" {
		var name string
		index := -1
		switch {
		case strings.HasPrefix(rest, "['"):
			end := strings.Index(rest, "']")
			if end < 0 {
				return nil, errors.New("a bracket is not closed")
			}
			name, rest = rest[2:end], rest[end+2:]
		case rest[0] == '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, errors.New("a bracket is not closed")
			}
			n, err := strconv.Atoi(rest[1:end])
			if err != nil || n < 0 {
				return nil, fmt.Errorf("the index %q is none; filters and wildcards are not read here", rest[1:end])
			}
			index, rest = n, rest[end+1:]
		default:
			rest = strings.TrimPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
			if name == "" || name == "*" {
				return nil, errors.New("a name is missing; filters and wildcards are not read here")
			}
		}
		if index >= 0 {
			list, ok := v.([]any)
			if !ok || index >= len(list) {
				return nil, fmt.Errorf("there is no item %d", index)
			}
			v = list[index]
			continue
		}
		o, ok := v.(*object)
		if !ok || !o.has(name) {
			return nil, fmt.Errorf("there is no member %q", name)
		}
		v = o.get(name)
	}
	return v, nil
}

func (o *object) has(name string) bool {
	for _, m := range o.members {
		if m.name == name {
			return true
		}
	}
	return false
}

// typeOfValue returns the type of a value that is known.
func typeOfValue(v any, depth int) *typ {
	if depth > comparableDepth {
		return anyType
	}
	switch v := v.(type) {
	case nil:
		return nullType
	case bool, int64:
		return literalOf(v)
	case string:
		return stringType
	case []any:
		if len(v) > 1000 {
			return arrayAny
		}
		t := &typ{category: tArray, isTuple: true}
		for _, item := range v {
			t.tuple = append(t.tuple, typeOfValue(item, depth+1))
		}
		return t
	case *object:
		t := &typ{category: tObject}
		for _, m := range v.members {
			t.fields = append(t.fields, field{name: m.name, typ: typeOfValue(m.value, depth+1)})
		}
		return t
	}
	return anyType
}

// environmentCall reads a variable of the environment for a .bicepparam file.
func (k *checker) environmentCall(x *callExpr) {
	name, ok := k.constantString(x.args[0])
	if !ok {
		return
	}
	value, found := "", false
	if k.c.environment != nil {
		value, found = k.c.environment(name)
	}
	if !found && len(x.args) > 1 {
		fallback, ok := k.constantString(x.args[1])
		if !ok {
			return
		}
		value, found = fallback, true
	}
	if !found {
		k.add(x.span, "BCP338", "Failed to evaluate parameter: environment variable %q does not exist, and no default value set.", name)
		return
	}
	k.content[x] = &loaded{key: "readEnvironmentVariable\x00" + name, value: value}
}
