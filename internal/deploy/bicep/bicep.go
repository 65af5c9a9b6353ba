// Package bicep reads Bicep files: .bicep sources become Resource Manager
// templates, .bicepparam files become parameters, and resources are printed
// as Bicep text. It needs no compiler and no network. The commands that
// deploy and export templates use it.
//
// Start with Compile, CompileParameters and Format. Error says at which line
// and column a file is refused, with the code of the vendor's compiler
// (BCP057, ...), so that people find the same explanation.
//
// # Invariants
//
//   - The package touches no disk: files come from the fs.FS of the caller, and
//     a path that leaves it is refused.
//   - No input makes it panic or run without end: nesting, the sizes of files,
//     the number of files and the size of the result are bounded.
//   - A template is of language version 2.0 with symbolic names. The vendor's
//     compiler writes the older form where it can; both mean the same.
//
// The package does not evaluate anything: a template keeps its expressions,
// and parameters are evaluated by a function that the caller gives. It knows
// the types of the language, not those of resources: a wrong member of a
// resource is refused by the service.
//
// See docs/bicep.md.
package bicep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Bounds of a compilation. The sizes of loaded files are those of the vendor's
// compiler; the others keep hostile input from using a machine up.
const (
	sourceSizeMax   = 4 << 20 // bytes of one .bicep, .bicepparam or .json file
	textLengthMax   = 131072  // UTF-16 units that loadTextContent takes
	base64SizeMax   = 98304   // bytes that loadFileAsBase64 takes
	jsonLengthMax   = 1048576 // UTF-16 units that loadJsonContent and loadYamlContent take
	filesMax        = 500     // files of one compilation
	moduleDepthMax  = 32      // modules inside modules
	templateSizeMax = 16 << 20
	expressionMax   = 1 << 18 // nodes that one file may expand to: about what a template of 4 MB holds
)

// Compile reads the Bicep file name of fsys, and the modules and files that it
// loads, and returns a template as indented JSON, which knows where its parts come from.
// Names that the file gives
// are relative to it; one that leads out of fsys is refused. The file system of
// an os.Root refuses symbolic links that leave the folder too.
//
// The error is an *Error when the files are wrong, and wraps the error of
// fsys when the file name itself cannot be read.
func Compile(fsys fs.FS, name string) (*Compiled, error) {
	c := newCompiler(fsys)
	f, err := c.root(name, false)
	if err != nil {
		return nil, err
	}
	template, err := c.template(f)
	if err != nil {
		return nil, err
	}
	return f.encode(template)
}

// Parameters is what a .bicepparam file asks for.
type Parameters struct {
	// Using is the path of the template in the file system of the caller, a
	// .bicep or a .json file; it is empty with "using none".
	Using string
	// Template is the template that Using names, compiled; nil with "using none".
	Template *Compiled
	// Values is a parameters file: $schema, contentVersion and parameters.
	Values *Compiled
}

// Options are what a .bicepparam file may use of its surroundings.
type Options struct {
	// Environment returns a variable of the environment, for
	// readEnvironmentVariable; nil means that none is set.
	Environment func(name string) (string, bool)
	// Evaluate evaluates a template without resources and returns the values
	// of its outputs. It is called at most once, and only for files that
	// hold an expression. Nil refuses such files.
	Evaluate func(template *Compiled) (map[string]json.RawMessage, error)
}

// CompileParameters reads the .bicepparam file name of fsys and the template
// that it uses. Errors are those of Compile.
func CompileParameters(fsys fs.FS, name string, options Options) (*Parameters, error) {
	c := newCompiler(fsys)
	c.environment = options.Environment
	f, err := c.root(name, true)
	if err != nil {
		return nil, err
	}
	return c.parameters(f, options.Evaluate)
}

func newCompiler(fsys fs.FS) *compiler {
	return &compiler{fsys: fsys, files: map[string]*file{}, modules: map[string]*object{}}
}

// compiler is one call of Compile or CompileParameters.
type compiler struct {
	fsys        fs.FS
	environment func(string) (string, bool)
	files       map[string]*file   // by path
	modules     map[string]*object // compiled templates by path
	loading     []string           // paths of the files being compiled, outermost first
	read        int                // files read
}

// root loads the file that the caller names.
func (c *compiler) root(name string, params bool) (*file, error) {
	source, err := c.readSource(name)
	if err != nil {
		return nil, err
	}
	return c.load(name, source, params), nil
}

var errLimit = errors.New("limit")

// readFile reads a file of at most limit bytes.
func (c *compiler) readFile(name string, limit int) ([]byte, error) {
	if c.read++; c.read > filesMax {
		return nil, fmt.Errorf("more than %d files are loaded: %w", filesMax, errLimit)
	}
	f, err := c.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(&limited{f, limit + 1}); err != nil {
		return nil, err
	}
	if b.Len() > limit {
		return nil, fmt.Errorf("%s has more than %d bytes: %w", name, limit, errLimit)
	}
	return b.Bytes(), nil
}

// limited reads at most left bytes.
type limited struct {
	file fs.File
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if len(p) > l.left {
		p = p[:l.left]
	}
	if len(p) == 0 {
		return 0, io.EOF
	}
	n, err := l.file.Read(p)
	l.left -= n
	return n, err
}

func (c *compiler) readSource(name string) (string, error) {
	b, err := c.readFile(name, sourceSizeMax)
	return strings.ToValidUTF8(string(b), "\ufffd"), err
}

// resolve turns a path that the file from gives into one of fsys. It returns
// false for a path that leaves fsys.
func resolve(from, name string) (string, bool) {
	if strings.HasPrefix(name, "/") || strings.Contains(name, "\\") || strings.Contains(name, ":") {
		return "", false
	}
	full := path.Join(path.Dir(from), name)
	return full, fs.ValidPath(full) && full != "."
}
