package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/internal/auth"
)

// tokenCommand works with the bearer tokens of an issuer on this machine.
type tokenCommand struct {
	NewIssuer newIssuerCommand `cmd:"" help:"Create the keys of an issuer."`
	Sign      signCommand      `cmd:"" help:"Sign a token, and print it."`
}

// The files of an issuer.
const (
	issuerKeyFile = "signing-key.pem" // private
	issuerSetFile = "keys.json"       // public, for serve --token-keys
	issuerName    = "https://decan.local/"
)

type newIssuerCommand struct {
	Dir string `required:"" type:"path" placeholder:"DIR" help:"The directory for its two files; a missing one is created."`
}

// Run writes the keys, and prints how to use them.
func (c *newIssuerCommand) Run(io console.Streams) error {
	issuer, err := auth.NewIssuer()
	if err != nil {
		return err
	}
	private, err := issuer.PEM()
	if err != nil {
		return err
	}
	public, err := issuer.KeySet()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	// The tokens of an existing issuer must stay valid.
	file, err := os.OpenFile(filepath.Join(c.Dir, issuerKeyFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--dir %s: the directory already has the keys of an issuer", c.Dir)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(private)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	set := filepath.Join(c.Dir, issuerSetFile)
	if err := os.WriteFile(set, append(public, '\n'), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.Out, "Accept its tokens with\n  decan serve --token-issuer %s --token-keys %s\n"+
		"Give a principal a role with PUT /sqlRoleAssignments/{guid} on the admin port, and sign a token with\n  decan token sign --dir %s --principal ID\n",
		issuerName, set, c.Dir)
	return err
}

type signCommand struct {
	Dir       string        `required:"" type:"path" placeholder:"DIR" help:"The directory of the issuer."`
	Principal string        `required:"" placeholder:"ID" help:"The principal of the token: the object id that has the roles."`
	Group     []string      `placeholder:"ID" help:"Object ids of groups that the principal is in."`
	Issuer    string        `env:"-" default:"${issuerName}" placeholder:"URL" help:"The issuer that the token names (${default})."`
	Audience  string        `env:"-" default:"${audience}" placeholder:"URL" help:"The audience of the token (${default})."`
	Lifetime  time.Duration `env:"-" default:"1h" placeholder:"DURATION" help:"How long the token is valid (${default})."`
}

// Run prints a token.
func (c *signCommand) Run(io console.Streams) error {
	if c.Lifetime <= 0 {
		return fmt.Errorf("--lifetime %s: give a positive duration", c.Lifetime)
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, issuerKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--dir %s: the directory has no keys of an issuer: create them with decan token new-issuer", c.Dir)
	}
	if err != nil {
		return err
	}
	issuer, err := auth.ParseIssuer(text)
	if err != nil {
		return fmt.Errorf("%s in %s: %w", issuerKeyFile, c.Dir, err)
	}
	now := time.Now()
	token, err := issuer.Sign(auth.BearerToken{
		Issuer: c.Issuer, Audience: c.Audience, Principal: c.Principal, Groups: c.Group, NotBefore: now, Expires: now.Add(c.Lifetime),
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(io.Out, token)
	return err
}
