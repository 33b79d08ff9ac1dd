package tail

import "kusto-agent/tail/internal/settings"

// What is said of an input, and what is wrong with it.
type (
	Input        = settings.Input
	InputConfig  = settings.InputConfig
	Multiline    = settings.Multiline
	Time         = settings.Time
	TimeError    = settings.TimeError
	KeyFileError = settings.KeyFileError
)

// DefaultInputConfig returns the values of the keys that the configuration of an input does not
// set.
func DefaultInputConfig() InputConfig { return settings.DefaultInputConfig() }

// DefaultMultiline is what holds where multiline is given and says nothing.
func DefaultMultiline() Multiline { return settings.DefaultMultiline() }

// DefaultTime is what holds where time is given and says nothing.
func DefaultTime() Time { return settings.DefaultTime() }
