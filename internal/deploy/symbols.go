package deploy

import (
	"fmt"
	"strings"

	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// symbols are named values that are evaluated when they are first needed. Names differ
// in more than their case.
type symbols struct {
	names  []string
	byName map[string]*symbol
	path   []string // The names whose values are being evaluated.
}

type symbol struct {
	name  string
	make  func() (any, error)
	value any
	err   error
	done  bool
	busy  bool
}

// add adds a symbol; false if the name is taken.
func (s *symbols) add(name string, make func() (any, error)) bool {
	lower := strings.ToLower(name)
	if s.byName == nil {
		s.byName = map[string]*symbol{}
	}
	if s.byName[lower] != nil {
		return false
	}
	s.names = append(s.names, name)
	s.byName[lower] = &symbol{name: name, make: make}
	return true
}

// get returns a value.
func (s *symbols) get(name string) (value any, found bool, err error) {
	symbol := s.byName[strings.ToLower(name)]
	if symbol == nil {
		return nil, false, nil
	}
	if symbol.done {
		return symbol.value, true, symbol.err
	}
	if symbol.busy {
		first := 0
		for i, name := range s.path {
			if name == symbol.name {
				first = i
			}
		}
		return nil, true, &Error{
			Code: invalidTemplate, checked: true,
			Message: fmt.Sprintf("The '%s' symbol's definition cycles back to itself (%s).", symbol.name, strings.Join(append(s.path[first:], symbol.name), " -> ")),
		}
	}
	symbol.busy = true
	s.path = append(s.path, symbol.name)
	symbol.value, symbol.err = symbol.make()
	s.path = s.path[:len(s.path)-1]
	symbol.busy, symbol.done = false, true
	return symbol.value, true, symbol.err
}

// declareVariables prepares the variables, and evaluates all of them.
func (t *template) declareVariables() error {
	node := t.root.Get("variables")
	if node == nil {
		return nil
	}
	places := map[string]*jsonc.Node{}
	add := func(name string, place *jsonc.Node, make func() (any, error)) {
		places[name] = place
		t.variables.add(name, func() (any, error) {
			value, err := make()
			if err != nil {
				return nil, wrap(place, err, "The template variable '%s' is not valid: %s. Please see https://aka.ms/arm-functions for usage details.", name)
			}
			return value, nil
		})
	}
	for _, field := range node.Fields {
		if !strings.EqualFold(field.Name, "copy") || !field.Node.IsArray() {
			add(field.Name, field.Node, func() (any, error) { return t.evaluate(field.Node, t.env(0)) })
			continue
		}
		for _, loop := range field.Node.Items {
			name, named := loop.Get("name").Text()
			if !named || loop.Get("input") == nil {
				return failAt(loop, "The template 'copy' definition at line '%d' and column '%d' needs a name, a count and an input. Please see https://aka.ms/arm-resource-loops for usage details.", loop.Line, loop.Column)
			}
			add(name, loop, func() (any, error) {
				return t.repeat(loop, expression.Loop{Name: name, Named: true}, loop.Get("input"), t.env(0))
			})
		}
	}
	for _, name := range t.variables.names {
		if _, _, err := t.variables.get(name); err != nil {
			return at(places[name], err)
		}
	}
	return nil
}

// readFunctions reads the functions that the template defines.
func (t *template) readFunctions() error {
	t.functions = map[string]*expression.Function{}
	node := t.root.Get("functions")
	if node.IsNull() {
		return nil
	}
	if !node.IsArray() {
		return failAt(node, "The member 'functions' of the template must be an array.")
	}
	for _, space := range node.Items {
		namespace, is := space.Get("namespace").Text()
		members := space.Get("members")
		if !is || !members.IsObject() {
			return failAt(space, "A function of the template needs a namespace and members.")
		}
		for _, member := range members.Fields {
			f, err := t.readFunction(namespace+"."+member.Name, member.Node)
			if err != nil {
				return err
			}
			t.functions[strings.ToLower(f.Name)] = f
		}
	}
	return nil
}

func (t *template) readFunction(name string, node *jsonc.Node) (*expression.Function, error) {
	f := &expression.Function{Name: name}
	output := node.Get("output")
	if !output.IsObject() || output.Get("value") == nil {
		return nil, failAt(node, "The function '%s' of the template needs an output with a value.", name)
	}
	var types []*jsonc.Node
	if list := node.Get("parameters"); list.IsArray() {
		for _, parameter := range list.Items {
			name, is := parameter.Get("name").Text()
			if !is {
				return nil, failAt(parameter, "A parameter of a function needs a name.")
			}
			f.Params = append(f.Params, name)
			types = append(types, parameter)
		}
	}
	f.Check = func(i int, value any) (any, error) {
		subject := fmt.Sprintf("the '%s' parameter of the user-defined function '%s'", f.Params[i], name)
		return value, t.check(value, types[i], subject, "", 0)
	}
	f.Body = func(env *expression.Env) (any, error) {
		value, err := t.evaluate(output.Get("value"), env)
		if err != nil {
			return nil, err
		}
		return value, t.check(value, output, fmt.Sprintf("the output of the user-defined function '%s'", name), "", 0)
	}
	return f, nil
}

// outputs evaluates the outputs.
func (t *template) outputs() ([]Output, error) {
	node := t.root.Get("outputs")
	if node.IsNull() {
		return nil, nil
	}
	var out []Output
	for _, field := range node.Fields {
		wrapped := func(err error) error {
			return wrap(field.Node, err, "The template output '%s' is not valid: %s. Please see https://aka.ms/arm-functions for usage details.", field.Name)
		}
		if !field.Node.IsObject() {
			return nil, failAt(field.Node, "The template output '%s' must be an object with a type and a value.", field.Name)
		}
		if condition := field.Node.Get("condition"); condition != nil {
			value, err := t.evaluate(condition, t.env(0))
			if err != nil {
				return nil, wrapped(err)
			}
			if value == false {
				continue
			}
		}
		var value any
		var err error
		if loop := field.Node.Get("copy"); loop.IsObject() {
			value, err = t.repeat(loop, expression.Loop{}, loop.Get("input"), t.env(expression.AllowReference))
		} else {
			value, err = t.evaluate(field.Node.Get("value"), t.env(expression.AllowReference))
		}
		if err != nil {
			return nil, wrapped(err)
		}
		if err := t.check(value, field.Node, fmt.Sprintf("the template output '%s'", field.Name), "", 0); err != nil {
			return nil, at(field.Node, err)
		}
		kind, err := t.resolveType(field.Node, 0)
		if err != nil {
			return nil, err
		}
		name, _ := kind.Get("type").Text()
		out = append(out, Output{Name: field.Name, Type: name, Secure: isSecure(name), Value: value})
	}
	return out, nil
}

func isSecure(kind string) bool {
	return strings.EqualFold(kind, "securestring") || strings.EqualFold(kind, "secureObject")
}
