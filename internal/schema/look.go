package schema

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// Guess is what a file looks like, in the words of the configuration. What is
// empty, or false, is as usual.
type Guess struct {
	Format   record.Format
	Parse    string // docker, cri or what parsed tells
	Inner    string // what the messages of docker and cri hold, where that is not text
	Header   bool   // its first record is a header
	Encoding string

	Expression *Expression // of Parse, where that is regex
}

// Look guesses the format of a file, and how to parse it, from its name and from the beginning of
// its uncompressed content. The content counts more than the name, except that a name such as x.csv
// decides about the delimiter. Without any lines only the name counts. If nothing fits, the guess
// is plain text (TXT).
func Look(name string, text []byte) Guess {
	var g Guess
	text, g.Encoding = decoded(text)
	byName, _ := format.ByExtension(path.Ext(compressed.Bare(name)))
	if bytes.HasPrefix(text, []byte("Obj\x01")) {
		return Guess{Format: record.Avro}
	}
	lines := wholeLines(text)
	switch spec, _ := format.Of(byName); {
	case len(lines) == 0:
		g.Format = byName
	case spec.Delimiter != 0:
		g.Format = byName
	case share(9, lines, isDocker):
		g.Format, g.Parse, g.Inner = record.JSON, "docker", within(format.ParseDocker, lines)
	case share(9, lines, criLine.MatchString):
		g.Format, g.Parse, g.Inner = record.JSON, "cri", within(format.ParseCRI, lines)
	case share(9, lines, isObject), beginsWith('{', text) && share(6, lines, isObject):
		g.Format = record.JSON
	case beginsWith('{', text), beginsWith('[', text):
		g.Format = record.MultiJSON
	case parsed(lines) != "":
		g.Format, g.Parse = record.JSON, parsed(lines)
	default:
		if g.Expression = pairsOf(lines); g.Expression != nil {
			g.Format, g.Parse = record.JSON, format.ParseRegex.String()
		} else {
			g.Format = delimitedBy(lines)
		}
	}
	if g.Format == "" && len(lines) > 0 { // the content shows nothing: the name, else plain text
		g.Format = record.TXT
		if byName != "" && byName != record.Avro {
			g.Format = byName
		}
	}
	if spec, _ := format.Of(g.Format); spec.Delimiter != 0 {
		g.Header = hasHeader(text, rune(spec.Delimiter))
	}
	return g
}

// decoded returns a text in UTF-8 without its byte order mark. encoding is "utf-16le" or "utf-16be"
// if the mark says that the text was in UTF-16, else "".
func decoded(text []byte) (_ []byte, encoding string) {
	little := bytes.HasPrefix(text, []byte{0xff, 0xfe})
	if !little && !bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), ""
	}
	var units []uint16
	for text = text[2:]; len(text) > 1; text = text[2:] {
		a, b := uint16(text[0]), uint16(text[1])
		if little {
			a, b = b, a
		}
		units = append(units, a<<8|b)
	}
	if encoding = "utf-16be"; little {
		encoding = "utf-16le"
	}
	return []byte(string(utf16.Decode(units))), encoding
}

// wholeLines returns the lines of a text that are not blank. The last line may be cut off, so it is
// left out unless it is the only one.
func wholeLines(text []byte) (lines []string) {
	all := strings.Split(string(text), "\n")
	if len(all) > 1 {
		all = all[:len(all)-1]
	}
	for _, line := range all {
		if line = strings.TrimRight(line, "\r\x00"); strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// share reports whether is is true for at least this many tenths of the lines. A log can have a torn
// line, or one of another program.
func share(tenths int, lines []string, is func(string) bool) bool {
	n := 0
	for _, line := range lines {
		if is(line) {
			n++
		}
	}
	return 10*n >= tenths*len(lines)
}

func isObject(line string) bool {
	return strings.HasPrefix(strings.TrimSpace(line), "{") && json.Valid([]byte(line))
}

// isDocker reports whether a line is of a Docker log: a JSON object with log and time.
func isDocker(line string) bool {
	var d struct{ Log, Stream, Time *string }
	return isObject(line) && json.Unmarshal([]byte(line), &d) == nil && d.Log != nil && d.Time != nil
}

var criLine = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S* (?:stdout|stderr) [FP](?::\S*)? `)

// beginsWith reports whether a text begins with a JSON object, for '{', or with an array whose first
// element is an object, for '['. The object may go on beyond the text.
func beginsWith(bracket json.Delim, text []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(text))
	t, err := dec.Token()
	if err != nil || t != bracket {
		return false
	}
	if t == json.Delim('[') {
		t, err = dec.Token()
	}
	if err != nil || t != json.Delim('{') {
		return false
	}
	name, err := dec.Token()
	_, isText := name.(string)
	return err == nil && (isText || name == json.Delim('}'))
}

// delimitedBy returns the first delimited format by which all lines have the same number of fields,
// at least two. It returns "" if there is none or fewer than two lines.
func delimitedBy(lines []string) record.Format {
	if len(lines) < 2 {
		return ""
	}
	for _, f := range []record.Format{record.SOHsv, record.TSV, record.PSV, record.SCsv, record.CSV} {
		spec, _ := format.Of(f)
		r := csv.NewReader(strings.NewReader(strings.Join(lines, "\n")))
		r.Comma = rune(spec.Delimiter)
		if rows, err := r.ReadAll(); err == nil && len(rows[0]) > 1 {
			return f
		}
	}
	return ""
}

// hasHeader reports whether the first row of a delimited text holds names. Its cells must all be
// different text, and a column below must hold only values other than text. If every column holds
// text, it returns false, so that no record is taken for a header and lost.
func hasHeader(text []byte, comma rune) bool {
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = comma, -1, true
	head, err := r.Read()
	if err != nil {
		return false
	}
	for i, name := range head {
		if ofCell(name) != String || slices.Contains(head[:i], name) {
			return false
		}
	}
	below := make([]Type, len(head))
	for range 100 {
		row, err := r.Read()
		if err != nil {
			break
		}
		for i, cell := range row[:min(len(row), len(head))] {
			below[i] = Merged(below[i], ofCell(cell))
		}
	}
	return slices.ContainsFunc(below, func(t Type) bool { return t != "" && t != String })
}
