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
	Only       string   `name:"account" env:"-" placeholder:"NAME" help:"Of a template with several accounts the one that the server is; resources of the others are left out."`
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
	Admin string `name:"admin" default:"http://127.0.0.1:8080" env:"DECAN_ADMIN" placeholder:"URL" help:"The admin port of the server, for roles and listKeys (default: port 8080 of the machine of the endpoint)."`

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
	items, others, err := deployment.Items(deploy.Choice{Ignore: c.Ignore, Account: c.Only})
	if err != nil {
		return c.placed(err)
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
		if c.WhatIf {
			return fmt.Errorf("%d of %s would not be deployed", failed, console.Counted(len(items), "resource"))
		}
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
	var err error
	if request.Template, request.Parameters, err = c.load(in, request); err != nil {
		return nil, c.placed(err)
	}
	for _, given := range c.Parameters {
		if name, text, is := assignment(given); is {
			request.Values[name] = text
			continue
		}
		given = strings.TrimPrefix(given, "@")
		source, err := c.parametersFile(given, request)
		if err != nil {
			return nil, c.placed(err)
		}
		request.Parameters = append(request.Parameters, source)
	}
	deployment, err := deploy.Expand(request)
	if err != nil {
		return nil, c.placed(err)
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

// load returns the template, and the parameters if the file has some. A Bicep file may
// load others from its own directory and those below it.
func (c *Deploy) load(in io.Reader, request deploy.Request) (template deploy.Source, parameters []deploy.Source, err error) {
	switch strings.ToLower(filepath.Ext(c.File)) {
	case ".bicep":
		root, err := os.OpenRoot(filepath.Dir(c.File))
		if err != nil {
			return template, nil, err
		}
		defer root.Close()
		compiled, err := bicep.Compile(root.FS(), filepath.Base(c.File))
		return sourceOf(compiled), nil, err
	case ".bicepparam":
		compiled, err := compileParameters(c.File, request)
		if err != nil {
			return template, nil, err
		}
		if compiled.Template == nil {
			return template, nil, fmt.Errorf("%s uses no template: give the template, and this file with --parameters", c.File)
		}
		return sourceOf(compiled.Template), []deploy.Source{sourceOf(compiled.Values)}, nil
	}
	text, err := readFile(c.File, in)
	return deploy.Source{Name: c.File, Text: string(text)}, nil, err
}

// sourceOf returns a compiled text, or nothing for nil.
func sourceOf(compiled *bicep.Compiled) deploy.Source {
	if compiled == nil {
		return deploy.Source{}
	}
	return deploy.Source{Text: string(compiled.JSON), Place: compiled.Place}
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
		Evaluate: func(template *bicep.Compiled) (map[string]json.RawMessage, error) {
			request.Template, request.Parameters, request.Values = sourceOf(template), nil, nil
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
func (c *Deploy) parametersFile(name string, request deploy.Request) (deploy.Source, error) {
	if strings.EqualFold(filepath.Ext(name), ".bicepparam") {
		compiled, err := compileParameters(name, request)
		if err != nil {
			return deploy.Source{}, err
		}
		return sourceOf(compiled.Values), nil
	}
	text, err := readFile(name, nil)
	if err != nil {
		return deploy.Source{}, fmt.Errorf("--parameters: %w; for a value give NAME=VALUE", err)
	}
	return deploy.Source{Name: name, Text: string(text)}, nil
}

// placed puts the file and the place before an error of a template.
func (c *Deploy) placed(err error) error {
	if e, is := errors.AsType[*jsonc.Error](err); is {
		return fmt.Errorf("%s:%d:%d: %s", c.File, e.Line, e.Column, e.Message)
	}
	e, is := errors.AsType[*deploy.Error](err)
	switch {
	case !is:
		return err
	case e.Line == 0:
		return fmt.Errorf("%s: %s: %s", c.File, e.Code, e.Message)
	case strings.HasPrefix(strings.ToLower(filepath.Ext(e.File)), ".bicep"):
		return &bicep.Error{Diagnostics: []bicep.Diagnostic{{File: e.File, Line: e.Line, Column: e.Column, Code: e.Code, Message: e.Message}}}
	}
	return fmt.Errorf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Code, e.Message)
}

// open returns a client of the server.
func (f targetFlags) open() (*client, error) {
	documents, err := f.Documents(1)
	if err != nil {
		return nil, err
	}
	admin := remote.Admin{Endpoint: f.Admin, Key: f.Key, Trust: f.Trust}
	if f.Token != "" {
		admin.Key = "" // Who asks with a token must not get the rights of the default key.
	}
	return &client{
		endpoint:  f.Endpoint,
		documents: documents,
		admin:     admin,
		cql:       tables{Cassandra: f.Cassandra, account: f.Account},
	}, nil
}
