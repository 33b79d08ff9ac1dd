package kusto

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"kusto-agent/internal/kusto/internal/reply"
)

// MaxName is the documented most characters in the name of an entity.
const MaxName = 1024

// ValidName returns an error if the service does not allow name for a database, table or mapping. It
// allows 1 to 1024 letters, digits, underscores, spaces, dots and dashes; "." and "..", which would
// change the path of a URL, and names of spaces alone are refused too. kind is the word for the error
// text. errors.Unwrap of the error gives the reason without the name.
func ValidName(kind, name string) error {
	why := nameFault(name)
	switch {
	case why == "":
		return nil
	case name == "":
		return fmt.Errorf("%s: %w", kind, errors.New(why))
	}
	return fmt.Errorf("%s %s: %w", kind, reply.QuoteName(name), errors.New(why))
}

// nameFault returns why the service does not allow name for a database, table or mapping, as a text
// for people; "" if it is allowed.
func nameFault(name string) string {
	const allowed = "letters, digits, underscore, space, dot and dash are"
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return "the name is empty"
	case n > MaxName:
		return fmt.Sprintf("the name has %d characters, at most %d are allowed", n, MaxName)
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

// EntityName quotes the name of a database, table or column for a management command or a query, as in
// ['my table'].
func EntityName(name string) string { return "[" + TextLiteral(name) + "]" }

// StringLiteral returns a text as a KQL string literal in double quotes.
func StringLiteral(text string) string { return kqlString(text, '"') }

// TextLiteral returns a text as a KQL string literal in single quotes.
func TextLiteral(text string) string { return kqlString(text, '\'') }

// kqlString writes a string literal of KQL in the given quotes.
func kqlString(s string, quote byte) string {
	q := string(quote)
	return q + strings.NewReplacer(`\`, `\\`, q, `\`+q, "\n", `\n`, "\r", `\r`).Replace(s) + q
}

// Mask is shown in place of a secret.
const Mask = "****"
