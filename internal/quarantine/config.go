package quarantine

import (
	"errors"

	"kusto-agent/internal/units"
)

// Config says how much is kept of what was refused. Start from DefaultConfig.
type Config struct {
	MaxSize  units.Size `yaml:"max_size"`  // bytes on disk
	WhenFull string     `yaml:"when_full"` // block: what meets a bad record waits for a person; drop_oldest: the oldest files go, counted
}

// DefaultConfig is what holds where the configuration says nothing.
func DefaultConfig() Config {
	return Config{MaxSize: units.GiB, WhenFull: "block"}
}

// Validate returns all mistakes in the settings, each as a *units.KeyError, joined into
// one error.
func (c Config) Validate() error {
	var errs []error
	if c.MaxSize <= 0 {
		errs = append(errs, units.Bad("max_size", "%v is out of range; a refused record must have somewhere to go, so want more than 0", c.MaxSize))
	}
	return errors.Join(append(errs, units.OneOf("when_full", c.WhenFull, "block", "drop_oldest"))...)
}
