// Command templatetypes writes internal/deploy/types.json: the properties of the resource
// types that templates can deploy, which of them are read-only, and since which API
// version each exists.
//
// It takes them from documentdb-types.json, the types that the vendor publishes for
// template tools (MIT License, Copyright (c) Microsoft Corporation). With -check it
// writes nothing, and fails if the file is stale.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

//go:embed documentdb-types.json
var published []byte

// target is the file that is written, from the directory of this module.
const target = "../internal/deploy/types.json"

// deployed are the types that internal/deploy knows.
var deployed = []string{
	"databaseAccounts",
	"databaseAccounts/sqlDatabases",
	"databaseAccounts/sqlDatabases/throughputSettings",
	"databaseAccounts/sqlDatabases/containers",
	"databaseAccounts/sqlDatabases/containers/throughputSettings",
	"databaseAccounts/sqlDatabases/containers/storedProcedures",
	"databaseAccounts/sqlDatabases/containers/triggers",
	"databaseAccounts/sqlDatabases/containers/userDefinedFunctions",
	"databaseAccounts/sqlRoleDefinitions",
	"databaseAccounts/sqlRoleAssignments",
	"databaseAccounts/cassandraKeyspaces",
	"databaseAccounts/cassandraKeyspaces/throughputSettings",
	"databaseAccounts/cassandraKeyspaces/tables",
	"databaseAccounts/cassandraKeyspaces/tables/throughputSettings",
}

type source struct {
	APIVersion string
	Types      map[string]map[string]json.RawMessage
	Since      map[string]map[string]json.RawMessage
}

func main() {
	log.SetFlags(0)
	check := flag.Bool("check", false, "write nothing, and fail if the file is stale")
	flag.Parse()
	text, err := generate()
	if err != nil {
		log.Fatal(err)
	}
	if *check {
		old, err := os.ReadFile(target)
		if err != nil {
			log.Fatal(err)
		}
		if !bytes.Equal(old, text) {
			log.Fatalf("%s is stale: run go run -C tools ./templatetypes", target)
		}
		return
	}
	if err := os.WriteFile(target, text, 0o644); err != nil {
		log.Fatal(err)
	}
}

var reference = regexp.MustCompile(`#[A-Za-z0-9/.~]+`)

// generate returns the file: the shapes that the deployed types reach, one a line.
func generate() ([]byte, error) {
	var s source
	if err := json.Unmarshal(published, &s); err != nil {
		return nil, err
	}
	reached := map[string]bool{}
	var reach func(name string) error
	reach = func(name string) error {
		if reached[name] {
			return nil
		}
		shape := s.Types[name]
		if shape == nil {
			return fmt.Errorf("there is no type %s", name)
		}
		reached[name] = true
		for _, member := range shape {
			for _, inner := range reference.FindAllString(string(member), -1) {
				if err := reach(inner[1:]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, name := range deployed {
		if err := reach(name); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"about\":\"Written by tools/templatetypes from the types that Microsoft publishes for template tools (MIT License, Copyright (c) Microsoft Corporation).\",\n\"apiVersion\":%q,\n\"shapes\":{\n", s.APIVersion)
	for i, name := range slices.Sorted(maps.Keys(reached)) {
		if i > 0 {
			out.WriteString(",\n")
		}
		line, err := json.Marshal(s.Types[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%q:%s", name, line)
	}
	out.WriteString("},\n\"since\":{\n")
	for i, name := range deployed {
		if i > 0 {
			out.WriteString(",\n")
		}
		line, err := json.Marshal(since(s.Since[name]))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%q:%s", name, line)
	}
	out.WriteString("}}\n")
	return out.Bytes(), nil
}

// since turns lists of members by version into versions by member.
func since(byVersion map[string]json.RawMessage) map[string]string {
	out := map[string]string{}
	for version, list := range byVersion {
		var members []string
		if json.Unmarshal(list, &members) != nil {
			continue // The version of the type itself.
		}
		for _, member := range members {
			out[member] = strings.TrimPrefix(version, "only ")
		}
	}
	return out
}
