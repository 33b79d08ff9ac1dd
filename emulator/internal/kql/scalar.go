package kql

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// expression is a scalar expression: its type, and the function that returns its value for a row.
type expression struct {
	typ  string
	of   func(row []any) any
	name string // of the column it makes; empty: it has none of its own
}

// fixed returns an expression whose value is v for every row.
func fixed(typ string, v any) expression {
	return expression{typ: typ, of: func([]any) any { return v }}
}

func isNumber(t string) bool { return t == "int" || t == "long" || t == "real" || t == "decimal" }

func isWhole(t string) bool { return t == "int" || t == "long" }

// scalar reads a scalar expression and returns its type, and a function for its value in a row. It
// begins with the weakest operators: or, then and, then comparisons.
func (s *scope) scalar(c *Cursor) expression {
	defer s.deeper(c)()
	return s.logical(c, "or", true, func(c *Cursor) expression {
		return s.logical(c, "and", false, s.comparison)
	})
}

// logical reads terms joined by and or or (word). decides is the value of a term that decides the
// result alone: false for and, true for or. Otherwise a null term makes the result null.
func (s *scope) logical(c *Cursor, word string, decides bool, term func(*Cursor) expression) expression {
	left := term(c)
	for c.Word(word) {
		right := term(c)
		if left.typ != "bool" || right.typ != "bool" {
			panic(semantic("operator '%s' wants bool, not %s and %s", word, left.typ, right.typ))
		}
		a, b := left, right
		left = expression{typ: "bool", of: func(row []any) any {
			x := a.of(row)
			if x == decides {
				return decides
			}
			if y := b.of(row); y == decides || x != nil {
				return y
			}
			return nil
		}}
	}
	return left
}

// relations are the comparisons that depend on the order of two values alone.
var relations = map[string]func(int) bool{
	"==": func(d int) bool { return d == 0 }, "!=": func(d int) bool { return d != 0 },
	"<": func(d int) bool { return d < 0 }, ">": func(d int) bool { return d > 0 },
	"<=": func(d int) bool { return d <= 0 }, ">=": func(d int) bool { return d >= 0 },
}

// comparison reads a sum and, if one follows, a comparison with what stands behind its operator. A !
// before the operator negates it.
func (s *scope) comparison(c *Cursor) expression {
	left := s.sum(c)
	begin := c.i
	negated := c.Sign("!")
	op := c.Next()
	test := textTests[op.Text]
	switch {
	case !negated && op.Kind == TokSign && relations[op.Text] != nil:
		return relation(op.Text, left, s.sum(c))
	case !negated && op.is("=~", "!~"):
		return textual(op.Text, left, s.sum(c), func(text, part string) bool { return strings.EqualFold(text, part) == (op.Text == "=~") })
	case op.Kind != TokWord: // no comparison
	case op.Text == "in":
		return s.in(c, left, negated)
	case op.Text == "between":
		return s.between(c, left, negated)
	case !negated && op.Text == "matches":
		if !c.Word("regex") {
			panic(c.Fault("want regex"))
		}
		return s.matches(c, left)
	case !negated && (op.Text == "has_any" || op.Text == "has_all"):
		return s.hasSome(c, left, op.Text == "has_all")
	case test != nil:
		return textual(op.Text, left, s.sum(c), func(text, part string) bool { return test(text, part) != negated })
	case negated:
		c.i = begin + 1
		panic(c.Fault("the emulator does not know this operator"))
	}
	c.i = begin
	return left
}

// count returns 1 for true and 0 for false.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// relation returns the expression that compares left and right with the relational operator op, as
// compareNullable does. It panics with a Fault, which ends the query, when their types cannot be
// compared.
func relation(op string, left, right expression) expression {
	equality := op == "==" || op == "!="
	wantComparable(op, left.typ, right.typ, equality)
	test := relations[op]
	return expression{typ: "bool", of: func(row []any) any {
		return compareNullable(op, test, equality, left.of(row), right.of(row))
	}}
}

// compareNullable compares two values with the operator op, whose test gets their order; equality is
// true for == and !=. The result is true, false, or nil for unknown: a null with a null is unknown,
// and so is a null or a value of another kind with <, >, <= and >=. Under == and != they differ from
// any value. NaN equals nothing and is neither greater nor less.
func compareNullable(op string, test func(int) bool, equality bool, a, b any) any {
	a, b = scalarOf(a), scalarOf(b)
	switch {
	case a == nil && b == nil, !equality && (a == nil || b == nil):
		return nil
	case a == nil || b == nil:
		return op == "!="
	case !sameKind(a, b):
		if equality {
			return op == "!="
		}
		return nil
	}
	if x, y := asReal(a), asReal(b); math.IsNaN(x) || math.IsNaN(y) {
		return op == "!="
	}
	return test(compare(a, b))
}

// asReal returns a number as float64; 0 for any other value.
func asReal(v any) float64 {
	x, _ := realOf(v)
	return x
}

// sameKind reports whether two non-null values can be compared. Their static types may be dynamic, so
// the values themselves decide.
func sameKind(a, b any) bool {
	_, x := realOf(a)
	_, y := realOf(b)
	if x || y {
		return x && y
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b)
}

// comparable reports whether the emulator compares values of the types a and b: two numbers, two
// values of one type except dynamic, or a dynamic with a number, bool or string. equality is true for
// ==, != and in. The other comparisons need an order, which strings, guids and bools do not have.
func comparable(a, b string, equality bool) bool {
	plain := func(t string) bool { return isNumber(t) || t == "bool" || t == "string" }
	ordered := func(t string) bool { return t != "string" && t != "guid" && t != "bool" }
	if a == "dynamic" && b == "dynamic" || !equality && !(ordered(a) && ordered(b)) {
		return false
	}
	return isNumber(a) && isNumber(b) || a == b || a == "dynamic" && plain(b) || b == "dynamic" && plain(a)
}

// wantComparable panics with a Fault, which ends the query, for types that the operator op does not
// compare. equality is true if op is ==, != or in.
func wantComparable(op, a, b string, equality bool) {
	if !comparable(a, b, equality) {
		panic(semantic("operator '%s': cannot compare values of types %s and %s; try adding explicit casts", op, a, b))
	}
}

// in reads the list behind in, in~, !in or !in~ (a list of values, an array or a table) and returns
// the expression that looks left up in it. The tilde ignores case. If no value is equal to left, and
// one cannot be compared because both are null, the result is null.
func (s *scope) in(c *Cursor, left expression, negated bool) expression {
	op := "in"
	fold := c.Sign("~")
	if fold {
		op = "in~"
	}
	list := s.list(c)
	for _, e := range list {
		if e.typ != "dynamic" {
			wantComparable(op, left.typ, e.typ, true)
		}
	}
	equal := func(a, b any) any {
		x, ok1 := scalarOf(a).(string)
		y, ok2 := scalarOf(b).(string)
		if fold && ok1 && ok2 {
			return strings.EqualFold(x, y)
		}
		return compareNullable("==", relations["=="], true, a, b)
	}
	return expression{typ: "bool", of: func(row []any) any {
		var found any = false
		v := left.of(row)
		for _, e := range list {
			for _, w := range elements(e.of(row)) {
				switch equal(v, w) {
				case true:
					return !negated
				case nil:
					found = nil
				}
			}
		}
		if found == nil {
			return nil
		}
		return negated
	}}
}

// elements returns the elements of a dynamic array; any other value is returned as the only element.
func elements(v any) []any {
	list, ok := arrayOf(v)
	if !ok {
		return []any{v}
	}
	all := make([]any, len(list))
	for i, item := range list {
		all[i] = item
	}
	return all
}

// list reads the right side of in, has_any and has_all, in brackets: scalars, or one table, whose
// first column is used. It returns an expression for each value.
func (s *scope) list(c *Cursor) []expression {
	var all []expression
	var t *Table
	c.either(func() { all = s.arguments(c) }, func() {
		c.Want("(")
		t = s.tabular(c)
	}, false)
	if t == nil {
		return all
	}
	c.Want(")")
	if len(t.Columns) == 0 {
		panic(semantic("a table without columns is no list"))
	}
	for _, row := range t.Rows {
		all = append(all, fixed(t.Columns[0].Type, row[0]))
	}
	return all
}

// between reads (from .. to) and returns the expression that tests whether left lies between the two,
// both included; negated asks the opposite. A timespan as to is added to from.
func (s *scope) between(c *Cursor, left expression, negated bool) expression {
	c.Want("(")
	from := s.sum(c)
	c.Want("..")
	to := s.sum(c)
	if from.typ == "datetime" && to.typ == "timespan" { // to counts from from on
		begin, span := from, to
		to = expression{typ: "datetime", of: func(row []any) any { return arithmetic("+", begin.of(row), span.of(row)) }}
	}
	low := relation(">=", left, from)
	high := relation("<=", left, to)
	c.Want(")")
	return expression{typ: "bool", of: func(row []any) any {
		a, b := low.of(row), high.of(row)
		if a == false || b == false {
			return negated
		}
		if a == nil || b == nil {
			return nil
		}
		return !negated
	}}
}

// sum reads terms with + and - between them.
func (s *scope) sum(c *Cursor) expression { return s.chain(c, s.product, "+", "-") }

func (s *scope) product(c *Cursor) expression { return s.chain(c, s.unary, "*", "/", "%") }

// chain reads terms with the operators in signs between them, and returns the expression that combines
// them from left to right. term reads one of them.
func (s *scope) chain(c *Cursor, term func(*Cursor) expression, signs ...string) expression {
	left := term(c)
	for {
		t := c.Peek()
		if !t.is(signs...) {
			return left
		}
		c.Next()
		right := term(c)
		typ := arithmeticType(t.Text, left.typ, right.typ)
		if typ == "" {
			panic(semantic("arithmetic expression cannot be carried out: operator '%s' between %s and %s", t.Text, left.typ, right.typ))
		}
		a, b := left, right
		left = expression{typ: typ, of: func(row []any) any { return arithmetic(t.Text, a.of(row), b.of(row)) }}
	}
}

// arithmeticType returns the type of a op b for operands of these types; "" when the operator does not
// take them.
func arithmeticType(op, a, b string) string {
	switch {
	case isWhole(a) && isWhole(b):
		return "long"
	case isNumber(a) && isNumber(b) && (a == "real" || b == "real"):
		return "real"
	case isNumber(a) && isNumber(b):
		return "decimal"
	}
	switch a + op + b {
	case "datetime+timespan", "timespan+datetime", "datetime-timespan":
		return "datetime"
	case "datetime-datetime", "timespan+timespan", "timespan-timespan", "timespan%timespan":
		return "timespan"
	case "timespan/timespan":
		return "real"
	}
	if a == "timespan" && isNumber(b) && b != "decimal" && (op == "*" || op == "/") || b == "timespan" && isNumber(a) && a != "decimal" && op == "*" {
		return "timespan"
	}
	return ""
}

// overflow ends the query with an error: the result of op is out of range. It never returns; its
// result lets callers write return overflow(op).
func overflow(op string) any {
	panic(semantic("operator '%s': the result is out of the range of its type", op))
}

// arithmetic computes a op b for values whose types arithmeticType accepts; nil when one of them is
// nil. A result that is out of the range of its type and a division of whole numbers by 0 end the
// query; a real may become infinite.
func arithmetic(op string, a, b any) any {
	if a == nil || b == nil {
		return nil
	}
	switch x := a.(type) {
	case time.Time:
		switch y := b.(type) {
		case time.Duration:
			if op == "-" {
				y = -y
			}
			return inRange(op, x.Add(y))
		case time.Time:
			if d := x.Sub(y); d != math.MaxInt64 && d != math.MinInt64 {
				return d
			}
			return overflow(op)
		}
	case time.Duration:
		switch y := b.(type) {
		case int64:
			return scaledWhole(op, x, y)
		case time.Time:
			return inRange(op, y.Add(x))
		case time.Duration:
			switch op {
			case "/":
				return float64(x) / float64(y)
			case "%":
				if y == 0 {
					return overflow(op)
				}
				return ((x % y) + y.Abs()) % y.Abs()
			}
			return time.Duration(wholeArithmetic(op, int64(x), int64(y)).(int64))
		}
		return scaled(op, x, asReal(b))
	case int64:
		switch y := b.(type) {
		case int64:
			return wholeArithmetic(op, x, y)
		case time.Duration:
			return scaledWhole(op, y, x)
		}
	}
	if y, ok := b.(time.Duration); ok {
		return scaled(op, y, asReal(a))
	}
	if x, y := exact(a), exact(b); x != nil && y != nil {
		return decimalArithmetic(op, x, y)
	}
	return realArithmetic(op, asReal(a), asReal(b))
}

// inRange returns t, or ends the query when its year is not between 1 and 9999.
func inRange(op string, t time.Time) any {
	if y := t.Year(); y < 1 || y > 9999 {
		return overflow(op)
	}
	return t
}

// scaledWhole multiplies or divides a timespan by a whole number, without rounding through floating
// point.
func scaledWhole(op string, d time.Duration, n int64) any {
	return time.Duration(wholeArithmetic("*", wholeArithmetic(op, int64(d/tick), n).(int64), int64(tick)).(int64))
}

// scaled multiplies or divides a timespan by x and rounds it to ticks.
func scaled(op string, d time.Duration, x float64) any {
	if op == "/" {
		x = 1 / x
	}
	n := float64(d) * x
	if math.IsNaN(n) || math.Abs(n) >= math.MaxInt64 {
		return overflow(op)
	}
	return time.Duration(math.Round(n/float64(tick))) * tick
}

// wholeArithmetic computes x op y for + - * / and %. A result out of range and a division by 0 end the
// query. The remainder is never negative.
func wholeArithmetic(op string, x, y int64) any {
	z := new(big.Int)
	a, b := big.NewInt(x), big.NewInt(y)
	switch {
	case op == "+":
		z.Add(a, b)
	case op == "-":
		z.Sub(a, b)
	case op == "*":
		z.Mul(a, b)
	case y == 0:
		panic(semantic("operator '%s': what a division of whole numbers by zero gives is not among what the emulator knows", op))
	case op == "/":
		z.Quo(a, b)
	default:
		z.Mod(a, b) // never negative, as in the service
	}
	if !z.IsInt64() {
		return overflow(op)
	}
	return z.Int64()
}

// decimalArithmetic computes x op y for + - * and /. A division by 0, another operator and a product
// with too many digits end the query.
func decimalArithmetic(op string, x, y *big.Rat) any {
	z := new(big.Rat)
	switch {
	case op == "+":
		return z.Add(x, y)
	case op == "-":
		return z.Sub(x, y)
	case op == "*":
		if z.Mul(x, y); z.Denom().BitLen() > 1<<15 || z.Num().BitLen() > 1<<15 {
			return overflow(op)
		}
		return z
	case op == "/" && y.Sign() != 0:
		return z.Quo(x, y)
	}
	return overflow(op)
}

// realArithmetic computes x op y for + - * / and %. The remainder is never negative.
func realArithmetic(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	}
	z := math.Mod(x, y)
	if z < 0 {
		z += math.Abs(y)
	}
	return z
}

// unary reads a postfix expression with any number of + and - before it. Minus is for numbers and
// timespans only.
func (s *scope) unary(c *Cursor) expression {
	defer s.deeper(c)()
	switch {
	case c.Sign("+"):
		return s.unary(c)
	case !c.Sign("-"):
		return s.postfix(c)
	}
	// The least long: without its sign it is out of the range of a long.
	if t := c.Peek(); t.Kind == TokCount && t.Text == "9223372036854775808" {
		c.Next()
		return fixed("long", int64(math.MinInt64))
	}
	e := s.unary(c)
	if !isNumber(e.typ) && e.typ != "timespan" {
		panic(semantic("operator '-' wants a number or a timespan, not %s", e.typ))
	}
	return minus(e)
}

// minus returns -e for an expression that is a number or a timespan.
func minus(e expression) expression {
	var zero any = int64(0)
	if e.typ == "timespan" {
		zero = time.Duration(0)
	}
	return expression{typ: e.typ, of: func(row []any) any {
		if x, ok := e.of(row).(float64); ok {
			return -x // 0 - x would lose the sign of a zero
		}
		return arithmetic("-", zero, e.of(row))
	}}
}

// postfix reads a value and the accesses behind it: .name, ['name'] and [index].
func (s *scope) postfix(c *Cursor) expression {
	e := s.primary(c)
	for {
		switch {
		case c.Sign("."):
			if !c.Peek().isName() {
				panic(c.Fault("want the name of a property"))
			}
			e = property(e, c.Next().Text)
		case c.Peek().Kind == TokName:
			e = property(e, c.Next().Text)
		case c.Sign("["):
			at := s.scalar(c)
			c.Want("]")
			e = subscript(e, at)
		default:
			return e
		}
	}
}

// property returns the expression for the property key of the dynamic value e. A column made from it
// is named after e and key, with an underscore between them, if e has a name.
func property(e expression, key string) expression {
	if e.typ != "dynamic" {
		panic(semantic("a property is asked of a value of type %s, not dynamic", e.typ))
	}
	name := ""
	if e.name != "" {
		name = e.name + "_" + key
	}
	return expression{"dynamic", func(row []any) any { return propertyOf(e.of(row), key) }, name}
}

// propertyOf returns the property key of a property bag; nil when v is not a bag or has no such key.
func propertyOf(v any, key string) any {
	raw, ok := v.(json.RawMessage)
	var bag map[string]json.RawMessage
	if !ok || json.Unmarshal(raw, &bag) != nil {
		return nil
	}
	return notNull(bag[key])
}

// notNull returns raw, or nil for the JSON null and for a missing value.
func notNull(raw json.RawMessage) any {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// subscript returns the expression e[at] for a dynamic value: a property for a string, an element for
// a whole number, where a negative one counts from the end. What does not exist is nil. A column made
// from it is named e_at if e has a name and at is a constant from 0 on.
func subscript(e, at expression) expression {
	if e.typ != "dynamic" {
		panic(semantic("an element is asked of a value of type %s, not dynamic", e.typ))
	}
	if !isWhole(at.typ) && at.typ != "string" && at.typ != "dynamic" {
		panic(semantic("an element is asked for by a value of type %s", at.typ))
	}
	name := ""
	if i, ok := constant(at).(int64); ok && e.name != "" && i >= 0 {
		name = e.name + "_" + strconv.FormatInt(i, 10)
	}
	return expression{"dynamic", func(row []any) any {
		switch i := scalarOf(at.of(row)).(type) {
		case string:
			return propertyOf(e.of(row), i)
		case int64:
			list, ok := arrayOf(e.of(row))
			if i < 0 {
				i += int64(len(list))
			}
			if ok && i >= 0 && i < int64(len(list)) {
				return notNull(list[i])
			}
		}
		return nil
	}, name}
}

// constant returns the value of an expression that reads no column; nil for one that does, or whose
// evaluation fails.
func constant(e expression) (v any) {
	defer func() {
		if recover() != nil { // it read a column of the nil row, or failed
			v = nil
		}
	}()
	return e.of(nil)
}

// primary reads a literal, a column, a name that let defines, a function call or an expression in
// brackets.
func (s *scope) primary(c *Cursor) expression {
	t := c.Peek()
	called := t.Kind == TokWord && c.after().is("(")
	switch {
	case t.Kind == TokText, t.Kind == TokCount, called && Types[t.Text] != "", t.Kind == TokWord && (t.Text == "true" || t.Text == "false"):
		return s.literal(c)
	case c.Sign("("):
		e := s.scalar(c)
		c.Want(")")
		e.name = "" // a column made from brackets is not named after what is in them
		return e
	case called:
		return s.call(c)
	case t.Kind == TokWord && (t.Text == "$left" || t.Text == "$right"):
		panic(semantic("'%s' is known in the conditions of a join alone", t.Text))
	case t.isName():
		return s.column(c.Next().Text)
	}
	panic(c.Fault("want an expression"))
}

// column returns the expression that a name stands for: a column, or else a scalar of let or declare.
func (s *scope) column(name string) expression {
	if s.at != nil {
		if i := s.at.index(name); i >= 0 {
			return expression{s.at.Columns[i].Type, func(row []any) any { return row[i] }, name}
		}
	}
	if e, ok := s.scalars[name]; ok {
		e.name = name
		return e
	}
	panic(semantic("Failed to resolve scalar expression named '%s'", name))
}

// arguments reads a list of expressions in brackets.
func (s *scope) arguments(c *Cursor) (all []expression) {
	c.Want("(")
	for !c.Sign(")") {
		all = append(all, s.scalar(c))
		if !c.Sign(",") {
			c.Want(")")
			return all
		}
	}
	return all
}

// literal reads a constant: a string, a number, a bool, or one with its type such as long(1). A minus
// sign may precede it.
func (s *scope) literal(c *Cursor) expression {
	if c.Sign("-") {
		e := s.literal(c)
		if !isNumber(e.typ) && e.typ != "timespan" {
			panic(c.Fault("want a number"))
		}
		return minus(e)
	}
	switch t := c.Peek(); {
	case t.Kind == TokText:
		text := ""
		for c.Peek().Kind == TokText { // adjacent strings are one
			text += c.Next().Text
		}
		return fixed("string", text)
	case t.Kind == TokCount:
		return number(c)
	case t.Kind == TokWord && (t.Text == "true" || t.Text == "false"):
		c.Next()
		return fixed("bool", t.Text == "true")
	case t.Kind == TokWord && Types[t.Text] != "" && c.after().is("("):
		c.Next()
		return s.typedLiteral(c, Types[t.Text])
	}
	panic(c.Fault("want a literal"))
}

// number reads a long, a real or a timespan (1.5h). It panics with a Fault if the next token is none
// of these.
func number(c *Cursor) expression {
	text := c.Peek().Text
	for _, typ := range []string{"long", "real", "timespan"} {
		if v := parsed(typ, text); v != nil && (typ != "real" || strings.ContainsAny(text, ".eE")) {
			c.Next()
			return fixed(typ, v)
		}
	}
	panic(c.Fault("want a number"))
}

// typedLiteral reads the brackets of long(…), datetime(…) and the like. The text between them is
// converted as a whole; its tokens only show where it ends.
func (s *scope) typedLiteral(c *Cursor, typ string) expression {
	if typ == "dynamic" {
		return s.dynamicLiteral(c)
	}
	from := c.Next().At + 1
	for depth := 1; depth > 0; {
		switch t := c.Next(); {
		case t.Kind == TokEnd:
			panic(c.Fault("want )"))
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		}
	}
	inner := strings.TrimSpace(c.text[from:c.Taken().At])
	if inner == "null" {
		if typ == "string" {
			panic(semantic("the string type has no null"))
		}
		return fixed(typ, nil)
	}
	if text, n, ok, _ := lexString(inner); ok && n == len(inner) {
		inner = text
	}
	switch {
	case typ == "real" && (inner == "nan" || inner == "+inf" || inner == "-inf"):
		return fixed(typ, map[string]float64{"nan": math.NaN(), "+inf": math.Inf(1), "-inf": math.Inf(-1)}[inner])
	case typ == "timespan" && strings.Trim(inner, "0123456789.") == "" && inner != "": // days
		inner += "d"
	}
	v := parsed(typ, inner)
	if v == nil {
		panic(semantic("%s(%s) is not a literal that the emulator knows", typ, inner))
	}
	return fixed(typ, v)
}

// dynamicLiteral reads the brackets of dynamic(…): JSON, in which strings may have single quotes, and
// literals such as datetime(…) may stand.
func (s *scope) dynamicLiteral(c *Cursor) expression {
	c.Want("(")
	raw := s.json(c)
	c.Want(")")
	return fixed("dynamic", notNull(raw))
}

// json reads a value of a dynamic literal and returns it as JSON: a list, a bag, null, or another
// literal converted to its JSON form.
func (s *scope) json(c *Cursor) json.RawMessage {
	defer s.deeper(c)()
	t := c.Peek()
	switch {
	case t.Kind == TokName: // ["one"], which is how a name is written too
		c.Next()
		return JSON([]string{t.Text})
	case c.Word("null"):
		return json.RawMessage("null")
	case c.Sign("["):
		list := []json.RawMessage{}
		c.List("]", func() { list = append(list, s.json(c)) })
		return JSON(list)
	case c.Sign("{"):
		return s.bag(c)
	}
	return dynamicOf(s.literal(c).of(nil))
}

// bag reads a property bag; the cursor stands behind its {.
func (s *scope) bag(c *Cursor) json.RawMessage {
	var bag propertyBag
	c.List("}", func() {
		key := c.Peek()
		if key.Kind != TokText && key.Kind != TokWord {
			panic(c.Fault("want the name of a property"))
		}
		c.Next()
		c.Want(":")
		bag.set(key.Text, s.json(c))
	})
	return bag.json()
}
