// Package deploycmd is decan deploy and decan export template: templates to databases,
// containers and tables, and back.
//
// deploycmd.go has the command, client.go carries changes out over the REST protocol,
// cql.go over the Cassandra API, report.go prints.
//
// Page: docs/deploy.md
package deploycmd

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/deploy"
	"github.com/decandb/decan/internal/deploy/bicep"
	"github.com/decandb/decan/internal/deploy/expression"
	"github.com/decandb/decan/internal/deploy/jsonc"
)

// Deploy is decan deploy.
type Deploy struct {
	File       string   `arg:"" help:"A Resource Manager template in JSON, a .bicep or a .bicepparam file; - reads JSON from standard input."`
	Parameters []string `short:"p" sep:"none" env:"-" placeholder:"FILE|NAME=VALUE" help:"A parameters file, or the value of one parameter: text for a string, JSON for others. May be given several times; values replace those of files."`
	WhatIf     bool     `name:"what-if" env:"-" help:"Only show what would change."`
	Ignore     bool     `name:"ignore-other-resources" env:"-" help:"Leave out resources that do not exist here, such as networks and vaults (default: the template is refused)."`
	JSON       bool     `env:"-" help:"Print changes and outputs as JSON."`

	placeFlags
	targetFlags
}

// placeFlags are what the functions of a template about its place return.
type placeFlags struct {
	Name         string `env:"-" placeholder:"NAME" help:"The name of the deployment, for deployment().name (default: that of the file)."`
	Group        string `name:"resource-group" default:"decan" env:"-" placeholder:"NAME" help:"The name that resourceGroup() returns (${default})."`
	Subscription string `default:"00000000-0000-0000-0000-000000000000" env:"-" placeholder:"ID" help:"The id that subscription() returns (${default})."`
	Location     string `default:"westus" env:"-" placeholder:"NAME" help:"The location that resourceGroup() returns (${default})."`
}

// targetFlags say where the server is.
type targetFlags struct {
	Admin string `name:"admin" default:"http://127.0.0.1:8080" env:"DECAN_ADMIN" placeholder:"URL" help:"The admin port of the server, for roles and listKeys (${default})."`

	remote.Account
	remote.Cassandra
}

// scope returns the place of a deployment.
func (p placeFlags) scope(file string) expression.Scope {
	s := expression.Scope{
		SubscriptionID: p.Subscription, TenantID: "00000000-0000-0000-0000-000000000000",
		ResourceGroup: p.Group, Location: p.Location, Deployment: p.Name,
	}
	if s.Deployment == "" {
		s.Deployment = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if file == "-" {
			s.Deployment = "main"
		}
	}
	return s
}

// newGUID returns a random GUID.
func newGUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Run deploys the template.
func (c *Deploy) Run(streams console.Streams) error {
	deployment, err := c.expand(streams.In)
	if err != nil {
		return err
	}
	items, others, err := deployment.Items(c.Ignore)
	if err != nil {
		return c.placed(err, c.File)
	}
	target, err := c.open()
	if err != nil {
		return err
	}
	defer target.close()
	ctx, stop := console.Interruptible()
	defer stop()
	report := newReport(streams, c, items, others)
	results, runtime, err := deployment.Run(ctx, items, target, c.WhatIf, report.observe)
	report.finish(results)
	if err == nil && report.failed(results) == 0 {
		err = report.outputs(deployment, runtime)
	}
	if err := report.end(); err != nil {
		return err
	}
	if done := report.written(results); err != nil && done > 0 && !c.WhatIf {
		fmt.Fprintf(streams.Err, "%s made before the deployment ended; the next deployment makes the rest.\n", changes(done))
	}
	if err != nil {
		return err
	}
	if failed := report.failed(results); failed > 0 {
		return fmt.Errorf("%d of %s not deployed", failed, console.Counted(len(items), "resource"))
	}
	return nil
}

// changes counts changes, with a verb.
func changes(n int) string {
	if n == 1 {
		return "1 change was"
	}
	return console.Counted(n, "change") + " were"
}

// expand reads the files and expands the template.
func (c *Deploy) expand(in io.Reader) (*deploy.Deployment, error) {
	request := deploy.Request{Values: map[string]string{}, Scope: c.scope(c.File), Now: time.Now, NewGUID: newGUID}
	template, parameters, err := c.load(in, request)
	if err != nil {
		return nil, err
	}
	request.Template, request.Parameters = string(template), string(parameters)
	file := c.File
	for _, given := range c.Parameters {
		if name, text, is := assignment(given); is {
			request.Values[name] = text
			continue
		}
		given = strings.TrimPrefix(given, "@")
		text, err := c.parametersFile(given, request)
		if err != nil {
			return nil, err
		}
		if request.Parameters, err = merge(request.Parameters, text); err != nil {
			return nil, c.placed(err, given)
		}
		file = given
	}
	deployment, err := deploy.Expand(request)
	if err != nil {
		if e, is := errors.AsType[*deploy.Error](err); is && e.InParameters {
			return nil, c.placed(err, file)
		}
		return nil, c.placed(err, c.File)
	}
	return deployment, nil
}

// assignmentForm is a parameter of the command line.
var assignmentForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*=`)

// assignment divides NAME=VALUE.
func assignment(given string) (name, text string, is bool) {
	if !assignmentForm.MatchString(given) {
		return "", "", false
	}
	return strings.Cut(given, "=")
}

// merge adds the parameters of a file to those of earlier ones.
func merge(have, more string) (string, error) {
	if have == "" {
		return more, nil
	}
	out := jsonc.NewObject()
	for _, text := range []string{have, more} {
		node, err := jsonc.Parse(text)
		if err != nil {
			return "", err
		}
		if inner := node.Get("parameters"); inner.IsObject() {
			node = inner
		}
		for _, field := range node.Fields {
			out.Replace(field.Name, field.Node.Plain())
		}
	}
	return jsonc.Text(out), nil
}

// load returns the template and the parameters that the file has. A Bicep file may load
// others from its own directory and those below it.
func (c *Deploy) load(in io.Reader, request deploy.Request) (template, parameters []byte, err error) {
	switch strings.ToLower(filepath.Ext(c.File)) {
	case ".bicep":
		root, err := os.OpenRoot(filepath.Dir(c.File))
		if err != nil {
			return nil, nil, err
		}
		defer root.Close()
		template, err = bicep.Compile(root.FS(), filepath.Base(c.File))
		return template, nil, err
	case ".bicepparam":
		compiled, err := compileParameters(c.File, request)
		if err != nil {
			return nil, nil, err
		}
		if compiled.Template == nil {
			return nil, nil, fmt.Errorf("%s uses no template: give the template, and this file with --parameters", c.File)
		}
		return compiled.Template, compiled.JSON, nil
	}
	template, err = readFile(c.File, in)
	return template, nil, err
}

// readFile reads a file, or standard input for a hyphen, up to the limit of a template.
func readFile(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	return io.ReadAll(io.LimitReader(in, jsonc.SizeMax+1))
}

// compileParameters reads a .bicepparam file. Its expressions are evaluated as the
// outputs of a template are.
func compileParameters(name string, request deploy.Request) (*bicep.Parameters, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return bicep.CompileParameters(root.FS(), filepath.Base(name), bicep.Options{
		Environment: os.LookupEnv,
		Evaluate: func(template []byte) (map[string]json.RawMessage, error) {
			request.Template = string(template)
			deployment, err := deploy.Expand(request)
			if err != nil {
				return nil, err
			}
			out := map[string]json.RawMessage{}
			for _, o := range deployment.Outputs {
				out[o.Name] = json.RawMessage(jsonc.Text(o.Value))
			}
			return out, nil
		},
	})
}

// parametersFile returns the text of a parameters file.
func (c *Deploy) parametersFile(name string, request deploy.Request) (string, error) {
	if strings.EqualFold(filepath.Ext(name), ".bicepparam") {
		compiled, err := compileParameters(name, request)
		if err != nil {
			return "", err
		}
		return string(compiled.JSON), nil
	}
	text, err := readFile(name, nil)
	if err != nil {
		return "", fmt.Errorf("--parameters: %w; for a value give NAME=VALUE", err)
	}
	return string(text), nil
}

// placed puts the file and the place before an error of a template.
func (c *Deploy) placed(err error, file string) error {
	if strings.HasPrefix(strings.ToLower(filepath.Ext(file)), ".bicep") {
		return fmt.Errorf("%s: %w", file, err) // The place is that of the compiled text.
	}
	if e, is := errors.AsType[*jsonc.Error](err); is {
		return fmt.Errorf("%s:%d:%d: %s", file, e.Line, e.Column, e.Message)
	}
	if e, is := errors.AsType[*deploy.Error](err); is {
		if e.Line > 0 {
			return fmt.Errorf("%s:%d:%d: %s: %s", file, e.Line, e.Column, e.Code, e.Message)
		}
		return fmt.Errorf("%s: %s: %s", file, e.Code, e.Message)
	}
	return err
}

// open returns a client of the server.
func (f targetFlags) open() (*client, error) {
	documents, err := f.Documents(1)
	if err != nil {
		return nil, err
	}
	return &client{
		endpoint:  f.Endpoint,
		documents: documents,
		admin:     remote.Admin{Endpoint: f.Admin, Key: f.Key, Trust: f.Trust},
		cql:       tables{Cassandra: f.Cassandra, account: f.Account},
	}, nil
}
