package bicep

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Format prints a Resource Manager template as Bicep, for people to read and
// to change. Compile of the text deploys the same as the template.
//
// The template is JSON of either form: resources as a list, or by symbolic
// name (language version 2.0, with "existing" resources). Parameters,
// variables, resources with any properties, and outputs are printed, with the
// expressions in them. A resource whose name begins with that of another one of
// the outer type gets a parent instead of the long name, and a dependsOn that
// the parent implies is left out. Text of several lines is printed between
// three quotes.
//
// Loops (copy), nested templates, definitions and functions of the template
// are refused with an error: an exported template has none.
func Format(template []byte) ([]byte, error) {
	v, err := parseJSON(template, false)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	o, ok := v.(*object)
	if !ok {
		return nil, fmt.Errorf("template: the JSON is not an object")
	}
	p := &printer{names: map[string]string{}, taken: map[string]bool{}}
	if err := p.template(o); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return []byte(strings.TrimSuffix(p.b.String(), "\n")), nil
}

type printer struct {
	b strings.Builder
	// names gives parameters ("p:"), variables ("v:") and resources ("r:") of
	// the template their names in the text, by the name in lower case.
	names     map[string]string
	taken     map[string]bool
	resources []*printed
}

// printed is one resource of the template.
type printed struct {
	object   *object
	symbol   string // in the template, or ""
	name     string // in the text
	typ      string
	version  string
	segments []string // of its name, as Bicep text without quotes
	last     string   // the last segment as a value
	parent   *printed
}

// line prints one line.
func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(&p.b, format+"\n", args...)
}

// member returns a member whatever the case of its name, as templates allow.
func (o *object) member(name string) any {
	for _, m := range o.members {
		if strings.EqualFold(m.name, name) {
			return m.value
		}
	}
	return nil
}

func (o *object) objects(name string) []member {
	inner, _ := o.member(name).(*object)
	if inner == nil {
		return nil
	}
	return inner.members
}

func (p *printer) template(o *object) error {
	for _, name := range []string{"definitions", "functions"} {
		if v, ok := o.member(name).(*object); ok && len(v.members) > 0 {
			return fmt.Errorf("%s are not printed", name)
		}
		if v, ok := o.member(name).([]any); ok && len(v) > 0 {
			return fmt.Errorf("%s are not printed", name)
		}
	}
	schema, _ := o.member("$schema").(string)
	for scope, s := range schemas {
		last := s[strings.LastIndex(s, "/")+1:]
		if scope != "resourceGroup" && strings.HasSuffix(strings.ToLower(strings.TrimSuffix(schema, "#")), "/"+strings.ToLower(strings.TrimSuffix(last, "#"))) {
			p.line("targetScope = '%s'\n", scope)
		}
	}
	for _, m := range o.objects("metadata") {
		if m.name == "_generator" || !isName(m.name) {
			continue
		}
		v, err := p.value(m.value, 0)
		if err != nil {
			return err
		}
		p.line("metadata %s = %s\n", m.name, v)
	}
	for _, m := range o.objects("parameters") {
		p.claim("p:", m.name, m.name)
	}
	for _, m := range o.objects("variables") {
		p.claim("v:", m.name, m.name)
	}
	if err := p.find(o.member("resources")); err != nil {
		return err
	}
	for _, m := range o.objects("parameters") {
		if err := p.parameter(m); err != nil {
			return fmt.Errorf("parameter %s: %w", m.name, err)
		}
	}
	for _, m := range o.objects("variables") {
		if strings.EqualFold(m.name, "copy") {
			return fmt.Errorf("loops (copy) are not printed")
		}
		v, err := p.value(m.value, 0)
		if err != nil {
			return fmt.Errorf("variable %s: %w", m.name, err)
		}
		p.line("var %s = %s\n", p.names["v:"+strings.ToLower(m.name)], v)
	}
	for _, r := range p.resources {
		if err := p.resource(r); err != nil {
			return fmt.Errorf("resource %s: %w", r.name, err)
		}
	}
	for _, m := range o.objects("outputs") {
		if err := p.output(m); err != nil {
			return fmt.Errorf("output %s: %w", m.name, err)
		}
	}
	return nil
}

// claim gives a thing of the template a name in the text that nothing else has.
func (p *printer) claim(kind, key, wish string) string {
	name := identifier(wish)
	for n := 2; p.taken[name]; n++ {
		name = identifier(wish) + strconv.Itoa(n)
	}
	p.taken[name] = true
	p.names[kind+strings.ToLower(key)] = name
	return name
}

// identifier makes a name of the language from any text.
func identifier(s string) string {
	var b strings.Builder
	upper := false
	for i := range len(s) {
		c := s[i]
		switch {
		case isLetter(c) || isDigit(c):
			if b.Len() == 0 && isDigit(c) {
				b.WriteByte('_')
			}
			if upper && b.Len() > 0 && c >= 'a' && c <= 'z' {
				c -= 'a' - 'A'
			}
			b.WriteByte(c)
			upper = false
		default:
			upper = true
		}
	}
	name := b.String()
	switch name {
	case "", "true", "false", "null", "if", "for", "in":
		return name + "_"
	}
	if name == "sys" || name == "az" {
		return name + "_"
	}
	return name
}

func (p *printer) parameter(m member) error {
	o, ok := m.value.(*object)
	if !ok {
		return fmt.Errorf("is not an object")
	}
	typ, _ := o.member("type").(string)
	if typ == "" {
		return fmt.Errorf("parameters without a simple type are not printed")
	}
	for _, x := range o.members {
		if !slices.Contains([]string{"type", "metadata", "allowedvalues", "minlength", "maxlength", "minvalue", "maxvalue", "nullable", "defaultvalue"}, strings.ToLower(x.name)) {
			return fmt.Errorf("parameters with %q are not printed", x.name)
		}
	}
	if metadata, ok := o.member("metadata").(*object); ok {
		if d, ok := metadata.member("description").(string); ok {
			p.line("@description(%s)", quoteText(d))
		}
	}
	secure := map[string]string{"securestring": "string", "secureobject": "object"}
	typ = strings.ToLower(typ)
	if s := secure[typ]; s != "" {
		p.line("@secure()")
		typ = s
	}
	for _, name := range []string{"allowedValues", "minLength", "maxLength", "minValue", "maxValue"} {
		v := o.member(name)
		if v == nil {
			continue
		}
		text, err := p.value(v, 0)
		if err != nil {
			return err
		}
		p.line("@%s(%s)", strings.TrimSuffix(name, "edValues")+map[bool]string{true: "ed"}[name == "allowedValues"], text)
	}
	if n, _ := o.member("nullable").(bool); n {
		typ += "?"
	}
	text := fmt.Sprintf("param %s %s", p.names["p:"+strings.ToLower(m.name)], typ)
	if slices.ContainsFunc(o.members, func(m member) bool { return strings.EqualFold(m.name, "defaultValue") }) {
		v, err := p.value(o.member("defaultValue"), 0)
		if err != nil {
			return err
		}
		text += " = " + v
	}
	p.line("%s\n", text)
	return nil
}

func (p *printer) output(m member) error {
	o, ok := m.value.(*object)
	if !ok {
		return fmt.Errorf("is not an object")
	}
	if o.member("copy") != nil || o.member("condition") != nil {
		return fmt.Errorf("outputs with a loop or a condition are not printed")
	}
	typ, _ := o.member("type").(string)
	switch typ = strings.ToLower(typ); typ {
	case "securestring", "secureobject":
		p.line("@secure()")
		typ = strings.TrimPrefix(typ, "secure")
	case "":
		return fmt.Errorf("outputs without a simple type are not printed")
	}
	if n, _ := o.member("nullable").(bool); n {
		typ += "?"
	}
	v, err := p.value(o.member("value"), 0)
	if err != nil {
		return err
	}
	p.line("output %s %s = %s\n", identifier(m.name), typ, v)
	return nil
}

// find collects the resources, gives them names and finds their parents.
func (p *printer) find(v any) error {
	add := func(symbol string, v any) error {
		o, ok := v.(*object)
		if !ok {
			return fmt.Errorf("a resource is not an object")
		}
		r := &printed{object: o, symbol: symbol}
		r.typ, _ = o.member("type").(string)
		r.version, _ = o.member("apiVersion").(string)
		name, _ := o.member("name").(string)
		if r.typ == "" || r.version == "" || name == "" {
			return fmt.Errorf("a resource has no type, apiVersion or name")
		}
		if strings.EqualFold(r.typ, "Microsoft.Resources/deployments") {
			return fmt.Errorf("nested templates are not printed")
		}
		if o.member("copy") != nil {
			return fmt.Errorf("resource %s: loops (copy) are not printed", name)
		}
		if o.member("resources") != nil {
			return fmt.Errorf("resource %s: resources inside resources are not printed", name)
		}
		if strings.ContainsFunc(r.typ+r.version, func(c rune) bool {
			return c > 0x7e || c != '.' && c != '/' && c != '-' && !isLetter(byte(c)) && !isDigit(byte(c))
		}) || !strings.Contains(r.typ, "/") {
			return fmt.Errorf("resource %s: %s@%s is no type and version", name, r.typ, r.version)
		}
		r.typ = canonicalType(r.typ)
		segments, err := p.segments(name)
		if err != nil {
			return err
		}
		for _, s := range segments {
			r.segments = append(r.segments, joined(s))
			r.last = stringOf(s)
		}
		p.resources = append(p.resources, r)
		return nil
	}
	switch list := v.(type) {
	case []any:
		for _, item := range list {
			if err := add("", item); err != nil {
				return err
			}
		}
	case *object:
		for _, m := range list.members {
			if err := add(m.name, m.value); err != nil {
				return err
			}
		}
	}
	for _, r := range p.resources {
		// Two candidates are one too many: the name says it all then.
		candidates := 0
		for _, other := range p.resources {
			if r.typ[:strings.LastIndexByte(r.typ, '/')] == other.typ && len(r.segments) == len(other.segments)+1 && slices.Equal(r.segments[:len(other.segments)], other.segments) {
				r.parent = other
				candidates++
			}
		}
		if candidates > 1 {
			r.parent = nil
		}
	}
	for _, r := range p.resources {
		p.choose(r)
	}
	return nil
}

// kinds are the words for resources whose names are no words.
var kinds = map[string]string{
	"databaseAccounts": "account", "sqlDatabases": "database", "containers": "container", "storedProcedures": "procedure",
	"triggers": "trigger", "userDefinedFunctions": "function", "throughputSettings": "throughput", "cassandraKeyspaces": "keyspace",
	"tables": "table", "sqlRoleDefinitions": "role", "sqlRoleAssignments": "assignment",
}

// choose gives a resource its name in the text: its symbol in the template,
// or the last part of its name.
func (p *printer) choose(r *printed) {
	kind := r.typ[strings.LastIndexByte(r.typ, '/')+1:]
	if k := kinds[kind]; k != "" {
		kind = k
	}
	wish := r.segments[len(r.segments)-1]
	switch {
	case r.symbol != "":
		wish = r.symbol
	case strings.Contains(wish, "${") || wish == "default" || len(wish) > 40 || kind == "role" || kind == "assignment":
		wish = kind
		if r.parent != nil && (kind == "throughput") {
			wish = identifier(r.parent.segments[len(r.parent.segments)-1]) + "Throughput"
		}
	case p.taken[identifier(wish)]:
		wish += "-" + kind
	}
	key := r.symbol
	if key == "" {
		key = r.typ + "|" + strings.Join(r.segments, "/")
	}
	r.name = p.claim("r:", key, wish)
}

// segments cuts a name at its slashes; those inside of an expression belong to it.
func (p *printer) segments(name string) ([][]piece, error) {
	v, err := literalOrTerm(name)
	if err != nil {
		return nil, err
	}
	var all []piece
	if s, ok := v.(string); ok {
		all = []piece{{text: s}}
	} else if t, ok := v.(term); ok {
		if all, err = p.pieces(t); err != nil {
			return nil, err
		}
	}
	return cut(all), nil
}

// literalOrTerm reads a string of a template: text, or an expression.
func literalOrTerm(s string) (any, error) {
	switch {
	case strings.HasPrefix(s, "[[") && strings.HasSuffix(s, "]"):
		return s[1:], nil
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		return parseTerm(s[1 : len(s)-1])
	}
	return s, nil
}

func (p *printer) resource(r *printed) error {
	existing, _ := r.object.member("existing").(bool)
	head := fmt.Sprintf("resource %s '%s@%s'", r.name, r.typ, r.version)
	if existing {
		head += " existing"
	}
	head += " = "
	if c := r.object.member("condition"); c != nil {
		text, err := p.value(c, 0)
		if err != nil {
			return err
		}
		head += "if (" + text + ") "
	}
	p.line("%s{", head)
	switch {
	case r.parent != nil:
		p.line("  parent: %s", r.parent.name)
		p.line("  name: %s", r.last)
	case len(r.segments) == 1:
		p.line("  name: %s", r.last)
	default:
		p.line("  name: '%s'", strings.Join(r.segments, "/"))
	}
	if group := r.object.member("resourceGroup"); group != nil {
		text, err := p.value(group, 0)
		if err != nil {
			return err
		}
		p.line("  scope: resourceGroup(%s)", text)
	}
	for _, m := range r.object.members {
		switch strings.ToLower(m.name) {
		case "type", "apiversion", "name", "existing", "condition", "resourcegroup", "dependson", "comments", "metadata":
			continue
		case "scope":
			s, _ := m.value.(string)
			other, err := p.dependency(s)
			if err != nil {
				return fmt.Errorf("scope: %w", err)
			}
			p.line("  scope: %s", other.name)
			continue
		}
		text, err := p.value(m.value, 1)
		if err != nil {
			return err
		}
		p.line("  %s: %s", key(m.name), text)
	}
	if err := p.dependsOn(r); err != nil {
		return err
	}
	p.line("}\n")
	return nil
}

// dependsOn prints what is not said by the parent already.
func (p *printer) dependsOn(r *printed) error {
	list, _ := r.object.member("dependsOn").([]any)
	var names []string
	for _, item := range list {
		s, _ := item.(string)
		other, err := p.dependency(s)
		if err != nil {
			return err
		}
		implied := false
		for a := r.parent; a != nil; a = a.parent {
			implied = implied || a == other
		}
		if !implied {
			names = append(names, other.name)
		}
	}
	if len(names) > 0 {
		p.line("  dependsOn: [")
		for _, n := range names {
			p.line("    %s", n)
		}
		p.line("  ]")
	}
	return nil
}

// dependency finds the resource that an item of dependsOn names: by its
// symbolic name, its name or its id.
func (p *printer) dependency(s string) (*printed, error) {
	v, err := literalOrTerm(s)
	if err != nil {
		return nil, err
	}
	typ := ""
	var segments []string
	switch t := v.(type) {
	case string:
		for _, r := range p.resources {
			if r.symbol == t && t != "" {
				return r, nil
			}
		}
		segments = strings.Split(escapeText(t), "/")
	case termCall:
		if !strings.EqualFold(t.name, "resourceId") {
			list, err := p.segments(s)
			if err != nil {
				return nil, err
			}
			for _, x := range list {
				segments = append(segments, joined(x))
			}
		} else if len(t.args) > 1 {
			if name, ok := t.args[0].(termString); ok {
				typ = canonicalType(string(name))
				for _, a := range t.args[1:] {
					part, err := p.interpolation(a)
					if err != nil {
						return nil, err
					}
					segments = append(segments, part)
				}
			}
		}
	}
	for _, r := range p.resources {
		if slices.Equal(r.segments, segments) && (typ == "" || r.typ == typ) {
			return r, nil
		}
	}
	return nil, fmt.Errorf("dependsOn names %q, which is no resource of the template", s)
}

// key prints the name of a member.
func key(name string) string {
	if isName(name) {
		return name
	}
	return quoteText(name)
}

// quoteText prints a string of one quote.
func quoteText(s string) string { return "'" + escapeText(s) + "'" }

// value prints a JSON value whose strings may be expressions.
func (p *printer) value(v any, depth int) (string, error) {
	indent := strings.Repeat("  ", depth)
	switch v := v.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case json.Number:
		return "json('" + v.String() + "')", nil
	case string:
		inner, err := literalOrTerm(v)
		if err != nil {
			return "", err
		}
		if t, ok := inner.(term); ok {
			return p.term(t, 0)
		}
		s, _ := inner.(string)
		return textOf(s), nil
	case []any:
		if len(v) == 0 {
			return "[]", nil
		}
		var b strings.Builder
		b.WriteString("[\n")
		for _, item := range v {
			text, err := p.value(item, depth+1)
			if err != nil {
				return "", err
			}
			b.WriteString(indent + "  " + text + "\n")
		}
		b.WriteString(indent + "]")
		return b.String(), nil
	case *object:
		if len(v.members) == 0 {
			return "{}", nil
		}
		var b strings.Builder
		b.WriteString("{\n")
		for _, m := range v.members {
			if strings.EqualFold(m.name, "copy") {
				if _, isLoop := m.value.([]any); isLoop {
					return "", fmt.Errorf("loops (copy) are not printed")
				}
			}
			text, err := p.value(m.value, depth+1)
			if err != nil {
				return "", err
			}
			name := key(m.name)
			if n, err := literalOrTerm(m.name); err == nil {
				if t, ok := n.(term); ok {
					inner, err := p.interpolation(t)
					if err != nil {
						return "", err
					}
					name = "'" + inner + "'"
				}
			}
			b.WriteString(indent + "  " + name + ": " + text + "\n")
		}
		b.WriteString(indent + "}")
		return b.String(), nil
	}
	return "", fmt.Errorf("a value of this kind is not printed")
}

// textOf prints a string: one of several lines between three quotes.
func textOf(s string) string {
	if strings.Contains(s, "\n") && !strings.Contains(s, "'''") && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' }) {
		return "'''\n" + s + "'''"
	}
	return quoteText(s)
}
