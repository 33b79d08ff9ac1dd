package emulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// expression is a scalar of KQL: its type, and its value for a row.
type expression struct {
	typ string
	of  func(row []any) any
}

func fixed(typ string, v any) expression { return expression{typ, func([]any) any { return v }} }

// valueOf reads a cell of JSON as a value.
func valueOf(typ string, cell json.RawMessage) any {
	if len(cell) == 0 || string(cell) == "null" {
		return nil
	}
	text := string(cell)
	if cell[0] == '"' {
		_ = json.Unmarshal(cell, &text) // it is a string
	}
	switch typ {
	case "bool":
		return text == "true" || text == "1"
	case "int", "long":
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			return n
		}
	case "decimal":
		if d := decimalOf(text); d != nil {
			return d
		}
	case "real":
		x, err := strconv.ParseFloat(text, 64)
		if err == nil {
			return x
		}
	case "datetime":
		for _, layout := range dates {
			if t, err := time.Parse(layout, text); err == nil {
				return t.UTC()
			}
		}
	case "timespan":
		if d, ok := spanOf(text); ok {
			return d
		}
	case "dynamic":
		return slices.Clone(cell)
	default:
		return text
	}
	return nil
}

// written is a value as a cell of JSON.
func written(v any, typ string) json.RawMessage {
	switch v := v.(type) {
	case nil:
		if typ == "string" {
			return quote("")
		}
		return null
	case time.Time:
		return quote(v.Format(timeLayout))
	case time.Duration:
		return quote(spanText(v))
	case json.RawMessage:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return quote(fmt.Sprint(v))
		}
	case *big.Rat:
		return quote(decimalText(v))
	}
	return marshal(v)
}

// textOf is a value as tostring makes it.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text := string(written(v, ""))
	if text[0] == '"' {
		_ = json.Unmarshal([]byte(text), &text) // it is a string
	}
	return text
}

var (
	clockSpan = regexp.MustCompile(`^(-)?(?:(\d+)\.)?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,7}))?)?$`)
	unitSpan  = regexp.MustCompile(`^(-?\d+(?:\.\d+)?)(d|h|m|s|ms|microseconds?|ticks?)$`)
	spanUnits = map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second,
		"ms": time.Millisecond, "microsecond": time.Microsecond, "microseconds": time.Microsecond, "tick": 100, "ticks": 100}
)

// spanOf reads a timespan in either of its forms.
func spanOf(text string) (time.Duration, bool) {
	if m := unitSpan.FindStringSubmatch(text); m != nil {
		x, err := strconv.ParseFloat(m[1], 64)
		return time.Duration(x * float64(spanUnits[m[2]])), err == nil
	}
	m := clockSpan.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	part := func(s string) time.Duration {
		n, _ := strconv.Atoi(s) // digits, or nothing
		return time.Duration(n)
	}
	d := part(m[2])*24*time.Hour + part(m[3])*time.Hour + part(m[4])*time.Minute + part(m[5])*time.Second +
		part((m[6] + "0000000")[:7])*100
	if m[1] != "" {
		d = -d
	}
	return d, true
}

func spanText(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	s := fmt.Sprintf("%02d:%02d:%02d", d/time.Hour%24, d/time.Minute%60, d/time.Second%60)
	if days := d / (24 * time.Hour); days > 0 {
		s = fmt.Sprintf("%d.%s", days, s)
	}
	if ticks := d % time.Second / 100; ticks > 0 {
		s += fmt.Sprintf(".%07d", ticks)
	}
	return sign + s
}

// compare orders two values; nil comes first, numbers compare as numbers.
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
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
		if y, ok := b.(*big.Rat); ok {
			return exact(x).Cmp(y)
		}
	case *big.Rat:
		if y := exact(b); y != nil {
			return x.Cmp(y)
		}
	case bool:
		if y, ok := b.(bool); ok && x != y {
			return map[bool]int{true: 1, false: -1}[x]
		} else if ok {
			return 0
		}
	}
	if b == nil {
		return 1
	}
	x, ok1 := realOf(a)
	y, ok2 := realOf(b)
	if ok1 && ok2 {
		return cmp.Compare(x, y)
	}
	return strings.Compare(textOf(a), textOf(b))
}

func realOf(v any) (float64, bool) {
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

// exact is a whole number or a decimal with all its digits; nil for what is neither.
func exact(v any) *big.Rat {
	switch v := v.(type) {
	case int64:
		return new(big.Rat).SetInt64(v)
	case *big.Rat:
		return v
	}
	return nil
}

// decimalOf reads a decimal; nil for what is none, or further from 1 than the
// service has them.
func decimalOf(text string) *big.Rat {
	m := decimals.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	if m[2] != "" {
		if e, err := strconv.Atoi(m[2]); err != nil || e < -maxExponent || e > maxExponent {
			return nil
		}
	}
	d, _ := new(big.Rat).SetString(text) // the pattern holds for it
	return d
}

// maxExponent bounds decimals as those of 128 bits are.
const maxExponent = 6144

// decimalText writes all digits of a decimal, of which there is an end.
func decimalText(d *big.Rat) string {
	n, _ := d.FloatPrec()
	return d.FloatString(n)
}

// expression reads or-ed terms, the weakest binding first.
func (sc *scope) expression(c *cursor) (expression, error) {
	return sc.logical(c, "or", func(c *cursor) (expression, error) {
		return sc.logical(c, "and", sc.comparison, func(a, b bool) bool { return a && b })
	}, func(a, b bool) bool { return a || b })
}

func (sc *scope) logical(c *cursor, word string, term func(*cursor) (expression, error), join func(a, b bool) bool) (expression, error) {
	left, err := term(c)
	for err == nil && c.word(word) {
		var right expression
		if right, err = term(c); err != nil {
			break
		}
		if left.typ != "bool" || right.typ != "bool" {
			return left, semantic("%s joins %s and %s, not bool", word, left.typ, right.typ)
		}
		a, b := left, right
		left = expression{"bool", func(row []any) any { return join(a.of(row) == true, b.of(row) == true) }}
	}
	return left, err
}

// relations are the comparisons that depend on the order of two values alone.
var relations = map[string]func(int) bool{
	"==": func(d int) bool { return d == 0 }, "!=": func(d int) bool { return d != 0 },
	"<": func(d int) bool { return d < 0 }, ">": func(d int) bool { return d > 0 },
	"<=": func(d int) bool { return d <= 0 }, ">=": func(d int) bool { return d >= 0 },
}

// textTests are the comparisons of strings by word.
var textTests = map[string]func(text, part string) bool{
	"contains": func(t, p string) bool { return strings.Contains(strings.ToLower(t), strings.ToLower(p)) },
	"has": func(t, p string) bool {
		return slices.Contains(strings.FieldsFunc(strings.ToLower(t), func(r rune) bool {
			return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 0x80)
		}), strings.ToLower(p))
	},
	"startswith": func(t, p string) bool { return strings.HasPrefix(strings.ToLower(t), strings.ToLower(p)) },
	"endswith":   func(t, p string) bool { return strings.HasSuffix(strings.ToLower(t), strings.ToLower(p)) },
}

func (sc *scope) comparison(c *cursor) (expression, error) {
	left, err := sc.sum(c)
	if err != nil {
		return left, err
	}
	t := c.peek()
	switch {
	case t.kind == tokSign && relations[t.text] != nil:
		c.next()
		right, err := sc.sum(c)
		if err != nil {
			return right, err
		}
		if !alike(left.typ, right.typ) {
			return left, semantic("cannot compare values of types %s and %s", left.typ, right.typ)
		}
		test := relations[t.text]
		return expression{"bool", func(row []any) any { return test(compare(left.of(row), right.of(row))) }}, nil
	case t.kind == tokSign && (t.text == "=~" || t.text == "!~"):
		c.next()
		right, err := sc.sum(c)
		return expression{"bool", func(row []any) any {
			return strings.EqualFold(textOf(left.of(row)), textOf(right.of(row))) == (t.text == "=~")
		}}, err
	case t.kind == tokWord && textTests[strings.ToLower(t.text)] != nil:
		c.next()
		right, err := sc.sum(c)
		test := textTests[strings.ToLower(t.text)]
		return expression{"bool", func(row []any) any { return test(textOf(left.of(row)), textOf(right.of(row))) }}, err
	case c.word("in"):
		return sc.in(c, left)
	}
	return left, nil
}

// alike reports whether values of two types can be compared.
func alike(a, b string) bool {
	number := func(t string) bool { return t == "int" || t == "long" || t == "real" || t == "decimal" }
	return a == b || number(a) && number(b) || a == "dynamic" || b == "dynamic" || a == "" || b == ""
}

func (sc *scope) in(c *cursor, left expression) (expression, error) {
	list, err := sc.arguments(c)
	return expression{"bool", func(row []any) any {
		v := left.of(row)
		return slices.ContainsFunc(list, func(e expression) bool {
			return slices.ContainsFunc(elements(e.of(row)), func(w any) bool { return compare(v, w) == 0 })
		})
	}}, err
}

// elements are those of a dynamic array; any other value is alone.
func elements(v any) []any {
	raw, ok := v.(json.RawMessage)
	var list []json.RawMessage
	if !ok || json.Unmarshal(raw, &list) != nil {
		return []any{v}
	}
	all := make([]any, len(list))
	for i, item := range list {
		all[i] = item
		for _, typ := range []string{"long", "real"} {
			if n := valueOf(typ, item); n != nil && item[0] != '"' {
				all[i] = n
				break
			}
		}
		var text string
		if json.Unmarshal(item, &text) == nil {
			all[i] = text
		}
	}
	return all
}

// sum reads terms with + and - between them.
func (sc *scope) sum(c *cursor) (expression, error) {
	left, err := sc.primary(c)
	for err == nil {
		sign := 0
		switch {
		case c.sign("+"):
			sign = 1
		case c.sign("-"):
			sign = -1
		default:
			return left, nil
		}
		var right expression
		if right, err = sc.primary(c); err != nil {
			break
		}
		a, b := left, right
		typ := a.typ
		if a.typ == "datetime" && b.typ == "datetime" {
			typ = "timespan"
		} else if b.typ == "real" || b.typ == "decimal" && a.typ != "real" {
			typ = b.typ
		}
		left = expression{typ, func(row []any) any { return added(a.of(row), b.of(row), sign) }}
	}
	return left, err
}

func added(a, b any, sign int) any {
	switch x := a.(type) {
	case time.Time:
		switch y := b.(type) {
		case time.Duration:
			return x.Add(y * time.Duration(sign))
		case time.Time:
			return x.Sub(y)
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			return x + y*time.Duration(sign)
		}
	case int64:
		if y, ok := b.(int64); ok {
			return x + y*int64(sign)
		}
	}
	if x, y := exact(a), exact(b); x != nil && y != nil {
		if sign < 0 {
			return new(big.Rat).Sub(x, y)
		}
		return new(big.Rat).Add(x, y)
	}
	x, ok1 := realOf(a)
	y, ok2 := realOf(b)
	if !ok1 || !ok2 {
		return nil
	}
	return x + y*float64(sign)
}

// primary reads a literal, a column, a parameter, a function or brackets.
func (sc *scope) primary(c *cursor) (expression, error) {
	t := c.next()
	switch t.kind {
	case tokText:
		return fixed("string", t.text), nil
	case tokCount:
		return numberLiteral(c, t)
	case tokSign:
		switch t.text {
		case "(":
			e, err := sc.expression(c)
			if err == nil {
				err = c.want(")")
			}
			return e, err
		case "-":
			e, err := sc.primary(c)
			return expression{e.typ, func(row []any) any { return added(int64(0), e.of(row), -1) }}, err
		}
	case tokName:
		return sc.column(t.text)
	case tokWord:
		if next := c.peek(); next.kind == tokSign && next.text == "(" {
			if typ := scalarTypes[t.text]; typ != "" {
				return typedLiteral(c, typ)
			}
			return sc.function(c, t)
		}
		switch t.text {
		case "true", "false":
			return fixed("bool", t.text == "true"), nil
		}
		return sc.column(t.text)
	}
	c.i--
	return expression{}, c.fault("want an expression")
}

func numberLiteral(c *cursor, t token) (expression, error) {
	if n, err := strconv.ParseInt(t.text, 0, 64); err == nil {
		return fixed("long", n), nil
	}
	if x, err := strconv.ParseFloat(t.text, 64); err == nil {
		return fixed("real", x), nil
	}
	if d, ok := spanOf(t.text); ok {
		return fixed("timespan", d), nil
	}
	c.i--
	return expression{}, c.fault("want a number")
}

// typedLiteral reads what is between the brackets of long(…), datetime(…) and the
// like: it is not cut into tokens, but taken as it stands.
func typedLiteral(c *cursor, typ string) (expression, error) {
	from := c.next().at + 1
	depth := 1
	for depth > 0 {
		t := c.next()
		switch {
		case t.kind == tokEnd:
			return expression{}, c.fault("want )")
		case t.kind == tokSign && t.text == "(":
			depth++
		case t.kind == tokSign && t.text == ")":
			depth--
		}
	}
	inner := strings.TrimSpace(c.text[from:c.tokens[c.i-1].at])
	if typ == "dynamic" {
		if strict := relax([]byte(inner)); json.Valid(strict) {
			return fixed(typ, json.RawMessage(strict)), nil
		}
		return expression{}, semantic("dynamic(%s) is not JSON", inner)
	}
	if inner == "null" {
		return fixed(typ, nil), nil
	}
	if text, n, ok, _ := lexString(inner); ok && n == len(inner) {
		inner = text
	}
	v := valueOf(typ, quote(inner))
	if v == nil {
		return expression{}, semantic("%s(%s) is not a literal", typ, inner)
	}
	return fixed(typ, v), nil
}

func (sc *scope) column(name string) (expression, error) {
	if sc.at != nil {
		if i := sc.at.index(name); i >= 0 {
			return expression{sc.at.columns[i].Type, func(row []any) any { return row[i] }}, nil
		}
	}
	if v, ok := sc.parameters[name]; ok {
		return fixed(sc.types[name], v), nil
	}
	return expression{}, semantic("Failed to resolve scalar expression named '%s'", name)
}

func (sc *scope) arguments(c *cursor) (all []expression, err error) {
	if err := c.want("("); err != nil {
		return nil, err
	}
	for !c.sign(")") {
		e, err := sc.expression(c)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
		if !c.sign(",") {
			return all, c.want(")")
		}
	}
	return all, nil
}

// function reads a call of one of the few functions there are.
func (sc *scope) function(c *cursor, name token) (expression, error) {
	args, err := sc.arguments(c)
	if err != nil {
		return expression{}, err
	}
	want := func(n int) bool { return len(args) == n }
	now := time.Now().UTC()
	switch f := name.text; {
	case f == "now" && want(0):
		return fixed("datetime", now), nil
	case f == "ago" && want(1):
		return expression{"datetime", func(row []any) any { return added(now, args[0].of(row), -1) }}, nil
	case f == "current_principal" && want(0):
		return fixed("string", sc.principalName()), nil
	case f == "current_database" && want(0):
		return fixed("string", sc.databaseName), nil
	case f == "not" && want(1):
		return expression{"bool", func(row []any) any { return args[0].of(row) != true }}, nil
	case (f == "isnull" || f == "isempty" || f == "isnotnull" || f == "isnotempty") && want(1):
		negated := strings.HasPrefix(f, "isnot")
		return expression{"bool", func(row []any) any {
			v := args[0].of(row)
			return (v == nil || v == "" && strings.HasSuffix(f, "empty")) != negated
		}}, nil
	case f == "tostring" && want(1):
		return expression{"string", func(row []any) any { return textOf(args[0].of(row)) }}, nil
	case (f == "tolong" || f == "toint" || f == "toreal" || f == "todouble" || f == "todecimal" || f == "todatetime" || f == "tobool") && want(1):
		typ := scalarTypes[strings.TrimPrefix(f, "to")]
		return expression{typ, func(row []any) any { return valueOf(typ, quote(textOf(args[0].of(row)))) }}, nil
	case f == "strlen" && want(1):
		return expression{"long", func(row []any) any { return int64(len([]rune(textOf(args[0].of(row))))) }}, nil
	}
	return expression{}, semantic("Unknown function: '%s' with %d arguments; the emulator knows few", name.text, len(args))
}

// aggregate is one column of summarize.
type aggregate struct {
	name string
	typ  string
	over func(rows [][]any) any
}

func (sc *scope) aggregate(c *cursor) (a aggregate, err error) {
	if t := c.peek(); c.tokens[c.i+1].kind == tokSign && c.tokens[c.i+1].text == "=" {
		a.name = t.text
		c.i += 2
	}
	f := c.next()
	args, err := sc.arguments(c)
	if err != nil {
		return a, err
	}
	a.name = cmp.Or(a.name, f.text+"_")
	value := expression{}
	if len(args) > 0 {
		value = args[len(args)-1]
	}
	switch {
	case f.text == "count" && len(args) == 0:
		a.typ, a.over = "long", func(rows [][]any) any { return int64(len(rows)) }
	case f.text == "countif" && len(args) == 1:
		a.typ, a.over = "long", func(rows [][]any) any {
			n := int64(0)
			for _, row := range rows {
				if value.of(row) == true {
					n++
				}
			}
			return n
		}
	case f.text == "dcount" && len(args) == 1:
		a.typ, a.over = "long", func(rows [][]any) any {
			seen := make(map[string]bool)
			for _, row := range rows {
				seen[keyOf([]any{value.of(row)})] = true
			}
			return int64(len(seen))
		}
	case (f.text == "min" || f.text == "max") && len(args) == 1:
		sign := map[string]int{"min": -1, "max": 1}[f.text]
		a.typ, a.over = value.typ, func(rows [][]any) (best any) {
			for _, row := range rows {
				if v := value.of(row); v != nil && (best == nil || compare(v, best)*sign > 0) {
					best = v
				}
			}
			return best
		}
	case f.text == "sum" && len(args) == 1:
		a.typ, a.over = value.typ, func(rows [][]any) any {
			var sum any = int64(0)
			if value.typ == "decimal" {
				sum = new(big.Rat)
			}
			for _, row := range rows {
				if v := value.of(row); v != nil {
					sum = added(sum, v, 1)
				}
			}
			return sum
		}
	default:
		return a, semantic("Unknown aggregate: '%s' with %d arguments; the emulator knows count, countif, dcount, min, max and sum", f.text, len(args))
	}
	return a, nil
}
