package bicep

import (
	"slices"
	"strings"
	"sync"
)

// signature is one way to call a function.
type signature struct {
	low, high int    // numbers of arguments; high -1 has no bound
	args      []*typ // the last one is that of all further arguments
	result    *typ
}

// functionList holds the functions of the language, those of the template
// language included: name(arguments) result. "?" marks an argument that may be
// left out, "*" and "+" any number of them, "+" at least one. s, i, b, a, o, x
// and f are string, int, bool, array, object, any and lambda; "z" is a string, an integer or a
// boolean, "l" an array or an object. Source: the documentation of the functions.
const functionList = `
any(x) x
array(x) a
base64(s) s
base64ToJson(s) x
base64ToString(s) s
bool(x) b
buildUri(o) s
cidrHost(s i) s
cidrSubnet(s i i) s
concat(a+) a
concat(z+) s
contains(a x) b
contains(o s) b
contains(s s) b
dataUri(x) s
dataUriToString(s) s
dateTimeAdd(s s s?) s
dateTimeFromEpoch(i) s
dateTimeToEpoch(s) i
deployer() o
deployment() o
distinct(a) a
empty(x) b
endsWith(s s) b
environment() o
extensionResourceId(s s s+) s
fail(s) x
filter(a f) a
first(a) x
first(s) s
flatten(a+) a
format(s x+) s
groupBy(a f f?) o
guid(s+) s
indexOf(a x) i
indexOf(s s) i
int(x) i
intersection(a+) a
intersection(o+) o
items(o) a
join(a s) s
json(s) x
last(a) x
last(s) s
lastIndexOf(a x) i
lastIndexOf(s s) i
length(l) i
length(s) i
like(s s) b
list(s s x?) x
loadDirectoryFileInfo(s s?) a
loadFileAsBase64(s) s
loadJsonContent(s s? s?) x
loadTextContent(s s?) s
loadYamlContent(s s? s?) x
managementGroup(s?) o
managementGroupResourceId(s s+) s
map(a f) a
mapValues(o f) o
max(a) i
max(i i+) i
min(a) i
min(i i+) i
nameof(x) s
newGuid() s
objectKeys(o) a
padLeft(z i s?) s
parseCidr(s) o
parseUri(s) o
pickZones(s s s i? i?) a
providers(s s?) x
range(i i) a
readEnvironmentVariable(s s?) s
reduce(a x f) x
reference(s s? s?) x
replace(s s s) s
resourceGroup(s? s?) o
resourceId(s s+) s
shallowMerge(a) o
skip(a i) a
skip(s i) s
sort(a f) a
split(s x) a
startsWith(s s) b
string(x) s
subscription(s?) o
subscriptionResourceId(s s+) s
substring(s i i?) s
take(a i) a
take(s i) s
tenant() o
tenantResourceId(s s+) s
toLogicalZone(s s s) s
toLogicalZones(s s a) a
toLower(s) s
toObject(a f f?) o
toPhysicalZone(s s s) s
toPhysicalZones(s s a) a
toUpper(s) s
trim(s) s
union(a a+) a
union(o o+) o
uniqueString(s+) s
uri(s s) s
uriComponent(s) s
uriComponentToString(s) s
utcNow(s?) s
`

// functionTable parses functionList once.
var functionTable = sync.OnceValue(func() map[string][]signature {
	letters := map[string]*typ{
		"s": stringType, "i": intType, "b": boolType, "a": arrayAny, "o": objectAny, "x": anyType, "f": anyType,
		"z": union(stringType, intType, boolType), "l": union(arrayAny, objectAny),
	}
	table := map[string][]signature{}
	for line := range strings.Lines(strings.TrimSpace(functionList)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "(")
		args, result, _ := strings.Cut(rest, ") ")
		s := signature{result: letters[result]}
		for a := range strings.FieldsSeq(args) {
			s.high++
			switch {
			case strings.HasSuffix(a, "?"):
			case strings.HasSuffix(a, "*"):
				s.high = -1
			case strings.HasSuffix(a, "+"):
				s.low++
				s.high = -1
			default:
				s.low++
			}
			s.args = append(s.args, letters[a[:1]])
		}
		table[name] = append(table[name], s)
	}
	return table
})

// systemCall checks a call of a function of the language.
func (k *checker) systemCall(x *callExpr, env *locals) *typ {
	name := x.name.name
	signatures, ok := functionTable()[name]
	if !ok && strings.HasPrefix(name, "list") && len(name) > len("list") && name[4] >= 'A' && name[4] <= 'Z' {
		signatures, ok = functionTable()["list"], true
	}
	if name == "readEnvironmentVariable" && !k.params {
		ok = false
	}
	if !ok {
		k.arguments0(x, env)
		if name == "externalInput" || name == "getSecret" || name == "roleDefinitions" || name == "readCliArg" {
			k.add(x.name.span, CodeUnsupported, "The function %q is not read here.", name)
		} else if name != "" {
			k.add(x.name.span, "BCP057", "The name %q does not exist in the current context.", name)
		}
		return anyType
	}
	if (name == "newGuid" || name == "utcNow") && k.place != inDefault {
		k.add(x.name.span, "BCP065", "Function %q is not valid at this location. It can only be used as a parameter default value.", name)
	}
	low, high := signatures[0].low, signatures[0].high
	for _, s := range signatures {
		low = min(low, s.low)
		if s.high < 0 || high < 0 {
			high = -1
		} else {
			high = max(high, s.high)
		}
	}
	low, high = k.scopeArguments(name, low, high)
	counted := k.count(x, low, high)
	types := k.argumentTypes(x, name, env)
	if !counted {
		return anyType
	}
	result := anyType
	worst, mismatch := -1, signature{}
	for _, s := range signatures {
		bad := mismatchAt(types, s)
		if bad < 0 {
			return k.result(x, name, s.result, types)
		}
		if bad > worst {
			worst, mismatch = bad, s
		}
		result = s.result
	}
	want := mismatch.args[min(worst, len(mismatch.args)-1)]
	if len(signatures) > 1 && worst == 0 {
		var all []*typ
		for _, s := range signatures {
			all = append(all, s.args[0])
		}
		want = union(all...)
	}
	k.add(x.args[worst].at(), "BCP070", "Argument of type %s is not assignable to parameter of type %s.", shown(types[worst]), shown(want))
	return result
}

// scopeArguments narrows the arguments of the functions that return a scope:
// without arguments they return that of the deployment.
func (k *checker) scopeArguments(name string, low, high int) (int, int) {
	switch {
	case name == "resourceGroup" && k.scope != "resourceGroup":
		if k.scope == "subscription" {
			return 1, 2
		}
		return 2, 2
	case name == "subscription" && k.scope != "resourceGroup" && k.scope != "subscription":
		return 1, 1
	case name == "managementGroup" && k.scope != "managementGroup":
		return 1, 1
	}
	return low, high
}

// mismatchAt returns the first argument that does not fit, or -1.
func mismatchAt(types []*typ, s signature) int {
	for i, t := range types {
		if i >= len(s.args) && s.high >= 0 {
			return i
		}
		if !fits(t, s.args[min(i, len(s.args)-1)], 0) {
			return i
		}
	}
	return -1
}

// argumentTypes checks the arguments; those that are lambdas get the types of
// the items before them.
func (k *checker) argumentTypes(x *callExpr, name string, env *locals) []*typ {
	types := make([]*typ, len(x.args))
	for i, a := range x.args {
		for {
			p, ok := a.(*parenExpr)
			if !ok {
				break
			}
			a = p.inner
		}
		l, ok := a.(*lambdaExpr)
		if !ok {
			types[i] = k.typeOf(a, env)
			if i > 0 && slices.Contains(lambdaFunctions[name], i) && types[i].category != tAny {
				k.add(a.at(), "BCP070", "Argument of type %s is not assignable to parameter of type \"lambda\".", shown(types[i]))
			}
			continue
		}
		types[i] = &typ{category: tLambda}
		if !slices.Contains(lambdaFunctions[name], i) {
			k.lambda(l, env, nil)
			continue
		}
		item := anyType
		if types[0].category == tArray {
			item = itemType(types[0])
		}
		parameters := []*typ{item, intType}
		switch name {
		case "reduce":
			parameters = []*typ{anyType, item, intType}
		case "sort":
			parameters = []*typ{item, item}
		case "mapValues":
			parameters = []*typ{anyType}
		}
		low, high := 1, len(parameters)
		switch name {
		case "reduce", "sort":
			low = 2
		case "groupBy", "toObject":
			high = 1
		}
		if n := len(l.parameters); n < low || n > high {
			k.add(a.at(), "BCP070", "A lambda of %d parameters is not assignable to a parameter that takes %d to %d.", n, low, high)
		}
		types[i] = anyType
		k.types[l] = k.lambda(l, env, parameters)
	}
	return types
}

// lambdaFunctions says which arguments of a function are lambdas.
var lambdaFunctions = map[string][]int{
	"filter": {1}, "groupBy": {1, 2}, "map": {1}, "mapValues": {1}, "reduce": {2}, "sort": {1}, "toObject": {1, 2},
}

// result returns the type of a call, better known than its signature for some functions.
func (k *checker) result(x *callExpr, name string, declared *typ, types []*typ) *typ {
	switch name {
	case "any":
		return anyType
	case "map":
		if t := k.types[x.args[1]]; t != nil {
			return &typ{category: tArray, item: t}
		}
	case "filter", "sort":
		if types[0].category == tArray {
			return &typ{category: tArray, item: itemType(types[0])}
		}
	case "split":
		return &typ{category: tArray, item: stringType}
	case "range":
		return &typ{category: tArray, item: intType}
	case "objectKeys":
		return &typ{category: tArray, item: stringType}
	case "loadTextContent", "loadFileAsBase64", "loadJsonContent", "loadYamlContent", "loadDirectoryFileInfo":
		return k.loadCall(x, name)
	case "readEnvironmentVariable":
		k.environmentCall(x)
	case "nameof":
		k.nameofCall(x)
	}
	return declared
}

// nameofCall checks that the argument is a name.
func (k *checker) nameofCall(x *callExpr) {
	if _, ok := nameOf(x.args[0]); !ok {
		k.add(x.args[0].at(), "BCP408", "The \"nameof\" function can only be used with an expression which has a name.")
	}
}

// nameOf returns the last name of an expression.
func nameOf(x expr) (string, bool) {
	switch x := bare(x).(type) {
	case *nameExpr:
		return x.name, true
	case *memberExpr:
		return x.name.name, true
	case *childExpr:
		return x.name.name, true
	case *indexExpr:
		if s, ok := x.index.(*stringExpr); ok && len(s.holes) == 0 {
			return s.parts[0], true
		}
		return nameOf(x.base)
	}
	return "", false
}
