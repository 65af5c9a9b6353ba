package bicep

import "strings"

// segmentNames are the segments of the resource types of Microsoft.DocumentDB
// in their spelling. Templates write them in any case, and the vendor's
// compiler turns what it knows into this one.
var segmentNames = func() map[string]string {
	names := map[string]string{}
	for name := range strings.FieldsSeq(`
		apis cassandraClusters cassandraKeyspaces cassandraRoleAssignments cassandraRoleDefinitions clientEncryptionKeys
		collections containers copyJobs dataCenters dataTransferJobs databaseAccounts databases graphs gremlinDatabases
		gremlinRoleAssignments gremlinRoleDefinitions keyspaces mongodbDatabases mongodbRoleDefinitions
		mongodbUserDefinitions notebookWorkspaces privateEndpointConnections services settings sqlDatabases
		sqlRoleAssignments sqlRoleDefinitions storedProcedures tableRoleAssignments tableRoleDefinitions tables
		throughputSettings triggers userDefinedFunctions views`) {
		names[strings.ToLower(name)] = name
	}
	return names
}()

// canonicalType returns a resource type in its usual spelling, when it is one
// of this database; others are kept as written.
func canonicalType(name string) string {
	parts := strings.Split(name, "/")
	if !strings.EqualFold(parts[0], "Microsoft.DocumentDB") {
		return name
	}
	parts[0] = "Microsoft.DocumentDB"
	for i, p := range parts[1:] {
		if usual := segmentNames[strings.ToLower(p)]; usual != "" {
			parts[i+1] = usual
		}
	}
	return strings.Join(parts, "/")
}
