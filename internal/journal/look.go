package journal

import (
	"cmp"
	"fmt"
	"slices"

	"kusto-agent/internal/durable"
	"kusto-agent/internal/record"
)

// Past is a journal as it lies on disk.
type Past struct{ state *state }

// Look reads the journal in dir without changing it. It takes no lock and may run beside
// an open journal; entries that are written meanwhile may be missed. A missing folder is
// an empty journal. The errors are those of Open.
func Look(dir string) (*Past, error) {
	rec, err := recoverState(durable.OS, dir, "")
	if err != nil {
		return nil, fmt.Errorf("read journal %q: %w", dir, err)
	}
	return &Past{rec.state}, nil
}

// InputSeen says whether an input was known.
func (p *Past) InputSeen(name string) bool { return p.state.inputs[name] }

// Files is as in Journal.
func (p *Past) Files(input string) []FileState { return p.state.filesOf(input) }

// filesOf returns all remembered files of an input, sorted by id and generation.
func (s *state) filesOf(input string) []FileState {
	var out []FileState
	for _, name := range s.namesOf(input) {
		v, _ := s.view(name)
		out = append(out, v)
	}
	return out
}

// namesOf returns the identities of all files of an input, sorted by id and generation. (A reused or
// truncated file has several generations.)
func (s *state) namesOf(input string) (all []record.File) {
	for f := range s.files.all.All() {
		if f.k.input.Value() == input {
			all = append(all, f.k.file())
		}
	}
	slices.SortFunc(all, func(a, b record.File) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Generation, b.Generation))
	})
	return all
}

// IsOver reports whether a batch that went to the spool has ended, so that it is not to be sent from
// there. The spool may still have its data.
func (p *Past) IsOver(id record.BatchID) bool {
	return p.state.ended.get(id) != nil
}
