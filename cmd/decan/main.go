// Command decan is the database: it serves the Azure Cosmos DB protocols from
// one data directory, and inspects keys, certificates and data.
//
// Page: docs/operating.md
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/server"
)

// version is the release of this tree; CHANGELOG.md begins with it.
const version = "0.1.0"

// cli is the command line: every flag can be given in the environment too.
type cli struct {
	Serve      serveCommand      `cmd:"" default:"withargs" help:"Run the server (the default command)."`
	Key        keyCommand        `cmd:"" help:"Show the effective partition key and range of a partition key value."`
	Explain    explainCommand    `cmd:"" help:"Show how a server answers a query: partitions, indexes, documents read, request units."`
	Partitions partitionsCommand `cmd:"" help:"Show how the physical partitions of a container are doing, and split them."`
	Limits     limitsCommand     `cmd:"" help:"Show the limits of a container, and give it limits of its own."`
	Queries    queriesCommand    `cmd:"" help:"Show the queries that have run for more than a second, and cancel them."`
	Demo       demoCommand       `cmd:"" help:"Show on a server in memory what partition keys do."`

	Copy   copyCommand   `cmd:"" help:"Copy containers into others on the server, such as under a hierarchical partition key."`
	Import importCommand `cmd:"" help:"Write the documents of JSON lines, JSON arrays and CSV files to a container."`
	Export exportCommand `cmd:"" help:"Write the documents of a container, or the rows of a query, as JSON lines, a JSON array or CSV."`

	Cert       certCommand       `cmd:"" help:"Write the certificate that clients have to trust for https, and say how."`
	Token      tokenCommand      `cmd:"" help:"Work with bearer tokens of an issuer on this machine: make its keys, sign tokens."`
	Resolver   resolverCommand   `cmd:"" help:"Work with keys laid out over several containers: look up, compare, move, verify."`
	Check      checkCommand      `cmd:"" help:"Verify a data directory that no server has open."`
	Quarantine quarantineCommand `cmd:"" help:"List, restore or delete what a start has moved out of the way because the catalog does not name it."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

// streams are what a command reads and writes; tests hand in their own.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

func main() {
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// run carries out a command line and returns the exit code: 0, 1 for a command
// that failed, 2 for a command line that cannot be understood, or that of an
// [exitError].
func run(args []string, io streams) int {
	var commands cli
	exit := -1
	parser, err := newParser(&commands, io, kong.Exit(func(code int) { exit = code }))
	if err != nil {
		fmt.Fprintln(io.err, "decan:", err)
		return 2
	}
	parsed, err := parser.Parse(translate(args))
	if exit >= 0 { // --help was served
		return exit
	}
	if err != nil {
		fmt.Fprintln(io.err, "decan:", err)
		fmt.Fprintln(io.err, "Run decan --help for what can be given.")
		return 2
	}
	if err := parsed.Run(); err != nil {
		fmt.Fprintln(io.err, "decan:", err)
		if remedy := remedyFor(parsed, err); remedy != "" {
			fmt.Fprintln(io.err, remedy)
		}
		if coded := (exitError{}); errors.As(err, &coded) {
			return coded.code
		}
		return 1
	}
	return 0
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// newParser makes the parser of the command line, which fills commands.
func newParser(commands *cli, io streams, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(commands, append([]kong.Option{
		kong.Name("decan"),
		kong.Description("An open, self-hosted database that speaks Azure Cosmos DB's protocols.\n\n" +
			"decan alone is decan serve, and takes its flags."),
		kong.UsageOnError(),
		kong.Writers(io.out, io.err),
		kong.DefaultEnvars("DECAN"),
		kong.Vars{"version": version, "wellKnownKey": auth.WellKnownKey, "issuerName": issuerName, "audience": server.DefaultAudience},
		kong.Bind(io),
	}, options...)...)
}

// translate turns the switches of the older emulator, such as /EnablePreview,
// into flags: people have them in their scripts (S78).
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

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(io streams) error {
	_, err := fmt.Fprintln(io.out, "decan", version)
	return err
}

// logger makes the logger of the server's flags.
func logger(out io.Writer, level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
