package check

import (
	"context"

	"kusto-agent/internal/config"
)

// sampled is the most records of an input whose fields are inferred.
const sampled = 200

// sample is what an input would send next; nil if that could not be found.
func (r *run) sample(ctx context.Context, in *config.Input) *Sample {
	if s, done := r.samples[in.Name]; done {
		return s
	}
	s, err := r.Sample(ctx, r.cfg, in)
	if err != nil {
		s = &Sample{None: err.Error()}
	}
	r.samples[in.Name] = s
	return s
}
