package kusto

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the documented most characters in the name of an entity.
const maxName = 1024

// ValidName refuses a name of a database, table or mapping (kind says which,
// for the error) that the service does not allow: 1 to 1024 letters, digits,
// underscores, spaces, dots and dashes. It refuses "." and ".." too, since a
// name becomes part of a path.
func ValidName(kind, name string) error {
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return fmt.Errorf("%s: the name is empty", kind)
	case n > maxName:
		return fmt.Errorf("%s %s: the name has %d characters, at most %d are allowed", kind, quoteName(name), n, maxName)
	case name == "." || name == "..":
		return fmt.Errorf("%s %s: not a name", kind, quoteName(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%s %s: the name is not UTF-8", kind, quoteName(name))
	}
	bad := strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_ .-", r)
	})
	if bad >= 0 {
		r, _ := utf8.DecodeRuneInString(name[bad:])
		return fmt.Errorf("%s %s: %q is not allowed in a name; letters, digits, underscore, space, dot and dash are", kind, quoteName(name), r)
	}
	return nil
}

// quoteName shows a name in an error, whatever is in it and however long.
func quoteName(name string) string { return `"` + printable(name, 64) + `"` }

// kqlName writes a name as KQL reads it wherever an entity is meant.
func kqlName(name string) string { return "[" + kqlString(name, '\'') + "]" }

// kqlString writes a string literal of KQL in the given quotes.
func kqlString(s string, quote byte) string {
	q := string(quote)
	return q + strings.NewReplacer(`\`, `\\`, q, `\`+q, "\n", `\n`, "\r", `\r`).Replace(s) + q
}
