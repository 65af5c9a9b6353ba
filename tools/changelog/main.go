// Command changelog assembles CHANGELOG.md from the files of changelog/. Without
// -write it prints the section of the next release.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var kinds = []string{"Added", "Changed", "Fixed", "Security"}

func main() {
	write := flag.Bool("write", false, "put the text at the top of CHANGELOG.md and delete the files")
	release := flag.String("release", "next", "the name of the release")
	root := flag.String("root", "..", "the repository")
	flag.Parse()

	files, err := filepath.Glob(filepath.Join(*root, "changelog", "*.md"))
	if err != nil {
		log.Fatal(err)
	}
	entries := map[string][]string{}
	var used []string
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		first, rest, _ := strings.Cut(string(text), "\n")
		kind := strings.TrimPrefix(first, "# ")
		if !slices.Contains(kinds, kind) {
			log.Fatalf("%s begins with %q, want one of %v as a heading", file, first, kinds)
		}
		entries[kind] = append(entries[kind], strings.TrimSpace(rest))
		used = append(used, file)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n", *release)
	for _, kind := range kinds {
		if len(entries[kind]) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n### %s\n\n%s\n", kind, strings.Join(entries[kind], "\n"))
	}
	if !*write {
		fmt.Print(out.String())
		return
	}
	path := filepath.Join(*root, "CHANGELOG.md")
	old, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	title, history, _ := strings.Cut(string(old), "\n")
	if err := os.WriteFile(path, []byte(title+"\n\n"+out.String()+history), 0o644); err != nil {
		log.Fatal(err)
	}
	for _, file := range used {
		if err := os.Remove(file); err != nil {
			log.Fatal(err)
		}
	}
}
