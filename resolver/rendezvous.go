package resolver

import (
	"fmt"
	"math"
	"slices"
)

// Rendezvous assigns a key to the target with the highest score for it. It needs
// no virtual nodes and distributes exactly by weight. A look-up computes one
// score per target, so it suits up to a few dozen targets.
type Rendezvous struct {
	targets  []Target
	hash     Hash
	names    []uint64 // the hash of each target's name
	weighted bool     // some weight is not 1
}

// NewRendezvous builds the resolver. A nil hash means XXHash64. The error is an
// ErrConfig.
func NewRendezvous(targets []Target, hash Hash) (*Rendezvous, error) {
	if err := checkTargets(targets); err != nil {
		return nil, err
	}
	if hash == nil {
		hash = XXHash64
	}
	r := &Rendezvous{targets: slices.Clone(targets), hash: hash, names: make([]uint64, len(targets))}
	for i, t := range targets {
		sum := hash.Sum(t.Name)
		r.names[i] = mix(sum.High, sum.Low)
		r.weighted = r.weighted || t.weight() != 1
	}
	return r, nil
}

// Owner returns the target of a key. It never fails and does not allocate if the
// hash does not. The target belongs to the resolver and must not be changed.
func (r *Rendezvous) Owner(key string) *Target { return &r.targets[r.owner(key)] }

func (r *Rendezvous) owner(key string) int {
	sum := r.hash.Sum(key)
	point := mix(sum.High, sum.Low)
	if r.weighted {
		return r.heaviest(point)
	}
	best, score := 0, uint64(0)
	for i, name := range r.names {
		s := mix(point, name)
		if s > score || s == score && r.targets[i].Name < r.targets[best].Name {
			best, score = i, s
		}
	}
	return best
}

// heaviest is owner for weighted targets: with a draw u in (0, 1) per target,
// the probability that a target has the largest -weight/ln(u) is proportional to
// its weight.
func (r *Rendezvous) heaviest(point uint64) int {
	best, score := 0, math.Inf(-1)
	for i, name := range r.names {
		u := (float64(mix(point, name)>>11) + 0.5) / (1 << 53)
		s := -r.targets[i].weight() / math.Log(u)
		if s > score || s == score && r.targets[i].Name < r.targets[best].Name {
			best, score = i, s
		}
	}
	return best
}

// ForWrite returns the key's owner.
func (r *Rendezvous) ForWrite(key string) (Target, error) { return *r.Owner(key), nil }

// ForRead returns the owners of the selected keys. Hashing does not keep the
// order of keys, so the keys of an interval may be in any target.
func (r *Rendezvous) ForRead(selection Selection[string]) ([]Target, error) {
	return readHashed(selection, r.targets, r.owner), nil
}

// Targets returns the targets in the given order.
func (r *Rendezvous) Targets() []Target { return slices.Clone(r.targets) }

// Jump distributes keys over numbered targets almost evenly and without a table.
// The order of the targets matters: targets can be added or removed without
// moving other keys only at the end of the list. It does not support weights.
type Jump struct {
	targets []Target
	hash    Hash
}

// NewJump builds the resolver. A nil hash means XXHash64. The error is an
// ErrConfig, also for a weight other than 1.
func NewJump(targets []Target, hash Hash) (*Jump, error) {
	if err := checkTargets(targets); err != nil {
		return nil, err
	}
	for _, t := range targets {
		if t.weight() != 1 {
			return nil, fmt.Errorf("%w: target %q has the weight %v, but jump hashing does not support weights", ErrConfig, t.Name, t.Weight)
		}
	}
	if hash == nil {
		hash = XXHash64
	}
	return &Jump{slices.Clone(targets), hash}, nil
}

func (j *Jump) owner(key string) int {
	sum := j.hash.Sum(key)
	return JumpBucket(mix(sum.High, sum.Low), len(j.targets))
}

// Owner returns the target of a key. It never fails and does not allocate if the
// hash does not. The target belongs to the resolver and must not be changed.
func (j *Jump) Owner(key string) *Target { return &j.targets[j.owner(key)] }

// ForWrite returns the key's owner.
func (j *Jump) ForWrite(key string) (Target, error) { return *j.Owner(key), nil }

// ForRead returns the owners of the selected keys. Hashing does not keep the
// order of keys, so the keys of an interval may be in any target.
func (j *Jump) ForRead(selection Selection[string]) ([]Target, error) {
	return readHashed(selection, j.targets, j.owner), nil
}

// Targets returns the targets in the given order.
func (j *Jump) Targets() []Target { return slices.Clone(j.targets) }

// JumpBucket returns the bucket of a hashed key, from 0 to buckets-1, as Lamping
// and Veach defined it. Fewer than one bucket counts as one.
func JumpBucket(key uint64, buckets int) int {
	bucket, next := int64(-1), int64(0)
	for next < int64(max(buckets, 1)) {
		bucket = next
		key = key*2862933555777941757 + 1
		next = int64(float64(bucket+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(bucket)
}
