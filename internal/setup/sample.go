package setup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/format"
	"kusto-agent/internal/pipeline"
	"kusto-agent/internal/schema"
	"kusto-agent/internal/units"
)

// How much of the files of an input a sample is.
const (
	sampleBytes   = 1 << 20
	sampleRecords = 10_000
)

// takeSample reads the beginning of the newest files of an input as the agent does, and returns a
// sample of the records that it would send. Nothing is sent or written. It fails if the files show
// no columns.
func takeSample(ctx context.Context, cfg *config.Config, in *config.Input) (*schema.Sample, error) {
	files, err := pipeline.Newest(in)
	if err != nil {
		return nil, err
	}
	sample := &schema.Sample{Format: in.Format, Header: in.Header == "skip", Texts: in.HasTexts()}
	sample.Expect(in.ExpectedColumns())
	why := errors.New("no file matches its paths")
	for _, file := range files {
		text, lacks, err := beginning(ctx, cfg, in, file)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		case text == nil:
			why = lacks
			continue
		}
		if err := sample.Add(text, sampleBytes/len(files), sampleRecords/len(files)); err != nil {
			return nil, fmt.Errorf("%q: %w", file, err)
		}
	}
	if sample.Records == 0 && len(sample.Fields()) == 0 {
		return nil, fmt.Errorf("there is no sample to tell its columns from: %w", why)
	}
	return sample, nil
}

// beginning returns what the agent would send of the beginning of a file, with the header if the
// input skips one. If there is nothing, text is nil and lacks says why; err is a failure to read.
// Rules are applied to the rows only, and not to the header that is put before them.
func beginning(ctx context.Context, cfg *config.Config, in *config.Input, file string) (text []byte, lacks, err error) {
	one := fromTheBeginning(in, file)
	if set, err := in.NewRules(); err != nil || set == nil || in.Header != "skip" {
		one.Header = "none"
		return first(ctx, cfg, one)
	}
	// Without rules and with the header as a record, to read the header line; the rows come from one.
	header := *one
	header.Header = "none"
	header.Keep, header.Drop, header.Sample = nil, nil, nil
	header.Redact, header.Rename, header.Remove, header.Add = nil, nil, nil, nil
	if text, lacks, err = first(ctx, cfg, &header); text == nil {
		return nil, lacks, err
	}
	scan, err := format.New(format.Options{Format: in.Format, MaxRecord: len(text) + format.MinRecord})
	if err != nil {
		return nil, nil, err
	}
	rows, _, err := first(ctx, cfg, one)
	return append(text[:scan.Split(text, 1)], rows...), nil, err
}

// first returns the text of the first payload that the agent would send for an input. If there is none,
// text is nil and lacks says why, for example that no file is there. err is a failure to read.
func first(ctx context.Context, cfg *config.Config, in *config.Input) (text []byte, lacks, err error) {
	c := pipeline.NewPeek(cfg, nil)
	p, err := c.First(ctx, in)
	switch {
	case err != nil:
		return nil, nil, err
	case p == nil:
		return nil, errors.New(c.Why()), nil
	}
	if text, err = pipeline.Raw(p); err != nil {
		err = fmt.Errorf("%q: %w", in.Paths[0], err)
	}
	return text, nil, err
}

// fromTheBeginning returns a copy of the input that reads only this file, all of it from the
// beginning, whatever its age.
func fromTheBeginning(in *config.Input, file string) *config.Input {
	one := *in
	one.Paths, one.Exclude = []string{config.EscapePattern(file)}, nil
	one.StartAt, one.IgnoreOlder = "beginning", 0
	one.RotateQuiet = units.Duration(10 * time.Millisecond)
	return &one
}
