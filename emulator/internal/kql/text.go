package kql

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textTests are the operators on strings that have a word for a name. Those that end
// with _cs look at the case of letters.
var textTests = map[string]func(text, part string) bool{
	"contains": folded(strings.Contains), "contains_cs": strings.Contains,
	"startswith": folded(strings.HasPrefix), "startswith_cs": strings.HasPrefix,
	"endswith": folded(strings.HasSuffix), "endswith_cs": strings.HasSuffix,
	"has": folded(hasTerm), "has_cs": hasTerm,
	"hasprefix": folded(hasTermPrefix), "hasprefix_cs": hasTermPrefix,
	"hassuffix": folded(hasTermSuffix), "hassuffix_cs": hasTermSuffix,
}

// folded returns the test with the case of letters ignored.
func folded(test func(text, part string) bool) func(text, part string) bool {
	return func(text, part string) bool { return test(strings.ToLower(text), strings.ToLower(part)) }
}

// A term is a run of letters and digits with none beside it.
func hasTerm(text, part string) bool       { return within(text, part, true, true) }
func hasTermPrefix(text, part string) bool { return within(text, part, true, false) }
func hasTermSuffix(text, part string) bool { return within(text, part, false, true) }

// within reports whether text contains part, where a term has to begin at its start (begins), to end
// at its end (ends), or both. A term is a run of letters and digits.
func within(text, part string, begins, ends bool) bool {
	for from := 0; from <= len(text); {
		i := strings.Index(text[from:], part)
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(part):])
		first, size := utf8.DecodeRuneInString(part)
		last, _ := utf8.DecodeLastRuneInString(part)
		// An end of part is within a term if there are letters or digits on both sides of it.
		if !(begins && inTerm(before) && inTerm(first)) && !(ends && inTerm(after) && inTerm(last)) {
			return true
		}
		from = i + max(size, 1)
	}
	return false
}

func inTerm(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// isText panics with a Fault when one of the types is neither string nor dynamic. op names the
// operator in its message.
func isText(op string, types ...string) {
	for _, t := range types {
		if t != "string" && t != "dynamic" {
			panic(semantic("operator '%s' wants string, not %s; try tostring()", op, t))
		}
	}
}

// textual returns the expression of type bool that applies test to the values of left and right as
// texts. It panics with a Fault when their types are neither string nor dynamic; op is the operator.
func textual(op string, left, right expression, test func(text, part string) bool) expression {
	isText(op, left.typ, right.typ)
	return expression{typ: "bool", of: func(row []any) any { return test(textOf(left.of(row)), textOf(right.of(row))) }}
}

// hasSome reads the list of terms behind has_any, or behind has_all if all is true. It returns the
// expression that tests whether left contains any, or all, of these terms, in any letter case. An
// array in the list stands for its elements.
func (s *scope) hasSome(c *Cursor, left expression, all bool) expression {
	op := "has_any"
	if all {
		op = "has_all"
	}
	list := s.list(c)
	for _, e := range append([]expression{left}, list...) {
		isText(op, e.typ)
	}
	test := textTests["has"]
	return expression{typ: "bool", of: func(row []any) any {
		text := textOf(left.of(row))
		for _, e := range list {
			for _, part := range elements(e.of(row)) {
				if test(text, textOf(part)) != all {
					return !all
				}
			}
		}
		return all
	}}
}

// matches reads the regular expression behind the words matches regex and returns the expression that
// tests whether it matches a part of left.
func (s *scope) matches(c *Cursor, left expression) expression {
	right := s.sum(c)
	isText("matches regex", left.typ, right.typ)
	known := make(map[string]*regexp.Regexp) // compiled so far; most often there is only one
	return expression{typ: "bool", of: func(row []any) any {
		pattern := textOf(right.of(row))
		if known[pattern] == nil {
			known[pattern] = compiled(pattern)
		}
		return known[pattern].MatchString(textOf(left.of(row)))
	}}
}

// compiled returns the compiled regular expression. An invalid one ends the query with an error.
func compiled(text string) *regexp.Regexp {
	re, err := regexp.Compile(text)
	if err != nil {
		panic(semantic("'%s' is no regular expression: %s", text, err))
	}
	return re
}
