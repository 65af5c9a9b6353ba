package decan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The pages name packages, files, declarations and tests of this repository in
// back-ticks. These tests find names that do not exist.

// declarations are the names that the packages of this repository declare.
type declarations struct {
	names map[string]map[string]bool // by package name: functions, types, constants, variables, and Type.Member
	tests map[string]bool            // of functions of test files
	files map[string]bool            // slash-separated, with every suffix of the path
}

// repository parses the whole repository once. Packages of the same name share their
// entry.
var repository = sync.OnceValues(func() (declarations, error) {
	d := declarations{names: map[string]map[string]bool{}, tests: map[string]bool{}, files: map[string]bool{}}
	set := token.NewFileSet()
	files, err := tracked()
	if err != nil {
		return d, err
	}
	for _, file := range files {
		for at := range file {
			if at == 0 || file[at-1] == '/' {
				d.files[file[at:]] = true
			}
		}
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			for at := range dir {
				if at == 0 || dir[at-1] == '/' {
					d.files[dir[at:]] = true
				}
			}
		}
		if !strings.HasSuffix(file, ".go") || strings.Contains(file, "testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return d, err
		}
		if strings.HasSuffix(file, "_test.go") {
			for _, declared := range parsed.Decls {
				if f, is := declared.(*ast.FuncDecl); is {
					d.tests[f.Name.Name] = true
				}
			}
			continue
		}
		name := parsed.Name.Name
		if name == "main" {
			name = path.Base(path.Dir(file))
		}
		if d.names[name] == nil {
			d.names[name] = map[string]bool{}
		}
		for _, declared := range parsed.Decls {
			for _, n := range declaredNames(declared) {
				d.names[name][n] = true
			}
		}
	}
	return d, nil
})

func readDeclarations(t *testing.T) declarations {
	t.Helper()
	d, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// tracked lists the files of the repository, as slash-separated paths.
func tracked() (files []string, err error) {
	err = filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case ".git", "node_modules", "bin", "target", "decan-data":
				return filepath.SkipDir
			}
			return nil
		}
		files = append(files, filepath.ToSlash(path))
		return nil
	})
	return files, err
}

// declaredNames returns what a declaration names: members of types as Type.Member.
func declaredNames(declared ast.Decl) (names []string) {
	switch declared := declared.(type) {
	case *ast.FuncDecl:
		if declared.Recv == nil {
			return []string{declared.Name.Name}
		}
		receiver := declared.Recv.List[0].Type
		if pointer, is := receiver.(*ast.StarExpr); is {
			receiver = pointer.X
		}
		switch generic := receiver.(type) {
		case *ast.IndexExpr:
			receiver = generic.X
		case *ast.IndexListExpr:
			receiver = generic.X
		}
		return []string{receiver.(*ast.Ident).Name + "." + declared.Name.Name}
	case *ast.GenDecl:
		for _, spec := range declared.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names = append(names, name.Name)
				}
			case *ast.TypeSpec:
				names = append(names, spec.Name.Name)
				var members *ast.FieldList
				switch kind := spec.Type.(type) {
				case *ast.StructType:
					members = kind.Fields
				case *ast.InterfaceType:
					members = kind.Methods
				default:
					continue
				}
				for _, member := range members.List {
					for _, name := range member.Names {
						names = append(names, spec.Name.Name+"."+name.Name)
					}
				}
			}
		}
	}
	return names
}

var (
	quoted    = regexp.MustCompile("`([^`\n]+)`")
	goFile    = regexp.MustCompile(`^[\w./-]+\.(go|txt|txtar|sh|md)$`)
	testName  = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z]\w*`)
	qualified = regexp.MustCompile(`^([a-z]\w*)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?`)
	member    = regexp.MustCompile(`^([A-Z]\w*)\.([A-Z]\w*)`)
)

// TestNamesInDocuments checks the names in back-ticks of all pages: `package.Name`,
// `package.Type.Member`, `Type.Member`, `path/file.go` and names of tests.
func TestNamesInDocuments(t *testing.T) {
	t.Parallel()
	d := readDeclarations(t)
	types := map[string]map[string]bool{} // members by the name of the type, of all packages
	for _, names := range d.names {
		for name := range names {
			kind, of, is := strings.Cut(name, ".")
			if types[kind] == nil {
				types[kind] = map[string]bool{}
			}
			if is {
				types[kind][of] = true
			}
		}
	}
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range quoted.FindAllStringSubmatch(string(text), -1) {
			span := match[1]
			switch {
			case goFile.MatchString(span):
				if !d.files[strings.TrimPrefix(span, "./")] {
					t.Errorf("%s names the file %s, which does not exist", file, span)
				}
			case testName.MatchString(span):
				if name := testName.FindString(span); !d.tests[name] && !strings.HasPrefix(span, name+"*") {
					t.Errorf("%s names the test %s, which does not exist", file, name)
				}
			case qualified.MatchString(span):
				parts := qualified.FindStringSubmatch(span)
				names, ours := d.names[parts[1]]
				if !ours || !token.IsExported(parts[2]) {
					continue
				}
				name := parts[2]
				if variable := strings.ToUpper(parts[1][:1]) + parts[1][1:]; types[variable][name] {
					continue // a value of that type, as in server.Close
				}
				if !names[name] {
					t.Errorf("%s names %s.%s, which does not exist", file, parts[1], name)
				} else if parts[3] != "" && !names[name+"."+parts[3]] {
					t.Errorf("%s names %s.%s.%s, which does not exist", file, parts[1], name, parts[3])
				}
			case member.MatchString(span):
				parts := member.FindStringSubmatch(span)
				if members, ours := types[parts[1]]; ours && !members[parts[2]] {
					t.Errorf("%s names %s.%s, which does not exist", file, parts[1], parts[2])
				}
			}
		}
	}
}

// pages lists the Markdown files that describe the tree of today.
func pages(t *testing.T) []string {
	var files []string
	for _, file := range documents(t) {
		file = filepath.ToSlash(file)
		if strings.HasPrefix(file, "changelog/") || file == "CHANGELOG.md" || strings.HasPrefix(file, "compat/") {
			continue
		}
		files = append(files, file)
	}
	return files
}

var described = regexp.MustCompile("^\\*\\*`[^`]+`\\*\\*(, \\*\\*`[^`]+`\\*\\*)*")

// TestFacesInArchitecture checks that the names that section 4 of
// docs/architecture.md gives for a package are declared in it, or in another one
// that the same paragraph describes.
func TestFacesInArchitecture(t *testing.T) {
	t.Parallel()
	d := readDeclarations(t)
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## 4. ")
	section, _, _ = strings.Cut(section, "\n### Interfaces")
	var of []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "#") {
			of = nil
		}
		if heading := described.FindString(line); heading != "" {
			of = nil
			for _, match := range quoted.FindAllStringSubmatch(heading, -1) {
				of = append(of, path.Base(match[1]))
				if dir := match[1]; !slices.Contains(packages(t), dir) && !slices.Contains(packages(t), "internal/"+dir) && dir != "decan" {
					t.Errorf("docs/architecture.md describes the package %s, which does not exist", dir)
				}
			}
			line = strings.TrimPrefix(line, heading)
		}
		if len(of) == 0 {
			continue
		}
		names := map[string]bool{}
		for _, name := range of {
			maps.Copy(names, d.names[name])
			for declared := range d.names[name] {
				if _, member, is := strings.Cut(declared, "."); is {
					names[member] = true // a method may stand alone when its type is clear
				}
			}
		}
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			for _, name := range facePattern.FindAllString(match[1], 1) {
				if !names[name] {
					t.Errorf("docs/architecture.md: package %s has no %s", strings.Join(of, ", "), name)
				}
			}
		}
	}
}

var facePattern = regexp.MustCompile(`^[A-Z]\w*(\.[A-Z]\w*)?`)

// TestPolicyInArchitecture checks that section 3 of docs/architecture.md has the
// policy of this repository, line for line.
func TestPolicyInArchitecture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "<!-- policy of repo_test.go -->\n```\n")
	block, _, _ = strings.Cut(block, "```")
	if want := strings.TrimPrefix(policy, "\n"); block != want {
		t.Errorf("docs/architecture.md has the policy\n%s\nwant that of repo_test.go:\n%s", block, want)
	}
}

// TestDocumentationIndex checks that docs/README.md links to every page.
func TestDocumentationIndex(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob("docs/*.md")
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// TestClientOrServer checks that the page that compares client-side with server-side
// partitioning says what the statements on both ask a manual to say (S147, S148, S151, S152,
// S165, S186, S187).
func TestClientOrServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/client-or-server-partitioning.md")
	if err != nil {
		t.Fatal(err)
	}
	for statement, phrase := range map[string]string{
		"S147": "a container for each month, the current one with much throughput and the old ones with little",
		"S148": "| transactions, procedures, triggers | within one key value | within one key value of one container",
		"S151": "REST API version 2015-12-16 brought containers that the server divides",
		"S152": "**control of how many partitions a query reads at once**",
		"S165": "the server's own placement is a hash already",
		"S186": "Both exist here",
		"S187": "**one container with a good key is right for most uses**",
	} {
		if !strings.Contains(string(text), phrase) {
			t.Errorf("%s: docs/client-or-server-partitioning.md does not say %q", statement, phrase)
		}
	}
}

// TestVersion checks that the newest entry of the changelog is the version of the
// binary.
func TestVersion(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("cmd/decan/main.go")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`const version = "([^"]+)"`).FindSubmatch(source)
	entry := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(changes)
	if version == nil || entry == nil || string(version[1]) != string(entry[1]) {
		t.Errorf("cmd/decan has %q, CHANGELOG.md begins with %q", version, entry)
	}
}

// TestClientTable checks that docs/clients.md has each version of an SDK that compat/
// runs, with its release date (S94, S198), and those of the applications, says what is true of Python (S96), lists the
// connectors (S97), and says where users of another client ask (S93).
func TestClientTable(t *testing.T) {
	text, err := os.ReadFile("docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	read := func(file, pattern string) []string {
		t.Helper()
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var versions []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			versions = append(versions, strings.Fields(match[1])...)
		}
		if len(versions) == 0 {
			t.Fatalf("%s has no version after %s", file, pattern)
		}
		return versions
	}
	for sdk, versions := range map[string][]string{
		"NuGet `Microsoft.Azure.Cosmos`":              read("compat/run.sh", `run_csharp v3 ([0-9.]+)`),
		"NuGet `Microsoft.Azure.DocumentDB.Core`":     read("compat/dotnet/v2/v2.csproj", `DocumentDB.Core" Version="([0-9.]+)`),
		"Maven `com.azure:azure-cosmos`":              read("compat/run.sh", `java_versions="([^"]+)"`),
		"npm `@azure/cosmos`":                         read("compat/js/package.json", `(?:"@azure/cosmos": "|npm:@azure/cosmos@)([0-9.]+)`),
		"PyPI `azure-cosmos`":                         append(read("compat/py/requirements-oldest.txt", `azure-cosmos==([0-9.]+)`), read("compat/py/requirements-newest.txt", `azure-cosmos==([0-9.]+)`)...),
		"`github.com/Azure/azure-sdk-for-go/sdk/data": read("compat/go/go.mod", `sdk/data/azcosmos v([0-9.]+)`),
	} {
		_, after, found := strings.Cut(page, "| "+sdk)
		row, _, _ := strings.Cut(after, "\n")
		if !found {
			t.Errorf("docs/clients.md has no row for %s", sdk)
		}
		for _, version := range versions {
			dated := regexp.MustCompile(`\b` + regexp.QuoteMeta(version) + ` \(([0-9]{4}-[0-9]{2}-[0-9]{2}|[A-Z][a-z]+ [0-9]{4})\)`)
			if !dated.MatchString(row) {
				t.Errorf("docs/clients.md: the row of %s lacks %s with its release date", sdk, version)
			}
		}
	}
	for file, pattern := range map[string]string{
		"compat/apps/js/package.json":     `(?:botbuilder-azure|azure-cosmosdb|azure-database|nestjs/core|azure/cosmos)": "([0-9.]+)`,
		"compat/apps/py/requirements.txt": `cosmos(?:db)?==([0-9.]+)`,
		"compat/apps/java/pom.xml":        `azure-spring-data-cosmos</artifactId>\s*<version>([0-9.]+)`,
		"compat/apps/dapr/go.mod":         `(?:azcosmos|components-contrib) v([0-9.]+)`,
	} {
		for _, version := range read(file, pattern) {
			if !strings.Contains(page, " "+version+" ") && !strings.Contains(page, " "+version+",") && !strings.Contains(page, " "+version+";") {
				t.Errorf("docs/clients.md lacks version %s of %s", version, file)
			}
		}
	}
	for _, want := range []string{"from 4.6.0 on it does", "| Azure Data Factory", "/decan/issues"} {
		if !strings.Contains(page, want) {
			t.Errorf("docs/clients.md lacks %q", want)
		}
	}
}
