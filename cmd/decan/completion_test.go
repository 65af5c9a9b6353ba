package main

import (
	"os/exec"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCompletionInShells types a tab in each shell that is installed: commands, flags,
// and the names of a server are completed.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	s := shopServer(t)
	environment := []string{"TERM=xterm", "DECAN_ENDPOINT=" + s.Endpoint(), "PS1=ready> ", "PROMPT=ready> "}
	for _, c := range []struct {
		name, load string
		args       []string
	}{
		{"bash", "source <(decan completion bash); bind 'set enable-bracketed-paste off'", []string{"--norc", "--noprofile", "-i"}},
		{"zsh", "unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; source <(decan completion zsh)", []string{"-f", "-i"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(c.name)
			if err != nil {
				t.Skip(c.name + " is not installed on this machine")
			}
			term := startInTerminal(t, exec.Command(path, c.args...), 120, 30, environment)
			term.sees(`ready> `)
			term.types(c.load + keyEnter)
			term.sees(`ready> `)
			term.types("decan contai" + keyTab)
			term.sees(`decan container `)
			term.types("show s" + keyTab)
			term.sees(`show shop `)
			term.types("o" + keyTab)
			term.sees(`orders `)
			term.types("--js" + keyTab)
			term.sees(`--json `)
			term.types("| grep tenant" + keyEnter)
			term.sees(`"/tenant"`)
			term.sees(`ready> `)
			term.types("exit" + keyEnter)
			term.ends()
		})
	}
	t.Run("fish", func(t *testing.T) {
		t.Parallel()
		path, err := exec.LookPath("fish")
		if err != nil {
			t.Skip("fish is not installed on this machine")
		}
		for line, want := range map[string]string{
			"decan contai":             "container\tCreate, list, show, change and delete containers\n",
			"decan container show s":   "shop\n",
			"decan query shop o":       "orders\n",
			"decan query --format=js":  "--format=json\n--format=jsonl\n",
			"decan query --expl":       "--explain\tShow how the server answers the query in place of its rows, as decan explain does\n",
			"decan query --format tab": "table\n",
		} {
			command := exec.Command(path, "--no-config", "-c", "decan completion fish | source; complete -C '"+line+"'")
			command.Env = append(command.Environ(), "HOME="+t.TempDir(), "DECAN_ENDPOINT="+s.Endpoint())
			out, err := command.CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("%s becomes %q (%v), want %q", line, out, err, want)
			}
		}
	})
}

// TestCompletionOfEveryCommand: each command is completed from its parent, and each of
// its flags from the command.
func TestCompletionOfEveryCommand(t *testing.T) {
	t.Parallel()
	root := model(t).Node
	var walk func(node *kong.Node, path []string)
	walk = func(node *kong.Node, path []string) {
		offered := func(begun string) map[string]bool {
			words := map[string]bool{}
			for _, c := range completions(root, append(path[:len(path):len(path)], begun), true) {
				words[c.word] = true
			}
			return words
		}
		flags := offered("--")
		for _, flag := range node.Flags {
			if !flag.Hidden && !flags["--"+flag.Name] {
				t.Errorf("decan %q is not completed with --%s", path, flag.Name)
			}
		}
		for _, child := range node.Children {
			if child.Hidden {
				continue
			}
			if !offered(child.Name[:1])[child.Name] {
				t.Errorf("decan %q is not completed with %s", path, child.Name)
			}
			walk(child, append(path[:len(path):len(path)], child.Name))
		}
	}
	walk(root, nil)
}
