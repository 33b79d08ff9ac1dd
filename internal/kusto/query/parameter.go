package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
)

// Parameter is a value for a name in a query's text.
type Parameter struct {
	Name  string
	Type  string // a scalar type of KQL
	Value string // as people write it; for dynamic JSON
}

// scalarTypes are those a parameter may have, with their other names.
var scalarTypes = map[string]string{
	"bool": "bool", "boolean": "bool",
	"datetime": "datetime", "date": "datetime",
	"decimal": "decimal",
	"dynamic": "dynamic",
	"guid":    "guid", "uuid": "guid", "uniqueid": "guid",
	"int":  "int",
	"long": "long",
	"real": "real", "double": "real",
	"string":   "string",
	"timespan": "timespan", "time": "timespan",
}

// ScalarType returns the usual name of a scalar type of KQL, such as long for Long; an error if there
// is no such type.
func ScalarType(name string) (string, error) {
	if t, ok := scalarTypes[strings.ToLower(name)]; ok {
		return t, nil
	}
	return "", fmt.Errorf("type %s: want bool, datetime, decimal, dynamic, guid, int, long, real, string or timespan", reply.QuoteName(name))
}

// ParseParameter parses a query parameter of the form name:type=value, or name=value for a string,
// and checks that the value fits the type.
func ParseParameter(text string) (Parameter, error) {
	head, value, ok := strings.Cut(text, "=")
	name, kind, typed := strings.Cut(head, ":")
	p := Parameter{Name: strings.TrimSpace(name), Type: "string", Value: value}
	var err error
	if typed {
		p.Type, err = ScalarType(strings.TrimSpace(kind))
	}
	switch {
	case !ok:
		return p, fmt.Errorf("parameter %s: want name:type=value", reply.QuoteName(text))
	case !identifier.MatchString(p.Name):
		return p, fmt.Errorf("parameter %s: the name is to be of letters, digits and underscores", reply.QuoteName(p.Name))
	case err != nil:
		return p, fmt.Errorf("parameter %s: %w", p.Name, err)
	}
	_, err = p.Literal()
	return p, err
}

var (
	identifier  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	kqlWhole    = regexp.MustCompile(`^[+-]?(?:\d+|0[xX][0-9a-fA-F]+)$`)
	kqlTimespan = regexp.MustCompile(`^-?(?:\d+\.)?(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,7})?)?$|^-?\d+(?:\.\d+)?(?:d|h|m|s|ms|microsecond|microseconds|tick|ticks)$`)
	kqlDatetime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})?)?$`)
	kqlReal     = regexp.MustCompile(`^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$`)
)

// whole returns the whole number v, decimal or hexadecimal with 0x; false if v is none that fits in so
// many bits.
func whole(v string, bits int) (int64, bool) {
	base := 10
	if strings.ContainsAny(v, "xX") {
		base = 0 // ParseInt then takes the base from the prefix 0x
	}
	n, err := strconv.ParseInt(v, base, bits)
	return n, err == nil && kqlWhole.MatchString(v)
}

// isDatetime reports whether v is a date, or a date and a time, that exists.
func isDatetime(v string) bool {
	v = strings.Replace(v, " ", "T", 1)
	return kqlDatetime.MatchString(v) && slices.ContainsFunc(
		[]string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", time.RFC3339},
		func(layout string) bool { _, err := time.Parse(layout, v); return err == nil })
}

var errNotOfType = errors.New("the value is not of the type")

// Literal returns the value as a KQL literal, or an error if it is not one of the type. The value is
// escaped or checked, so that it cannot become part of the query around it.
func (p Parameter) Literal() (string, error) {
	text, err := p.literal(strings.TrimSpace(p.Value))
	if err != nil {
		return "", fmt.Errorf("parameter %s of type %s: %s: %w", p.Name, p.Type, reply.QuoteName(p.Value), err)
	}
	return text, nil
}

// literal returns the value as a KQL literal, or errNotOfType if it does not fit the type. v is
// p.Value without space at its ends; only a string keeps that space. The value null fits every type
// except string.
func (p Parameter) literal(v string) (string, error) {
	isNull := v == "null"
	is := func(ok bool) (string, error) {
		if !ok && !isNull {
			return "", errNotOfType
		}
		return p.Type + "(" + v + ")", nil
	}
	switch p.Type {
	case "string":
		return kusto.StringLiteral(p.Value), nil
	case "bool":
		b, err := strconv.ParseBool(v)
		if v = strconv.FormatBool(b); isNull {
			v = "null"
		}
		return is(err == nil)
	case "int", "long":
		_, ok := whole(v, map[string]int{"int": 32, "long": 64}[p.Type])
		return is(ok)
	case "real":
		return is(kqlReal.MatchString(v) || v == "nan" || v == "+inf" || v == "-inf")
	case "decimal":
		return is(kqlReal.MatchString(v))
	case "datetime":
		return is(isDatetime(v))
	case "timespan":
		if d, err := time.ParseDuration(v); err == nil && !kqlTimespan.MatchString(v) {
			v = timespan(d)
		}
		return is(kqlTimespan.MatchString(v))
	case "guid":
		_, err := uuid.Parse(v)
		return is(err == nil && len(v) == 36)
	case "dynamic":
		return is(json.Valid([]byte(v)))
	}
	_, err := ScalarType(p.Type)
	return "", err
}

// sent returns the value for the request: a KQL literal, or, if asJSON is set and JSON can express the
// value, a JSON value.
func (p Parameter) sent(asJSON bool) (any, error) {
	literal, err := p.Literal()
	v := strings.TrimSpace(p.Value)
	if err != nil || !asJSON || v == "null" && p.Type != "string" {
		return literal, err
	}
	switch p.Type {
	case "string":
		return p.Value, nil
	case "bool":
		return strconv.ParseBool(v)
	case "int", "long":
		n, _ := whole(v, 64) // Literal has checked it
		return n, nil
	case "real":
		if json.Valid([]byte(v)) {
			return json.Number(v), nil
		}
		if f, err := strconv.ParseFloat(v, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, nil
		}
	}
	return literal, nil
}

var declares = regexp.MustCompile(`(?i)\bdeclare\s+query_parameters\s*\(`)

// declared returns the query text with a declaration (declare query_parameters) of the parameters
// before it. A text without parameters, or one that has a declaration, is returned unchanged. It
// fails for an invalid name or type.
func declared(text string, parameters []Parameter) (string, error) {
	if len(parameters) == 0 || declares.MatchString(text) {
		return text, nil
	}
	var list []string
	for _, p := range parameters {
		t, err := ScalarType(p.Type)
		if err != nil || !identifier.MatchString(p.Name) {
			return "", fmt.Errorf("parameter %s of type %s: want a name of letters, digits and underscores, and a scalar type", reply.QuoteName(p.Name), reply.QuoteName(p.Type))
		}
		list = append(list, p.Name+":"+t)
	}
	return "declare query_parameters(" + strings.Join(list, ", ") + ");\n" + text, nil
}
