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
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
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

	values bool   // were seen: else misfit says nothing
	misfit uint16 // a bit for each of columnTypes: it does not hold all of them
}

// columnTypes are those of the service.
var columnTypes = []string{"bool", "int", "long", "real", "decimal", "datetime", "timespan", "guid", "string", "dynamic"}

// value notes which column types would not hold the value v of this field. v is in the form that
// the function Fits takes: a string, json.Number, bool, nil, or a list in place of an object.
func (f *Field) value(v any) {
	f.values = true
	for i, kind := range columnTypes {
		if f.misfit>>i&1 == 0 && !Fits(kind, v) {
			f.misfit |= 1 << i
		}
	}
}

// Fits reports whether a column of this type holds all values that were seen in the field. If only
// the type of the field is known, as with Avro, it is whether the column holds all values of that
// type.
func (f Field) Fits(column string) bool {
	if f.values {
		i := slices.Index(columnTypes, column)
		return i < 0 || f.misfit>>i&1 == 0
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

// merge adds to f what the records of another route have for the same field: its type, and which
// column types do not hold its values.
func (f *Field) merge(other Field) {
	f.Type, f.values, f.misfit = Merged(f.Type, other.Type), f.values || other.values, f.misfit|other.misfit
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

// SampleOf returns a sample as if it had seen records with exactly these columns. No values count
// as seen, so only the types are compared.
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
		f.Type = cmp.Or(f.Type, String)
		all[i] = f
	}
	return all
}

// Add adds records from the beginning of a text to the sample. It reads at most so many bytes and
// records of the text, but at least one record if the sample has none yet. The text is in the form
// in which the agent would send it.
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

// see widens the type of the member with this name, so that it also holds values of type t, and
// returns the field of the member. A name that is new gets a field.
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

// valueOf returns a valid JSON value in the form that the function Fits takes. Objects and lists
// become an empty list, since Fits does not look at their content.
func valueOf(raw []byte) (v any) {
	if raw[0] == '{' || raw[0] == '[' {
		return []any(nil)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	_ = dec.Decode(&v) // no error, since the value is valid
	return v
}

var whole = regexp.MustCompile(`^-?\d+$`)

// mostDigits is what a decimal of the service holds.
const mostDigits = 34

// ofNumber returns the narrowest column type for a number in text form: long, decimal for a whole
// number that long does not hold, else real. A number that is too large for these is a string.
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

// ofText returns the column type for a string: guid, timespan, datetime or string. It returns ""
// for an empty one, which may stand for no value.
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

// ofCell returns the column type for a cell of delimited text; "" for an empty one. Digits after a
// leading zero, such as 007, are taken for a code and not for a number.
func ofCell(text string) Type {
	digits := strings.TrimPrefix(text, "-")
	switch {
	case strings.EqualFold(text, "true") || strings.EqualFold(text, "false"):
		return Bool
	case len(digits) > 1 && digits[0] == '0' && digits[1] != '.':
		return ofText(text)
	case decimalPoint.MatchString(text):
		return ofNumber(text)
	case len(text) > 1 && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)):
		return Dynamic
	}
	return ofText(text)
}

// mostName is the most characters in the name of a column.
const mostName = 1024

// Legal returns name as a valid column name. Characters other than letters, digits, _ - . and space
// become underscores; space at the ends is removed and a long name cut off. An empty name, or one
// of dots only, gets an underscore before it.
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

// Path returns the path by which a Kusto mapping names a top-level member of JSON records, such as
// $.a or $['a b']. It returns false if the name has both kinds of quotes, so that no path can name
// it.
func Path(member string) (string, bool) {
	switch {
	case bareMember.MatchString(member):
		return "$." + member, true
	case !strings.Contains(member, "'"):
		return "$['" + member + "']", true
	}
	return `$["` + member + `"]`, !strings.Contains(member, `"`)
}

// Unique returns name if it is not taken, else the first of name_2, name_3 and so on that is not.
// The name is cut off to make room for the number.
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
