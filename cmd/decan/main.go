// Command decan is the database: it serves the Azure Cosmos DB protocols from one
// data directory. Its other commands are clients of a server, or work with a data
// directory, keys and certificates.
//
// main.go has the command line, serve.go the server. The larger families of commands
// are packages below internal: resourcecmd (databases, containers and what surrounds
// documents), querycmd (queries and items), transfercmd (import and export), copycmd,
// democmd and resolvercmd. They share console, remote and rows.
//
// Page: docs/operating.md
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/decandb/decan/cmd/decan/internal/advisecmd"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/copycmd"
	"github.com/decandb/decan/cmd/decan/internal/democmd"
	"github.com/decandb/decan/cmd/decan/internal/deploycmd"
	"github.com/decandb/decan/cmd/decan/internal/querycmd"
	"github.com/decandb/decan/cmd/decan/internal/resolvercmd"
	"github.com/decandb/decan/cmd/decan/internal/resourcecmd"
	"github.com/decandb/decan/cmd/decan/internal/shellcmd"
	"github.com/decandb/decan/cmd/decan/internal/transfercmd"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/server"
)

// version is the release of this tree; CHANGELOG.md begins with it.
const version = "0.1.0"

// cli is the command line.
type cli struct {
	Serve      serveCommand      `cmd:"" default:"withargs" help:"Run the server (the default command)."`
	Key        keyCommand        `cmd:"" help:"Show the effective partition key and range of a partition key value."`
	Explain    querycmd.Explain  `cmd:"" help:"Show how a server answers a query: partitions, indexes, documents read, request units."`
	Partitions partitionsCommand `cmd:"" help:"Show the physical partitions of a container, split them and merge them."`
	Limits     limitsCommand     `cmd:"" help:"Show the limits of a container, and set its own limits."`
	Queries    queriesCommand    `cmd:"" help:"Show the queries that have run for more than a second, and cancel them."`
	Demo       democmd.Command   `cmd:"" help:"Compare partition keys on a server in memory."`
	Advise     advisecmd.Command `cmd:"" help:"Compare partition keys on a sample of documents and a workload, or propose some."`

	Database   resourcecmd.Database   `cmd:"" help:"Create, list, show and delete databases."`
	Container  resourcecmd.Container  `cmd:"" help:"Create, list, show, change and delete containers."`
	Item       querycmd.Item          `cmd:"" help:"Read, write, patch and delete single items, and import many."`
	Query      querycmd.Query         `cmd:"" help:"Run a query and print its rows as a table, JSON, JSON lines or CSV."`
	Shell      shellcmd.Command       `cmd:"" help:"Ask for queries and commands at a prompt, or read them from a pipe."`
	Script     resourcecmd.Script     `cmd:"" help:"Stored procedures, triggers and user-defined functions: list, show, put, delete, run."`
	Throughput resourcecmd.Throughput `cmd:"" help:"Show and change the throughput of a container or database."`
	User       resourcecmd.User       `cmd:"" help:"Create, list and delete users of a database."`
	Permission resourcecmd.Permission `cmd:"" help:"Create, list and delete permissions of users, and print their resource tokens."`

	Deploy deploycmd.Deploy `cmd:"" help:"Make the databases, containers, tables and roles of a Resource Manager template, or show what would change."`

	Copy   copycmd.Command    `cmd:"" help:"Copy containers into others on the server, such as under a hierarchical partition key."`
	Import transfercmd.Import `cmd:"" help:"Write the documents of JSON lines, JSON arrays and CSV files to a container."`
	Export exportCommand      `cmd:"" help:"Write the documents of a container, the rows of a query, or the template of a database."`

	Cert       certCommand         `cmd:"" help:"Write the certificate that clients must trust for https, and explain how."`
	Token      tokenCommand        `cmd:"" help:"Create the keys of an issuer of bearer tokens on this machine, and sign tokens."`
	Resolver   resolvercmd.Command `cmd:"" help:"Work with keys that are distributed over several containers: look up, compare, move, verify."`
	Check      checkCommand        `cmd:"" help:"Verify a data directory that no server has open."`
	Quarantine quarantineCommand   `cmd:"" help:"List, restore or delete directories that a start has moved to the quarantine because the catalog does not name them."`
	Completion completionCommand   `cmd:"" help:"Print the script that completes command lines of decan in bash, zsh or fish."`
	Complete   completeCommand     `cmd:"" hidden:"" help:"Print what the last word of a command line may become."`
	Version    versionCommand      `cmd:"" help:"Print the version."`
}

func main() {
	os.Exit(run(os.Args[1:], console.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// run runs a command line and returns the exit code: 0, 1 for a failed command, 2 for
// an invalid command line, or that of a [console.Exit].
func run(args []string, io console.Streams) int { return new(cli).run(args, io) }

// run is the function run for commands with settings that are not flags.
func (c *cli) run(args []string, io console.Streams) int {
	exit := -1
	args = translate(args)
	parser, err := newParser(c.part(args), io, kong.Exit(func(code int) { exit = code }))
	if err != nil {
		fmt.Fprintln(io.Err, "decan:", err)
		return 2
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // --help was served
		return exit
	}
	if err != nil {
		fmt.Fprintln(io.Err, "decan:", err)
		fmt.Fprintln(io.Err, "Run decan --help for the commands and flags.")
		return 2
	}
	if err := connect(parsed); err != nil {
		fmt.Fprintln(io.Err, "decan:", err)
		return 2
	}
	if err := parsed.Run(); err != nil {
		fmt.Fprintln(io.Err, "decan:", brief(err))
		if remedy := remedyFor(parsed, err); remedy != "" {
			fmt.Fprintln(io.Err, remedy)
		}
		if coded := (console.Exit{}); errors.As(err, &coded) {
			return coded.Code
		}
		return 1
	}
	return 0
}

// part returns what the parser fills in: if the command line begins with the name of a
// command, a struct with that command alone. To read the tags of all commands takes 15 ms,
// longer than most commands take.
func (c *cli) part(args []string) any {
	if len(args) == 0 || args[0] == "serve" { // The settings of the server may have been set.
		return c
	}
	whole := reflect.TypeFor[cli]()
	for i := range whole.NumField() {
		if field := whole.Field(i); strings.ToLower(field.Name) == args[0] {
			return reflect.New(reflect.StructOf([]reflect.StructField{field})).Interface()
		}
	}
	return c
}

// newParser returns the parser of the command line, which fills in commands: a *cli, or a
// struct with some of its fields.
func newParser(commands any, io console.Streams, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(commands, append([]kong.Option{
		kong.Name("decan"),
		kong.Description("An open, self-hosted database that speaks Azure Cosmos DB's protocols.\n\n" +
			"Without a command, decan runs serve."),
		kong.UsageOnError(),
		kong.Writers(io.Out, io.Err),
		kong.DefaultEnvars("DECAN"),
		kong.Vars{"version": version, "wellKnownKey": auth.WellKnownKey, "issuerName": issuerName, "audience": server.DefaultAudience},
		kong.Bind(io, shellcmd.RunCommand(run)),
	}, options...)...)
}

// translate replaces the switches of the older emulator that occur in scripts, such as
// /EnablePreview, by flags (S78).
func translate(args []string) []string {
	out := make([]string, 0, len(args))
	for _, arg := range args {
		if strings.EqualFold(strings.TrimLeft(arg, "/-"), "EnablePreview") && arg != "" && (arg[0] == '/' || arg[0] == '-') {
			arg = "--enable-preview"
		}
		out = append(out, arg)
	}
	return out
}

// exportCommand is decan export. A database with the name template is exported with
// decan export documents.
type exportCommand struct {
	Documents transfercmd.Export `cmd:"" default:"withargs" help:"Write the documents of a container, or the rows of a query, as JSON lines, a JSON array or CSV (the default)."`
	Template  deploycmd.Export   `cmd:"" help:"Write a Resource Manager template of a database or keyspace, which decan deploy takes."`
}

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(io console.Streams) error {
	_, err := fmt.Fprintln(io.Out, "decan", version)
	return err
}

// logger returns the logger for the flags of serve.
func logger(out io.Writer, level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
