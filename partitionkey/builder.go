package partitionkey

// Builder builds a key level by level, beginning with the first:
//
//	key := partitionkey.NewBuilder().AddString("Microsoft").AddNumber(7).Build()
//
// The zero value is ready to use. A Builder may be used after Build; keys
// already built do not change.
type Builder struct {
	components []Component
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder { return new(Builder) }

// AddString adds a level with a string.
func (b *Builder) AddString(s string) *Builder { return b.add(String(s)) }

// AddNumber adds a level with a number.
func (b *Builder) AddNumber(f float64) *Builder { return b.add(Number(f)) }

// AddBool adds a level with a boolean.
func (b *Builder) AddBool(v bool) *Builder { return b.add(Bool(v)) }

// AddNull adds a level with null.
func (b *Builder) AddNull() *Builder { return b.add(Null()) }

// AddNone adds a level for documents that lack the property.
func (b *Builder) AddNone() *Builder { return b.add(Undefined()) }

// Build returns the key of the levels added so far.
func (b *Builder) Build() Key { return NewKey(b.components...) }

func (b *Builder) add(c Component) *Builder {
	b.components = append(b.components, c)
	return b
}
