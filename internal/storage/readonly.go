package storage

// ReadOnly reports whether the store can only be read, because the disk was too full to
// open it for writing. Apply then returns InsufficientStorage and has no effect. Close
// the store and open it again when the disk has space.
func (s *Store) ReadOnly() bool { return s.readOnly }
