package storage

// Logged reports whether the closed store in dir has a log with batches, which means
// that it was not closed after its last write.
func (p *Pool) Logged(dir string) (bool, error) {
	files := p.options.FS
	names, err := files.List(dir)
	if err != nil {
		return false, err
	}
	for _, base := range names {
		if _, ok := logNumber(base); !ok {
			continue
		}
		info, err := files.Stat(files.PathJoin(dir, base))
		if err != nil {
			return false, err
		}
		if info.Size() > emptyLogMax {
			return true, nil
		}
	}
	return false, nil
}
