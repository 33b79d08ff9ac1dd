package batcher

import (
	"errors"
	"time"

	"kusto-agent/internal/units"
)

// MaxSize is the most that batch.max_size may be, in bytes before gzip. One
// streaming request takes 4 MB by its documentation; 10 MB is beyond the limit
// of every service known.
const MaxSize = 10 * units.MB

// Config says which records leave together. Start from DefaultConfig.
type Config struct {
	MaxSize     units.Size     `yaml:"max_size"`     // bytes before gzip
	MaxRecords  int            `yaml:"max_records"`  // 0: by size and age alone
	MaxWait     units.Duration `yaml:"max_wait"`     // a record waits no longer than this for company
	GzipLevel   int            `yaml:"gzip_level"`   // 1, the fastest, to 9, the smallest
	GzipEncoder Encoder        `yaml:"gzip_encoder"` // auto or klauspost
}

// DefaultConfig returns the settings that apply to every key that the configuration does not set.
func DefaultConfig() Config {
	return Config{
		MaxSize:     4 * units.MB,
		MaxWait:     units.Duration(time.Second),
		GzipLevel:   1,
		GzipEncoder: Auto,
	}
}

// Validate returns an error for each setting that is out of range, a *units.KeyError; they are
// joined with errors.Join.
func (c Config) Validate() error {
	var errs []error
	if c.MaxSize < 1 || c.MaxSize > MaxSize {
		errs = append(errs, units.Bad("max_size", "%v is out of range; want 1 byte to %v before gzip; the service takes 4MB unless it was set otherwise", c.MaxSize, MaxSize))
	}
	if c.MaxRecords < 0 {
		errs = append(errs, units.Bad("max_records", "%d is out of range; want 0 (no limit) or more", c.MaxRecords))
	}
	if c.GzipLevel < 1 || c.GzipLevel > 9 {
		errs = append(errs, units.Bad("gzip_level", "%d is out of range; want 1 (fastest) to 9 (smallest), or compression: none on the input", c.GzipLevel))
	}
	errs = append(errs, units.OneOf("gzip_encoder", string(c.GzipEncoder), string(Auto), string(Klauspost)))
	return errors.Join(errs...)
}
