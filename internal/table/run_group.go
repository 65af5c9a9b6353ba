package table

import "bytes"

// addToGroup adds the row in the view to its group. A row of another group ends the one
// before.
func (r *run) addToGroup(key []byte) (more bool, err error) {
	if len(r.q.group) > 0 {
		own := r.ownGroup()
		if r.inGroup && !bytes.Equal(own, r.groupKey) {
			if err := r.endGroup(); err != nil || r.more {
				return false, err
			}
			if r.at.perPartition == 0 {
				r.skip = true
				return false, nil
			}
		}
		if !r.inGroup {
			if r.at.limit == 0 {
				r.stop()
				return false, nil
			}
			if r.full() {
				r.more = true
				return false, nil
			}
		}
		r.groupKey = own
	}
	if !r.inGroup {
		r.inGroup = true
		for _, s := range r.selectors {
			s.reset()
		}
	}
	for _, s := range r.selectors {
		if err := s.add(&r.view); err != nil {
			return false, err
		}
	}
	r.groupAt = append(r.groupAt[:0], key...)
	return true, nil
}

// ownGroup returns the key of the group of the row in the view.
func (r *run) ownGroup() (key []byte) {
	for _, c := range r.q.group {
		key = appendCell(key, r.view.at(c).Bytes)
	}
	return key
}

// endGroup puts a group on the page.
func (r *run) endGroup() error {
	r.inGroup = false
	if err := r.emitSelectors(); err != nil {
		return err
	}
	r.returnedRow(r.groupAt)
	return nil
}
