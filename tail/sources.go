package tail

import (
	"errors"
	"fmt"

	"kusto-agent/record"
)

// Restore gives records of a payload the bytes they have in their files, where
// the payload does not tell them: it was parsed or decoded. A record whose bytes
// can not be had any more keeps what was sent, and the error says why.
func (t *Tailer) Restore(p *record.Payload, recs []record.Rejected) error {
	if p.Shaping&record.Reshaped == 0 {
		return nil
	}
	files := make(map[record.File]source)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	bad := make(map[record.File]error)
	for _, x := range p.Cover {
		if err := t.openSource(files, x); err != nil {
			bad[x.File] = fmt.Errorf("read %v %v: %w", x.File, x.Span, err)
		}
	}
	for i := range recs {
		r := &recs[i]
		if f := files[r.File]; f != nil && bad[r.File] == nil {
			data := make([]byte, r.Length)
			if _, err := readFull(f, data, r.Offset); err != nil {
				bad[r.File] = fmt.Errorf("read %v at %d: %w", r.File, r.Offset, err)
				continue
			}
			r.Data = data
		}
	}
	var all []error
	for _, err := range bad {
		all = append(all, err)
	}
	return errors.Join(all...)
}
