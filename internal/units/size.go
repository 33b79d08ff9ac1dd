package units

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, never negative. It is written with its unit:
// 4MB is 4,000,000 bytes, 4MiB is 4,194,304, and a plain integer counts bytes.
type Size int64

// Sizes of the units. Those of the decimal prefixes are powers of 1000, those
// of the binary prefixes powers of 1024.
const (
	KB  Size = 1000
	MB       = 1000 * KB
	GB       = 1000 * MB
	TB       = 1000 * GB
	KiB Size = 1024
	MiB      = 1024 * KiB
	GiB      = 1024 * MiB
	TiB      = 1024 * GiB
)

// Largest first, binary before decimal: String takes the first that divides.
var sizeUnits = []struct {
	name string
	size Size
}{
	{"TiB", TiB}, {"TB", TB}, {"GiB", GiB}, {"GB", GB}, {"MiB", MiB}, {"MB", MB}, {"KiB", KiB}, {"kB", KB}, {"B", 1},
}

var (
	errSizeForm     = errors.New("want a size such as 512KiB, 4MB or 1GiB")
	errNegativeSize = errors.New("negative; want a size such as 512KiB, 4MB or 1GiB")
)

// ParseSize reads a number of bytes as it is written in the configuration, such as 512KiB, 4MB or
// 1000. Units are read in any letter case: kb, KB and kB are all 1000. A fraction such as 1.5GiB is
// allowed if it is a whole number of bytes.
func ParseSize(s string) (Size, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	factor, err := sizeFactor(s[len(digits):])
	if err != nil {
		return 0, err
	}
	number := strings.TrimSuffix(digits, " ")
	if positive, minus := strings.CutPrefix(number, "-"); minus && isNumber(positive) {
		return 0, errNegativeSize
	}
	if !isNumber(number) {
		return 0, errSizeForm
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole > math.MaxInt64/int64(factor) {
			return 0, errors.New("larger than any size can be")
		}
		return Size(whole) * factor, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	bytes := f * float64(factor)
	switch {
	case err != nil || bytes >= math.MaxInt64:
		return 0, errors.New("larger than any size can be")
	case bytes != math.Trunc(bytes):
		return 0, errors.New("not a whole number of bytes")
	}
	return Size(bytes), nil
}

// sizeFactor returns how many bytes a unit such as "MiB" stands for, in any letter case; 1 for no
// unit, and an error if the unit is not known.
func sizeFactor(unit string) (Size, error) {
	if unit == "" {
		return 1, nil
	}
	for _, u := range sizeUnits {
		if strings.EqualFold(unit, u.name) {
			return u.size, nil
		}
	}
	return 0, fmt.Errorf("unknown unit %q; want B, kB, MB, GB, TB (decimal) or KiB, MiB, GiB, TiB (binary)", unit)
}

// isNumber reports whether s is a plain decimal number: digits, and at most one point with digits
// on both sides; no sign, exponent or underscore.
func isNumber(s string) bool {
	whole, fraction, point := strings.Cut(s, ".")
	return allDigits(whole) && (!point || allDigits(fraction))
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// String returns the size with the largest unit that divides it, such as 4MiB, and otherwise as a
// plain number. ParseSize reads the same number of bytes back.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.size == 0 && u.size > 1 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText writes what String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets s to the size in text, as ParseSize reads it. After an error s is unchanged.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err == nil {
		*s = v
	}
	return err
}
