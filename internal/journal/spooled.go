package journal

import "kusto-agent/internal/record"

// InSpool reads the history of an open journal, on the file system it was opened on,
// like the function of that name. What is not written yet is not in it.
func (j *Journal) InSpool(want func(record.BatchID) bool) (map[record.BatchID]*record.Payload, error) {
	return inSpool(j.o.FS, j.dir, want)
}
