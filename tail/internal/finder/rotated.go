package finder

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Like returns a function that reports whether a name differs from rotated only in its numbers, as
// app.log.2 and app.log.1 do. old is the name of the file before it was renamed to rotated. If
// rotated does not begin like old, or the renaming has added no number, the function returns false
// for all names.
func Like(old, rotated string) func(name string) bool {
	form, stem := formOf(rotated), Stem(old)
	if !strings.HasPrefix(rotated, stem) || !strings.Contains(form, "0") || form == formOf(old) {
		return func(string) bool { return false }
	}
	return func(name string) bool {
		return strings.HasPrefix(name, stem) && name != rotated && formOf(name) == form
	}
}

// Stem is a name without its extension.
func Stem(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) }

// numbered is what rotation puts behind a name: a number, a date or a time.
var numbered = regexp.MustCompile(`^[-._]?[0-9][-._:TZ0-9]*$`)

// RotatedFrom returns a function that reports whether rotation may have given a file this
// name: old with a number after it. unpacked removes the suffix of compression.
func RotatedFrom(old string, unpacked func(name string) string) func(name string) bool {
	return func(name string) bool {
		more, ok := strings.CutPrefix(name, old)
		return ok && numbered.MatchString(unpacked(more))
	}
}

// formOf returns a name with each number replaced by one zero.
func formOf(name string) string {
	var b strings.Builder
	digits := false
	for _, c := range []byte(name) {
		isDigit := '0' <= c && c <= '9'
		if !isDigit {
			b.WriteByte(c)
		} else if !digits {
			b.WriteByte('0')
		}
		digits = isDigit
	}
	return b.String()
}
