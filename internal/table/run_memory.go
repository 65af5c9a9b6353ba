package table

// mergedRowBytes is the memory of a mergedRow in addition to its key and cells.
const mergedRowBytes = 64

// hold holds memory for the rows of a result without pages: twice as much as they take,
// because they are copied when their memory grows.
func (r *run) hold() error {
	size := len(r.page.Rows) + r.mergedBytes
	switch {
	case size > resultBytesMax:
		return invalid("The result is longer than %d bytes. Ask for pages.", resultBytesMax)
	case size < max(r.held/2, heldFirst) || r.options.Memory == nil || r.options.Size > 0 && r.q.ordered == 0:
		return nil
	}
	step := max(2*heldFirst, r.held)
	if err := r.options.Memory.Hold(step); err != nil {
		return err
	}
	r.held += step
	return nil
}
