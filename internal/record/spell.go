package record

import (
	"strconv"
	"unicode/utf8"
)

// Spell is a name as text: itself, or, where it is not UTF-8, quoted as Go
// quotes it. File names are bytes, and what holds only text, as JSON does, would
// make one of many of them that differ, which nobody can find.
func Spell(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}
