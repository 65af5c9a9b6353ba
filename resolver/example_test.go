package resolver_test

import (
	"fmt"
	"log"
	"time"

	"github.com/decandb/decan/resolver"
)

// Spread users over two containers (S159, S199).
func Example() {
	ring, err := resolver.NewRing(resolver.RingConfig{Targets: []resolver.Target{{Name: "users-0"}, {Name: "users-1"}}})
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range []string{"J1", "U4"} {
		fmt.Println(user, "lives in", ring.Owner(user).Name)
	}
	// Output:
	// J1 lives in users-0
	// U4 lives in users-1
}

// Find the users that a legacy Node, Java or Python SDK has placed. The names
// are the links that the SDK was given.
func ExampleLegacyMurmur() {
	ring, err := resolver.NewRing(resolver.LegacyMurmur(
		resolver.Target{Name: "dbs/shop/colls/users-00"}, resolver.Target{Name: "dbs/shop/colls/users-01"},
	))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ring.Owner("J1").Name)
	// Output: dbs/shop/colls/users-01
}

// Place tenants: the large ones have containers of their own, the others share
// two containers.
func ExampleOpen_tenants() {
	state, err := resolver.ParseState([]byte(`{
		"version": 1,
		"key": {"paths": ["/tenant"]},
		"targets": [{"name": "contoso"}, {"name": "shared-0"}, {"name": "shared-1"}],
		"current": {
			"scheme": {"kind": "lookup", "table": [{"values": ["Contoso"], "target": "contoso"}], "default": "shared"},
			"behind": {"shared": {"kind": "ring", "targets": ["shared-0", "shared-1"]}}
		}
	}`))
	if err != nil {
		log.Fatal(err)
	}
	routing, err := resolver.Open(state, resolver.Registry{})
	if err != nil {
		log.Fatal(err)
	}
	for _, document := range []string{`{"id":"1","tenant":"Contoso"}`, `{"id":"2","tenant":"Fabrikam"}`} {
		key, err := routing.Key([]byte(document))
		if err != nil {
			log.Fatal(err)
		}
		target, err := routing.ForWrite(key)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key, "lives in", target.Name)
	}
	// Output:
	// ["Contoso"] lives in contoso
	// ["Fabrikam"] lives in shared-1
}

// Keep the Scandinavian countries together.
func ExampleLookup() {
	north, south := resolver.Target{Name: "scandinavia"}, resolver.Target{Name: "mediterranean"}
	lookup, err := resolver.NewLookup(map[string]resolver.Target{
		"Norway": north, "Denmark": north, "Sweden": north, "Italy": south,
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	read, err := lookup.ForRead(resolver.Keys("Norway", "Sweden"))
	fmt.Println(len(read), read[0].Name, err)
	_, err = lookup.ForWrite("Atlantis")
	fmt.Println(err)
	// Output:
	// 1 scandinavia <nil>
	// no target for the key: Atlantis is not in the table
}

// Create one container per month, and query a few days around the end of a
// month.
func ExampleBuckets() {
	months := resolver.Buckets{Period: resolver.Monthly, Template: resolver.Target{Name: "events-", Container: "events-"}, Ahead: 1}
	day := func(month time.Month, day int) time.Time { return time.Date(2015, month, day, 0, 0, 0, 0, time.UTC) }
	entries, err := months.Entries(day(4, 1), day(5, 20))
	if err != nil {
		log.Fatal(err)
	}
	events, err := resolver.NewRangeFunc(entries, time.Time.Compare, resolver.RangeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	target, err := events.ForWrite(day(4, 14))
	fmt.Println(target.Container, err)
	read, err := events.ForRead(resolver.Between(resolver.HalfOpen(day(4, 28), day(5, 3))))
	for _, t := range read {
		fmt.Println("ask", t.Container)
	}
	fmt.Println(len(events.Targets()), "containers,", err)
	// Output:
	// events-2015-04 <nil>
	// ask events-2015-04
	// ask events-2015-05
	// 3 containers, <nil>
}

// See what a third container would move before moving anything.
func ExampleMovementOf() {
	two := resolver.RingConfig{Targets: []resolver.Target{{Name: "c0"}, {Name: "c1"}}}
	three := resolver.RingConfig{Targets: append(two.Targets, resolver.Target{Name: "c2"})}
	before, err := resolver.NewRing(two)
	if err != nil {
		log.Fatal(err)
	}
	after, err := resolver.NewRing(three)
	if err != nil {
		log.Fatal(err)
	}
	var keys []string
	for i := range 9000 {
		keys = append(keys, fmt.Sprint("J", i))
	}
	moved := resolver.MovementOf(before, after, keys)
	other := moved.Moved - moved.Pairs[[2]string{"c0", "c2"}] - moved.Pairs[[2]string{"c1", "c2"}]
	fmt.Println(moved.Moved > 2500 && moved.Moved < 3500, "about a third moves;", other, "between the old ones")
	// Output: true about a third moves; 0 between the old ones
}
