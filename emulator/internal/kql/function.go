package kql

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	of      func(v []any) any              // the value, from the values of the arguments
	inScope func(s *scope, v []any) any    // in place of of: the value, also from the scope
	ofRow   func(row []any) any            // in place of of: the value, from the row itself
	names   bool                           // a column of the result gets the name of the first argument
}

// maxText bounds the strings that functions make.
const maxText = 16 << 20

// realFunction describes a function of one number whose result is of type real.
func realFunction(f func(x float64) float64) function {
	return function{params: "n", typ: "real", of: func(v []any) any { return f(asReal(v[0])) }}
}

// conversion describes the function that converts any value to the type, such as tolong. A column made
// by it keeps the name of its argument.
func conversion(typ string) function {
	return function{params: "a", lenient: true, typ: typ, names: true, of: func(v []any) any { return converted(typ, v[0]) }}
}

// converted returns v converted to the type as tolong, tostring and so on do it; nil where that is not
// possible. A null becomes nil, or "" for a string.
func converted(typ string, v any) any {
	v = scalarOf(v)
	if text, ok := v.(string); ok {
		x := parsed(typ, text)
		if real, ok := parsed("real", text).(float64); x == nil && ok && isWhole(typ) && strings.Contains(text, ".") {
			return converted(typ, real)
		}
		return x
	}
	if b, ok := v.(bool); ok && isNumber(typ) {
		v = int64(count(b))
	}
	switch typ {
	case "string":
		return textOf(v)
	case "bool":
		switch x := v.(type) {
		case bool:
			return x
		case int64:
			return x != 0
		case float64:
			return x != 0
		}
	case "int", "long":
		n, ok := v.(int64)
		switch x := v.(type) {
		case float64:
			n, ok = int64(x), math.Abs(x) < 1<<63
		case *big.Rat:
			whole := new(big.Int).Quo(x.Num(), x.Denom())
			n, ok = whole.Int64(), whole.IsInt64()
		}
		if ok && (typ == "long" || n == int64(int32(n))) {
			return n
		}
	case "real":
		if x, ok := realOf(v); ok {
			return x
		}
	case "decimal":
		d := exact(v)
		if x, ok := v.(float64); ok {
			d = new(big.Rat).SetFloat64(x) // nil for NaN and infinities
		}
		if d != nil {
			return d
		}
	case "datetime":
		if t, ok := v.(time.Time); ok {
			return t
		}
	case "timespan":
		if d, ok := v.(time.Duration); ok {
			return d
		}
	}
	return nil
}

// spans are the periods of a fixed length, by the names that datetime_add and datetime_diff use.
var spans = map[string]time.Duration{"week": 7 * 24 * time.Hour, "day": 24 * time.Hour, "hour": time.Hour, "minute": time.Minute, "second": time.Second,
	"millisecond": time.Millisecond, "microsecond": time.Microsecond, "nanosecond": time.Nanosecond}

// periodOf returns the length of a period. For one that is not in spans it panics with a Fault, which
// ends the query; function names the caller in the message.
func periodOf(function, unit string) time.Duration {
	size := spans[unit]
	if size == 0 {
		panic(semantic("%s(): '%s' is no period that the emulator knows", function, unit))
	}
	return size
}

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
	return function{params: "d?l", typ: "datetime", of: func(v []any) any {
		t, offset := v[0].(time.Time), 0
		if len(v) > 1 {
			offset = int(v[1].(int64))
		}
		if end {
			return inRange(unit, startOf(unit, t, offset+1).Add(-tick))
		}
		return inRange(unit, startOf(unit, t, offset))
	}}
}

// part describes a function that returns a part of a datetime, such as its month, as a whole number of
// the type.
func part(typ string, f func(t time.Time) int) function {
	return function{params: "d", typ: typ, of: func(v []any) any { return int64(f(v[0].(time.Time))) }}
}

// sinceEpoch returns the description of the KQL function unixtime_…_todatetime for a unit, in which
// its argument counts from 1970 on. Whole numbers are not converted to floating point, so that no
// digit is lost.
func sinceEpoch(unit time.Duration) function {
	return function{params: "n", typ: "datetime", of: func(v []any) any {
		d, _ := scaled("*", unit, asReal(v[0])).(time.Duration)
		if n, ok := v[0].(int64); ok {
			d = time.Duration(wholeArithmetic("*", int64(unit), n).(int64))
		}
		return time.Unix(0, 0).UTC().Add(d)
	}}
}

// sameType returns the common type of the arguments: int and long have long in common, a real and a
// whole number real. When there is none, it panics with a Fault, which ends the query; what names the
// function in the message.
func sameType(what string, args ...expression) string {
	typ := ""
	for _, a := range args {
		switch t := a.typ; {
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

// extreme returns the description of the KQL function min_of (sign -1) or max_of (sign 1), which
// ignore nulls. name is that of the function.
func extreme(name string, sign int) function {
	return function{params: "aa*", lenient: true, typeOf: func(args []expression) string { return sameType(name, args...) },
		of: func(v []any) any { return furthest(v, sign) }}
}

// furthest returns the greatest of the values (sign 1) or the least (sign -1), without nulls; nil when
// there is none.
func furthest(values []any, sign int) (best any) {
	for _, x := range values {
		if x != nil && (best == nil || compare(x, best)*sign > 0) {
			best = x
		}
	}
	return best
}

// floored returns the greatest multiple of size, which is above 0, that is not above x.
func floored[T ~int64](x, size T) T {
	rest := x % size
	if rest < 0 {
		rest += size
	}
	return x - rest
}

// binned implements bin(value, size): the greatest multiple of size that is not above value. The
// result is nil for a size of 0 or less.
func binned(v []any) any {
	switch x := v[0].(type) {
	case time.Time:
		const perSecond = int64(time.Second / tick)
		const zero = 62_135_596_800 * perSecond // bins are counted from the year 1
		if size := int64(v[1].(time.Duration) / tick); size > 0 {
			low := floored(x.Unix()*perSecond+int64(x.Nanosecond())/int64(tick)+zero, size) - zero
			return time.Unix(low/perSecond, low%perSecond*int64(tick)).UTC()
		}
		return nil
	case time.Duration:
		if size := v[1].(time.Duration); size > 0 {
			return floored(x, size)
		}
		return nil
	case int64:
		if size, ok := v[1].(int64); ok && size > 0 {
			return floored(x, size)
		} else if ok {
			return nil
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
func rounded(v []any) any {
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
func substring(v []any) any {
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
func split(v []any) any {
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
func indexOf(v []any) any {
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
	return function{params: "ss", typ: "string", of: func(v []any) any {
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
	}}
}

// rewriteGroup matches \1, which refers to a group of the expression in a replacement.
var rewriteGroup = regexp.MustCompile(`\\(\d)`)

// extract implements extract(regex, group, text): what the group of the first match captured, or ""
// when there is none.
func extract(v []any) any {
	m := compiled(textOf(v[0])).FindStringSubmatch(textOf(v[2]))
	if i := v[1].(int64); i >= 0 && i < int64(len(m)) {
		return m[i]
	}
	return ""
}

// countOf implements countof(text, part, kind): how often part occurs in text. Occurrences may
// overlap, except with the kind "regex".
func countOf(v []any) any {
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
func dateDiff(v []any) any {
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
	size := periodOf("datetime_diff", unit)
	return int64(a.Truncate(size).Sub(b.Truncate(size)) / size) // for weeks, a and b are Sundays now
}

// dateAdd implements datetime_add(period, n, datetime). In a month that is too short for the day, the
// result is on its last day.
func dateAdd(v []any) any {
	unit, n, t := strings.ToLower(textOf(v[0])), v[1].(int64), v[2].(time.Time)
	months := map[string]int64{"year": 12, "quarter": 3, "month": 1}[unit]
	if months > 0 {
		first := time.Date(t.Year(), t.Month()+time.Month(months*n), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		last := first.AddDate(0, 1, -1).Day() // of the month
		return inRange("datetime_add", first.AddDate(0, 0, min(t.Day(), last)-1))
	}
	size := periodOf("datetime_add", unit)
	return inRange("datetime_add", t.Add(time.Duration(wholeArithmetic("*", int64(size), n).(int64))))
}

// datePart implements datetime_part(part, datetime): that part as a whole number.
func datePart(v []any) any {
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
func makeDatetime(v []any) any {
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
func makeTimespan(v []any) any {
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
func rangeOf(v []any) any {
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
func bagPack(v []any) any {
	var bag propertyBag
	for i := 0; i+1 < len(v); i += 2 {
		bag.set(textOf(v[i]), dynamicOf(v[i+1]))
	}
	return bag.json()
}

// typeNames has what gettype() says of a value, by its Go type.
var typeNames = map[string]string{"<nil>": "null", "bool": "bool", "int64": "long", "float64": "double", "*big.Rat": "decimal",
	"time.Time": "datetime", "time.Duration": "timespan", "string": "string"}

// typeName implements gettype(value): the name of the type, for a dynamic value that of what it
// contains.
func typeName(v any) any {
	v = scalarOf(v)
	if raw, ok := v.(json.RawMessage); ok {
		return map[byte]string{'[': "array", '{': "dictionary"}[raw[0]]
	}
	return typeNames[fmt.Sprintf("%T", v)]
}

// parseJSON implements parse_json(value): the dynamic value that a text is the JSON of, or the text
// itself as one.
func parseJSON(v []any) any {
	raw, ok := v[0].(json.RawMessage)
	if !ok {
		raw = json.RawMessage(textOf(v[0]))
	}
	if inner, quoted := scalarOf(raw).(string); ok && quoted {
		raw = json.RawMessage(inner)
	}
	switch {
	case json.Valid(raw):
		return notNull(raw)
	case len(raw) == 0:
		return nil
	}
	return JSON(textOf(v[0]))
}

// aliases are other names of functions.
var aliases = map[string]string{"iif": "iff", "notnull": "isnotnull", "notempty": "isnotempty", "todouble": "toreal", "toboolean": "tobool",
	"todynamic": "parse_json", "floor": "bin", "monthofyear": "getmonth", "pack": "bag_pack"}

var functions map[string]function

// init fills functions: all scalar functions of the subset, by name.
func init() {
	isEmpty := func(v any) bool { return v == nil || v == "" || textOf(v) == "" }
	predicate := func(f func(v any) bool) function {
		return function{params: "a", lenient: true, typ: "bool", of: func(v []any) any { return f(v[0]) }}
	}
	functions = map[string]function{
		"now": {params: "?t", typ: "datetime", inScope: func(s *scope, v []any) any {
			if len(v) == 1 {
				return arithmetic("+", s.now, v[0])
			}
			return s.now
		}},
		"ingestion_time": {typ: "datetime", ofRow: func(row []any) any { return row[:len(row)+1][len(row)] }},

		"ago":               {params: "t", typ: "datetime", inScope: func(s *scope, v []any) any { return arithmetic("-", s.now, v[0]) }},
		"current_principal": {typ: "string", inScope: func(s *scope, _ []any) any { return s.source.Principal() }},
		"current_database":  {typ: "string", inScope: func(s *scope, _ []any) any { return s.source.Database() }},

		"not":        {params: "b", typ: "bool", of: func(v []any) any { return v[0] != true }},
		"isnull":     predicate(func(v any) bool { return v == nil }),
		"isnotnull":  predicate(func(v any) bool { return v != nil }),
		"isempty":    predicate(isEmpty),
		"isnotempty": predicate(func(v any) bool { return !isEmpty(v) }),
		"isnan":      {params: "n", typ: "bool", of: func(v []any) any { return math.IsNaN(asReal(v[0])) }},
		"isinf":      {params: "n", typ: "bool", of: func(v []any) any { return math.IsInf(asReal(v[0]), 0) }},
		"isfinite":   {params: "n", typ: "bool", of: func(v []any) any { return !math.IsInf(asReal(v[0]), 0) && !math.IsNaN(asReal(v[0])) }},
		"iff": {params: "baa", lenient: true, typeOf: func(args []expression) string { return sameType("iff", args[1:]...) },
			of: func(v []any) any {
				if v[0] == true {
					return v[1]
				}
				return v[2]
			}},
		"case": {params: "baa*", lenient: true, typeOf: func(args []expression) string {
			if len(args)%2 == 0 {
				panic(semantic("case(): want pairs of a predicate and a value, and a value for all others"))
			}
			values := args[len(args)-1:]
			for i := 0; i+1 < len(args); i += 2 {
				if args[i].typ != "bool" {
					panic(semantic("case(): a predicate is of type %s, not bool", args[i].typ))
				}
				values = append(values, args[i+1])
			}
			return sameType("case", values...)
		}, of: func(v []any) any {
			for i := 0; i+1 < len(v); i += 2 {
				if v[i] == true {
					return v[i+1]
				}
			}
			return v[len(v)-1]
		}},
		"coalesce": {params: "aa*", lenient: true, typeOf: func(args []expression) string { return sameType("coalesce", args...) },
			of: func(v []any) any {
				for _, x := range v {
					if x != nil && x != "" {
						return x
					}
				}
				return v[len(v)-1]
			}},
		"min_of": extreme("min_of", -1), "max_of": extreme("max_of", 1),
		"gettype": {params: "a", lenient: true, typ: "string", of: func(v []any) any { return typeName(v[0]) }},

		"tostring": conversion("string"), "toint": conversion("int"), "tolong": conversion("long"), "toreal": conversion("real"),
		"todecimal": conversion("decimal"), "todatetime": conversion("datetime"), "totimespan": conversion("timespan"), "tobool": conversion("bool"),
		"toguid": conversion("guid"), "parse_json": {params: "a", lenient: true, typ: "dynamic", names: true, of: parseJSON},

		"strlen":       {params: "s", typ: "long", lenient: true, of: func(v []any) any { return int64(utf8.RuneCountInString(textOf(v[0]))) }},
		"tolower":      {params: "s", typ: "string", of: func(v []any) any { return strings.ToLower(textOf(v[0])) }},
		"toupper":      {params: "s", typ: "string", of: func(v []any) any { return strings.ToUpper(textOf(v[0])) }},
		"strcat":       {params: "a*", lenient: true, typ: "string", of: func(v []any) any { return joined("", v) }},
		"strcat_delim": {params: "saa*", lenient: true, typ: "string", of: func(v []any) any { return joined(textOf(v[0]), v[1:]) }},
		"strcmp":       {params: "ss", lenient: true, typ: "int", of: func(v []any) any { return int64(strings.Compare(textOf(v[0]), textOf(v[1]))) }},
		"strrep": {params: "al?s", typ: "string", of: func(v []any) any {
			n, delimiter := v[1].(int64), ""
			if len(v) > 2 {
				delimiter = textOf(v[2])
			}
			if size := int64(len(textOf(v[0])) + len(delimiter)); n > 1024 || n < 1 || size*n > maxText {
				panic(semantic("strrep(): it repeats from 1 to 1024 times"))
			}
			return strings.TrimSuffix(strings.Repeat(textOf(v[0])+delimiter, int(n)), delimiter)
		}},
		"substring": {params: "sl?l", typ: "string", of: substring},
		"split":     {params: "ss?l", typ: "dynamic", of: split},
		"indexof":   {params: "ss?l", typ: "long", of: indexOf},
		"trim":      trimmed(true, true), "trim_start": trimmed(true, false), "trim_end": trimmed(false, true),
		"replace_string": {params: "sss", typ: "string", of: func(v []any) any {
			if textOf(v[1]) == "" {
				return textOf(v[0])
			}
			return strings.ReplaceAll(textOf(v[0]), textOf(v[1]), textOf(v[2]))
		}},
		"replace_regex": {params: "sss", typ: "string", of: func(v []any) any {
			rewrite := rewriteGroup.ReplaceAllString(strings.ReplaceAll(textOf(v[2]), "$", "$$"), "$${$1}")
			return compiled(textOf(v[1])).ReplaceAllString(textOf(v[0]), rewrite)
		}},
		"extract": {params: "sls", typ: "string", of: extract},
		"countof": {params: "ss?s", typ: "long", of: countOf},
		"reverse": {params: "a", typ: "string", of: func(v []any) any {
			runes := []rune(textOf(v[0]))
			slices.Reverse(runes)
			return string(runes)
		}},
		"base64_encode_tostring": {params: "s", typ: "string", of: func(v []any) any { return base64.StdEncoding.EncodeToString([]byte(textOf(v[0]))) }},
		"base64_decode_tostring": {params: "s", typ: "string", of: func(v []any) any {
			raw, err := base64.StdEncoding.DecodeString(textOf(v[0]))
			if err != nil || !utf8.Valid(raw) {
				return ""
			}
			return string(raw)
		}},

		"bin": {params: "aa", typeOf: binType, names: true, of: binned},
		"ceiling": {params: "n", typeOf: wholeOrReal, of: func(v []any) any {
			if n, ok := v[0].(int64); ok {
				return n
			}
			return math.Ceil(asReal(v[0]))
		}},
		"round": {params: "n?l", typeOf: wholeOrReal, of: rounded},
		"abs": {params: "a", typeOf: func(args []expression) string {
			if t := args[0].typ; isNumber(t) || t == "timespan" {
				return t
			}
			panic(semantic("abs(): wants a number or a timespan, not %s", args[0].typ))
		}, of: func(v []any) any {
			var zero any = int64(0)
			switch x := v[0].(type) {
			case time.Duration:
				return x.Abs()
			case float64:
				return math.Abs(x)
			}
			if compare(v[0], zero) < 0 {
				return arithmetic("-", zero, v[0])
			}
			return v[0]
		}},
		"sign": {params: "n", typ: "long", of: func(v []any) any { return int64(compare(v[0], int64(0))) }},
		"sqrt": realFunction(math.Sqrt), "exp": realFunction(math.Exp), "log": realFunction(math.Log), "log10": realFunction(math.Log10), "log2": realFunction(math.Log2),
		"exp2": realFunction(math.Exp2), "exp10": realFunction(func(x float64) float64 { return math.Pow(10, x) }),
		"pow": {params: "nn", typ: "real", of: func(v []any) any { return math.Pow(asReal(v[0]), asReal(v[1])) }},
		"pi":  {typ: "real", of: func([]any) any { return math.Pi }},

		"startofday": start("day", false), "startofweek": start("week", false), "startofmonth": start("month", false), "startofyear": start("year", false),
		"endofday": start("day", true), "endofweek": start("week", true), "endofmonth": start("month", true), "endofyear": start("year", true),
		"dayofweek":  {params: "d", typ: "timespan", of: func(v []any) any { return time.Duration(v[0].(time.Time).Weekday()) * 24 * time.Hour }},
		"dayofmonth": part("int", time.Time.Day), "dayofyear": part("int", time.Time.YearDay), "getyear": part("int", time.Time.Year),
		"getmonth": part("int", func(t time.Time) int { return int(t.Month()) }), "hourofday": part("int", time.Time.Hour),
		"week_of_year":  part("long", func(t time.Time) int { _, w := t.ISOWeek(); return w }),
		"datetime_diff": {params: "sdd", typ: "long", of: dateDiff}, "datetime_add": {params: "sld", typ: "datetime", of: dateAdd}, "datetime_part": {params: "sd", typ: "long", of: datePart},
		"make_datetime": {params: "nnn?nnn", typ: "datetime", of: makeDatetime}, "make_timespan": {params: "nn?nn", typ: "timespan", of: makeTimespan},
		"unixtime_seconds_todatetime": sinceEpoch(time.Second), "unixtime_milliseconds_todatetime": sinceEpoch(time.Millisecond),
		"unixtime_microseconds_todatetime": sinceEpoch(time.Microsecond), "unixtime_nanoseconds_todatetime": sinceEpoch(time.Nanosecond),

		"array_length": {params: "y", typ: "long", of: func(v []any) any {
			if list, ok := arrayOf(v[0]); ok {
				return int64(len(list))
			}
			return nil
		}},
		"array_concat": {params: "y*", lenient: true, typ: "dynamic", of: func(v []any) any {
			list := []json.RawMessage{}
			for _, x := range v {
				more, _ := arrayOf(x)
				list = append(list, more...)
			}
			return JSON(list)
		}},
		"pack_array": {params: "a*", lenient: true, typ: "dynamic", of: func(v []any) any {
			list := []json.RawMessage{}
			for _, x := range v {
				list = append(list, dynamicOf(x))
			}
			return JSON(list)
		}},
		"bag_pack": {params: "aa*", lenient: true, typ: "dynamic", of: bagPack},
		"bag_keys": {params: "y", typ: "dynamic", of: func(v []any) any {
			if bag, ok := bagOf(v[0]); ok {
				return JSON(append([]string{}, bag.keys...))
			}
			return nil
		}},
		"bag_has_key": {params: "ys", typ: "bool", of: func(v []any) any {
			bag, ok := bagOf(v[0])
			if !ok {
				return nil
			}
			if strings.HasPrefix(textOf(v[1]), "$") {
				panic(semantic("bag_has_key(): the emulator knows keys, not paths"))
			}
			return slices.Contains(bag.keys, textOf(v[1]))
		}},
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
	for alias, name := range aliases {
		functions[alias] = functions[name]
	}
}

// propertyBag is a property bag with its keys in the order in which they were set first. Of equal keys
// the last value counts.
type propertyBag struct {
	keys   []string
	values map[string]json.RawMessage
}

func (b *propertyBag) set(key string, value json.RawMessage) {
	if b.values == nil {
		b.values = make(map[string]json.RawMessage)
	}
	if _, there := b.values[key]; !there {
		b.keys = append(b.keys, key)
	}
	b.values[key] = value
}

func (b *propertyBag) json() json.RawMessage {
	out := []byte{'{'}
	for i, key := range b.keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, JSON(key)...), ':')
		out = append(out, b.values[key]...)
	}
	return append(out, '}')
}

// bagOf reads a property bag; ok is false when v is none.
func bagOf(v any) (bag propertyBag, ok bool) {
	raw, _ := v.(json.RawMessage)
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return bag, false
	}
	dec := json.NewDecoder(bytes.NewReader(raw)) // it tells the order of the keys
	_, _ = dec.Token()                           // the bracket
	for dec.More() {
		key, _ := dec.Token() // as all below, it is valid
		var value json.RawMessage
		_ = dec.Decode(&value)
		bag.set(key.(string), value)
	}
	return bag, true
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
		if f.inScope != nil {
			return f.inScope(&inner, v)
		}
		made := f.of(v)
		if text, ok := made.(string); ok && len(text) > maxText {
			panic(semantic("a string of %d bytes is longer than the emulator makes", len(text)))
		}
		return made
	}
	return e
}

// parameterTypes has the types that the letters in function.params stand for, except a.
var parameterTypes = map[byte]string{'s': "string dynamic", 'n': "int long real decimal", 'l': "int long", 'd': "datetime", 't': "timespan", 'y': "dynamic", 'b': "bool"}

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
		if kind := kinds[min(i, len(kinds)-1)]; kind != 'a' && !slices.Contains(strings.Fields(parameterTypes[kind]), a.typ) {
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
