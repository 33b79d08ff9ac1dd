package schema

import (
	"regexp"
	"strings"
)

// Expression is a pattern of parse: regex that reads the lines of a sample.
type Expression struct {
	Pattern string
	Types   map[string]string // of groups that are no strings
	Time    bool              // the group time is one, in ISO 8601
}

const pairSeparators = " ,;|\t[({"

// pairKey is a key with its equals sign, and what separates it from the value before.
var pairKey = regexp.MustCompile(`(?:^|[ ,;|\t\[({]+)[A-Za-z_][A-Za-z0-9_.-]*=`)

// pairTime is a time at the beginning of a line.
const pairTime = `\[?(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?`

// pairsOf returns an expression for lines of pairs such as key=value that the logfmt parser cannot
// read, because of text before the pairs or of their separators. It returns nil if there are fewer
// than two lines. It also does so unless nine of ten lines have the same keys, two or more, in the
// same order, and match the expression.
func pairsOf(lines []string) *Expression {
	count := make(map[string]int)
	shape := ""
	for _, line := range lines {
		key := strings.Join(pairKey.FindAllString(line, -1), "\x00")
		if count[key]++; count[key] > count[shape] {
			shape = key
		}
	}
	keys := strings.Split(shape, "\x00")
	if len(lines) < 2 || len(keys) < 2 || 10*count[shape] < 9*len(lines) {
		return nil
	}
	for _, timed := range []bool{true, false} {
		if e := expressionOf(keys, lines, timed); e != nil {
			return e
		}
	}
	return nil
}

// expressionOf returns an expression for lines with these keys, in this order; nil if fewer than
// nine of ten lines match it. A key has the separators before it and its equals sign, such as
// ";user=". If timed is set, a time at the beginning of the line goes to the group time; other text
// before the first key goes to the group message. Types has the groups whose values are numbers or
// true and false.
func expressionOf(keys, lines []string, timed bool) *Expression {
	var pattern strings.Builder
	names := make(map[string]bool)
	pattern.WriteByte('^')
	if timed {
		pattern.WriteString(pairTime + ` *`)
		names["time"] = true
	}
	if strings.TrimLeft(keys[0], pairSeparators) != keys[0] {
		pattern.WriteString(`(?P<message>.*?)`)
		names["message"] = true
	}
	for i, key := range keys {
		name := strings.NewReplacer(".", "_", "-", "_").Replace(strings.TrimSuffix(strings.TrimLeft(key, pairSeparators), "="))
		name = Unique(name, func(name string) bool { return names[name] })
		names[name] = true
		value := `(?P<` + name + `>.*?)`
		if alwaysQuoted(lines, i) {
			value = `"(?P<` + name + `>[^"]*)"`
		}
		pattern.WriteString(regexp.QuoteMeta(key) + value)
	}
	pattern.WriteString(`[])}]?$`)
	re, err := regexp.Compile(pattern.String())
	if err != nil {
		return nil
	}
	matched := 0
	types := make(map[string]Type)
	for _, line := range lines {
		values := re.FindStringSubmatch(line)
		if values == nil {
			continue
		}
		matched++
		for i, name := range re.SubexpNames() {
			if name != "" && name != "time" && name != "message" && values[i] != "" && values[i] != "-" {
				types[name] = Merged(types[name], ofCell(values[i]))
			}
		}
	}
	if 10*matched < 9*len(lines) {
		return nil
	}
	e := &Expression{Pattern: pattern.String(), Types: make(map[string]string), Time: timed}
	for name, t := range types {
		switch t {
		case Long, Real, Bool:
			e.Types[name] = string(t)
		}
	}
	return e
}

// alwaysQuoted reports whether the value of the key with index i (from 0) begins with a double
// quote in all lines that have so many keys.
func alwaysQuoted(lines []string, i int) bool {
	return share(10, lines, func(line string) bool {
		at := pairKey.FindAllStringIndex(line, i+1)
		return len(at) <= i || strings.HasPrefix(line[at[i][1]:], `"`)
	})
}
