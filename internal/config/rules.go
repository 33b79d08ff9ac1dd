package config

import (
	"errors"
	"fmt"
	"regexp/syntax"

	"kusto-agent/internal/format"
	"kusto-agent/internal/rules"
)

// ruleLists are the keys of an input that hold rules.
var ruleLists = []string{"keep", "drop"}

// rules checks what says which records are sent. A format or a way of parsing that is
// not known was complained about.
func (l *loader) rules(in *Input, src *source, at string) {
	spec, known := format.Of(in.Format)
	if _, ok := format.ParseOf(in.Parse); !known || !ok {
		return
	}
	lists := map[string]int{"keep": len(in.Keep), "drop": len(in.Drop), "sample": 0}
	if in.Sample != nil {
		lists["sample"] = 1
	}
	for list, n := range lists {
		switch {
		case n == 0:
		case spec.Ends == format.InBlocks:
			src.bad(join(at, list), "format %s is read in blocks, not in records; leave it out", spec.Format)
		case list == "sample":
			if src.given(join(at, "sample.by")) && in.Sample.By == "" {
				src.bad(join(at, "sample.by"), "empty; give it a value, or leave it out")
			}
		default:
			for i := range n {
				saysNothing(src, fmt.Sprintf("%s[%d]", join(at, list), i))
			}
		}
	}
	if spec.Ends == format.InBlocks {
		return
	}
	_, err := in.NewRules()
	for _, err := range flatten(err) {
		var bad *rules.Error
		if !errors.As(err, &bad) || src.wrong[join(at, bad.List)] {
			continue // the only other error is that of the format
		}
		path := join(at, bad.Path())
		var badSyntax *syntax.Error
		if errors.As(err, &badSyntax) {
			src.badWithin(path, bad.Value, faultIn(bad.Value, badSyntax), notRegular(bad.Value, badSyntax))
			continue
		}
		src.bad(path, "%v", bad.Err)
	}
}

// saysNothing refuses keys of a rule whose values are empty: without them the rule
// would mean something else.
func saysNothing(src *source, at string) {
	for _, key := range []string{"name", "match", "member", "column", "in", "below", "above"} {
		p := src.places[join(at, key)]
		if !src.given(join(at, key)) || src.wrong[join(at, key)] {
			continue
		}
		switch {
		case key == "column" && p.written == "0":
			src.bad(join(at, key), "0 is no column; the first is 1")
		case key == "in" && !src.given(join(at, key)+"[0]"):
			src.bad(join(at, key), "empty; want the values that are meant, such as [debug, trace], or leave it out")
		case p.written == "" && key != "in":
			src.bad(join(at, key), "empty; give it a value, or leave it out")
		}
	}
}
