package config

import (
	"path/filepath"

	"kusto-agent/batcher"
	"kusto-agent/internal/record"
	"kusto-agent/tail"
)

// Limits returns the batch settings of the input in the form that the batcher takes.
func (in *Input) Limits() batcher.Limits {
	return batcher.Limits{
		MaxBytes: int(in.Batch.MaxSize), MaxRecords: in.Batch.MaxRecords, MaxWait: in.Batch.MaxWait.D(),
		Gzip: in.Compression == "gzip", Level: in.Batch.GzipLevel, Encoder: in.Batch.GzipEncoder,
	}
}

// Tail returns the settings of the input in the form that the tailer, which reads the files, takes.
func (in *Input) Tail() tail.Input {
	return tail.Input{
		InputConfig: in.InputConfig, Route: in.Route(),
		MaxSize: int(in.Batch.MaxSize), MaxRecords: in.Batch.MaxRecords, MaxWait: in.Batch.MaxWait.D(),
	}
}

// Routes returns the routes of all inputs (where their records go) with the batch settings of each.
// Inputs with the same route have the same batch settings, which Load has checked.
func (c *Config) Routes() map[record.Route]batcher.Limits {
	routes := make(map[record.Route]batcher.Limits)
	for i := range c.Inputs {
		routes[c.Inputs[i].Route()] = c.Inputs[i].Limits()
	}
	return routes
}

// Tails returns the settings of all inputs in the form that the tailer, which reads the files,
// takes.
func (c *Config) Tails() []tail.Input {
	var inputs []tail.Input
	for i := range c.Inputs {
		inputs = append(inputs, c.Inputs[i].Tail())
	}
	return inputs
}

// Folders are those that the agent writes to, which no input reads.
func (c *Config) Folders() []string { return []string{Absolute(c.StateDir), Absolute(c.Spool.Dir)} }

// Absolute returns path as an absolute path, or unchanged if the working directory does not exist any
// more.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
