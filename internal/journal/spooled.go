package journal

import (
	"slices"

	"kusto-agent/internal/record"
)

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

// SpoolHas records which segments the spool has: sorted numbers, which the journal keeps.
// A later start compares them with what is there, so that one that was taken away is
// missed whatever went with it. It does not wait for the disk; what is told later is
// written behind it.
func (j *Journal) SpoolHas(segments []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.disk.Closed() || slices.Equal(j.state.spool, segments) {
		return
	}
	e := &Entry{Kind: SpoolHas, Segments: segments}
	j.state.apply(e)
	j.noteApplied(e)
}
