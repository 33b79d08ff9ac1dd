package record

import (
	"strconv"
	"unicode/utf8"
)

// Spell returns a file name as text: the name itself or, if it is not UTF-8, the name quoted as in
// Go. Without the quoting, JSON and other text formats would turn different names into the same
// one.
func Spell(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}
