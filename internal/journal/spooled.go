package journal

import "kusto-agent/internal/record"

// InSpool reads the history of an open journal, on the file system it was opened on,
// like the function of that name. What is not written yet is not in it but for the last
// attempts, and but for the ends of batches, which are left out.
func (j *Journal) InSpool(want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error) {
	all, err := inSpool(j.o.FS, j.dir, want)
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, p := range all {
		if _, ended := j.state.ended.get(id); ended {
			delete(all, id)
		}
		attempt, _ := j.state.replays.get(id)
		tried(p, attempt)
	}
	return all, err
}
