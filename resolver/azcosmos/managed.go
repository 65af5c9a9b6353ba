package azcosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/decandb/decan/resolver"
)

// Managed creates containers from a template, and can report in advance what it
// would do. Several goroutines and programs may use it at once; each container
// is created once.
type Managed struct {
	Client   *Client
	Template resolver.Template
}

// Change is the difference between a target's container and the template.
type Change struct {
	Target resolver.Target `json:"target"`

	// Make means that the container does not exist.
	Make bool `json:"make,omitempty"`

	// Scripts are those of the template that the container lacks or has with
	// other content.
	Scripts []resolver.Script `json:"scripts,omitempty"`

	// Differs names the settings in which the container differs from the
	// template, such as "indexingPolicy" or "throughput". Apply leaves them
	// unchanged: an operator may have set them on purpose, and a partition key
	// cannot change.
	Differs []string `json:"differs,omitempty"`
}

// String describes on one line what Apply does and what it leaves unchanged.
func (c Change) String() string {
	var parts []string
	if c.Make {
		parts = append(parts, "make the container")
	}
	for _, script := range c.Scripts {
		parts = append(parts, "register "+string(script.Kind)+"/"+script.ID)
	}
	if len(c.Differs) > 0 {
		parts = append(parts, "leave another "+strings.Join(c.Differs, ", "))
	}
	return c.Target.Name + ": " + strings.Join(parts, "; ")
}

// Plan compares the containers of the targets with the template and returns the
// differences in the order of the targets. It omits targets without a
// difference, ignores scripts that are not in the template, and changes nothing.
// The error is a resolver.ErrConfig if the template cannot be applied.
func (m Managed) Plan(ctx context.Context, targets []resolver.Target) ([]Change, error) {
	if _, err := m.definition(); err != nil {
		return nil, err
	}
	if len(m.Template.Scripts) > 0 && m.Client.config.Scripts == nil {
		return nil, fmt.Errorf("%w: the template has scripts, but Config.Scripts is not set", resolver.ErrConfig)
	}
	missing, err := m.Client.Missing(ctx, targets)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, t := range targets {
		change := Change{Target: t, Make: true, Scripts: m.Template.Scripts}
		if !slices.ContainsFunc(missing, t.SameAddress) {
			if change, err = m.compare(ctx, t); err != nil {
				return nil, fmt.Errorf("compare the container of %s: %w", t.Name, err)
			}
		}
		if change.Make || len(change.Scripts) > 0 || len(change.Differs) > 0 {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

// Apply carries out the changes of a Plan: it creates containers, their
// databases and scripts. If the service throttles it, it waits as told and tries
// again. After an error or a crash, a new Plan contains what remains.
func (m Managed) Apply(ctx context.Context, changes []Change) error {
	for _, change := range changes {
		if change.Make {
			if err := m.make(ctx, change.Target); err != nil {
				return fmt.Errorf("make the container of %s: %w", change.Target.Name, err)
			}
		}
		for _, script := range change.Scripts {
			err := m.Client.retryThrottled(ctx, func() error { return m.Client.config.Scripts.PutScript(ctx, change.Target, script) })
			if err != nil {
				return fmt.Errorf("register %s/%s in %s: %w", script.Kind, script.ID, change.Target.Name, err)
			}
		}
	}
	return nil
}

// Ensure plans and applies. It has the signature of MoverConfig.Ensure.
func (m Managed) Ensure(ctx context.Context, targets []resolver.Target) error {
	changes, err := m.Plan(ctx, targets)
	if err != nil {
		return err
	}
	return m.Apply(ctx, changes)
}

// definition returns the properties of the template. The SDK silently drops
// properties it does not know, so these are an error.
func (m Managed) definition() (sdk.ContainerProperties, error) {
	var properties sdk.ContainerProperties
	if err := properties.UnmarshalJSON(m.Template.Definition); err != nil {
		return properties, fmt.Errorf("%w: the template's definition: %w", resolver.ErrConfig, err)
	}
	if len(properties.PartitionKeyDefinition.Paths) == 0 {
		return properties, fmt.Errorf("%w: the template's definition has no partition key", resolver.ErrConfig)
	}
	lost, err := m.differing(properties)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("%w: the template's definition: the SDK does not support all of %s", resolver.ErrConfig, strings.Join(lost, ", "))
	}
	// The SDK sends false where the service's default is true.
	var given struct {
		IndexingPolicy struct{ Automatic *bool }
	}
	if policy := properties.IndexingPolicy; policy != nil && json.Unmarshal(m.Template.Definition, &given) == nil {
		policy.Automatic = given.IndexingPolicy.Automatic == nil || *given.IndexingPolicy.Automatic
	}
	return properties, err
}

// differing names the members of the template's definition that are missing or
// different in properties.
func (m Managed) differing(properties sdk.ContainerProperties) ([]string, error) {
	text, err := properties.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var wanted, have map[string]any
	if err := json.Unmarshal(m.Template.Definition, &wanted); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &have); err != nil {
		return nil, err
	}
	delete(wanted, "id")
	var names []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !within(wanted[name], have[name], name == "partitionKey") {
			names = append(names, name)
		}
	}
	return names, nil
}

// within reports whether a JSON value contains all of another one. Lists compare
// as sets, except those that are ordered or nested in a list, such as a
// composite index. The service adds its defaults to policies and omits empty
// lists.
func within(wanted, have any, ordered bool) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, ok := have.(map[string]any)
		for name, value := range wanted {
			ok = ok && within(value, object[name], ordered)
		}
		return ok
	case []any:
		list, ok := have.([]any)
		if ordered {
			return ok && slices.EqualFunc(wanted, list, func(a, b any) bool { return within(a, b, true) })
		}
		for _, value := range wanted {
			if !slices.ContainsFunc(list, func(other any) bool { return within(value, other, true) }) {
				return false
			}
		}
		return true
	}
	return wanted == have
}

// compare returns how an existing container differs from the template.
func (m Managed) compare(ctx context.Context, t resolver.Target) (Change, error) {
	change := Change{Target: t}
	properties, _, err := m.Client.usage(ctx, t)
	if err != nil {
		return change, err
	}
	if change.Differs, err = m.differing(*properties); err != nil {
		return change, err
	}
	if m.Template.Throughput > 0 {
		throughput, autoscale, err := m.Client.throughput(ctx, t)
		if err != nil {
			return change, err
		}
		if throughput != m.Template.Throughput || autoscale != m.Template.Autoscale {
			change.Differs = append(change.Differs, "throughput")
		}
	}
	if len(m.Template.Scripts) == 0 {
		return change, nil
	}
	registered, err := m.Client.scripts(ctx, t)
	for _, script := range m.Template.Scripts {
		if !slices.Contains(registered, script) {
			change.Scripts = append(change.Scripts, script)
		}
	}
	return change, err
}

// make creates one container, and its database if necessary. It succeeds if the
// container exists by now.
func (m Managed) make(ctx context.Context, t resolver.Target) error {
	properties, err := m.definition()
	if err != nil {
		return err
	}
	properties.ID = t.Container
	options := &sdk.CreateContainerOptions{}
	if m.Template.Throughput > 0 {
		throughput := sdk.NewManualThroughputProperties(m.Template.Throughput)
		if m.Template.Autoscale {
			throughput = sdk.NewAutoscaleThroughputProperties(m.Template.Throughput)
		}
		options.ThroughputProperties = &throughput
	}
	account, err := m.Client.account(t)
	if err != nil {
		return err
	}
	database, err := account.NewDatabase(t.Database)
	if err != nil {
		return err
	}
	err = m.Client.retryThrottled(ctx, func() error {
		_, err := database.CreateContainer(ctx, properties, options)
		if statusOf(err) != http.StatusNotFound {
			return err
		}
		if _, err := account.CreateDatabase(ctx, sdk.DatabaseProperties{ID: t.Database}, nil); err != nil && statusOf(err) != http.StatusConflict {
			return err
		}
		_, err = database.CreateContainer(ctx, properties, options)
		return err
	})
	if statusOf(err) == http.StatusConflict {
		return nil
	}
	return err
}

// TemplateOf returns a template for containers like a target's: its properties,
// as far as the SDK knows them, its throughput, and its scripts if
// Config.Scripts is set.
func (c *Client) TemplateOf(ctx context.Context, t resolver.Target) (resolver.Template, error) {
	template := resolver.Template{Target: t}
	properties, _, err := c.usage(ctx, t)
	if err != nil {
		return template, err
	}
	text, err := properties.MarshalJSON()
	var members map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return name == "id" || strings.HasPrefix(name, "_") })
	if err == nil {
		template.Definition, err = json.Marshal(members)
	}
	if err != nil {
		return template, fmt.Errorf("the properties of %s: %w", t.Name, err)
	}
	if template.Throughput, template.Autoscale, err = c.throughput(ctx, t); err != nil {
		return template, err
	}
	if c.config.Scripts != nil {
		template.Scripts, err = c.scripts(ctx, t)
	}
	return template, err
}

// throughput reads the throughput of a container, 0 if the container shares its
// database's throughput.
func (c *Client) throughput(ctx context.Context, t resolver.Target) (throughput int32, autoscale bool, err error) {
	container, err := c.container(t)
	if err != nil {
		return 0, false, err
	}
	var response sdk.ThroughputResponse
	err = c.retryThrottled(ctx, func() error {
		response, err = container.ReadThroughput(ctx, nil)
		return err
	})
	if statusOf(err) == http.StatusNotFound {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the throughput of %s: %w", t.Name, err)
	}
	if most, ok := response.ThroughputProperties.AutoscaleMaxThroughput(); ok {
		return most, true, nil
	}
	manual, _ := response.ThroughputProperties.ManualThroughput()
	return manual, false, nil
}

// scripts reads the scripts of a container.
func (c *Client) scripts(ctx context.Context, t resolver.Target) ([]resolver.Script, error) {
	var scripts []resolver.Script
	err := c.retryThrottled(ctx, func() error {
		var err error
		scripts, err = c.config.Scripts.ReadScripts(ctx, t)
		return err
	})
	if err != nil {
		err = fmt.Errorf("read the scripts of %s: %w", t.Name, err)
	}
	return scripts, err
}
