package tail

// About how many bytes of the heap a file takes, measured with 60,000 files of one line
// in one folder: with its reader, its place in the journal and in the indexes that find it,
// and where nobody reads it any more.
const (
	bytesRead       = 430
	bytesRemembered = 300
)

// weighStep is the least change that is told.
const weighStep = 1 << 20

// weigh estimates how much memory the facts about files take, and calls Known if this has changed
// enough since the last call. The goroutine that discovers calls it.
func (t *Tailer) weigh() {
	if t.o.Known == nil {
		return
	}
	t.mu.Lock()
	read, all := t.files(), 0
	for in := range t.everyInput {
		all += in.known.Len()
	}
	t.mu.Unlock()
	bytes := int64(read)*bytesRead + int64(max(all-read, 0))*bytesRemembered
	if change := bytes - t.weighed; change >= weighStep || change <= -weighStep {
		t.weighed = bytes
		t.o.Known(bytes)
	}
}
