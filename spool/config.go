package spool

import (
	"errors"

	"kusto-agent/internal/units"
)

// Config says where payloads wait that cannot be sent, and how many. Start
// from DefaultConfig.
type Config struct {
	Dir      string         `yaml:"dir"`       // empty: spool in the state folder
	MaxSize  units.Size     `yaml:"max_size"`  // bytes on disk; 0: no spool
	MaxAge   units.Duration `yaml:"max_age"`   // older payloads are dropped and counted; 0: kept until sent
	MinFree  units.Size     `yaml:"min_free"`  // bytes of the disk that are left free
	WhenFull string         `yaml:"when_full"` // block or drop_oldest
}

// DefaultConfig returns the settings that apply to every key that the configuration does not set.
func DefaultConfig() Config {
	return Config{MaxSize: 10 * units.GiB, MinFree: units.GiB, WhenFull: "block"}
}

// Validate returns all faults, each a *units.KeyError, joined with errors.Join.
func (c Config) Validate() error {
	var errs []error
	if c.MaxSize < 0 {
		errs = append(errs, units.Bad("max_size", "%v is out of range; want 0 (no spool) or more", c.MaxSize))
	}
	return errors.Join(append(errs, units.OneOf("when_full", c.WhenFull, "block", "drop_oldest"))...)
}
