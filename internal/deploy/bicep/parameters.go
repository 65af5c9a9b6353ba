package bicep

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

const parametersSchema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#"

// parameters compiles a .bicepparam file that has been loaded.
func (c *compiler) parameters(f *file, evaluate func(*Compiled) (map[string]json.RawMessage, error)) (*Parameters, error) {
	result := &Parameters{}
	var used *file
	var template *object
	using := 0
	for _, d := range f.decls {
		if d.keyword != "using" {
			continue
		}
		if using++; using > 1 {
			f.add(d.keywordAt, "BCP257", "The \"using\" declaration is not valid more than once.")
			continue
		}
		if d.none || d.path == nil {
			continue
		}
		name, at, ok := f.relative(d.path)
		if !ok {
			continue
		}
		result.Using = name
		shown := d.path.(*stringExpr).parts[0]
		if path.Ext(name) == ".json" || path.Ext(name) == ".jsonc" {
			template = f.openTemplate(name, at, shown)
			continue
		}
		c.loading = append(c.loading, f.path)
		used = f.open(name, at, shown)
		c.loading = c.loading[:len(c.loading)-1]
	}
	if using == 0 {
		f.add(span{}, "BCP261", "No using declaration is present in this parameters file.")
	}
	f.check()
	var want *typ
	if used != nil || template != nil {
		if used != nil {
			used.check()
		}
		k := &checker{file: f, symbol: &symbol{}}
		want = k.moduleParameters(&symbol{kind: symModule, module: used, template: template})
		f.checkValues(want)
	}
	if err := c.failures(f); err != nil {
		return nil, err
	}
	var err error
	switch {
	case used != nil:
		if template, err = c.template(used); err != nil {
			return nil, err
		}
	}
	if template != nil {
		if result.Template, err = f.encode(template); err != nil {
			return nil, err
		}
	}
	result.Values, err = f.values(evaluate)
	return result, err
}

// checkValues compares the values with the parameters of the template.
func (f *file) checkValues(want *typ) {
	if want == nil {
		return
	}
	given := map[string]bool{}
	for _, s := range f.order {
		if s.decl.keyword != "param" {
			continue
		}
		given[s.name] = true
		t := want.field(s.name)
		if t == nil {
			f.add(s.at, "BCP259", "The parameter %q is assigned in the params file without being declared in the Bicep file.", s.name)
			continue
		}
		k := &checker{file: f, symbol: s, place: inParams}
		k.assigned(s.decl.value, f.types[s.decl.value], t, s.decl.value.at(), "")
	}
	var missing []string
	for _, p := range want.fields {
		if !given[p.name] && !p.optional {
			missing = append(missing, fmt.Sprintf("%q", p.name))
		}
	}
	if len(missing) > 0 {
		at := span{}
		for _, d := range f.decls {
			if d.keyword == "using" {
				at = d.span
			}
		}
		f.add(at, "BCP258", "The following parameters are declared in the Bicep file but are missing an assignment in the params file: %s.", strings.Join(missing, ", "))
	}
}

// values writes the parameters file. A file with expressions becomes a
// template whose one output holds all values.
func (f *file) values(evaluate func(*Compiled) (map[string]json.RawMessage, error)) (*Compiled, error) {
	e := &emitter{f: f, emission: &emission{
		c: f.c, root: f, variables: &object{}, definitions: &object{}, functions: map[string]*object{},
		numbers: map[*file]int{}, done: map[*symbol]bool{}, loads: map[string]term{}, unions: map[*object][]unionMember{}, left: expressionMax,
	}}
	all := &object{}
	for _, s := range f.order {
		switch s.decl.keyword {
		case "param":
			if l, ok := s.decl.value.(*forExpr); ok {
				loop := "param " + s.name
				e.copies = append(e.copies, e.copyOf(l, loop, loop, nil))
				all.setFrom(f, s.at, s.name, call("variables", termString(loop)))
				continue
			}
			all.setFrom(f, s.decl.value.at(), s.name, e.value(s.decl.value, nil))
		case "var":
			e.variable(s, s.name)
		}
	}
	e.imports()
	if e.exhausted {
		f.add(span{}, CodeLimit, "The file expands to more than %d values and functions.", expressionMax)
		return nil, f.err()
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if hasTerms(all) {
		t := newObject("$schema", schemas["resourceGroup"], "languageVersion", "2.0", "contentVersion", "1.0.0.0")
		if len(e.functions) > 0 {
			var list []any
			for _, n := range e.namespaces {
				list = append(list, newObject("namespace", n, "members", e.functions[n]))
			}
			t.set("functions", list)
		}
		if len(e.definitions.members) > 0 {
			t.set("definitions", e.definitions)
		}
		if len(e.copies) > 0 {
			e.variables.members = append([]member{{name: "copy", value: e.copies}}, e.variables.members...)
		}
		if len(e.variables.members) > 0 {
			t.set("variables", e.variables)
		}
		t.set("resources", &object{})
		t.set("outputs", newObject("values", newObject("type", "object", "value", all)))
		v, err := f.run(t, evaluate)
		if err != nil {
			return nil, fmt.Errorf("evaluate the parameters of %s: %w", f.path, err)
		}
		all = v
	}
	all, _ = raw(all).(*object)
	parameters := &object{}
	for _, m := range all.members {
		at := span{}
		if s := f.symbols[m.name]; s != nil && s.decl != nil && s.decl.value != nil {
			at = s.decl.value.at()
		}
		parameters.setFrom(f, at, m.name, newObject("value", m.value))
	}
	return f.encode(newObject("$schema", parametersSchema, "contentVersion", "1.0.0.0", "parameters", parameters))
}

// run evaluates a template with the one output "values".
func (f *file) run(t *object, evaluate func(*Compiled) (map[string]json.RawMessage, error)) (*object, error) {
	if evaluate == nil {
		return nil, errors.New("the file holds expressions, and nothing evaluates them here")
	}
	text, err := f.encode(t)
	if err != nil {
		return nil, err
	}
	outputs, err := evaluate(text)
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(outputs["values"], true)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*object)
	if !ok {
		return nil, errors.New("the evaluator returned no object")
	}
	return o, nil
}

// raw turns the strings of a value into text that is written as it is:
// parameters are values, and no expression is looked for in them.
func raw(v any) any {
	switch v := v.(type) {
	case string:
		return rawText(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = raw(item)
		}
		return list
	case *object:
		o := &object{}
		for _, m := range v.members {
			o.set(m.name, raw(m.value))
		}
		return o
	}
	return v
}

// hasTerms reports whether a value holds an expression.
func hasTerms(v any) bool {
	switch v := v.(type) {
	case term:
		return true
	case []any:
		for _, item := range v {
			if hasTerms(item) {
				return true
			}
		}
	case *object:
		for _, m := range v.members {
			if m.computed != nil || hasTerms(m.value) {
				return true
			}
		}
	}
	return false
}
