package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// given reads the parameters files: objects by name, or with a member parameters.
func (r Request) given() ([]jsonc.Field, error) {
	var all []jsonc.Field
	for _, source := range r.Parameters {
		if strings.TrimSpace(source.Text) == "" {
			continue
		}
		root, err := source.parse()
		if parse, is := errors.AsType[*jsonc.Error](err); is {
			return nil, &Error{Code: invalidContent, Message: parse.Message, File: source.Name, Line: parse.Line, Column: parse.Column}
		} else if err != nil {
			return nil, err
		}
		if inner := root.Get("parameters"); inner.IsObject() && root.Get("$schema") != nil || inner.IsObject() && inner.Get("value") == nil {
			root = inner
		}
		if !root.IsObject() {
			return nil, failAt(root, "The parameters must be a JSON object.")
		}
		all = append(all, root.Fields...)
	}
	return all, nil
}

// argument is the value of a parameter.
type argument struct {
	value any
	place *jsonc.Node // Nil for values of the command line.
}

// takeTexts takes the parameters of files and of texts by name.
func (t *template) takeTexts(files []jsonc.Field, texts map[string]string) error {
	args := map[string]argument{}
	var names []string
	for _, field := range files {
		if !field.Node.IsObject() || field.Node.Get("value") == nil {
			e := failAt(field.Node, "The parameter '%s' must be an object with a value.", field.Name)
			if field.Node.Get("reference") != nil {
				e.Message = fmt.Sprintf("The parameter '%s' refers to a key vault, which does not exist here: give the value itself, such as on the command line.", field.Name)
			}
			return e
		}
		lower := strings.ToLower(field.Name)
		if _, twice := args[lower]; !twice {
			names = append(names, field.Name)
		}
		args[lower] = argument{field.Node.Get("value").Plain(), field.Node}
	}
	for name, text := range texts {
		value, err := t.parseText(name, text)
		if err != nil {
			return err
		}
		lower := strings.ToLower(name)
		if _, twice := args[lower]; !twice {
			names = append(names, name)
		}
		args[lower] = argument{value: value}
	}
	slices.Sort(names)
	return t.take(names, args)
}

// parseText reads a parameter of the command line by its type.
func (t *template) parseText(name, text string) (any, error) {
	declared := t.root.Get("parameters").Get(name)
	if declared == nil {
		return text, nil // take says that there is no such parameter.
	}
	kind, err := t.resolveType(declared, 0)
	if err != nil {
		return nil, err
	}
	if typeName, _ := kind.Get("type").Text(); strings.EqualFold(typeName, "string") || strings.EqualFold(typeName, "securestring") {
		return text, nil
	}
	node, err := jsonc.Parse(text)
	if err != nil {
		return nil, &Error{Code: invalidTemplate, Message: fmt.Sprintf("The value of the parameter '%s' is not JSON: %s", name, err)}
	}
	return node.Plain(), nil
}

// take checks the arguments against the declared parameters, and declares the latter.
func (t *template) take(names []string, args map[string]argument) error {
	declared := t.root.Get("parameters")
	var known []string
	if declared != nil {
		for _, field := range declared.Fields {
			known = append(known, field.Name)
			if _, err := t.resolveType(field.Node, 0); err != nil {
				return err
			}
			if arg, given := args[strings.ToLower(field.Name)]; !given || arg.value == nil {
				if field.Node.Get("defaultValue") == nil && !field.Node.Get("nullable").Bool() {
					e := failAt(field.Node, "The value for the template parameter '%s' at line '%d' and column '%d' is not provided. Please see https://aka.ms/arm-create-parameter-file for usage details.", field.Name, field.Node.Line, field.Node.Column)
					e.checked = true
					return e
				}
			}
		}
	}
	var unknown []string
	for _, name := range names {
		if declared.Get(name) == nil {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		e := failAt(args[strings.ToLower(unknown[0])].place, "The following parameters were supplied, but do not correspond to any parameters defined in the template: '%s'. The parameters defined in the template are: '%s'. Please see https://aka.ms/arm-pass-parameter-values for usage details.",
			strings.Join(unknown, ", "), strings.Join(known, ", "))
		e.checked = true
		return e
	}
	if declared == nil {
		return nil
	}
	for _, field := range declared.Fields {
		arg := args[strings.ToLower(field.Name)]
		if !t.parameters.add(field.Name, func() (any, error) { return t.parameter(field.Name, field.Node, arg) }) {
			return failAt(field.Node, "The template parameter '%s' is defined twice.", field.Name)
		}
	}
	for _, field := range declared.Fields {
		if _, _, err := t.parameters.get(field.Name); err != nil {
			return at(field.Node, err)
		}
	}
	return nil
}

// parameter returns the value of a parameter.
func (t *template) parameter(name string, declared *jsonc.Node, arg argument) (any, error) {
	value, place := arg.value, declared
	if value == nil {
		if standard := declared.Get("defaultValue"); standard != nil {
			place = standard
			evaluated, err := t.evaluate(standard, t.env(expression.AllowNew))
			if err != nil {
				return nil, wrap(standard, err, "The template expression in parameter '%s' at line '%d' and column '%d' is not valid: %s", name, standard.Line, standard.Column)
			}
			value = evaluated
		}
		if value == nil && declared.Get("nullable").Bool() {
			return nil, nil
		}
	}
	if err := t.check(value, declared, "the template parameter '%s'", name, 0); err != nil {
		e := at(place, err)
		if arg.value != nil && arg.place != nil {
			e.place(arg.place)
		}
		return nil, e
	}
	return value, nil
}

// kinds are the types of parameters, with the names of their values in messages.
var kinds = map[string]string{
	"string": "String, Uri", "securestring": "String, Uri", "int": "Integer", "bool": "Boolean",
	"object": "Object", "secureobject": "Object", "array": "Array",
}

// resolveType follows the references of a type, and checks that it is one.
func (t *template) resolveType(node *jsonc.Node, depth int) (*jsonc.Node, error) {
	if !node.IsObject() {
		return nil, failAt(node, "A parameter or output must be an object with a type.")
	}
	if ref, is := node.Get("$ref").Text(); is {
		target := t.pointed(ref)
		if target == nil || depth > 50 {
			return nil, failAt(node, "The reference '%s' of the template names no definition, or leads back to itself.", ref)
		}
		return t.resolveType(target, depth+1)
	}
	kind, is := node.Get("type").Text()
	if !is || kinds[strings.ToLower(kind)] == "" {
		e := failAt(node, "The type '%s' of a parameter or output is not one of string, securestring, int, bool, object, secureObject and array.", kind)
		e.Code = invalidContent
		return nil, e
	}
	return node, nil
}

// pointed returns the node of a JSON pointer into the definitions, or nil.
func (t *template) pointed(ref string) *jsonc.Node {
	path, found := strings.CutPrefix(ref, "#/definitions/")
	if !found {
		return nil
	}
	node := t.definitions
	for _, segment := range strings.Split(path, "/") {
		segment = strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
		if i, err := strconv.Atoi(segment); err == nil && node.IsArray() && i >= 0 && i < len(node.Items) {
			node = node.Items[i]
		} else {
			node = node.Get(segment)
		}
	}
	return node
}

// check checks a value against a type. subject says whose value it is; if it has a verb
// for a string, that is path, to which the names of members are added.
func (t *template) check(value any, node *jsonc.Node, subject, path string, depth int) error {
	kindNode, err := t.resolveType(node, 0)
	if err != nil {
		return err
	}
	if depth > jsonc.DepthMax {
		return failAt(node, "A type of the template is nested too deeply.")
	}
	if expression.IsUnknown(value) {
		return nil
	}
	named := subject
	if strings.Contains(subject, "%s") {
		named = fmt.Sprintf(subject, path)
	}
	invalid := func(format string, args ...any) error {
		return &Error{Code: invalidTemplate, checked: true, Message: fmt.Sprintf("The provided value for %s is not valid. ", named) + fmt.Sprintf(format, args...)}
	}
	if value == nil && (node.Get("nullable").Bool() || kindNode.Get("nullable").Bool()) {
		return nil
	}
	kind, _ := kindNode.Get("type").Text()
	want := kinds[strings.ToLower(kind)]
	if got := expression.TypeName(value); !strings.HasPrefix(want, got) {
		return invalid("Expected a value of type '%s', but received a value of type '%s'. Please see https://aka.ms/arm-create-parameter-file for usage details.", want, got)
	}
	for _, constraints := range distinctNodes(node, kindNode) {
		if err := t.constrain(value, constraints, invalid); err != nil {
			return err
		}
	}
	switch value := value.(type) {
	case *jsonc.Array:
		return t.checkItems(value, kindNode, subject, path, depth)
	case *jsonc.Object:
		return t.checkMembers(value, kindNode, subject, path, depth, invalid)
	}
	return nil
}

// distinctNodes returns a node and that of its definition, once if they are one.
func distinctNodes(a, b *jsonc.Node) []*jsonc.Node {
	if a == b {
		return []*jsonc.Node{a}
	}
	return []*jsonc.Node{b, a}
}

const seeParameters = " Please see https://aka.ms/arm-syntax-parameters for usage details."

// constrain checks the allowed values and the bounds of a value or of its length.
func (t *template) constrain(value any, node *jsonc.Node, invalid func(string, ...any) error) error {
	if allowed := node.Get("allowedValues"); allowed.IsArray() {
		values := []any{value}
		if a, is := value.(*jsonc.Array); is {
			values = a.Items()
		}
		for _, v := range values {
			found := false
			texts := make([]string, len(allowed.Items))
			for i, item := range allowed.Items {
				found = found || jsonc.Equal(item.Plain(), v)
				texts[i] = strings.Trim(jsonc.Text(item.Plain()), `"`)
			}
			if !found && !expression.IsUnknown(v) {
				return invalid("The value '%s' is not part of the allowed value(s): '%s'."+seeParameters, strings.Trim(jsonc.Text(v), `"`), strings.Join(texts, ","))
			}
		}
	}
	what, measure := "Value", int64(0)
	low, high := "minLength", "maxLength"
	switch v := value.(type) {
	case int64:
		low, high, measure = "minValue", "maxValue", v
	case string:
		what, measure = "Length of the value", int64(len([]rune(v)))
	case *jsonc.Array:
		what, measure = "Length of the value", int64(v.Len())
	case *jsonc.Object:
		what, measure = "Length of the value", int64(v.Len())
	default:
		return nil
	}
	if bound, is := node.Get(low).Int(); is && measure < bound {
		return invalid("%s should be greater than or equal to '%d'."+seeParameters, what, bound)
	}
	if bound, is := node.Get(high).Int(); is && measure > bound {
		return invalid("%s should be less than or equal to '%d'."+seeParameters, what, bound)
	}
	return nil
}

// checkItems checks the items of an array against items and prefixItems.
func (t *template) checkItems(a *jsonc.Array, kind *jsonc.Node, subject, path string, depth int) error {
	var prefix []*jsonc.Node
	if list := kind.Get("prefixItems"); list.IsArray() {
		prefix = list.Items
	}
	for i, item := range a.Items() {
		of := kind.Get("items")
		if i < len(prefix) {
			of = prefix[i]
		}
		if !of.IsObject() {
			continue
		}
		if err := t.check(item, of, subject, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkMembers checks the members of an object against properties, additionalProperties
// and discriminator.
func (t *template) checkMembers(o *jsonc.Object, kind *jsonc.Node, subject, path string, depth int, invalid func(string, ...any) error) error {
	if d := kind.Get("discriminator"); d.IsObject() {
		name, _ := d.Get("propertyName").Text()
		value, _ := o.Get(name)
		text, _ := value.(string)
		variant := d.Get("mapping").Get(text)
		if variant == nil {
			return invalid("The property '%s' must be one of the values of its mapping."+seeParameters, name)
		}
		return t.check(o, variant, subject, path, depth+1)
	}
	properties := kind.Get("properties")
	if !properties.IsObject() && kind.Get("additionalProperties") == nil {
		return nil
	}
	inside := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	if properties.IsObject() {
		for _, field := range properties.Fields {
			value, found := o.Get(field.Name)
			if !found {
				member, err := t.resolveType(field.Node, 0)
				if err != nil {
					return err
				}
				if field.Node.Get("nullable").Bool() || member.Get("nullable").Bool() {
					continue
				}
				return invalid("The object has no property '%s'."+seeParameters, field.Name)
			}
			if err := t.check(value, field.Node, subject, inside(field.Name), depth+1); err != nil {
				return err
			}
		}
	}
	additional := kind.Get("additionalProperties")
	for _, m := range o.Members() {
		if properties.Get(m.Name) != nil {
			continue
		}
		switch {
		case additional.IsObject():
			if err := t.check(m.Value, additional, subject, inside(m.Name), depth+1); err != nil {
				return err
			}
		case additional != nil && additional.Value == false:
			return invalid("The object has a property '%s' that its type does not have."+seeParameters, m.Name)
		}
	}
	return nil
}
