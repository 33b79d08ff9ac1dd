package schema

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	guid     = regexp.MustCompile(`^\{?[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?$`)
	timespan = regexp.MustCompile(`^-?(?:\d+\.)?\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?$|^-?\d+(?:\.\d+)?\s*(?:d|h|m|s|ms|microseconds?|ticks?)?$`)
	isoTime  = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:Z|z|[+-]\d{2}:?\d{2})?)?$`)
)

// otherTimes are forms of times beside ISO 8601 that the service reads.
var otherTimes = []string{time.RFC1123, time.RFC1123Z, time.RFC822, time.RFC822Z, time.RFC850, "2 Jan 2006 15:04:05 -0700", "1/2/2006 15:04:05", "1/2/2006", "2006-01-02 15:04:05 -0700"}

// Fits reports whether a column of type kind stores the value v, instead of null. v is a JSON
// value, with numbers as json.Number, or the text of a delimited field. If in doubt, the result is
// true.
func Fits(kind string, v any) bool {
	switch kind {
	case "int":
		return isInteger(v, 32)
	case "long":
		return isInteger(v, 64)
	}
	switch x := v.(type) {
	case nil:
		return true
	case string:
		return textFits(kind, strings.TrimSpace(x))
	case json.Number:
		return kind != "datetime" && kind != "guid" && (kind != "bool" || x == "0" || x == "1")
	case bool:
		return kind != "datetime" && kind != "guid" && kind != "timespan"
	}
	return kind == "dynamic" || kind == "string" || kind == "" // an object or a list
}

// isInteger reports whether an integer column of so many bits stores the value v, instead of null.
// Null, an empty text and a truth value count as stored.
func isInteger(v any, bits int) bool {
	switch x := v.(type) {
	case nil, bool:
		return true
	case string:
		return x == "" || integral(strings.TrimSpace(x), bits)
	case json.Number:
		return integral(string(x), bits)
	}
	return false
}

// integral reports whether the text of a number, in any notation, has no fraction and fits into a
// signed integer of so many bits.
func integral(s string, bits int) bool {
	if _, err := strconv.ParseInt(s, 0, bits); err == nil {
		return true
	}
	if len(s) > 40 {
		return false
	}
	x, ok := new(big.Rat).SetString(s)
	return ok && x.IsInt() && x.Num().BitLen() < bits
}

// textFits reports whether the service would store a text in a column of this type, instead of null.
// An empty text counts as no value and fits everywhere; types that are not named here take any text.
func textFits(kind, s string) bool {
	if s == "" {
		return true // no value, and so no loss
	}
	switch kind {
	case "real", "decimal":
		_, err := strconv.ParseFloat(s, 64)
		return err == nil
	case "datetime":
		return isTime(s)
	case "timespan":
		return timespan.MatchString(s)
	case "guid":
		return guid.MatchString(s)
	case "bool":
		_, err := strconv.ParseBool(s)
		return err == nil
	}
	return true
}

// isTime reports whether the service can read a text as a datetime: in a form of ISO 8601 or in one
// of otherTimes.
func isTime(s string) bool {
	return isoTime.MatchString(s) || slices.ContainsFunc(otherTimes, func(layout string) bool {
		_, err := time.Parse(layout, s)
		return err == nil
	})
}
