// Package schema promises one answer to what the service has for a route and what the
// records of the route need: check, setup and init ask here and nowhere else. It reads
// table, columns, mappings, policies and principals, infers columns from a sample of
// records, compares both, and plans the commands that are missing. It runs none of them.
//
// A type it infers holds every value of the sample as it is: where values differ it is
// the narrowest that holds them all, and where nothing was seen it is string.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// Type is a scalar type of a column, in the service's word for it; empty: no
// value was seen.
type Type string

// The types that are told. There is no int: what is small in a sample may grow.
const (
	Bool     Type = "bool"
	Long     Type = "long"
	Real     Type = "real"
	Decimal  Type = "decimal" // a whole number that long does not hold
	Datetime Type = "datetime"
	Timespan Type = "timespan"
	GUID     Type = "guid"
	String   Type = "string"
	Dynamic  Type = "dynamic"
)

// Field is a member of JSON objects, a field of Avro records, or a field of
// delimited ones.
type Field struct {
	Name    string // of the member; of delimited text that of its header, else made up
	Named   bool   // the name stood in the data
	Ordinal int    // of delimited text and TXT, from 0
	Type    Type   // never empty in Sample.Fields

	values bool            // were seen: else fits says nothing
	misfit map[string]bool // types of columns that do not hold all of them
}

// columnTypes are those of the service.
var columnTypes = []string{"bool", "int", "long", "real", "decimal", "datetime", "timespan", "guid", "string", "dynamic"}

// value notes for a value which column types do not hold it. v is as Fits takes it.
func (f *Field) value(v any) {
	f.values = true
	for _, kind := range columnTypes {
		if !f.misfit[kind] && !Fits(kind, v) {
			if f.misfit == nil {
				f.misfit = make(map[string]bool)
			}
			f.misfit[kind] = true
		}
	}
}

// Fits reports whether a column of this type holds all values that were seen, or, if only their type
// is known as with Avro, values of that type.
func (f Field) Fits(column string) bool {
	if f.values {
		return !f.misfit[column]
	}
	switch has := Type(column); {
	case has == f.Type, has == String, has == Dynamic:
		return true
	case f.Type == Long:
		return has == "int" || has == Real || has == Decimal
	default:
		return isNumber(f.Type) && (has == Real || has == Decimal)
	}
}

// merge adds what another route has seen for the same field.
func (f *Field) merge(other Field) {
	f.Type, f.values = Merged(f.Type, other.Type), f.values || other.values
	misfit := maps.Clone(f.misfit)
	for kind := range other.misfit {
		if misfit == nil {
			misfit = make(map[string]bool)
		}
		misfit[kind] = true
	}
	f.misfit = misfit
}

// Sample collects what is seen of the records of one route. Its zero value with a
// format is ready. It is for one goroutine.
type Sample struct {
	Format record.Format
	Header bool // the first record of each text is a header
	Texts  bool // strings in JSON may be numbers and truth values, as of logfmt, which the service reads out of them

	Records int    // that were looked at
	First   []byte // the first of them that is data, with its line end; nil for Avro
	Others  int    // texts whose header is not that of the first

	fields []Field
	index  map[string]int // of JSON and Avro, by name
	header []string
}

// SampleOf returns a sample as if its records had exactly these columns.
func SampleOf(f record.Format, columns []Column) *Sample {
	s := &Sample{Format: f}
	for i, c := range columns {
		s.fields = append(s.fields, Field{Name: c.Name, Named: true, Ordinal: i, Type: Type(c.Type)})
	}
	return s
}

// Fields returns the fields in the order in which they were first seen. A field without values has the
// type string.
func (s *Sample) Fields() []Field {
	all := make([]Field, len(s.fields))
	for i, f := range s.fields {
		if f.Type == "" {
			f.Type = String
		}
		all[i] = f
	}
	return all
}

// Add looks at the records at the beginning of a text: at most so many bytes and records of it, but at
// least one record. The text is what the agent would send.
func (s *Sample) Add(text []byte, bytes, records int) error {
	spec, ok := format.Of(s.Format)
	switch {
	case !ok:
		return fmt.Errorf("format %q is not known", s.Format)
	case spec.NeedsHead:
		return s.addAvro(text)
	case spec.Delimiter != 0:
		s.addDelimited(text, rune(spec.Delimiter), bytes, records)
	case spec.Ends == format.AtLine && spec.Mapping == "Csv":
		s.addLines(text, bytes, records)
	case spec.Ends == format.AtLine:
		s.addJSONLines(text, bytes, records)
	default:
		s.addJSONValues(text, bytes, records)
	}
	return nil
}

// see adds a type to those of the member with this name, and returns its field.
func (s *Sample) see(name string, t Type) *Field {
	if s.index == nil {
		s.index = make(map[string]int)
	}
	i, known := s.index[name]
	if !known {
		i = len(s.fields)
		s.index[name] = i
		s.fields = append(s.fields, Field{Name: name, Named: true})
	}
	s.fields[i].Type = Merged(s.fields[i].Type, t)
	return &s.fields[i]
}

// Merged returns the narrowest type that holds values of both types; "" stands for no value.
func Merged(a, b Type) Type {
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	case isNumber(a) && isNumber(b):
		if a == Real || b == Real {
			return Real
		}
		return Decimal
	case a == Dynamic || b == Dynamic:
		return Dynamic
	}
	return String
}

func isNumber(t Type) bool { return t == Long || t == Real || t == Decimal }

// ofJSON returns the column type for a valid JSON value; "" for null.
func ofJSON(raw []byte) Type {
	switch raw[0] {
	case 'n':
		return ""
	case 't', 'f':
		return Bool
	case '{', '[':
		return Dynamic
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return String
		}
		return ofText(text)
	}
	return ofNumber(string(raw))
}

// valueOf returns a valid JSON value in the form that Fits takes. Objects and lists are returned
// without content, which Fits does not look at.
func valueOf(raw []byte) (v any) {
	if raw[0] == '{' || raw[0] == '[' {
		return []any(nil)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	_ = dec.Decode(&v) // it is sound
	return v
}

var whole = regexp.MustCompile(`^-?\d+$`)

// mostDigits is what a decimal of the service holds.
const mostDigits = 34

// ofNumber returns the narrowest type for a number in text form.
func ofNumber(text string) Type {
	if whole.MatchString(text) {
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Long
		}
		if len(strings.TrimPrefix(text, "-")) <= mostDigits {
			return Decimal
		}
	}
	if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsInf(f, 0) {
		return String
	}
	return Real
}

var (
	guids     = regexp.MustCompile(`^(?i:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$`)
	timespans = regexp.MustCompile(`^-?(?:\d{1,7}\.)?(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,7})?$`)
	dateBegin = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)
	dates     = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02"}
)

// ofText returns the column type for a string; "" for an empty one, which may stand for no value.
func ofText(text string) Type {
	switch {
	case text == "":
		return ""
	case guids.MatchString(text):
		return GUID
	case timespans.MatchString(text):
		return Timespan
	case dateBegin.MatchString(text):
		for _, layout := range dates {
			if at, err := time.Parse(layout, text); err == nil && at.Year() > 0 {
				return Datetime
			}
		}
	}
	return String
}

var decimalPoint = regexp.MustCompile(`^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$`)

// ofCell returns the column type for a cell of delimited text. Digits after a leading zero are a code
// and not a number.
func ofCell(text string) Type {
	digits := strings.TrimPrefix(text, "-")
	switch {
	case strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		return Bool
	case len(digits) > 1 && digits[0] == '0' && digits[1] != '.':
		return textOrTime(text)
	case decimalPoint.MatchString(text):
		return ofNumber(text)
	case len(text) > 1 && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)):
		return Dynamic
	}
	return ofText(text)
}

// textOrTime returns the type of a text that begins with a zero: a time, an id or a string.
func textOrTime(text string) Type {
	if t := ofText(text); t != "" {
		return t
	}
	return String
}

// mostName is the most characters in the name of a column.
const mostName = 1024

// Legal returns name as a valid column name: characters other than letters, digits, _ - . and space
// become underscores.
func Legal(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-. ", r) {
			return r
		}
		return '_'
	}, strings.ToValidUTF8(name, "_")))
	if strings.Trim(name, ".") == "" {
		return "_" + name
	}
	if utf8.RuneCountInString(name) > mostName {
		name = string([]rune(name)[:mostName])
	}
	return name
}

var bareMember = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Path returns the path by which a mapping names a member of records; false if no path can name it.
func Path(member string) (string, bool) {
	switch {
	case bareMember.MatchString(member):
		return "$." + member, true
	case !strings.Contains(member, "'"):
		return "$['" + member + "']", true
	}
	return `$["` + member + `"]`, !strings.Contains(member, `"`)
}

// Unique returns name, or name_2, name_3 and so on if it is taken.
func Unique(name string, taken func(string) bool) string {
	if !taken(name) {
		return name
	}
	runes := []rune(name)
	for n := 2; ; n++ {
		end := "_" + strconv.Itoa(n)
		if next := string(runes[:min(len(runes), mostName-len(end))]) + end; !taken(next) {
			return next
		}
	}
}
