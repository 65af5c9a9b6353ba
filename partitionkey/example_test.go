package partitionkey_test

import (
	"encoding/json"
	"fmt"

	"github.com/decandb/decan/partitionkey"
)

// perTenant is the definition that the examples share.
func perTenant() partitionkey.Definition {
	return partitionkey.Definition{
		Paths:   []string{"/tenantId", "/userId", "/sessionId"},
		Kind:    partitionkey.KindMultiHash,
		Version: 2,
	}
}

// A key is hashed level by level, so keys with the same first levels have hashes
// with the same beginning.
func ExampleDefinition_Hash() {
	container := perTenant()
	for _, header := range []string{
		`["Contoso","alice","session-1"]`,
		`["Contoso","alice","session-2"]`,
	} {
		key, err := partitionkey.Parse(header)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(container.Hash(key))
	}
	// Output:
	// 23C3EC20CBEA798430F192F7BB985CAE35EAEE8D6020FFCABDE75797DFE27C340A3BDDB11CDF477A9B91690766B29E29
	// 23C3EC20CBEA798430F192F7BB985CAE35EAEE8D6020FFCABDE75797DFE27C3411B67BECCAE8A37C155F78067B1B026D
}

// The first levels of a hierarchical key denote one contiguous range.
func ExampleDefinition_Prefix() {
	container := perTenant()
	tenant := partitionkey.NewKey(partitionkey.String("Contoso"))
	reach, err := container.Prefix(tenant)
	if err != nil {
		fmt.Println(err)
		return
	}
	alice := tenant.Append(partitionkey.String("alice"), partitionkey.String("session-1"))
	fmt.Println(reach)
	fmt.Println(reach.Contains(container.Hash(alice)))
	// Output:
	// [23C3EC20CBEA798430F192F7BB985CAE,23C3EC20CBEA798430F192F7BB985CAEFF)
	// true
}

func ExampleBuilder() {
	key := partitionkey.NewBuilder().
		AddString("Microsoft").
		AddNumber(42).
		AddNone(). // the property is missing in the document
		Build()
	fmt.Println(key)
	// Output:
	// ["Microsoft",42,{}]
}

func ExampleDefinition_Validate() {
	var container partitionkey.Definition
	text := `{"paths":["/tenantId","/userId"],"kind":"Hash","version":2}`
	if err := json.Unmarshal([]byte(text), &container); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(container.Validate())
	// Output:
	// Too many partition key paths (2) specified. A maximum of 1 is allowed for the kind 'Hash'. Use kind 'MultiHash' with version 2 for a hierarchical partition key.
}

// A new container is divided evenly at the first level.
func ExampleDefinition_Divide() {
	for _, r := range perTenant().Divide(3) {
		fmt.Println(r)
	}
	// Output:
	// [,15555555555555555555555555555555)
	// [15555555555555555555555555555555,2AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA)
	// [2AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA,FF)
}

// A map of ranges finds the partition of a key, and those of a prefix.
func ExampleRangeMap() {
	container := perTenant()
	var entries []partitionkey.Entry[string]
	for i, r := range container.Divide(4) {
		entries = append(entries, partitionkey.Entry[string]{Range: r, Value: fmt.Sprint("partition ", i)})
	}
	partitions, err := partitionkey.NewRangeMap(entries)
	if err != nil {
		fmt.Println(err)
		return
	}
	key := partitionkey.NewBuilder().AddString("Contoso").AddString("alice").AddString("session-1").Build()
	fmt.Println(partitions.Locate(container.Hash(key)).Value)

	reach, err := container.Prefix(partitionkey.NewKey(partitionkey.String("Contoso")))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, entry := range partitions.Overlapping(reach) {
		fmt.Println("asking", entry.Value)
	}
	// Output:
	// partition 2
	// asking partition 2
}

// A split replaces one range of a map by two.
func ExampleRangeMap_Replace() {
	container := perTenant()
	whole := partitionkey.Full()
	partitions, err := partitionkey.NewRangeMap([]partitionkey.Entry[string]{{Range: whole, Value: "parent"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	middle := container.Middle(whole)
	_, err = partitions.Replace([]partitionkey.Range{whole}, []partitionkey.Entry[string]{
		{Range: partitionkey.Range{Min: whole.Min, Max: middle}, Value: "left child"},
	})
	fmt.Println(err)
	partitions, err = partitions.Replace([]partitionkey.Range{whole}, []partitionkey.Entry[string]{
		{Range: partitionkey.Range{Min: whole.Min, Max: middle}, Value: "left child"},
		{Range: partitionkey.Range{Min: middle, Max: whole.Max}, Value: "right child"},
	})
	fmt.Println(partitions.Len(), err)
	// Output:
	// replace [[,FF)]: gap: [1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF,FF) is not covered
	// 2 <nil>
}
