package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Bounds on what is given to the YAML library, which has none that are small.
const (
	maxFileSize   = 1 << 20 // bytes
	maxSeparators = 100_000 // signs that begin or end a value
	maxOpen       = 1000    // brackets, dashes and question marks open at one place
	maxDepth      = 100     // sections in sections
)

// parseYAML returns the root node of the one document in a file. If the file has a syntax error, is
// empty or has a second document, parseYAML reports that and returns nil.
func parseYAML(src *source) *yaml.Node {
	if line, col, why := refuse(src.text); why != "" {
		src.badAt(line, col, "", why)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(src.text))
	first, err := nextDocument(dec)
	if err == io.EOF || err == nil && (len(first.Content) == 0 || isNull(first.Content[0])) {
		src.badAt(1, 1, "", "the file says nothing; want at least inputs")
		return nil
	}
	var second *yaml.Node
	if err == nil {
		second, err = nextDocument(dec)
	}
	switch {
	case err == io.EOF:
		return first.Content[0]
	case err != nil:
		reportSyntax(err, src)
	default:
		src.badAt(second.Line, second.Column, "", "a second document begins; want one document in a file")
	}
	return nil
}

// nextDocument decodes the next document of dec; the error is io.EOF if there is none. A panic of
// the library becomes an error, so that it cannot end an agent that reloads its configuration.
func nextDocument(dec *yaml.Decoder) (n *yaml.Node, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("panic")
		}
	}()
	n = new(yaml.Node)
	return n, dec.Decode(n)
}

// refuse checks the text before it is parsed. If it is not UTF-8 text, or is nested too deep or has
// too many values for the parser, refuse returns the place, line and column from 1, and why;
// otherwise why is "".
func refuse(text []byte) (line, col int, why string) {
	line, col = 1, 1
	open, separators := 0, 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return line, col, "not UTF-8 text; want the file saved as UTF-8"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			return line, col, fmt.Sprintf("a control character, %q; remove it", r)
		case r == '[' || r == '{':
			open++
		case (r == ']' || r == '}') && open > 0:
			open--
		}
		if strings.ContainsRune(",:[{-?\n", r) {
			separators++
		}
		if open > maxOpen {
			return line, col, "brackets are nested too deep; want no more than " + strconv.Itoa(maxDepth) + " levels"
		}
		if separators > maxSeparators {
			return line, col, "too many values; want a file that a person could read, or several by include"
		}
		i, col = i+size, col+1
		if r == '\n' {
			if dashes := leadingDashes(text[i:]); dashes > maxOpen {
				return line + 1, 1, "lists are nested too deep; want no more than " + strconv.Itoa(maxDepth) + " levels"
			}
			line, col = line+1, 1
		}
	}
	return 0, 0, ""
}

// leadingDashes counts the signs -, ? and : at the beginning of a line, spaces and tabs left out.
// Each of them begins a list item or a key inside the one before, so that their number is a depth
// of nesting.
func leadingDashes(line []byte) (n int) {
	for _, b := range line {
		switch b {
		case '-', '?', ':':
			n++
		case ' ', '\t':
		default:
			return n
		}
	}
	return n
}

// said are the words of the library, and what is told in their place.
var said = []struct{ words, told string }{
	{"mapping values are not allowed", "a : where no key can stand; indent keys of one section alike, and put a value that holds \": \" in quotes"},
	{"did not find expected key", "this is neither a key of the section above nor of the one around it; indent keys of one section alike"},
	{"did not find expected '-' indicator", "this is no item of the list above; begin items with - and indent them alike"},
	{"did not find expected ',' or ']'", "a [ is not closed, or a comma is missing"},
	{"did not find expected ',' or '}'", "a { is not closed, or a comma is missing"},
	{"did not find expected node content", "a value is missing, or a bracket is not closed"},
	{"did not find expected <document start>", "this does not belong to what stands above; indent keys of one section alike, and close brackets and quotes once"},
	{"block sequence entries are not allowed", "a list item where none can stand; put it on a line of its own, under its key"},
	{"block collection start", "a list or section where none can stand; put it on a line of its own, under its key"},
	{"could not find expected ':'", "a key without its colon; want key: value"},
	{"tab character", "a tab; indent with spaces"},
	{"cannot start any token", "a value cannot begin with this sign; put it in quotes, and indent with spaces, not tabs"},
	{"unexpected end of stream", "a quote is not closed"},
	{"unexpected document indicator", "a quote is not closed before the document ends"},
	{"unknown escape character", "an unknown escape in double quotes; want \\\\ for a backslash, or single quotes"},
	{"did not find expected hexdecimal number", "an incomplete escape in double quotes; want \\\\ for a backslash, or single quotes"},
	{"invalid Unicode character escape", "an escape in double quotes that is no character; want \\\\ for a backslash, or single quotes"},
	{"unknown anchor", "an alias; write its value out here, or put a value that begins with * in quotes"},
	{"expected alphabetic or numeric character", "an anchor or alias without a name; put a value that begins with & or * in quotes"},
	{"max depth", "nested too deep; want no more than " + strconv.Itoa(maxDepth) + " levels"},
	{"directive", "a line that begins with % is not taken; remove it, or put the value in quotes"},
	{"version", "a line that begins with % is not taken; remove it, or put the value in quotes"},
	{"tag", "a tag, which is not taken; put a value that begins with ! in quotes"},
	{"expected comment or line break", "nothing but a comment can stand behind | or >; begin the text on the next line"},
	{"indentation indicator", "an indentation of 0 behind | or >; leave it out"},
}

// reportSyntax reports an error of the YAML library at its place in the file, in the words of the
// table said where they are known, since the words of the library help few people.
func reportSyntax(err error, src *source) {
	told := "not readable as YAML from here on"
	for _, s := range said {
		if strings.Contains(err.Error(), s.words) {
			told = s.told
			break
		}
	}
	line, col := locate(src.text, err)
	if runeAt(src.lines[min(line, len(src.lines))-1], col) == '\t' {
		told = "a tab; indent with spaces"
	}
	if strings.HasSuffix(told, "or a comma is missing") && bareVariable.MatchString(src.lines[min(line, len(src.lines))-1]) {
		told += "; within { } and [ ] a value with ${NAME} has to stand in quotes"
	}
	src.badAt(line, col, "", told)
}

// bareVariable finds a value that begins with ${ without quotes: within { } and [ ] its brace is one of YAML.
var bareVariable = regexp.MustCompile(`[:,\[{]\s*\$\{`)

// runeAt returns the character of a line at a column, from 1; 0 if the line is shorter.
func runeAt(line string, col int) rune {
	for _, r := range line {
		if col--; col == 0 {
			return r
		}
	}
	return 0
}

var errorLine = regexp.MustCompile(`^yaml: line (\d+): `)

// maxLocate bounds the files in which a mistake is looked for by parsing.
const maxLocate = 64 << 10

// locate returns line and column of the syntax error err, both from 1. The library gives no column,
// and its line may be that of the section around. But the shortest beginning of the file that fails
// in the same way ends with the mistake, and every longer one fails too: locate finds it by
// bisection. In a file of more than maxLocate bytes that costs too much, and the line of the
// library is returned.
func locate(text []byte, err error) (line, col int) {
	if len(text) > maxLocate {
		line = 1
		if m := errorLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		return line, 1
	}
	// The library tells no line of what begins on the first.
	text = append([]byte("\n"), text...)
	if err = syntaxError(text); err == nil {
		return 1, 1
	}
	fails, passes := len(text), 0
	for passes+1 < fails {
		half := (passes + fails) / 2
		if e := syntaxError(text[:half]); e != nil && e.Error() == err.Error() {
			fails = half
		} else {
			passes = half
		}
	}
	before := text[:max(fails-1, 0)]
	for len(before) > 0 && !utf8.RuneStart(text[len(before)]) {
		before = before[:len(before)-1]
	}
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")), utf8.RuneCount(before[start:]) + 1
}

// syntaxError returns the error with which the library refuses text; nil if it accepts it.
func syntaxError(text []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := nextDocument(dec); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
