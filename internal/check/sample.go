package check

import (
	"context"
	"fmt"
	"os"
	"slices"

	"kusto-agent/internal/config"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/record"
)

// sampled is the most records of an input whose fields are inferred.
const sampled = 200

// sample is the beginning of what an input would send next.
type sample struct {
	body        []byte // records as they would be sent, before gzip
	quarantined int    // records before its end that would go to quarantine
	first       string // the first of them: where it is and what is wrong with it
	none        string // why there is nothing; empty: there is
}

// sample returns the records that an input would send next, read once and then kept. If they cannot
// be read, its field none says why.
func (r *run) sample(ctx context.Context, in *config.Input) *sample {
	s := r.samples[in.Name]
	if s == nil {
		s = new(sample)
		if err := s.read(ctx, r.cfg, in); err != nil {
			s = &sample{none: err.Error()}
		}
		r.samples[in.Name] = s
	}
	return s
}

// read fills in the sample with the first batch after what the journal says was sent, and with what
// would go to quarantine before its end. If there is no batch, s.none says why. Nothing is sent or
// written.
func (s *sample) read(ctx context.Context, cfg *config.Config, in *config.Input) error {
	past, err := pipeline.Past(cfg)
	if err != nil {
		return err
	}
	c := pipeline.NewPeek(cfg, past)
	p, err := c.First(ctx, in)
	if err != nil {
		return err
	}
	seen := c.Rejected()
	rejected := slices.DeleteFunc(slices.Clone(seen), isUnfinished)
	if s.quarantined = len(rejected); s.quarantined > 0 {
		r := rejected[0]
		s.first = fmt.Sprintf("offset %d of %s, %s: %s", r.Offset, r.Path, r.Reason, r.Message)
	}
	switch {
	case p == nil && len(seen) > 0 && len(rejected) == 0:
		s.none = fmt.Sprintf("the only record, at offset %d of %s, has no line end yet", seen[0].Offset, seen[0].Path)
		return nil
	case p == nil:
		s.none = c.Why()
		return nil
	}
	s.body, err = pipeline.Raw(p)
	return err
}

// isUnfinished reports whether a malformed record is the last of its file and has no line end: it may
// be still being written, and the agent waits for its end.
func isUnfinished(r record.Rejected) bool {
	end := r.Offset + r.Length
	st, err := os.Stat(r.Path)
	if err != nil || !st.Mode().IsRegular() || st.Size() != end || r.Length < 2 || r.Reason != record.Malformed {
		return false
	}
	f, err := os.Open(r.Path)
	if err != nil {
		return false
	}
	defer f.Close()
	var last [2]byte // a line end, or one in UTF-16
	_, err = f.ReadAt(last[:], end-2)
	return err == nil && last[1] != '\n' && last != [2]byte{'\n', 0}
}
