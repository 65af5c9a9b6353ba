package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/decandb/decan/cmd/decan/internal/console"
	"github.com/decandb/decan/cmd/decan/internal/remote"
	"github.com/decandb/decan/internal/server"
)

// completionCommand prints the script that completes command lines in a shell. The
// scripts are small: they ask decan complete, so all shells complete alike and a script
// need not be made again for a new version.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// completionScripts are the scripts, by the name of the shell.
var completionScripts = map[string]string{
	"bash": `# Completion of decan in bash: put
#   source <(decan completion bash)
# into ~/.bashrc.
_decan() {
  local word rest
  COMPREPLY=()
  while IFS=$'\t' read -r word rest; do
    if [[ $word == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    else
      COMPREPLY+=("$word")
    fi
  done < <(decan complete bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _decan decan
`,
	"zsh": `#compdef decan
# Completion of decan in zsh: put
#   source <(decan completion zsh)
# after compinit into ~/.zshrc, or this text as _decan into a directory of fpath.
_decan() {
  local line
  local -a described
  while IFS= read -r line; do
    if [[ $line == ':files' ]]; then
      _files
    else
      described+=("${${line%%$'\t'*}//:/\\:}:${${line#*$'\t'}##$line}")
    fi
  done < <(decan complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( ${#described} )) && _describe decan described
}
if [[ ${funcstack[1]} == _decan ]]; then
  _decan "$@"
else
  compdef _decan decan
fi
`,
	"fish": `# Completion of decan in fish: put this text into ~/.config/fish/completions/decan.fish:
#   decan completion fish > ~/.config/fish/completions/decan.fish
function __decan_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (decan complete fish -- $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c decan -f -a '(__decan_complete)'
`,
}

// Run prints the script.
func (c *completionCommand) Run(streams console.Streams) error {
	_, err := fmt.Fprint(streams.Out, completionScripts[c.Shell])
	return err
}

// completeCommand prints what the last word of a command line may become, one on each
// line: the word, a tab and a description. The line :files asks the shell to add the
// names of files. The scripts of decan completion call it.
type completeCommand struct {
	Shell string   `arg:"" enum:"bash,zsh,fish" help:"The shell that asks."`
	Words []string `arg:"" optional:"" passthrough:"" help:"The words after decan, the last one up to the cursor."`
}

// candidate is what a word may become.
type candidate struct{ word, help string }

// filesMark is the line that asks for the names of files.
const filesMark = ":files"

// Run prints the candidates.
func (c *completeCommand) Run(streams console.Streams) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	var commands cli
	parser, err := newParser(&commands, console.Streams{})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, found := range completions(parser.Model.Node, words, c.Shell == "bash") {
		switch {
		case found.word == filesMark:
			fmt.Fprintln(&out, filesMark)
		case found.help == "":
			fmt.Fprintln(&out, found.word)
		default:
			fmt.Fprintf(&out, "%s\t%s\n", found.word, found.help)
		}
	}
	_, err = streams.Out.Write(out.Bytes())
	return err
}

// completions returns what the last of some words may become. In bash a word with an
// equals sign comes in three parts, and only the last is completed.
func completions(node *kong.Node, words []string, parts bool) []candidate {
	var joined []string
	valueOnly := false
	for i, word := range words {
		last := len(joined) - 1
		switch {
		case parts && word == "=" && last >= 0 && strings.HasPrefix(joined[last], "--"):
			joined[last] += "="
			valueOnly = i >= len(words)-2
		case parts && i > 0 && words[i-1] == "=" && last >= 0 && strings.HasSuffix(joined[last], "="):
			joined[last] += word
		default:
			joined = append(joined, word)
		}
	}
	l := commandLine{node: node}
	for _, word := range joined[:len(joined)-1] {
		l.read(word)
	}
	partial := joined[len(joined)-1]
	if name, begun, is := strings.Cut(partial, "="); is && strings.HasPrefix(name, "--") {
		flag := l.flag(strings.TrimPrefix(name, "--"))
		if flag == nil {
			return nil
		}
		found := matching(l.values(flag.Value, flag.PlaceHolder), begun)
		for i := range found {
			if !valueOnly && found[i].word != filesMark {
				found[i].word = name + "=" + found[i].word
			}
		}
		return found
	}
	switch {
	case l.waiting != nil:
		return matching(l.values(l.waiting.Value, l.waiting.PlaceHolder), partial)
	case strings.HasPrefix(partial, "-"):
		return matching(l.flags(), partial)
	}
	return matching(l.arguments(), partial)
}

// matching returns the candidates that begin with a text, and the mark of files.
func matching(all []candidate, begun string) (found []candidate) {
	for _, c := range all {
		if strings.HasPrefix(c.word, begun) || c.word == filesMark {
			found = append(found, c)
		}
	}
	return found
}

// commandLine is what the words before the cursor say.
type commandLine struct {
	node    *kong.Node
	waiting *kong.Flag // its value is the next word
	given   []string
	server  remote.Account
}

// read reads a word.
func (l *commandLine) read(word string) {
	switch {
	case l.waiting != nil:
		l.note(l.waiting.Name, word)
		l.waiting = nil
	case strings.HasPrefix(word, "-") && len(word) > 1:
		name, content, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag := l.flag(name)
		switch {
		case flag == nil || flag.IsBool():
		case has:
			l.note(flag.Name, content)
		default:
			l.waiting = flag
		}
	default:
		for _, child := range l.node.Children {
			if len(l.given) == 0 && (child.Name == word || slices.Contains(child.Aliases, word)) {
				l.node = child
				return
			}
		}
		l.given = append(l.given, word)
	}
}

// note keeps what a flag says about the server.
func (l *commandLine) note(name, content string) {
	switch name {
	case "endpoint":
		l.server.Endpoint = content
	case "account-key":
		l.server.Key = content
	case "token":
		l.server.Token = content
	case "ca":
		l.server.CA = content
	case "connection-string":
		if endpoint, key, err := remote.ParseConnection(content); err == nil {
			l.server.Endpoint, l.server.Key = endpoint, key
		}
	}
}

// command returns the command of the words: of a family, its default one.
func (l *commandLine) command() *kong.Node {
	if l.node.DefaultCmd != nil {
		return l.node.DefaultCmd
	}
	return l.node
}

// flag returns the flag with a name or a short name.
func (l *commandLine) flag(name string) *kong.Flag {
	for _, group := range l.command().AllFlags(true) {
		for _, flag := range group {
			if flag.Name == name || flag.Short != 0 && string(flag.Short) == name {
				return flag
			}
		}
	}
	return nil
}

// flags returns all flags.
func (l *commandLine) flags() (all []candidate) {
	for _, group := range l.command().AllFlags(true) {
		for _, flag := range group {
			all = append(all, candidate{"--" + flag.Name, short(flag.Help)})
		}
	}
	return all
}

// short returns the first sentence of a help text.
func short(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	first, _, _ = strings.Cut(first, "\n")
	return strings.TrimSuffix(first, ".")
}

// arguments returns the commands, or the values of the next argument.
func (l *commandLine) arguments() (all []candidate) {
	if len(l.given) == 0 {
		for _, child := range l.node.Children {
			if !child.Hidden {
				all = append(all, candidate{child.Name, short(child.Help)})
			}
		}
	}
	positional := l.command().Positional
	if len(positional) == 0 {
		return all
	}
	at := min(len(l.given), len(positional)-1)
	if at < len(l.given) && !positional[at].IsCumulative() {
		return all
	}
	return append(all, l.values(positional[at], positional[at].Name)...)
}

// values returns the values of a flag or argument: those of its list, names of the
// server, or files.
func (l *commandLine) values(v *kong.Value, kind string) (all []candidate) {
	if v.Enum != "" {
		for _, one := range v.EnumSlice() {
			if one != "" {
				all = append(all, candidate{one, ""})
			}
		}
		return all
	}
	switch strings.ToLower(kind) {
	case "database":
		return l.names([]string{"dbs"}, "Databases")
	case "container":
		if len(l.given) > 0 {
			return l.names([]string{"dbs", l.given[0], "colls"}, "DocumentCollections")
		}
	case "file", "files", "dir", "state":
		return []candidate{{filesMark, ""}}
	}
	return nil
}

// completionWait is how long the names of a server are waited for.
const completionWait = time.Second

// names returns the ids of a feed of the server. Without a server there are none.
func (l *commandLine) names(path []string, member string) (all []candidate) {
	account := l.server
	if account.Endpoint == "" && account.Key == "" {
		if endpoint, key, err := remote.ParseConnection(os.Getenv("DECAN_CONNECTION_STRING")); err == nil {
			account.Endpoint, account.Key = endpoint, key
		}
	}
	for _, part := range []struct {
		place *string
		names []string
	}{
		{&account.Endpoint, []string{os.Getenv("DECAN_ENDPOINT"), "http://127.0.0.1:8081"}},
		{&account.Key, []string{os.Getenv("DECAN_ACCOUNT_KEY"), os.Getenv("DECAN_KEY"), server.WellKnownKey}},
		{&account.CA, []string{os.Getenv("DECAN_CA")}},
	} {
		for _, content := range part.names {
			if *part.place == "" {
				*part.place = content
			}
		}
	}
	client, err := account.Documents(1)
	if err != nil {
		return nil
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), completionWait)
	defer cancel()
	feed, err := client.List(ctx, "the names", path, member)
	if err != nil {
		return nil
	}
	for _, raw := range feed {
		var named struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(raw, &named) == nil {
			all = append(all, candidate{named.ID, ""})
		}
	}
	return all
}
