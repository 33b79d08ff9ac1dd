package tail

// tellRead logs why a file is not being read, once, and that it is again.
func (t *Tailer) tellRead(r *reader, err error) {
	t.mu.Lock()
	path := r.path
	r.shown.failed = ""
	if err != nil {
		r.shown.failed = err.Error()
	}
	t.mu.Unlock()
	t.tell(path, err)
}

// complaint is what was last told of a path.
type complaint struct {
	why  string
	scan uint64 // number of the scan it was told in
}

// forgive drops complaints about paths that are no longer there to complain
// about. The caller holds mu.
func (t *Tailer) forgive() {
	for path, c := range t.told {
		if c.scan < t.scanNo && t.byPath[path] == nil {
			delete(t.told, path)
		}
	}
}

// tell logs what is wrong with a path when that changes.
func (t *Tailer) tell(path string, err error) {
	t.mu.Lock()
	was := t.told[path].why
	now := ""
	if err != nil {
		now = err.Error()
		t.told[path] = complaint{now, t.scanNo}
	} else {
		delete(t.told, path)
	}
	t.mu.Unlock()
	if now == was {
		return
	}
	if err != nil {
		t.o.Logger.Warn("file is not being read, trying again", "file", path, "err", err, "fix", fixOf(err))
	} else {
		t.o.Logger.Info("file is being read again", "file", path)
	}
}
