package script

import (
	"embed"
	"strings"
)

//go:embed js/system
var systemBodies embed.FS

// systemPrefix begins the names of the system's stored procedures.
const systemPrefix = "__.sys."

// System returns the body of a stored procedure that every container has, such as
// __.sys.echo. It returns false for any other name.
func System(name string) (body string, found bool) {
	file, found := strings.CutPrefix(name, systemPrefix)
	if !found || strings.ContainsAny(file, "/.") {
		return "", false
	}
	text, err := systemBodies.ReadFile("js/system/" + file + ".js")
	return string(text), err == nil
}
