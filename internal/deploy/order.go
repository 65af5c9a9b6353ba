package deploy

import (
	"container/heap"
	"strings"

	"github.com/decandb/decan/internal/deploy/expression"
)

// order returns the resources to deploy, each after those that it needs. Where the
// template leaves the order open, owners come before what they own, and otherwise the
// order is that of the template.
func (x *expander) order() ([]*Resource, error) {
	needs := make([][]int, len(x.nodes))
	for i, e := range x.nodes {
		e.place = i
	}
	add := func(from, to *entry) {
		if from != to {
			needs[from.place] = append(needs[from.place], to.place)
		}
	}
	for _, e := range x.nodes {
		for _, other := range e.needs {
			start := e
			if e.nested != nil { // The resources inside begin after it, too.
				start = e.nested.begin
			}
			add(start, other)
		}
		if e.nested == nil {
			continue
		}
		add(e, e.nested.begin)
		for _, inner := range e.nested.entries {
			add(e, inner)
			if inner.nested != nil {
				add(inner.nested.begin, e.nested.begin)
			} else {
				add(inner, e.nested.begin)
			}
		}
	}
	if circle := cycle(needs); circle >= 0 {
		e := x.nodes[circle]
		for e.node == nil { // The beginning of a nested template.
			e = x.nodes[needs[e.place][0]]
		}
		return nil, failAt(e.node, "Circular dependency detected on resource: '%s'."+seeSyntax, e.ID)
	}
	x.owners(needs)
	sorted := sortNodes(needs, func(i int) int { return strings.Count(x.nodes[i].ID, "/") })
	return x.collect(sorted, needs), nil
}

// owners adds that a resource needs its owner, unless the owner needs the resource.
func (x *expander) owners(needs [][]int) {
	byID := map[string]int{}
	for i, e := range x.nodes {
		if e.deployed() {
			byID[strings.ToLower(e.ID)] = i
		}
	}
	for i, e := range x.nodes {
		if !e.deployed() {
			continue
		}
		id := strings.ToLower(e.ID)
		for cut := 0; cut >= 0; {
			if cut = strings.LastIndexByte(id, '/'); cut >= 0 {
				id = id[:cut]
			}
			if owner, found := byID[id]; found && owner != i && !reaches(needs, owner, i) {
				needs[i] = append(needs[i], owner)
				break
			}
		}
	}
}

// reaches reports whether a node needs another one, however indirectly.
func reaches(needs [][]int, from, to int) bool {
	seen := make([]bool, len(needs))
	list := []int{from}
	for len(list) > 0 {
		i := list[len(list)-1]
		list = list[:len(list)-1]
		if i == to {
			return true
		}
		if !seen[i] {
			seen[i] = true
			list = append(list, needs[i]...)
		}
	}
	return false
}

// cycle returns a node that needs itself, or -1.
func cycle(needs [][]int) int {
	if len(sortNodes(needs, func(int) int { return 0 })) == len(needs) {
		return -1
	}
	for i := range needs {
		for _, next := range needs[i] {
			if reaches(needs, next, i) {
				return i
			}
		}
	}
	return -1
}

// ready is a queue of nodes by rank, then by number.
type ready struct {
	nodes []int
	rank  func(int) int
}

func (r *ready) Len() int { return len(r.nodes) }
func (r *ready) Less(i, j int) bool {
	a, b := r.rank(r.nodes[i]), r.rank(r.nodes[j])
	return a < b || a == b && r.nodes[i] < r.nodes[j]
}
func (r *ready) Swap(i, j int) { r.nodes[i], r.nodes[j] = r.nodes[j], r.nodes[i] }
func (r *ready) Push(v any)    { r.nodes = append(r.nodes, v.(int)) }
func (r *ready) Pop() any {
	last := r.nodes[len(r.nodes)-1]
	r.nodes = r.nodes[:len(r.nodes)-1]
	return last
}

// sortNodes returns the nodes in an order in which each follows what it needs; fewer, if
// there is a cycle.
func sortNodes(needs [][]int, rank func(int) int) []int {
	missing := make([]int, len(needs))
	neededBy := make([][]int, len(needs))
	for i, list := range needs {
		missing[i] = len(list)
		for _, other := range list {
			neededBy[other] = append(neededBy[other], i)
		}
	}
	queue := &ready{rank: rank}
	for i, n := range missing {
		if n == 0 {
			queue.nodes = append(queue.nodes, i)
		}
	}
	heap.Init(queue)
	var out []int
	for queue.Len() > 0 {
		i := heap.Pop(queue).(int)
		out = append(out, i)
		for _, next := range neededBy[i] {
			if missing[next]--; missing[next] == 0 {
				heap.Push(queue, next)
			}
		}
	}
	return out
}

// collect returns the resources of sorted nodes. What a resource needs is given by
// positions of resources, so that needed points of the order stand for what they need.
func (x *expander) collect(sorted []int, needs [][]int) []*Resource {
	var out []*Resource
	position := map[int]int{}
	resolved := make([][]int, len(x.nodes))
	for _, i := range sorted {
		e := x.nodes[i]
		seen := map[int]bool{}
		var list []int
		for _, other := range needs[i] {
			targets := resolved[other]
			if p, is := position[other]; is {
				targets = []int{p}
			}
			for _, p := range targets {
				if !seen[p] {
					seen[p] = true
					list = append(list, p)
				}
			}
		}
		resolved[i] = list
		if !e.deployed() {
			continue
		}
		position[i] = len(out)
		out = append(out, &Resource{
			ID: e.ID, Type: e.Type, Name: e.Name, APIVersion: e.APIVersion, Symbol: e.symbol,
			Body: e.body, Needs: list, File: e.node.File, Line: e.node.Line, Column: e.node.Column, env: e.env(expression.AllowReference),
		})
	}
	return out
}
