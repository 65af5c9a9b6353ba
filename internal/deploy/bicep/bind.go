package bicep

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// file is one source and what its names mean.
type file struct {
	*report
	c       *compiler
	params  bool
	decls   []*declaration
	symbols map[string]*symbol
	// order lists the symbols as declared, nested resources before the ones
	// that hold them.
	order []*symbol
	scope string // resourceGroup, subscription, managementGroup or tenant
	// names is what the checker found each name to mean.
	names map[*nameExpr]*symbol
	// children is the nested resource of each "::".
	children map[*childExpr]*symbol
	types    map[expr]*typ
	calls    map[*callExpr]*symbol // of functions of files
	checked  bool
	loads    []loaded // files that functions of this source load
	content  map[*callExpr]*loaded
}

// symbolKind is the kind of declaration that a name refers to.
type symbolKind int

const (
	symParameter symbolKind = iota
	symVariable
	symResource
	symModule
	symType
	symFunction
	symNamespace // "* as name"
	symOutput    // not found by name
	symLocal     // of a loop, a lambda or a function
)

// symbol is a declared name.
type symbol struct {
	kind symbolKind
	name string
	file *file // that declares it
	decl *declaration
	at   span

	// of resources
	parent       *symbol // from nesting or from the parent property
	parentIndex  expr    // the index of a parent that is a loop
	nested       map[string]*symbol
	resourceType string // Microsoft.X/y/z
	version      string
	body         *objectExpr
	condition    expr
	loop         *forExpr
	module       *file // of modules; nil when it could not be read or is JSON
	template     *object

	// of namespaces, and of imported names: the one that is meant
	namespace *file
	imported  *symbol

	typ       *typ // of locals, and memo of others
	resolving bool // while typ is computed
	runtime   state
	used      []*symbol // names that its declaration uses, as found by the checker
}

// state of a computation that follows references.
type state int

const (
	unknown state = iota
	running
	no
	yes
)

// target follows an import.
func (s *symbol) target() *symbol {
	if s.imported != nil {
		return s.imported
	}
	return s
}

// typeName names the type of a resource or a module for messages.
func (s *symbol) typeName() string {
	if s.kind == symModule {
		return "module"
	}
	return s.resourceType
}

// path returns the symbolic name in a template: outer::inner.
func (s *symbol) path() string {
	if s.decl != nil && s.decl.parent != nil && s.parent != nil {
		return s.parent.path() + "::" + s.name
	}
	return s.name
}

// load parses a source and binds its names; it is done once for each path.
func (c *compiler) load(name, source string, params bool) *file {
	if f := c.files[name]; f != nil {
		return f
	}
	f := &file{
		report: &report{source: source, path: name}, c: c, params: params, scope: "resourceGroup",
		symbols: map[string]*symbol{}, names: map[*nameExpr]*symbol{}, children: map[*childExpr]*symbol{},
		types: map[expr]*typ{}, calls: map[*callExpr]*symbol{}, content: map[*callExpr]*loaded{},
	}
	c.files[name] = f
	f.decls = parse(f.report, params)
	c.loading = append(c.loading, name)
	f.bind()
	c.loading = c.loading[:len(c.loading)-1]
	return f
}

// bind declares the names of the file.
func (f *file) bind() {
	outputs := map[string][]*declaration{}
	named := map[string][]*symbol{}
	var names []string
	declare := func(s *symbol) {
		if s.name == "" {
			return
		}
		if named[s.name] == nil {
			names = append(names, s.name)
			f.symbols[s.name] = s
		}
		named[s.name] = append(named[s.name], s)
	}
	scopes := 0
	for _, d := range f.decls {
		s := &symbol{name: d.name.name, file: f, decl: d, at: d.name.span}
		switch d.keyword {
		case "param":
			s.kind = symParameter
		case "var":
			s.kind = symVariable
		case "type":
			s.kind = symType
		case "func":
			s.kind = symFunction
		case "resource":
			s.kind = symResource
			f.bindResource(s, nil)
		case "module":
			s.kind = symModule
			f.bindBody(s)
			f.bindModule(s)
		case "output":
			s.kind = symOutput
			f.order = append(f.order, s)
			outputs[s.name] = append(outputs[s.name], d)
			continue
		case "import":
			for _, i := range f.bindImport(d) {
				declare(i)
			}
			continue
		case "targetScope":
			if scopes++; scopes > 1 {
				f.add(d.keywordAt, "BCP112", "The \"targetScope\" cannot be declared multiple times in one file.")
			}
			f.bindScope(d)
			continue
		case "using":
			if d.path != nil && !f.params {
				continue
			}
			f.order = append(f.order, s)
			continue
		default: // metadata
			f.order = append(f.order, s)
			continue
		}
		f.order = append(f.order, s)
		declare(s)
	}
	for _, name := range names {
		if list := named[name]; len(list) > 1 {
			for _, s := range list {
				f.add(s.at, "BCP028", "Identifier %q is declared multiple times. Remove or rename the duplicates.", name)
			}
		}
	}
	for name, list := range outputs {
		if len(list) > 1 && name != "" {
			for _, d := range list {
				f.add(d.name.span, "BCP145", "Output %q is declared multiple times. Remove or rename the duplicates.", name)
			}
		}
	}
}

var scopes = []string{"managementGroup", "resourceGroup", "subscription", "tenant"}

func (f *file) bindScope(d *declaration) {
	s, ok := d.value.(*stringExpr)
	if !ok || len(s.holes) > 0 {
		if d.value != nil {
			if _, bad := d.value.(*skipped); !bad {
				f.add(d.value.at(), "BCP033", "Expected a value of type \"'managementGroup' | 'resourceGroup' | 'subscription' | 'tenant'\".")
			}
		}
		return
	}
	if !slices.Contains(scopes, s.parts[0]) {
		f.add(s.span, "BCP033", "Expected a value of type \"'managementGroup' | 'resourceGroup' | 'subscription' | 'tenant'\" but the provided value is of type %q.", literalOf(s.parts[0]))
		return
	}
	f.scope = s.parts[0]
}

// bindBody finds the object, the condition and the loop of a body.
func (f *file) bindBody(s *symbol) {
	x := s.decl.value
	if l, ok := x.(*forExpr); ok {
		s.loop = l
		x = l.body
	}
	if i, ok := x.(*ifExpr); ok {
		s.condition = i.condition
		x = i.body
	}
	s.body, _ = x.(*objectExpr)
}

// bindResource finds the type of a resource, and its nested resources.
func (f *file) bindResource(s, outer *symbol) {
	f.bindBody(s)
	if p, ok := s.decl.path.(*stringExpr); ok {
		f.bindType(s, outer, p)
	}
	if s.body == nil {
		return
	}
	s.nested = map[string]*symbol{}
	for _, d := range s.body.resources {
		if d.name.name == "" {
			continue
		}
		if outer != nil && outer.loop != nil || s.loop != nil {
			f.add(d.name.span, "BCP160", "A nested resource cannot appear inside of a resource with a for-expression.")
		}
		d.parent = s.decl
		n := &symbol{kind: symResource, name: d.name.name, file: f, decl: d, at: d.name.span, parent: s}
		if s.nested[n.name] != nil {
			f.add(n.at, "BCP028", "Identifier %q is declared multiple times. Remove or rename the duplicates.", n.name)
		}
		s.nested[n.name] = n
		f.bindResource(n, s)
		f.order = append(f.order, n)
	}
}

// bindType reads "Provider/type@version"; a nested resource may leave out what
// it has from the outer one.
func (f *file) bindType(s, outer *symbol, p *stringExpr) {
	if len(p.holes) > 0 {
		f.add(p.span, "BCP047", "String interpolation is unsupported for specifying the resource type.")
		return
	}
	name, version, versioned := strings.Cut(p.parts[0], "@")
	valid := name != "" && !strings.HasPrefix(name, "/") && !strings.HasSuffix(name, "/") && !strings.Contains(name, "//") && (!versioned || version != "")
	if outer == nil {
		if !valid || !versioned || !strings.Contains(name, "/") {
			f.add(p.span, "BCP029", "The resource type is not valid. Specify a valid resource type of format \"<type-name>@<apiVersion>\".")
			return
		}
		s.resourceType, s.version = canonicalType(name), version
		return
	}
	if !valid || strings.Contains(name, "/") {
		f.add(p.span, "BCP156", "The resource type segment %q is invalid. Nested resources must specify a single type segment, and optionally can specify an API version using the format \"<type>@<apiVersion>\".", p.parts[0])
		return
	}
	if outer.resourceType == "" {
		return
	}
	s.resourceType, s.version = canonicalType(outer.resourceType+"/"+name), version
	if !versioned {
		s.version = outer.version
	}
}

// relative reads the path of a module or an import, and says why it is not one.
func (f *file) relative(x expr) (name string, at span, ok bool) {
	s, isString := x.(*stringExpr)
	if !isString {
		return "", span{}, false
	}
	if len(s.holes) > 0 {
		f.add(s.span, "BCP092", "String interpolation is not supported in file paths.")
		return "", s.span, false
	}
	return f.relativePath(s.parts[0], s.span)
}

func (f *file) relativePath(name string, at span) (string, span, bool) {
	switch {
	case name == "":
		f.add(at, "BCP050", "The specified path is empty.")
	case strings.HasPrefix(name, "br:"), strings.HasPrefix(name, "br/"), strings.HasPrefix(name, "ts:"), strings.HasPrefix(name, "ts/"):
		f.add(at, "BCP190", "The module %q is not in this folder, and nothing is ever downloaded. Compile the file that uses it where a network is (bicep build FILE), and deploy the JSON template that comes out.", name)
	case strings.HasPrefix(name, "/"):
		f.add(at, "BCP051", "The specified path begins with \"/\". Files must be referenced using relative paths.")
	case strings.Contains(name, "\\"):
		f.add(at, "BCP098", "The specified file path contains a \"\\\" character. Use \"/\" instead as the directory separator character.")
	case strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") && path.Base(name) != "." && path.Base(name) != "..":
		f.add(at, "BCP086", "The specified file path ends with an invalid character. The following are not permitted: \" \", \".\", \"/\".")
	case strings.ContainsAny(name, "\"*:<>?|") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
		f.add(at, "BCP085", "The specified file path contains one or more invalid path characters. The following are not permitted: \"\"\", \"*\", \":\", \"<\", \">\", \"?\", \"\\\", \"|\".")
	default:
		full, ok := resolve(f.path, name)
		if !ok {
			f.add(at, "BCP091", "The file %q is outside the folder of the template that is deployed, and is not read.", name)
			return "", at, false
		}
		return full, at, true
	}
	return "", at, false
}

// open loads another source, and reports why it cannot.
func (f *file) open(name string, at span, shown string) *file {
	if i := slices.Index(f.c.loading, name); i >= 0 {
		if i == len(f.c.loading)-1 {
			f.add(at, "BCP094", "This module references itself, which is not allowed.")
		} else {
			f.add(at, "BCP095", "The file is involved in a cycle (%s).", quoted(append(slices.Clone(f.c.loading[i:]), name)))
		}
		return nil
	}
	if g := f.c.files[name]; g != nil {
		return g
	}
	if len(f.c.loading) > moduleDepthMax {
		f.add(at, CodeLimit, "Modules are nested deeper than %d levels.", moduleDepthMax)
		return nil
	}
	source, err := f.c.readSource(name)
	if err != nil {
		f.unreadable(at, shown, err)
		return nil
	}
	return f.c.load(name, source, false)
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(list, " -> ")
}

// unreadable reports a file that could not be read.
func (f *file) unreadable(at span, shown string, err error) {
	switch {
	case errors.Is(err, errLimit):
		f.add(at, CodeLimit, "An error occurred reading file. %s.", strings.TrimSuffix(err.Error(), ": limit"))
	case errors.Is(err, fs.ErrNotExist):
		f.add(at, "BCP091", "An error occurred reading file. Could not find file '%s'.", shown)
	default:
		f.add(at, "BCP091", "An error occurred reading file. '%s' cannot be read: %s.", shown, reason(err))
	}
}

// reason returns the last part of an error of a file system: the path is named before.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func (f *file) bindModule(s *symbol) {
	name, at, ok := f.relative(s.decl.path)
	if !ok {
		return
	}
	shown := s.decl.path.(*stringExpr).parts[0]
	if strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jsonc") {
		s.template = f.openTemplate(name, at, shown)
		return
	}
	s.module = f.open(name, at, shown)
}

// openTemplate reads a JSON template that is used as a module.
func (f *file) openTemplate(name string, at span, shown string) *object {
	b, err := f.c.readFile(name, sourceSizeMax)
	if err != nil {
		f.unreadable(at, shown, err)
		return nil
	}
	v, err := parseJSON(b, true)
	if err != nil {
		f.add(at, "BCP188", "The referenced ARM template has errors: %s is not valid JSON: %s.", shown, err)
		return nil
	}
	o, ok := v.(*object)
	if !ok {
		f.add(at, "BCP188", "The referenced ARM template has errors: %s holds no JSON object.", shown)
		return nil
	}
	return o
}

// bindImport returns the names that an import declares.
func (f *file) bindImport(d *declaration) []*symbol {
	name, at, ok := f.relative(d.path)
	if !ok {
		return nil
	}
	shown := d.path.(*stringExpr).parts[0]
	if len(d.symbols) == 0 && d.wildcard.name == "" {
		// "import 'x'" was how extensions were named.
		if _, err := fs.Stat(f.c.fsys, name); err != nil {
			f.unreadable(at, shown, err)
		} else if !d.broken {
			f.add(at, CodeUnsupported, "Extensions are not read here: a template of this database needs none.")
		}
		return nil
	}
	if strings.HasSuffix(name, ".json") {
		f.add(at, CodeUnsupported, "Names are imported from .bicep files only; from a JSON template they are not read here.")
		return nil
	}
	g := f.open(name, at, shown)
	if g == nil {
		return nil
	}
	if d.wildcard.name != "" {
		return []*symbol{{kind: symNamespace, name: d.wildcard.name, file: f, decl: d, at: d.wildcard.span, namespace: g}}
	}
	var list []*symbol
	for _, i := range d.symbols {
		t := g.exported(i.original)
		if t == nil {
			f.add(i.at, "BCP360", "The %q symbol was not found in (or was not exported by) the imported template.", i.original)
			continue
		}
		list = append(list, &symbol{kind: t.kind, name: i.name.name, file: f, decl: d, at: i.name.span, imported: t})
	}
	return list
}

// exported returns a name that a file exports, or nil.
func (f *file) exported(name string) *symbol {
	s := f.symbols[name]
	if s == nil || s.imported != nil || s.kind != symType && s.kind != symVariable && s.kind != symFunction {
		return nil
	}
	for _, d := range s.decl.decorators {
		if d.call != nil && d.call.name.name == "export" {
			return s
		}
	}
	return nil
}
