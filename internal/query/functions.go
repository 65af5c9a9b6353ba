package query

import (
	"math"
	"strings"

	"github.com/decandb/decan/internal/value"
)

// function is a built-in function of the language.
type function struct {
	name     string // as error messages show it
	min, max int    // number of arguments; a max of -1 is any number
	run      func(e *env, args []value.Value) value.Value

	aggregate bool
	volatile  bool // may differ from row to row with the same arguments
}

// functions holds the functions by their names in upper case, in every spelling
// that the service takes. Those without run are known and not executed yet.
var functions = makeFunctions()

// numberNames are the identifiers that mean a number where no alias has them.
var numberNames = map[string]value.Value{
	"NaN":      value.Number(math.NaN()),
	"Infinity": value.Number(math.Inf(1)),
}

func makeFunctions() map[string]*function {
	m := map[string]*function{}
	for _, group := range [][]function{typeFunctions(), mathFunctions(), stringFunctions(), arrayFunctions(), timeFunctions(), laterFunctions()} {
		for i := range group {
			f := &group[i]
			for _, name := range strings.Split(f.name, " ") {
				m[strings.ToUpper(name)] = f
			}
			f.name, _, _ = strings.Cut(f.name, " ")
		}
	}
	return m
}

// laterFunctions are known and answered with Unsupported.
func laterFunctions() []function {
	list := []function{
		{name: "COUNT", min: 1, max: 1, aggregate: true},
		{name: "SUM", min: 1, max: 1, aggregate: true},
		{name: "AVG", min: 1, max: 1, aggregate: true},
		{name: "MIN", min: 1, max: 1, aggregate: true},
		{name: "MAX", min: 1, max: 1, aggregate: true},
		{name: "COUNTIF", min: 1, max: 1, aggregate: true},
		{name: "MAKELIST", min: 1, max: 1, aggregate: true},
		{name: "MAKESET", min: 1, max: 1, aggregate: true},

		{name: "NOW"},
		{name: "AGO", min: 2, max: 2},
		{name: "DateTimeFormat", min: 2, max: 2},

		{name: "ST_DISTANCE", min: 2, max: 2},
		{name: "ST_WITHIN", min: 2, max: 2},
		{name: "ST_INTERSECTS", min: 2, max: 2},
		{name: "ST_AREA", min: 1, max: 1},
		{name: "ST_ISVALID", min: 1, max: 1},
		{name: "ST_ISVALIDDETAILED", min: 1, max: 1},

		{name: "VectorDistance", min: 2, max: 4},
		{name: "_VectorScore", min: 2, max: -1},
		{name: "FullTextContains FULLTEXT_CONTAINS", min: 2, max: 2},
		{name: "FullTextContainsAll FULLTEXT_CONTAINS_ALL", min: 2, max: -1},
		{name: "FullTextContainsAny FULLTEXT_CONTAINS_ANY", min: 2, max: -1},
		{name: "FullTextScore FULLTEXT_SCORE", min: 2, max: -1},
		{name: "_FullTextScore", min: 2, max: -1},
		{name: "_FullTextWordCount", min: 1, max: 1},
		{name: "RRF", min: 2, max: -1},

		{name: "DOCUMENTID", min: 1, max: 1},
		{name: "HASH", min: 1, max: 2},
		{name: "REGEXEXTRACT", min: 2, max: 3},
		{name: "REGEXEXTRACTALL", min: 2, max: 3},
		{name: "SUBSTRINGBEFORE", min: 2, max: 2},
		{name: "SUBSTRINGAFTER", min: 2, max: 2},
		{name: "LASTSUBSTRINGBEFORE", min: 2, max: 2},
		{name: "LASTSUBSTRINGAFTER", min: 2, max: 2},
	}
	return list
}
