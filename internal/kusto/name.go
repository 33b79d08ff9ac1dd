package kusto

import (
	"errors"
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
// name becomes part of a path, and spaces alone, which nobody means. The error
// wraps what is wrong, without the name.
func ValidName(kind, name string) error {
	why := nameFault(name)
	switch {
	case why == "":
		return nil
	case name == "":
		return fmt.Errorf("%s: %w", kind, errors.New(why))
	}
	return fmt.Errorf("%s %s: %w", kind, quoteName(name), errors.New(why))
}

// nameFault is what is wrong with a name; empty: nothing.
func nameFault(name string) string {
	const allowed = "letters, digits, underscore, space, dot and dash are"
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return "the name is empty"
	case n > maxName:
		return fmt.Sprintf("the name has %d characters, at most %d are allowed", n, maxName)
	case name == "." || name == "..":
		return "not a name but a step in a path; want a name with a letter or digit in it"
	case strings.Trim(name, " ") == "":
		return "the name is blank; want at least one letter or digit"
	case !utf8.ValidString(name):
		return "the name is not UTF-8"
	}
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_ .-", r) {
			return fmt.Sprintf("%q is not allowed in a name; %s", r, allowed)
		}
	}
	return ""
}

// kqlName writes a name as KQL reads it wherever an entity is meant.
func kqlName(name string) string { return "[" + kqlString(name, '\'') + "]" }

// kqlString writes a string literal of KQL in the given quotes.
func kqlString(s string, quote byte) string {
	q := string(quote)
	return q + strings.NewReplacer(`\`, `\\`, q, `\`+q, "\n", `\n`, "\r", `\r`).Replace(s) + q
}

// Mask stands wherever a secret would be shown.
const Mask = "****"
