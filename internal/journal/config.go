package journal

import (
	"errors"
	"time"

	"kusto-agent/internal/units"
)

// Config says how much delivery history is kept for audit. What a restart
// needs is kept whatever it says. Start from DefaultConfig.
type Config struct {
	MaxSize units.Size     `yaml:"max_size"` // bytes on disk
	MaxAge  units.Duration `yaml:"max_age"`
}

// DefaultConfig is what holds where the configuration says nothing.
func DefaultConfig() Config {
	return Config{MaxSize: 256 * units.MiB, MaxAge: units.Duration(7 * 24 * time.Hour)}
}

// Validate returns every complaint as a *units.KeyError, joined.
func (c Config) Validate() error {
	var errs []error
	if c.MaxSize < 0 {
		errs = append(errs, units.Bad("max_size", "%v is out of range; want 0 or more", c.MaxSize))
	}
	if c.MaxAge < 0 {
		errs = append(errs, units.Bad("max_age", "%v is out of range; want 0 or more", c.MaxAge))
	}
	return errors.Join(errs...)
}
