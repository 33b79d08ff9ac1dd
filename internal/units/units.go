// Package units reads sizes and durations exactly as the configuration writes
// them, and writes them so that they read back the same. It also has the words
// in which a room says what is wrong with one of its settings, and those of a number.
package units

import (
	"fmt"
	"strings"
)

// KeyError says what is wrong with the value of one key of a room's Config.
// Validate returns such errors, joined, so that whoever read the values can
// point at the place they stand in.
type KeyError struct {
	Key     string   // as written under the room's own section: max_size, retry.initial
	Problem string   // what is wrong; what was meant
	Want    []string // all values there are; nil: they cannot be listed
}

func (e *KeyError) Error() string { return e.Key + ": " + e.Problem }

// Bad makes a KeyError.
func Bad(key, format string, args ...any) error {
	return &KeyError{Key: key, Problem: fmt.Sprintf(format, args...)}
}

// OneOf returns nil if value, that of the configuration key key, is one of allowed; otherwise a
// KeyError that lists the allowed values.
func OneOf(key, value string, allowed ...string) error {
	list := ""
	for i, a := range allowed {
		if a == value {
			return nil
		}
		switch {
		case i == 0:
		case i == len(allowed)-1:
			list += " or "
		default:
			list += ", "
		}
		list += a
	}
	return &KeyError{Key: key, Problem: fmt.Sprintf("%q is not known here; want %s", value, list), Want: allowed}
}

// Counted returns a number with its noun, which gets an s, or es after ch, unless n is 1: "1 record",
// "2 records", "2 batches".
func Counted[N int | int64 | uint64 | uint32](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
