package kql

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// function describes a scalar function. params has one letter for each parameter:
//
//	a any type            n number          d datetime    y dynamic
//	s string or dynamic   l whole number    t timespan    b bool
//
// Parameters behind a ? may be left out. A * at the end lets the last parameter be given any number of
// times, also not at all; only in "a*" and "y*" must it be given once.
type function struct {
	params  string
	lenient bool                           // it is called with nulls; else a null argument makes the result null
	typ     string                         // of the result, unless typeOf gives it
	typeOf  func(args []expression) string // type of the result, from the arguments
	of      func(s *scope, v []any) any    // the value, from the values of the arguments
	ofRow   func(row []any) any            // in place of of: the value, from the row itself
	names   bool                           // a column of the result gets the name of the first argument
}

// maxText bounds the strings that functions make.
const maxText = 16 << 20

// text adapts f, which makes a text of the values of the arguments, to the type of the field
// function.of. A result longer than maxText ends the query with an error (by a panic that Run
// recovers).
func text(f func(v []any) string) func(*scope, []any) any {
	return func(_ *scope, v []any) any {
		t := f(v)
		if len(t) > maxText {
			panic(semantic("a string of %d bytes is longer than the emulator makes", len(t)))
		}
		return t
	}
}

// plain adapts f, which does not need the scope, to function.of.
func plain(f func(v []any) any) func(*scope, []any) any {
	return func(_ *scope, v []any) any { return f(v) }
}

// realFunction describes a function of one number whose result is of type real.
func realFunction(f func(x float64) float64) function {
	return function{params: "n", typ: "real", of: plain(func(v []any) any { return f(asReal(v[0])) })}
}

// conversion describes the function that converts any value to the type, such as tolong. A column made
// by it keeps the name of its argument.
func conversion(typ string) function {
	return function{params: "a", lenient: true, typ: typ, names: true, of: plain(func(v []any) any { return converted(typ, v[0]) })}
}

// converted returns v converted to the type as tolong, tostring and so on do it; nil where that is not
// possible. A null becomes nil, or "" for a string.
func converted(typ string, v any) any {
	v = scalarOf(v)
	switch x := v.(type) {
	case nil:
		if typ == "string" {
			return ""
		}
		return nil
	case bool:
		switch typ {
		case "bool":
			return x
		case "int", "long":
			return int64(count(x))
		case "real":
			return float64(count(x))
		case "decimal":
			return new(big.Rat).SetInt64(int64(count(x)))
		}
	case float64:
		switch typ {
		case "int", "long":
			if limit := map[string]float64{"int": 1 << 31, "long": 1 << 63}[typ]; math.Abs(x) < limit {
				return int64(x)
			}
			return nil
		case "real":
			return x
		case "decimal":
			if d := new(big.Rat).SetFloat64(x); d != nil { // it is nil for NaN and infinities
				return d
			}
			return nil
		case "bool":
			return x != 0
		}
	case *big.Rat:
		switch typ {
		case "int", "long":
			if n := new(big.Int).Quo(x.Num(), x.Denom()); n.IsInt64() {
				return converted(typ, n.Int64())
			}
			return nil
		case "real":
			return asReal(x)
		case "decimal":
			return x
		}
	case int64:
		switch typ {
		case "int":
			if x == int64(int32(x)) {
				return x
			}
			return nil
		case "long":
			return x
		case "real":
			return float64(x)
		case "decimal":
			return exact(x)
		case "bool":
			return x != 0
		}
	case time.Time:
		if typ == "datetime" {
			return x
		}
	case time.Duration:
		if typ == "timespan" {
			return x
		}
	case string:
		if isWhole(typ) {
			if n := parsed(typ, x); n != nil {
				return n
			}
			if f, ok := parsed("real", x).(float64); ok && strings.Contains(x, ".") {
				return converted(typ, f)
			}
			return nil
		}
		return parsed(typ, x)
	}
	if typ == "string" {
		return textOf(v)
	}
	return nil
}

// spans are the periods of a fixed length, by the names that datetime_add and datetime_diff use.
var spans = map[string]time.Duration{"week": 7 * 24 * time.Hour, "day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second,
	"millisecond": time.Millisecond, "microsecond": time.Microsecond, "nanosecond": time.Nanosecond}

// startOf returns the start of the period (year, month, week or day) that contains t, moved by offset
// periods. A week starts on Sunday.
func startOf(unit string, t time.Time, offset int) time.Time {
	switch unit {
	case "year":
		return time.Date(t.Year()+offset, 1, 1, 0, 0, 0, 0, time.UTC)
	case "month":
		return time.Date(t.Year(), t.Month()+time.Month(offset), 1, 0, 0, 0, 0, time.UTC)
	case "week": // it begins with Sunday
		return time.Date(t.Year(), t.Month(), t.Day()-int(t.Weekday())+7*offset, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(t.Year(), t.Month(), t.Day()+offset, 0, 0, 0, 0, time.UTC)
}

// start returns the description of the KQL function for the start of a period (unit: day, week, month
// or year), or with end for its end, such as startofday and endofday. The function has an optional
// offset in periods. The end of a period is one tick before the next one starts.
func start(unit string, end bool) function {
	return function{params: "d?l", typ: "datetime", of: plain(func(v []any) any {
		t, offset := v[0].(time.Time), 0
		if len(v) > 1 {
			offset = int(v[1].(int64))
		}
		if end {
			return inRange(unit, startOf(unit, t, offset+1).Add(-tick))
		}
		return inRange(unit, startOf(unit, t, offset))
	})}
}

// part describes a function that returns a part of a datetime, such as its month, as a whole number of
// the type.
func part(typ string, f func(t time.Time) int) function {
	return function{params: "d", typ: typ, of: plain(func(v []any) any { return int64(f(v[0].(time.Time))) })}
}

// sinceEpoch returns the description of the KQL function unixtime_…_todatetime for a unit, in which
// its argument counts from 1970 on. Whole numbers are not converted to floating point, so that no
// digit is lost.
func sinceEpoch(unit time.Duration) function {
	return function{params: "n", typ: "datetime", of: plain(func(v []any) any {
		d, _ := scaled("*", unit, asReal(v[0])).(time.Duration)
		if n, ok := v[0].(int64); ok {
			d = time.Duration(wholeArithmetic("*", int64(unit), n).(int64))
		}
		return time.Unix(0, 0).UTC().Add(d)
	})}
}

// sameType returns the common type of the arguments at the indexes pick: int and long have long in
// common, a real and a whole number real. When there is none, it panics with a Fault, which ends the
// query; what names the function in the message.
func sameType(what string, args []expression, pick ...int) string {
	typ := ""
	for _, i := range pick {
		switch t := args[i].typ; {
		case typ == "" || typ == t:
			typ = t
		case isWhole(typ) && isWhole(t):
			typ = "long"
		case isNumber(typ) && isNumber(t) && typ != "decimal" && t != "decimal":
			typ = "real"
		default:
			panic(semantic("%s(): arguments of types %s and %s do not go together", what, typ, t))
		}
	}
	return typ
}

// all returns the indexes of all arguments, as sameType wants them.
func all(args []expression) []int {
	var list []int
	for i := range args {
		list = append(list, i)
	}
	return list
}

// extreme returns the description of the KQL function min_of (sign -1) or max_of (sign 1), which
// ignore nulls. name is that of the function.
func extreme(name string, sign int) function {
	return function{params: "aa*", lenient: true, typeOf: func(args []expression) string { return sameType(name, args, all(args)...) },
		of: plain(func(v []any) (best any) {
			for _, x := range v {
				if x != nil && (best == nil || compare(x, best)*sign > 0) {
					best = x
				}
			}
			return best
		})}
}

// binned implements bin(value, size): the greatest multiple of size that is not above value. The
// result is nil for a size of 0 or less.
func binned(_ *scope, v []any) any {
	switch x := v[0].(type) {
	case time.Time:
		if d, ok := v[1].(time.Duration); ok && d > 0 {
			ticks := x.Unix()*int64(time.Second/tick) + int64(x.Nanosecond())/int64(tick)
			size := int64(d / tick)
			const zero = 62_135_596_800 * int64(time.Second/tick) // bins are counted from the year 1
			if size > 0 {
				low := (ticks+zero)/size*size - zero
				return time.Unix(low/int64(time.Second/tick), low%int64(time.Second/tick)*int64(tick)).UTC()
			}
		}
		return nil
	case time.Duration:
		if d, ok := v[1].(time.Duration); ok && d > 0 {
			return time.Duration(math.Floor(float64(x)/float64(d))) * d
		}
		return nil
	case int64:
		if n, ok := v[1].(int64); ok {
			if n <= 0 {
				return nil
			}
			low := x / n * n
			if x < low {
				low -= n
			}
			return low
		}
	}
	if d, size := exact(v[0]), exact(v[1]); d != nil && size != nil {
		if size.Sign() <= 0 {
			return nil
		}
		n := new(big.Rat).Quo(d, size)
		whole := new(big.Int).Div(n.Num(), n.Denom())
		return new(big.Rat).Mul(new(big.Rat).SetInt(whole), size)
	}
	x, size := asReal(v[0]), asReal(v[1])
	if size <= 0 {
		return nil
	}
	return math.Floor(x/size) * size
}

// binType returns the type of the result of bin(value, size). It panics with a Fault, which ends the
// query, for types that cannot be combined.
func binType(args []expression) string {
	a, b := args[0].typ, args[1].typ
	switch {
	case (a == "datetime" || a == "timespan") && b == "timespan":
		return a
	case isWhole(a) && isWhole(b):
		return a
	case isNumber(a) && isNumber(b):
		return arithmeticType("*", a, b)
	}
	panic(semantic("bin(): values of type %s have no bins of type %s", a, b))
}

// wholeOrReal returns the result type of round and ceiling: long for a whole number, real for any
// other number.
func wholeOrReal(args []expression) string {
	if isWhole(args[0].typ) {
		return "long"
	}
	return "real"
}

// rounded implements round(value, digits): halves are rounded to the even digit.
func rounded(_ *scope, v []any) any {
	digits := int64(0)
	if len(v) > 1 {
		digits = v[1].(int64)
	}
	if n, ok := v[0].(int64); ok {
		return n
	}
	scale := math.Pow(10, float64(digits))
	return math.RoundToEven(asReal(v[0])*scale) / scale
}

// substring implements substring(text, start, length), in characters. A negative start counts from the
// end; without a length the rest of the text is returned.
func substring(v []any) string {
	runes := []rune(textOf(v[0]))
	from := v[1].(int64)
	if from < 0 {
		from = max(0, from+int64(len(runes)))
	}
	runes = runes[min(from, int64(len(runes))):]
	if len(v) > 2 {
		runes = runes[:max(0, min(v[2].(int64), int64(len(runes))))]
	}
	return string(runes)
}

// split implements split(text, delimiter, index): the array of the parts of a text, or an array with
// the part at index, or nil when there is no such part. An empty delimiter leaves the text whole.
func split(_ *scope, v []any) any {
	var parts []string
	if delimiter := textOf(v[1]); delimiter == "" {
		parts = []string{textOf(v[0])}
	} else {
		parts = strings.Split(textOf(v[0]), delimiter)
	}
	if len(v) > 2 {
		if i := v[2].(int64); i >= 0 && i < int64(len(parts)) {
			return JSON(parts[i : i+1])
		}
		return nil
	}
	return JSON(parts)
}

// indexOf implements indexof(text, part, start): the position of part in characters, or -1 when it
// does not occur from start on. A negative start counts from the end.
func indexOf(_ *scope, v []any) any {
	runes, part := []rune(textOf(v[0])), textOf(v[1])
	from := int64(0)
	if len(v) > 2 {
		if from = v[2].(int64); from < 0 {
			from += int64(len(runes))
		}
	}
	if from < 0 || from > int64(len(runes)) {
		return int64(-1)
	}
	rest := string(runes[from:])
	if i := strings.Index(rest, part); i >= 0 {
		return from + int64(utf8.RuneCountInString(rest[:i]))
	}
	return int64(-1)
}

// trimmed returns the description of trim, trim_start or trim_end: it removes all matches of a regular
// expression at the start (front), at the end (back) or at both ends of a text.
func trimmed(front, back bool) function {
	return function{params: "ss", typ: "string", of: text(func(v []any) string {
		pattern, t := "(?:"+textOf(v[0])+")", textOf(v[1])
		if front {
			t = t[len(compiled("^"+pattern+"+").FindString(t)):]
		}
		if back {
			if at := compiled(pattern + "+$").FindStringIndex(t); at != nil {
				t = t[:at[0]]
			}
		}
		return t
	})}
}

// rewriteGroup matches \1, which refers to a group of the expression in a replacement.
var rewriteGroup = regexp.MustCompile(`\\(\d)`)

// extract implements extract(regex, group, text): what the group of the first match captured, or ""
// when there is none.
func extract(_ *scope, v []any) any {
	m := compiled(textOf(v[0])).FindStringSubmatch(textOf(v[2]))
	if i := v[1].(int64); i >= 0 && i < int64(len(m)) {
		return m[i]
	}
	return ""
}

// countOf implements countof(text, part, kind): how often part occurs in text. Occurrences may
// overlap, except with the kind "regex".
func countOf(_ *scope, v []any) any {
	t, part := textOf(v[0]), textOf(v[1])
	if len(v) > 2 && textOf(v[2]) == "regex" {
		return int64(len(compiled(part).FindAllStringIndex(t, -1)))
	}
	n := int64(0)
	for i := 0; part != "" && i < len(t); { // occurrences may overlap
		at := strings.Index(t[i:], part)
		if at < 0 {
			break
		}
		n++
		i += at + 1
	}
	return n
}

// dateDiff implements datetime_diff(period, a, b): how many starts of a period lie between b and a;
// negative when a is earlier.
func dateDiff(_ *scope, v []any) any {
	unit, a, b := strings.ToLower(textOf(v[0])), v[1].(time.Time), v[2].(time.Time)
	switch unit {
	case "year":
		return int64(a.Year() - b.Year())
	case "quarter":
		return int64((a.Year()*4 + int(a.Month()-1)/3) - (b.Year()*4 + int(b.Month()-1)/3))
	case "month":
		return int64(a.Year()*12+int(a.Month())) - int64(b.Year()*12+int(b.Month()))
	case "week":
		a, b = startOf("week", a, 0), startOf("week", b, 0)
	}
	size := spans[unit]
	if size == 0 {
		panic(semantic("datetime_diff(): '%s' is no period that the emulator knows", unit))
	}
	return int64(a.Truncate(size).Sub(b.Truncate(size)) / size) // for weeks, a and b are Sundays now
}

// dateAdd implements datetime_add(period, n, datetime). In a month that is too short for the day, the
// result is on its last day.
func dateAdd(_ *scope, v []any) any {
	unit, n, t := strings.ToLower(textOf(v[0])), v[1].(int64), v[2].(time.Time)
	months := map[string]int64{"year": 12, "quarter": 3, "month": 1}[unit]
	if months > 0 {
		first := time.Date(t.Year(), t.Month()+time.Month(months*n), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		last := first.AddDate(0, 1, -1).Day() // of the month
		return inRange("datetime_add", first.AddDate(0, 0, min(t.Day(), last)-1))
	}
	size := spans[unit]
	if size == 0 {
		panic(semantic("datetime_add(): '%s' is no period that the emulator knows", unit))
	}
	return inRange("datetime_add", t.Add(time.Duration(wholeArithmetic("*", int64(size), n).(int64))))
}

// datePart implements datetime_part(part, datetime): that part as a whole number.
func datePart(_ *scope, v []any) any {
	t := v[1].(time.Time)
	_, week := t.ISOWeek()
	all := map[string]int{"year": t.Year(), "quarter": (int(t.Month())-1)/3 + 1, "month": int(t.Month()), "week_of_year": week, "day": t.Day(),
		"dayofyear": t.YearDay(), "hour": t.Hour(), "minute": t.Minute(), "second": t.Second(), "millisecond": t.Nanosecond() / 1e6,
		"microsecond": t.Nanosecond() / 1e3, "nanosecond": t.Nanosecond()}
	n, ok := all[strings.ToLower(textOf(v[0]))]
	if !ok {
		panic(semantic("datetime_part(): '%s' is no part that the emulator knows", textOf(v[0])))
	}
	return int64(n)
}

// makeDatetime implements make_datetime(year, month, day, hour, minute, second); the last three may be
// left out. It returns nil for a date or time that does not exist.
func makeDatetime(_ *scope, v []any) any {
	n := []float64{1, 1, 1, 0, 0, 0}
	for i, x := range v {
		n[i] = asReal(x)
	}
	if n[0] < 1 || n[0] > 9999 || n[1] < 1 || n[1] > 12 || n[2] < 1 || n[3] < 0 || n[3] > 23 || n[4] < 0 || n[4] > 59 || n[5] < 0 || n[5] >= 60 {
		return nil
	}
	t := time.Date(int(n[0]), time.Month(n[1]), int(n[2]), int(n[3]), int(n[4]), 0, 0, time.UTC)
	if t.Day() != int(n[2]) {
		return nil
	}
	return t.Add(time.Duration(math.Round(n[5]*1e7)) * tick)
}

// makeTimespan implements make_timespan with two arguments (hours, minutes), three (with seconds) or
// four (days first). It returns nil for a value out of range.
func makeTimespan(_ *scope, v []any) any {
	var n []float64
	for _, x := range v {
		n = append(n, asReal(x))
	}
	days := 0.0
	if len(n) == 4 {
		days, n = n[0], n[1:]
	}
	if len(n) == 2 {
		n = append(n, 0)
	}
	if n[0] < 0 || n[0] > 23 || n[1] < 0 || n[1] > 59 || n[2] < 0 || n[2] >= 60 || days < 0 || days > 100_000 {
		return nil
	}
	return time.Duration(days)*24*time.Hour + time.Duration(n[0])*time.Hour + time.Duration(n[1])*time.Minute + time.Duration(math.Round(n[2]*1e7))*tick
}

// rangeOf implements range(first, last, step): the array of values from first to last. Without a step
// it is 1, or an hour for times.
func rangeOf(_ *scope, v []any) any {
	if len(v) == 2 {
		v = append(v, int64(1))
		switch v[0].(type) {
		case time.Time, time.Duration:
			v[2] = time.Hour
		}
	}
	list := []json.RawMessage{}
	up := compare(arithmetic("+", v[0], v[2]), v[0]) // the sign of the step: 1, -1 or 0
	for x := v[0]; up != 0 && compare(x, v[1])*up <= 0; x = arithmetic("+", x, v[2]) {
		if len(list) == 1<<20 { // the most that the service makes
			break
		}
		list = append(list, dynamicOf(x))
	}
	return JSON(list)
}

// bagPack implements bag_pack(key, value, …): a property bag. Of equal keys the last value counts.
func bagPack(_ *scope, v []any) any {
	var keys []string
	values := make(map[string]json.RawMessage)
	for i := 0; i+1 < len(v); i += 2 {
		key := textOf(v[i])
		if _, there := values[key]; !there {
			keys = append(keys, key)
		}
		values[key] = dynamicOf(v[i+1])
	}
	return bagOf(keys, values)
}

// typeName implements gettype(value): the name of the type, for a dynamic value that of what it
// contains.
func typeName(v any) any {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case int64:
		return "long"
	case float64:
		return "double"
	case *big.Rat:
		return "decimal"
	case time.Time:
		return "datetime"
	case time.Duration:
		return "timespan"
	case json.RawMessage:
		if inner := scalarOf(v); inner != nil {
			if raw, ok := inner.(json.RawMessage); ok {
				return map[byte]string{'[': "array", '{': "dictionary"}[raw[0]]
			}
			return typeName(inner)
		}
		return "null"
	}
	return "string"
}

var functions map[string]function

// init fills functions: all scalar functions of the subset, by name.
func init() {
	isEmpty := func(v any) bool { return v == nil || v == "" || textOf(v) == "" }
	predicate := func(f func(v any) bool) function {
		return function{params: "a", lenient: true, typ: "bool", of: plain(func(v []any) any { return f(v[0]) })}
	}
	iff := function{params: "baa", lenient: true, typeOf: func(args []expression) string { return sameType("iff", args, 1, 2) },
		of: plain(func(v []any) any {
			if v[0] == true {
				return v[1]
			}
			return v[2]
		})}
	boolean, toReal, isNotNull, isNotEmpty := conversion("bool"), conversion("real"), predicate(func(v any) bool { return v != nil }), predicate(func(v any) bool { return !isEmpty(v) })
	parseJSON := function{params: "a", lenient: true, typ: "dynamic", names: true, of: plain(func(v []any) any {
		raw, ok := v[0].(json.RawMessage)
		if !ok {
			raw = json.RawMessage(textOf(v[0]))
		}
		if inner, quoted := scalarOf(raw).(string); ok && quoted {
			raw = json.RawMessage(inner)
		}
		if json.Valid(raw) {
			return notNull(raw)
		}
		if len(raw) == 0 {
			return nil
		}
		return JSON(textOf(v[0]))
	})}
	bin := function{params: "aa", typeOf: binType, names: true, of: binned}
	monthOf := part("int", func(t time.Time) int { return int(t.Month()) })
	bag := function{params: "aa*", lenient: true, typ: "dynamic", of: bagPack}
	functions = map[string]function{
		"now": {params: "?t", typ: "datetime", of: func(s *scope, v []any) any {
			if len(v) == 1 {
				return arithmetic("+", s.now, v[0])
			}
			return s.now
		}},
		"ingestion_time": {typ: "datetime", ofRow: func(row []any) any { return row[:len(row)+1][len(row)] }},

		"ago":               {params: "t", typ: "datetime", of: func(s *scope, v []any) any { return arithmetic("-", s.now, v[0]) }},
		"current_principal": {typ: "string", of: func(s *scope, _ []any) any { return s.source.Principal() }},
		"current_database":  {typ: "string", of: func(s *scope, _ []any) any { return s.source.Database() }},

		"not":       {params: "b", typ: "bool", of: plain(func(v []any) any { return v[0] != true })},
		"isnull":    predicate(func(v any) bool { return v == nil }),
		"isnotnull": isNotNull, "notnull": isNotNull,
		"isempty":    predicate(isEmpty),
		"isnotempty": isNotEmpty, "notempty": isNotEmpty,
		"isnan":    {params: "n", typ: "bool", of: plain(func(v []any) any { return math.IsNaN(asReal(v[0])) })},
		"isinf":    {params: "n", typ: "bool", of: plain(func(v []any) any { return math.IsInf(asReal(v[0]), 0) })},
		"isfinite": {params: "n", typ: "bool", of: plain(func(v []any) any { return !math.IsInf(asReal(v[0]), 0) && !math.IsNaN(asReal(v[0])) })},
		"iff":      iff, "iif": iff,
		"case": {params: "baa*", lenient: true, typeOf: func(args []expression) string {
			if len(args)%2 == 0 {
				panic(semantic("case(): want pairs of a predicate and a value, and a value for all others"))
			}
			pick := []int{len(args) - 1}
			for i := 0; i+1 < len(args); i += 2 {
				if args[i].typ != "bool" {
					panic(semantic("case(): a predicate is of type %s, not bool", args[i].typ))
				}
				pick = append(pick, i+1)
			}
			return sameType("case", args, pick...)
		}, of: plain(func(v []any) any {
			for i := 0; i+1 < len(v); i += 2 {
				if v[i] == true {
					return v[i+1]
				}
			}
			return v[len(v)-1]
		})},
		"coalesce": {params: "aa*", lenient: true, typeOf: func(args []expression) string { return sameType("coalesce", args, all(args)...) },
			of: plain(func(v []any) any {
				for _, x := range v {
					if x != nil && x != "" {
						return x
					}
				}
				return v[len(v)-1]
			})},
		"min_of": extreme("min_of", -1), "max_of": extreme("max_of", 1),
		"gettype": {params: "a", lenient: true, typ: "string", of: plain(func(v []any) any { return typeName(v[0]) })},

		"tostring": conversion("string"), "toint": conversion("int"), "tolong": conversion("long"), "toreal": toReal, "todouble": toReal,
		"todecimal": conversion("decimal"), "todatetime": conversion("datetime"), "totimespan": conversion("timespan"), "tobool": boolean,
		"toboolean": boolean, "toguid": conversion("guid"), "parse_json": parseJSON, "todynamic": parseJSON,

		"strlen":       {params: "s", typ: "long", lenient: true, of: plain(func(v []any) any { return int64(utf8.RuneCountInString(textOf(v[0]))) })},
		"tolower":      {params: "s", typ: "string", of: text(func(v []any) string { return strings.ToLower(textOf(v[0])) })},
		"toupper":      {params: "s", typ: "string", of: text(func(v []any) string { return strings.ToUpper(textOf(v[0])) })},
		"strcat":       {params: "a*", lenient: true, typ: "string", of: text(func(v []any) string { return joined("", v) })},
		"strcat_delim": {params: "saa*", lenient: true, typ: "string", of: text(func(v []any) string { return joined(textOf(v[0]), v[1:]) })},
		"strcmp":       {params: "ss", lenient: true, typ: "int", of: plain(func(v []any) any { return int64(strings.Compare(textOf(v[0]), textOf(v[1]))) })},
		"strrep": {params: "al?s", typ: "string", of: text(func(v []any) string {
			n, delimiter := v[1].(int64), ""
			if len(v) > 2 {
				delimiter = textOf(v[2])
			}
			if size := int64(len(textOf(v[0])) + len(delimiter)); n > 1024 || n < 1 || size*n > maxText {
				panic(semantic("strrep(): it repeats from 1 to 1024 times"))
			}
			return strings.TrimSuffix(strings.Repeat(textOf(v[0])+delimiter, int(n)), delimiter)
		})},
		"substring": {params: "sl?l", typ: "string", of: text(substring)},
		"split":     {params: "ss?l", typ: "dynamic", of: split},
		"indexof":   {params: "ss?l", typ: "long", of: indexOf},
		"trim":      trimmed(true, true), "trim_start": trimmed(true, false), "trim_end": trimmed(false, true),
		"replace_string": {params: "sss", typ: "string", of: text(func(v []any) string {
			if textOf(v[1]) == "" {
				return textOf(v[0])
			}
			return strings.ReplaceAll(textOf(v[0]), textOf(v[1]), textOf(v[2]))
		})},
		"replace_regex": {params: "sss", typ: "string", of: text(func(v []any) string {
			rewrite := rewriteGroup.ReplaceAllString(strings.ReplaceAll(textOf(v[2]), "$", "$$"), "$${$1}")
			return compiled(textOf(v[1])).ReplaceAllString(textOf(v[0]), rewrite)
		})},
		"extract": {params: "sls", typ: "string", of: extract},
		"countof": {params: "ss?s", typ: "long", of: countOf},
		"reverse": {params: "a", typ: "string", of: text(func(v []any) string {
			runes := []rune(textOf(v[0]))
			slices.Reverse(runes)
			return string(runes)
		})},
		"base64_encode_tostring": {params: "s", typ: "string", of: text(func(v []any) string { return base64.StdEncoding.EncodeToString([]byte(textOf(v[0]))) })},
		"base64_decode_tostring": {params: "s", typ: "string", of: text(func(v []any) string {
			raw, err := base64.StdEncoding.DecodeString(textOf(v[0]))
			if err != nil || !utf8.Valid(raw) {
				return ""
			}
			return string(raw)
		})},

		"bin": bin, "floor": bin,
		"ceiling": {params: "n", typeOf: wholeOrReal, of: plain(func(v []any) any {
			if n, ok := v[0].(int64); ok {
				return n
			}
			return math.Ceil(asReal(v[0]))
		})},
		"round": {params: "n?l", typeOf: wholeOrReal, of: rounded},
		"abs": {params: "a", typeOf: func(args []expression) string {
			if t := args[0].typ; isNumber(t) || t == "timespan" {
				return t
			}
			panic(semantic("abs(): wants a number or a timespan, not %s", args[0].typ))
		}, of: plain(func(v []any) any {
			var zero any = int64(0)
			switch x := v[0].(type) {
			case time.Duration:
				return absolute(x)
			case float64:
				return math.Abs(x)
			}
			if compare(v[0], zero) < 0 {
				return arithmetic("-", zero, v[0])
			}
			return v[0]
		})},
		"sign": {params: "n", typ: "long", of: plain(func(v []any) any { return int64(compare(v[0], int64(0))) })},
		"sqrt": realFunction(math.Sqrt), "exp": realFunction(math.Exp), "log": realFunction(math.Log), "log10": realFunction(math.Log10), "log2": realFunction(math.Log2),
		"exp2": realFunction(math.Exp2), "exp10": realFunction(func(x float64) float64 { return math.Pow(10, x) }),
		"pow": {params: "nn", typ: "real", of: plain(func(v []any) any { return math.Pow(asReal(v[0]), asReal(v[1])) })},
		"pi":  {typ: "real", of: plain(func([]any) any { return math.Pi })},

		"startofday": start("day", false), "startofweek": start("week", false), "startofmonth": start("month", false), "startofyear": start("year", false),
		"endofday": start("day", true), "endofweek": start("week", true), "endofmonth": start("month", true), "endofyear": start("year", true),
		"dayofweek":  {params: "d", typ: "timespan", of: plain(func(v []any) any { return time.Duration(v[0].(time.Time).Weekday()) * 24 * time.Hour })},
		"dayofmonth": part("int", time.Time.Day), "dayofyear": part("int", time.Time.YearDay), "getyear": part("int", time.Time.Year),
		"getmonth": monthOf, "monthofyear": monthOf, "hourofday": part("int", time.Time.Hour),
		"week_of_year":  part("long", func(t time.Time) int { _, w := t.ISOWeek(); return w }),
		"datetime_diff": {params: "sdd", typ: "long", of: dateDiff}, "datetime_add": {params: "sld", typ: "datetime", of: dateAdd}, "datetime_part": {params: "sd", typ: "long", of: datePart},
		"make_datetime": {params: "nnn?nnn", typ: "datetime", of: makeDatetime}, "make_timespan": {params: "nn?nn", typ: "timespan", of: makeTimespan},
		"unixtime_seconds_todatetime": sinceEpoch(time.Second), "unixtime_milliseconds_todatetime": sinceEpoch(time.Millisecond),
		"unixtime_microseconds_todatetime": sinceEpoch(time.Microsecond), "unixtime_nanoseconds_todatetime": sinceEpoch(time.Nanosecond),

		"array_length": {params: "y", typ: "long", of: plain(func(v []any) any {
			if list, ok := arrayOf(v[0]); ok {
				return int64(len(list))
			}
			return nil
		})},
		"array_concat": {params: "y*", lenient: true, typ: "dynamic", of: plain(func(v []any) any {
			list := []json.RawMessage{}
			for _, x := range v {
				more, _ := arrayOf(x)
				list = append(list, more...)
			}
			return JSON(list)
		})},
		"pack_array": {params: "a*", lenient: true, typ: "dynamic", of: plain(func(v []any) any {
			list := []json.RawMessage{}
			for _, x := range v {
				list = append(list, dynamicOf(x))
			}
			return JSON(list)
		})},
		"bag_pack": bag, "pack": bag,
		"bag_keys": {params: "y", typ: "dynamic", of: plain(func(v []any) any {
			keys, ok := keysOf(v[0])
			if !ok {
				return nil
			}
			return JSON(keys)
		})},
		"bag_has_key": {params: "ys", typ: "bool", of: plain(func(v []any) any {
			keys, ok := keysOf(v[0])
			if !ok {
				return nil
			}
			if strings.HasPrefix(textOf(v[1]), "$") {
				panic(semantic("bag_has_key(): the emulator knows keys, not paths"))
			}
			return slices.Contains(keys, textOf(v[1]))
		})},
		"range": {params: "aa?a", typeOf: func(args []expression) string {
			step := "long"
			switch {
			case len(args) == 3:
				step = args[2].typ
			case args[0].typ == "datetime" || args[0].typ == "timespan":
				step = "timespan"
			}
			rangeType(args[0].typ, args[1].typ, step)
			return "dynamic"
		}, of: rangeOf},
	}
}

// keysOf returns the keys of a property bag in the order of its text; ok is false when v is not a
// property bag.
func keysOf(v any) (keys []string, ok bool) {
	raw, is := v.(json.RawMessage)
	var bag map[string]json.RawMessage
	if !is || json.Unmarshal(raw, &bag) != nil {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	_, _ = dec.Token() // the bracket
	keys = []string{}
	for dec.More() {
		key, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil, false
		}
		keys = append(keys, key.(string))
	}
	return keys, true
}

// joined returns the values as text, with the delimiter between them.
func joined(delimiter string, v []any) string {
	var all []string
	for _, x := range v {
		all = append(all, textOf(x))
	}
	return strings.Join(all, delimiter)
}

// call reads a function's name and arguments and returns the expression that calls it. It panics with
// a Fault, which ends the query, when the function is unknown, or does not take these arguments.
func (s *scope) call(c *Cursor) expression {
	name := c.Next().Text
	if name == "toscalar" {
		return s.toScalar(c)
	}
	if s.aggregates != nil && aggregateFunctions[name] != nil {
		return s.aggregates.call(c, s, name)
	}
	f, ok := functions[name]
	if !ok {
		if aggregateFunctions[name] != nil {
			panic(semantic("the aggregate '%s' is known in summarize alone", name))
		}
		panic(unknown("function", name))
	}
	args := s.arguments(c)
	f.check(name, args)
	e := expression{typ: f.typ}
	if f.typeOf != nil {
		e.typ = f.typeOf(args)
	}
	if f.names && len(args) > 0 {
		e.name = args[0].name
	}
	if f.ofRow != nil { // a function of the row itself: ingestion_time
		if s.at == nil || !s.at.Ingested {
			panic(semantic("%s(): the emulator knows it of the rows of a table, also behind where, take and order, and of no others", name))
		}
		e.of = f.ofRow
		return e
	}
	inner := *s
	e.of = func(row []any) any {
		v := make([]any, len(args))
		for i, a := range args {
			if v[i] = a.of(row); v[i] == nil && !f.lenient {
				return nil
			}
		}
		return f.of(&inner, v)
	}
	return e
}

// check panics with a Fault, which ends the query, unless the number and the types of args fit
// f.params. That has a letter for the type of each parameter (a: any). Parameters behind a ? may be
// left out; a * at the end lets the last one be given any number of times.
func (f function) check(name string, args []expression) {
	least, most, optional := 0, 0, false
	var kinds []byte
	for i := 0; i < len(f.params); i++ {
		switch f.params[i] {
		case '?':
			optional = true
		case '*':
			most = math.MaxInt
			if f.params == "a*" || f.params == "y*" {
				least = 1
			} else {
				least-- // the parameter before the * may be missing
			}
		default:
			kinds = append(kinds, f.params[i])
			if most++; !optional {
				least++
			}
		}
	}
	if len(args) < least || len(args) > most {
		panic(semantic("%s(): it does not take %d arguments", name, len(args)))
	}
	for i, a := range args {
		ok := true
		switch kinds[min(i, len(kinds)-1)] {
		case 's':
			ok = a.typ == "string" || a.typ == "dynamic"
		case 'n':
			ok = isNumber(a.typ)
		case 'l':
			ok = isWhole(a.typ)
		case 'd':
			ok = a.typ == "datetime"
		case 't':
			ok = a.typ == "timespan"
		case 'y':
			ok = a.typ == "dynamic"
		case 'b':
			ok = a.typ == "bool"
		}
		if !ok {
			panic(semantic("%s(): argument %d is of type %s", name, i+1, a.typ))
		}
	}
}

// toScalar reads toscalar(…), around a table or a scalar. The result is a constant: the first cell of
// the table, nil when it has no rows, or the scalar.
func (s *scope) toScalar(c *Cursor) expression {
	var e expression
	c.Want("(")
	c.either(func() {
		e = s.over(nil).scalar(c)
		e = fixed(e.typ, e.of(nil))
	}, func() {
		t := s.tabular(c)
		if len(t.Columns) == 0 {
			panic(semantic("toscalar(): the table has no columns"))
		}
		e = fixed(t.Columns[0].Type, nil)
		if len(t.Rows) > 0 {
			e = fixed(t.Columns[0].Type, t.Rows[0][0])
		}
	}, true)
	c.Want(")")
	return e
}
