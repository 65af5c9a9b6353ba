package expression

import (
	"strings"

	"github.com/decandb/decan/internal/deploy/jsonc"
)

func resourceFunctions() []*function {
	return []*function{
		{name: "parameters", min: 1, max: 1, eval: parameter},
		{name: "variables", min: 1, max: 1, eval: variable},
		{name: "resourceId", min: 2, max: -1, eval: func(c *called) (any, error) { return c.resourceID(2) }},
		{name: "subscriptionResourceId", min: 2, max: -1, eval: func(c *called) (any, error) { return c.resourceID(1) }},
		{name: "tenantResourceId", min: 2, max: -1, eval: func(c *called) (any, error) { return c.resourceID(0) }},
		{name: "managementGroupResourceId", min: 2, max: -1, eval: managementGroupResourceID},
		{name: "extensionResourceId", min: 3, max: -1, eval: extensionResourceID},
		{name: "reference", min: 1, max: 3, eval: reference},
		{name: "references", min: 1, max: 2, eval: references},
		{name: "resourceInfo", min: 1, max: 1, eval: resourceInfo},
		{name: "resourceGroup", eval: resourceGroup},
		{name: "subscription", eval: subscription},
		{name: "tenant", eval: tenant},
		{name: "managementGroup", eval: func(*called) (any, error) {
			return nil, errorf("The deployment metadata 'managementGroup' is not valid.")
		}},
		{name: "deployment", eval: deployment},
		{name: "deployer", eval: func(c *called) (any, error) {
			if c.env.Runtime == nil {
				return c.later(), nil
			}
			return jsonc.NewObject("objectId", noPerson, "tenantId", c.env.Scope.TenantID, "userPrincipalName", ""), nil
		}},
		{name: "environment", eval: environment},
		{name: "providers", min: 1, max: 2, eval: func(c *called) (any, error) { return c.notHere() }},
		{name: "pickZones", min: 3, max: 5, eval: func(c *called) (any, error) {
			if c.env.Runtime == nil {
				return c.later(c.args...), nil
			}
			return jsonc.NewArray(), nil
		}},
		{name: "toLogicalZone", min: 3, max: 3, eval: func(c *called) (any, error) { return c.notHere() }},
		{name: "toLogicalZones", min: 3, max: 3, eval: func(c *called) (any, error) { return c.notHere() }},
		{name: "toPhysicalZone", min: 3, max: 3, eval: func(c *called) (any, error) { return c.notHere() }},
		{name: "toPhysicalZones", min: 3, max: 3, eval: func(c *called) (any, error) { return c.notHere() }},
	}
}

// noPerson is the id of the account's own key, which belongs to no person.
const noPerson = "00000000-0000-0000-0000-000000000000"

// notHere is the answer for functions that only the service can evaluate.
func (c *called) notHere() (any, error) {
	if c.env.Runtime == nil {
		return c.later(c.args...), nil
	}
	return nil, errorf("The template function '%s' is not supported here: its values exist only in Azure.", c.name)
}

func parameter(c *called) (any, error) {
	name, err := c.text(0)
	if err != nil {
		return nil, err
	}
	if c.env.Parameter != nil {
		if value, found, err := c.env.Parameter(name); err != nil || found {
			return value, err
		}
	}
	return nil, errorf("The template parameter '%s' is not found. Please see https://aka.ms/arm-syntax-parameters for usage details.", name)
}

func variable(c *called) (any, error) {
	name, err := c.text(0)
	if err != nil {
		return nil, err
	}
	if c.env.Variable != nil {
		if value, found, err := c.env.Variable(name); err != nil || found {
			return value, err
		}
	}
	return nil, errorf("The template variable '%s' is not found. Please see https://aka.ms/arm-syntax-variables for usage details.", name)
}

// see ends the messages of the functions that make ids.
func (c *called) see() string {
	return " Please see https://aka.ms/arm-resource-functions/#" + strings.ToLower(c.name) + " for usage details."
}

// typed divides the arguments of a function that makes an id into those before the type,
// the type and the names.
func (c *called) typed(args []string, leading int) (before []string, kind string, names []string, err error) {
	at, many := -1, 0
	for i, arg := range args {
		if strings.Contains(arg, "/") {
			if at < 0 {
				at = i
			}
			many++
		}
	}
	if many != 1 {
		return nil, "", nil, errorf("Unable to evaluate template language function '%s': function requires exactly one multi-segmented argument which must be resource type including resource provider namespace. Current function arguments '%s'."+c.see(), c.name, strings.Join(args, ","))
	}
	if at > leading {
		return nil, "", nil, errorf("Unable to evaluate template language function '%s': function requires fully qualified resource type '%s' as one of first %d arguments."+c.see(), c.name, args[at], leading+1)
	}
	kind, names = args[at], args[at+1:]
	if segments := strings.Count(kind, "/"); segments != len(names) {
		return nil, "", nil, errorf("Unable to evaluate template language function '%s': the type '%s' requires '%d' resource name argument(s)."+c.see(), c.name, kind, segments)
	}
	return args[:at], kind, names, nil
}

// joinID returns the path of a resource below its scope.
func joinID(kind string, names []string) string {
	provider, types, _ := strings.Cut(kind, "/")
	var b strings.Builder
	b.WriteString("/providers/")
	b.WriteString(provider)
	for i, segment := range strings.Split(types, "/") {
		if names[i] == "" { // The engine leaves both away.
			b.WriteByte('/')
			continue
		}
		b.WriteString("/" + segment + "/" + names[i])
	}
	return b.String()
}

// JoinID returns the id of a resource from that of its scope, its type and its names.
func JoinID(scope, kind string, names []string) string {
	if strings.EqualFold(kind, "Microsoft.Resources/resourceGroups") {
		return scope + "/resourceGroups/" + names[0]
	}
	return scope + joinID(kind, names)
}

// resourceID is resourceId, subscriptionResourceId and tenantResourceId, which may have
// 2, 1 or 0 arguments before the type.
func (c *called) resourceID(leading int) (any, error) {
	args, err := c.texts()
	if err != nil {
		return nil, err
	}
	before, kind, names, err := c.typed(args, leading)
	if err != nil {
		return nil, err
	}
	scope := c.env.Scope
	switch {
	case len(before) == 2:
		scope.SubscriptionID, scope.ResourceGroup = before[0], before[1]
	case len(before) == 1 && leading == 2:
		scope.ResourceGroup = before[0]
	case len(before) == 1:
		scope.SubscriptionID = before[0]
	}
	path := ""
	if leading > 0 {
		path = "/subscriptions/" + scope.SubscriptionID
	}
	if leading > 1 && scope.ResourceGroup != "" {
		path += "/resourceGroups/" + scope.ResourceGroup
	}
	if leading == 1 {
		return JoinID(path, kind, names), nil
	}
	return path + joinID(kind, names), nil
}

func managementGroupResourceID(c *called) (any, error) {
	args, err := c.texts()
	if err != nil {
		return nil, err
	}
	before, kind, names, err := c.typed(args, 1)
	if err != nil {
		return nil, err
	}
	group := ""
	if len(before) > 0 {
		group = before[0]
	}
	return "/providers/Microsoft.Management/managementGroups/" + group + joinID(kind, names), nil
}

func extensionResourceID(c *called) (any, error) {
	args, err := c.texts()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(args[0], "/") {
		return nil, errorf("Unable to evaluate template language function 'extensionResourceId': the provided parent resource id '%s' is not a valid uri."+c.see(), args[0])
	}
	_, kind, names, err := c.typed(args[1:], 0)
	if err != nil {
		return nil, err
	}
	return args[0] + joinID(kind, names), nil
}

// named returns the id and the version of the resource that the first argument names: by
// its name, its symbolic name or its id.
func (c *called) named() (r *Resource, id, version string, err error) {
	if id, err = c.text(0); err != nil {
		return nil, "", "", err
	}
	if len(c.args) > 1 && c.args[1] != nil {
		if version, err = c.text(1); err != nil {
			return nil, "", "", err
		}
	}
	if c.env.Resources == nil {
		return nil, id, version, nil
	}
	r, err = c.env.Resources.Find(id)
	if err != nil {
		return nil, "", "", err
	}
	if r != nil {
		c.env.Resources.Use(r)
		id = r.ID
		if version == "" {
			version = r.APIVersion
		}
	}
	return r, id, version, nil
}

// placed refuses functions that need what exists, in places that are evaluated before.
func (c *called) placed() error {
	if c.env.Place&AllowReference == 0 {
		return errorf("The template function '%s' is not expected at this location."+usage, c.name)
	}
	return nil
}

func reference(c *called) (any, error) {
	if err := c.placed(); err != nil {
		return nil, err
	}
	r, id, version, err := c.named()
	if err != nil {
		return nil, err
	}
	full := len(c.args) > 2 && strings.EqualFold(plainText(c.args[2]), "Full")
	if r != nil && r.Outputs != nil { // A deployment of the template.
		properties := jsonc.NewObject("outputs", r.Outputs, "provisioningState", "Succeeded")
		if full {
			return jsonc.NewObject("apiVersion", version, "properties", properties), nil
		}
		return properties, nil
	}
	if c.env.Runtime != nil {
		return c.env.Runtime.Reference(id, version, full)
	}
	args := []any{id}
	if version != "" {
		args = append(args, version)
	}
	if full {
		args = append(args, "Full")
	}
	return c.later(args...), nil
}

func references(c *called) (any, error) {
	if !c.env.Symbolic {
		return nil, needsSymbols("SymbolicNames")
	}
	if err := c.placed(); err != nil {
		return nil, err
	}
	symbol, err := c.text(0)
	if err != nil {
		return nil, err
	}
	if c.env.Resources == nil {
		return nil, errorf("The resource '%s' is not defined in the template."+usage, symbol)
	}
	loop, err := c.env.Resources.Loop(symbol)
	if err != nil {
		return nil, err
	}
	items := make([]any, len(loop))
	for i, r := range loop {
		one := &called{function: table()["reference"], env: c.env, call: c.call, args: append([]any{r.ID, r.APIVersion}, c.args[1:]...)}
		if items[i], err = reference(one); err != nil {
			return nil, err
		}
	}
	return jsonc.NewArray(items...), nil
}

func needsSymbols(feature string) error {
	return errorf("Template language version must be specified in order to use feature '%s'. Please see https://aka.ms/arm-template/#template-format for usage details.", feature)
}

func resourceInfo(c *called) (any, error) {
	if !c.env.Symbolic {
		return nil, needsSymbols("ResourceInfoFunction")
	}
	symbol, err := c.text(0)
	if err != nil {
		return nil, err
	}
	if c.env.Resources != nil {
		r, err := c.env.Resources.Find(symbol)
		if err != nil {
			return nil, err
		}
		if r != nil {
			return jsonc.NewObject("id", r.ID, "name", r.Name, "type", r.Type, "apiVersion", r.APIVersion), nil
		}
	}
	return nil, errorf("The resource '%s' is not defined in the template."+usage, symbol)
}

// list is every function whose name begins with list, such as listKeys.
func list(c *called) (any, error) {
	if err := c.placed(); err != nil {
		return nil, err
	}
	_, id, version, err := c.named()
	if err != nil {
		return nil, err
	}
	if c.env.Runtime != nil {
		return c.env.Runtime.List(c.name, id, version, c.args[min(2, len(c.args)):])
	}
	args := []any{id}
	if version != "" {
		args = append(args, version)
	}
	return c.later(append(args, c.args[min(2, len(c.args)):]...)...), nil
}

// member returns a member of the function's value that is known only in a deployment.
func (c *called) member(name string, known any) any {
	if c.env.Runtime != nil {
		return known
	}
	return &Unknown{&Call{Name: c.name, Path: []Access{{Name: name}}}}
}

func resourceGroup(c *called) (any, error) {
	s := c.env.Scope
	if s.ResourceGroup == "" {
		return nil, errorf("The template function 'resourceGroup' is not expected at this location." + usage)
	}
	return jsonc.NewObject(
		"id", "/subscriptions/"+s.SubscriptionID+"/resourceGroups/"+s.ResourceGroup,
		"name", s.ResourceGroup,
		"type", "Microsoft.Resources/resourceGroups",
		"location", s.Location,
		"tags", c.member("tags", jsonc.NewObject()),
		"managedBy", c.member("managedBy", nil),
		"properties", c.member("properties", jsonc.NewObject("provisioningState", "Succeeded"))), nil
}

func subscription(c *called) (any, error) {
	s := c.env.Scope
	return jsonc.NewObject(
		"id", "/subscriptions/"+s.SubscriptionID,
		"subscriptionId", s.SubscriptionID,
		"tenantId", s.TenantID,
		"displayName", c.member("displayName", "Decan")), nil
}

func tenant(c *called) (any, error) {
	return jsonc.NewObject(
		"countryCode", c.member("countryCode", ""),
		"displayName", c.member("displayName", "Decan"),
		"id", "/tenants/"+c.env.Scope.TenantID,
		"tenantId", c.env.Scope.TenantID), nil
}

func deployment(c *called) (any, error) {
	template := c.env.Scope.Template
	if template == nil {
		template = jsonc.NewObject()
	}
	out := jsonc.NewObject("name", c.env.Scope.Deployment)
	if c.env.Scope.ResourceGroup == "" {
		out.Set("location", c.env.Scope.Location)
	}
	out.Set("properties", jsonc.NewObject("template", template))
	return out, nil
}

// environment answers with the members of the cloud's metadata that templates read.
// Addresses of other services are those of no machine.
func environment(c *called) (any, error) {
	if c.env.Runtime == nil {
		return c.later(), nil
	}
	const none = "https://localhost"
	return jsonc.NewObject("name", "Decan", "gallery", none, "graph", none, "graphAudience", none, "portal", none,
		"resourceManager", none, "batch", none, "media", none, "sqlManagement", none, "vmImageAliasDoc", none,
		"authentication", jsonc.NewObject("loginEndpoint", none, "audiences", jsonc.NewArray(none), "tenant", "common", "identityProvider", "AAD"),
		"suffixes", jsonc.NewObject("storage", "localhost", "keyvaultDns", ".localhost", "sqlServerHostname", ".localhost", "acrLoginServer", ".localhost")), nil
}
