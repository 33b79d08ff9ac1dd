package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/units"
)

// How much of the files of an input a sample is.
const (
	sampleBytes   = 1 << 20
	sampleRecords = 10_000
)

// takeSample reads the beginning of the newest files of an input as the agent
// does, and tells what records it would send. Nothing is sent or written.
func takeSample(ctx context.Context, cfg *config.Config, in *config.Input) (*schema.Sample, error) {
	files, err := pipeline.Newest(in)
	if err != nil {
		return nil, err
	}
	sample := &schema.Sample{Format: in.Format, Header: in.Header == "skip", Texts: in.HasTexts()}
	sample.Expect(in.ExpectedColumns())
	why := errors.New("no file matches its paths")
	for _, file := range files {
		c := pipeline.NewPeek(cfg, nil)
		p, err := c.First(ctx, fromTheBeginning(in, file))
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		case p == nil:
			why = errors.New(c.Why())
			continue
		}
		text, err := pipeline.Raw(p)
		if err == nil {
			err = sample.Add(text, sampleBytes/len(files), sampleRecords/len(files))
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", file, err)
		}
	}
	if sample.Records == 0 && len(sample.Fields()) == 0 {
		return nil, fmt.Errorf("there is no sample to tell its columns from: %w", why)
	}
	return sample, nil
}

// fromTheBeginning is an input for one of its files, all of it.
func fromTheBeginning(in *config.Input, file string) *config.Input {
	one := *in
	one.Paths, one.Exclude = []string{config.EscapePattern(file)}, nil
	one.StartAt, one.IgnoreOlder, one.Header = "beginning", 0, "none"
	one.RotateQuiet = units.Duration(10 * time.Millisecond)
	return &one
}
