package storage

// Reading reports whether the store can be read only, because the disk was too full
// to open it otherwise. Apply then answers InsufficientStorage and has no effect.
// Close it and open it again when there is room.
func (s *Store) Reading() bool { return s.reading }
