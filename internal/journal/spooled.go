package journal

import (
	"slices"

	"kusto-agent/internal/record"
)

// InSpool is the function InSpool for an open journal: it returns the batches that went to the spool
// and have not ended. A batch that went there in an entry that is not written yet is missing; ends
// and attempts are all taken into account.
func (j *Journal) InSpool(want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error) {
	all, err := inSpool(j.o.FS, j.dir, want)
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, p := range all {
		if j.state.ended.get(id) != nil {
			delete(all, id)
		}
		if last := j.state.replays.get(id); last != nil {
			tried(p, last.attempt)
		}
	}
	return all, err
}

// SpoolHas records the numbers of the segments in the spool, sorted; the journal keeps the
// slice. The next start compares them with the folder of the spool, and so notices a
// segment that was removed. SpoolHas does not wait for the disk.
func (j *Journal) SpoolHas(segments []uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.disk.Closed() || slices.Equal(j.state.spool, segments) {
		return
	}
	e := &Entry{Kind: SpoolHas, Segments: segments, At: j.o.Now()}
	j.state.apply(e)
	j.put(&op{entry: e, frame: e.frame(), applied: true})
}
