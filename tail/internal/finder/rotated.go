package finder

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Like tells names that are as one to which a file was rotated but for the digits. They
// begin as the old name does.
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

// RotatedFrom tells names to which a file may have been rotated: its own, with a number
// behind it. unpacked is a name without what a compressing command puts behind it.
func RotatedFrom(old string, unpacked func(name string) string) func(name string) bool {
	return func(name string) bool {
		more, ok := strings.CutPrefix(name, old)
		return ok && numbered.MatchString(unpacked(more))
	}
}

// formOf is a name with one zero for each number in it.
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
