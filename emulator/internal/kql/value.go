package kql

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Types has the scalar types, and their other names.
var Types = map[string]string{
	"bool": "bool", "boolean": "bool", "datetime": "datetime", "date": "datetime", "dynamic": "dynamic",
	"guid": "guid", "uuid": "guid", "uniqueid": "guid", "int": "int", "long": "long", "real": "real", "double": "real",
	"string": "string", "timespan": "timespan", "time": "timespan", "decimal": "decimal",
}

// dates are the forms of a datetime.
var dates = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02", "2006-01-02Z", "2006-1-2",
	"1/2/2006", "1/2/2006 15:04:05", "2006-01", "2006",
	time.RFC822, time.RFC822Z, time.RFC850, time.RFC1123, time.RFC1123Z}

const timeLayout = "2006-01-02T15:04:05.0000000Z"

// ValueOf converts a JSON cell to a value of the type; nil for null and for what does not fit.
func ValueOf(typ string, cell json.RawMessage) any {
	if len(cell) == 0 || string(cell) == "null" {
		return nil
	}
	text := string(cell)
	if cell[0] == '"' {
		_ = json.Unmarshal(cell, &text) // it is a string
	}
	if typ == "dynamic" {
		return json.RawMessage(bytes.Clone(cell))
	}
	return parsed(typ, text)
}

// parsed converts a text to a value of the type typ; nil when it is not one. An int and a long both
// become an int64, a guid the usual form with dashes.
func parsed(typ, text string) any {
	if typ != "string" {
		text = strings.TrimSpace(text)
	}
	switch typ {
	case "bool":
		switch strings.ToLower(text) {
		case "true", "1":
			return true
		case "false", "0":
			return false
		}
	case "int", "long":
		bits := map[string]int{"int": 32, "long": 64}[typ]
		if n, err := strconv.ParseInt(text, 10, bits); err == nil {
			return n
		}
		if hex, found := strings.CutPrefix(strings.ToLower(text), "0x"); found {
			if n, err := strconv.ParseUint(hex, 16, bits); err == nil {
				return int64(n)
			}
		}
	case "decimal":
		if d := decimalOf(text); d != nil {
			return d
		}
	case "real": // ParseFloat also takes hexadecimal numbers and underscores, which are not in KQL
		if x, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, "xX_pP") {
			return x
		}
	case "datetime":
		for _, layout := range dates {
			if t, err := time.Parse(layout, text); err == nil {
				return t.UTC()
			}
		}
	case "timespan":
		if d, ok := SpanOf(text); ok {
			return d
		}
	case "guid":
		if hex := strings.ReplaceAll(strings.ToLower(text), "-", ""); guids.MatchString(hex) {
			return hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:]
		}
	case "string":
		return text
	}
	return nil
}

// Written returns a value as a JSON cell, with times in UTC and in the form of the service. typ, the
// type of its column, counts only for nil: null, or "" for a string.
func Written(v any, typ string) json.RawMessage {
	switch v := v.(type) {
	case nil:
		if typ == "string" {
			return json.RawMessage(`""`)
		}
		return json.RawMessage("null")
	case time.Time:
		return JSON(v.UTC().Format(timeLayout))
	case time.Duration:
		return JSON(SpanText(v))
	case json.RawMessage:
		return v
	case float64:
		switch {
		case math.IsNaN(v):
			return json.RawMessage(`"NaN"`)
		case math.IsInf(v, 1):
			return json.RawMessage(`"Infinity"`)
		case math.IsInf(v, -1):
			return json.RawMessage(`"-Infinity"`)
		}
	case *big.Rat:
		return JSON(decimalText(v))
	}
	return JSON(v)
}

// JSON returns the JSON of a value that can always be marshalled; <, > and & are not escaped.
func JSON(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // cannot happen, see above
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// textOf returns a value as text, as tostring does; "" for nil.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.RawMessage:
		if v[0] != '"' {
			var out bytes.Buffer
			if json.Compact(&out, v) == nil {
				return out.String()
			}
		}
	}
	text := string(Written(v, ""))
	if text != "" && text[0] == '"' {
		_ = json.Unmarshal([]byte(text), &text) // it is a string
	}
	return text
}

var (
	guids     = regexp.MustCompile(`^[0-9a-f]{32}$`)
	decimals  = regexp.MustCompile(`^[+-]?\d+(\.\d+)?(?:[eE]([+-]?\d+))?$`)
	clockSpan = regexp.MustCompile(`^(-)?(?:(\d{1,8})\.)?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,7}))?)?$`)
	unitSpan  = regexp.MustCompile(`^(-?\d+(?:\.\d+)?) ?([a-z]+)$`)
	spanUnits = map[string]time.Duration{}
)

// init fills spanUnits: the length of each unit of a timespan, by all of its names.
func init() {
	for unit, names := range map[time.Duration]string{24 * time.Hour: "d day days", time.Hour: "h hr hrs hour hours", time.Minute: "m min minute minutes",
		time.Second: "s sec second seconds", time.Millisecond: "ms milli millis millisec millisecond milliseconds",
		time.Microsecond: "micro micros microsec microsecond microseconds", tick: "tick ticks"} {
		for name := range strings.FieldsSeq(names) {
			spanUnits[name] = unit
		}
	}
}

// tick is the precision of times.
const tick = 100 * time.Nanosecond

// SpanOf reads a timespan with a unit, such as 1.5h, or in the form 1.02:03:04.5678901 (days, hours,
// minutes, seconds). ok is false for any other text.
func SpanOf(text string) (d time.Duration, ok bool) {
	if m := unitSpan.FindStringSubmatch(text); m != nil {
		x, err := strconv.ParseFloat(m[1], 64)
		unit := spanUnits[m[2]]
		if n := x * float64(unit); err == nil && unit > 0 && math.Abs(n) < math.MaxInt64 {
			return time.Duration(math.Round(n)), true
		}
		return 0, false
	}
	m := clockSpan.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	part := func(s string) time.Duration {
		n, _ := strconv.Atoi(s) // digits, or nothing
		return time.Duration(n)
	}
	// A time.Duration holds about 106,751 days.
	if part(m[2]) > 106_000 || part(m[3]) > 23 || part(m[4]) > 59 || part(m[5]) > 59 {
		return 0, false
	}
	d = part(m[2])*24*time.Hour + part(m[3])*time.Hour + part(m[4])*time.Minute + part(m[5])*time.Second +
		part((m[6] + "0000000")[:7])*tick
	if m[1] != "" {
		d = -d
	}
	return d, true
}

// SpanText writes a timespan in the form of the service: [-][days.]hh:mm:ss[.fffffff].
func SpanText(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	s := fmt.Sprintf("%02d:%02d:%02d", d/time.Hour%24, d/time.Minute%60, d/time.Second%60)
	if days := d / (24 * time.Hour); days > 0 {
		s = fmt.Sprintf("%d.%s", days, s)
	}
	if ticks := d % time.Second / tick; ticks > 0 {
		s += fmt.Sprintf(".%07d", ticks)
	}
	return sign + s
}

// compare returns a negative number, 0 or a positive number as a is less than, equal to or greater
// than b. Nil is less than any value; values of different types compare as text.
func compare(a, b any) int {
	switch x := a.(type) {
	case nil:
		if b == nil {
			return 0
		}
		return -1
	case time.Time:
		if y, ok := b.(time.Time); ok {
			return x.Compare(y)
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			return cmp.Compare(x, y)
		}
	case int64:
		switch y := b.(type) {
		case int64:
			return cmp.Compare(x, y)
		case float64:
			return compareReal(x, y)
		}
	case float64:
		if y, ok := b.(int64); ok {
			return -compareReal(y, x)
		}
	case bool:
		if y, ok := b.(bool); ok {
			return count(x) - count(y)
		}
	}
	if b == nil {
		return 1
	}
	if x, y := exact(a), exact(b); x != nil && y != nil {
		return x.Cmp(y)
	}
	x, ok1 := realOf(a)
	y, ok2 := realOf(b)
	if ok1 && ok2 {
		return cmp.Compare(x, y)
	}
	return strings.Compare(textOf(a), textOf(b))
}

// compareReal compares a long with a real exactly: converted to float64 a long could lose digits.
func compareReal(n int64, x float64) int {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return cmp.Compare(float64(n), x)
	}
	return new(big.Float).SetInt64(n).Cmp(big.NewFloat(x))
}

// realOf returns a number as float64; ok is false for any other value.
func realOf(v any) (x float64, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case *big.Rat:
		x, _ := v.Float64()
		return x, true
	}
	return 0, false
}

// exact returns a whole number or a decimal with all its digits; nil for any other value.
func exact(v any) *big.Rat {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v)
	case *big.Rat:
		return v
	}
	return nil
}

// decimalOf converts a text to a decimal; nil when it is not one, is longer than 100 bytes, or has an
// exponent beyond maxExponent.
func decimalOf(text string) *big.Rat {
	m := decimals.FindStringSubmatch(text)
	if m == nil || len(text) > 100 {
		return nil
	}
	if e, err := strconv.Atoi(cmp.Or(m[2], "0")); err != nil || e < -maxExponent || e > maxExponent {
		return nil
	}
	d, _ := new(big.Rat).SetString(text) // it matches the pattern, so it is valid
	return d
}

// maxExponent bounds decimals as those of 128 bits are.
const maxExponent = 6144

// decimalText writes all digits of a decimal, or 34 behind the point where they never end.
func decimalText(d *big.Rat) string {
	n, finite := d.FloatPrec()
	if !finite {
		return strings.TrimRight(d.FloatString(34), "0")
	}
	return d.FloatString(n)
}

// scalarOf returns what a dynamic value contains as a Go value: a string, an int64, a float64, a bool
// or nil. An array or a property bag is returned as it is, and so is a value that is not dynamic.
func scalarOf(v any) any {
	raw, ok := v.(json.RawMessage)
	if !ok {
		return v
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		var text string
		_ = json.Unmarshal(raw, &text) // it is a string
		return text
	case 'n':
		return nil
	case 't', 'f':
		return raw[0] == 't'
	case '[', '{':
		return raw
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n
	}
	x, _ := strconv.ParseFloat(string(raw), 64) // it is a number
	return x
}

// arrayOf returns the elements of a dynamic array; ok is false when v is not one.
func arrayOf(v any) (list []json.RawMessage, ok bool) {
	raw, is := v.(json.RawMessage)
	if !is || len(bytes.TrimSpace(raw)) == 0 || bytes.TrimSpace(raw)[0] != '[' {
		return nil, false
	}
	ok = json.Unmarshal(raw, &list) == nil
	return list, ok
}

// dynamicOf converts any value to a dynamic one. A real keeps a decimal point, so that it stays a
// real.
func dynamicOf(v any) json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	raw := Written(v, "")
	if _, real := v.(float64); real && !bytes.ContainsAny(raw, `.e"`) {
		raw = append(raw, ".0"...) // it stays a real
	}
	return raw
}

// keyOf returns a key for the values of a row: equal rows have equal keys, different ones different
// keys.
func keyOf(row []any) string {
	var b strings.Builder
	for _, v := range row {
		switch x := v.(type) {
		case json.RawMessage:
			v = textOf(x)
		case *big.Rat:
			v = x.RatString()
		case time.Time:
			v = x.Format(timeLayout)
		}
		text := fmt.Sprint(v)
		fmt.Fprintf(&b, "%T%d:%s", v, len(text), text)
	}
	return b.String()
}
