package check

import (
	"context"
	"fmt"

	"kusto-agent/internal/config"
	"kusto-agent/internal/pipeline"
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
	rejected := c.Rejected()
	if s.quarantined = len(rejected); s.quarantined > 0 {
		r := rejected[0]
		s.first = fmt.Sprintf("offset %d of %s, %s: %s", r.Offset, r.Path, r.Reason, r.Message)
	}
	if p == nil {
		s.none = c.Why()
		return nil
	}
	s.body, err = pipeline.Raw(p)
	return err
}
